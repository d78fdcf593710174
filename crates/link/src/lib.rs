//! Models an access link. The caller (the driver) is `fastopen-world`, which forwards packets through the
//! model. The driver passes in the time, and the model of each direction decides when a packet leaves.
//!
//! A packet that is offered to a [`Direction`] passes through stages (see `stage.rs`). Each stage sees the
//! time and the packet, and lets the packet pass, holds it until a given time, or drops it with a reason. The
//! stages are, in this order (see `stages/mod.rs`):
//!
//! 1. **random loss** from a seeded generator
//! 2. a **queue** with a limit on the waiting bytes: tail drop, or an AQM
//! 3. **serialisation**, first in first out, at a fixed [`Rate`] or by a [`Trace`]
//! 4. **propagation**: the direction's delay
//!
//! A [`path::PathRule`] adds a middlebox between the link and the hosts. A distant host has an extra delay
//! between the link and the host. The direction adds this delay to packets for the host after the last stage.
//! The driver keeps packets from the host in its own [`DelayLine`] before it offers them.
//!
//! The crate reads no clock, does not wait, and does no I/O. The driver offers packets, sleeps until
//! [`Direction::next_release`], and removes due packets with [`Direction::release`].
//!
//! ```
//! use fastopen_link::{Direction, DirectionConfig, Rate};
//!
//! let config = DirectionConfig {
//!     delay: 10_000_000,
//!     rate: Rate::BitPerS(4_000_000),
//!     queue_limit_bytes: Some(64_000),
//!     ..DirectionConfig::default()
//! };
//! let mut down = Direction::new(&config, 0);
//! down.offer(0, 1500, 0, "a packet").expect("an idle link takes a packet");
//! // 1500 bytes at 4 Mbit/s take 3 ms; the delay adds 10 ms.
//! assert_eq!(down.next_release(), Some(13_000_000));
//! assert_eq!(down.release(12_999_999), None);
//! assert_eq!(down.release(13_000_000), Some((13_000_000, "a packet")));
//! ```

#![forbid(unsafe_code)]

mod delay_line;
mod direction;
mod draws;
mod expected;
pub mod ip;
pub mod path;
pub mod quic;
pub mod stage;
mod stages;

pub use delay_line::DelayLine;
pub use direction::{Direction, DropCause, Dropped, Stats};
pub use expected::{expected_train, expected_transit};
pub use stages::*;

/// A time or a duration in nanoseconds, on the driver's clock.
///
/// Times must stay below 2^63 (292 years after the clock's zero), so that sums do not overflow.
pub type Nanos = u64;

//! One direction of an access link as a pure model: it is told the time and says which packet leaves when.
//!
//! A packet that is offered to a [`Direction`] meets stages (see `stage.rs`), each of which sees the time and
//! the packet and answers pass, hold (until when) or drop (why). They are, in this order (see
//! `stages/mod.rs`),
//!
//! 1. **random loss** from a seeded generator;
//! 2. a **tail-drop queue** limited in bytes of what waits;
//! 3. **serialisation**, first in first out, at a fixed [`Rate`] or after a [`Trace`];
//! 4. **propagation**: the direction's delay;
//!
//! with a middlebox among them where the path is to have one ([`path`]),
//!
//! and leaves after the extra delay of its host. Where the packets of distant hosts come to the link, instead
//! of leaving it, their extra delay is before all this: a [`DelayLine`] of its own has them until they are
//! there.
//!
//! Nothing here reads a clock, waits, or does I/O. The driver offers packets, sleeps until
//! [`Direction::next_release`], and takes out what is due with [`Direction::release`].
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
//! // 1500 bytes at 4 Mbit/s take 3 ms; 10 ms later they are there.
//! assert_eq!(down.next_release(), Some(13_000_000));
//! assert_eq!(down.release(12_999_999), None);
//! assert_eq!(down.release(13_000_000), Some((13_000_000, "a packet")));
//! ```

#![forbid(unsafe_code)]

mod delay_line;
mod direction;
mod draws;
mod expected;
pub mod path;
pub mod quic;
pub mod stage;
mod stages;
mod stats;

pub use delay_line::DelayLine;
pub use direction::{Direction, DropCause, Dropped};
pub use expected::{expected_train, expected_transit};
pub use stages::*;
pub use stats::Stats;

/// A moment or a span in whole nanoseconds, of whichever clock the driver uses.
///
/// Moments must stay below 2^63 (292 years after the clock's zero), which leaves room for every sum made
/// here.
pub type Nanos = u64;

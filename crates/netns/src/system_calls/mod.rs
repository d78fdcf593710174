//! Replacements of libc's functions for the system calls of a load, for the virtual engine's kernel (its
//! patches 0004 and 0005).
//!
//! In User-Mode Linux the instruction `syscall` is a signal of the host. That kernel also offers an address
//! to call, `AT_SYSINFO` of the auxiliary vector, as Linux does on i386. Elsewhere on x86-64 it is not set,
//! and these functions make the system call as libc does. All code of a program that calls them is linked
//! with these functions, the standard library and tokio too. They are no cancellation points
//! (`pthread_cancel`).
//!
//! Each call takes two switches between processes of the host, so the kernel also accepts several calls at
//! once. A thread in [`deferring`] makes calls without a waiting caller together with its next other
//! call.

mod deferred;
mod entry;
#[cfg(target_arch = "x86_64")]
mod libc_functions;

pub(crate) use self::deferred::{Answer, after_wait, defer};
pub use self::deferred::{Deferring, deferring, make_deferred};

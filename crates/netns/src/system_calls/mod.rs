//! Replacements of libc's functions for the system calls of a load, for the virtual engine's kernel (its
//! patch 0004).
//!
//! That kernel runs the world's program in its own process, where the instruction `syscall` is a signal. It
//! offers an address to call instead, `AT_SYSINFO` of the auxiliary vector, as Linux does on i386. Elsewhere
//! on x86-64 it is not set, and these functions make the system call as libc does. All code of a program is
//! linked with these functions, the standard library and tokio too. They are no cancellation points
//! (`pthread_cancel`).

#[cfg(target_arch = "x86_64")]
mod entry;
#[cfg(target_arch = "x86_64")]
mod libc_functions;

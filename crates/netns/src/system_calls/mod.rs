//! Replaces libc's functions for the system calls that a page load makes often. The virtual engine's kernel
//! (User-Mode Linux) has a faster way to make them (its patch 0004).
//!
//! That kernel runs this program in the kernel's own process, where the instruction `syscall` raises a
//! signal. The kernel offers an address to call instead: `AT_SYSINFO` in the auxiliary vector, as Linux does
//! on i386. Other x86-64 kernels do not set it, and these functions then make the system call as libc does.
//! All code of a program is linked with these functions, including the standard library and tokio. The
//! functions are not cancellation points (`pthread_cancel`).

#[cfg(target_arch = "x86_64")]
mod entry;
#[cfg(target_arch = "x86_64")]
mod libc_functions;

//! Replaces libc's functions for the system calls that a page load makes often. The virtual engine's kernel
//! (User-Mode Linux) offers a faster way to make them (`kernel/patches/0004-*.patch`).
//!
//! That kernel runs this program in the kernel's own process, where the instruction `syscall` raises a
//! signal. The kernel offers an address to call instead: `AT_SYSINFO` in the auxiliary vector, as Linux does
//! on i386. Other x86-64 kernels do not set it, and these functions then make the system call as libc does.
//! All code of a program is linked with these functions, including the standard library and tokio. The
//! functions are not cancellation points (`pthread_cancel`).

use std::arch::asm;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::{
    c_int, c_long, c_uint, c_void, epoll_event, itimerspec, mmsghdr, msghdr, size_t, sockaddr, socklen_t,
    ssize_t, timespec,
};

/// Key with which `getauxval` returns the address of the kernel's function for system calls.
const AT_SYSINFO: libc::c_ulong = 32;
/// Value of [`ENTRY`] before the auxiliary vector was read. No function has this address.
const UNKNOWN: usize = 1;

static ENTRY: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// Returns the address of the kernel's function for system calls (`__kernel_vsyscall` on i386); 0 if none.
fn entry() -> usize {
    let known = ENTRY.load(Relaxed);
    if known != UNKNOWN {
        return known;
    }
    // SAFETY: getauxval reads a list that the kernel wrote before the program started.
    let found = unsafe { libc::getauxval(AT_SYSINFO) } as usize;
    ENTRY.store(found, Relaxed);
    found
}

/// Makes a system call, and returns the kernel's result: a negated error number if the call failed.
///
/// # Safety
/// The caller must meet the requirements of the system call.
unsafe fn enter(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let entry = entry();
    let mut answer = number as isize;
    if entry == 0 {
        // SAFETY: the caller meets the requirements; the kernel changes no registers but these.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") answer,
                in("rdi") first, in("rsi") second, in("rdx") third,
                in("r10") fourth, in("r8") fifth, in("r9") sixth,
                lateout("rcx") _, lateout("r11") _,
                options(nostack),
            );
        }
    } else {
        // SAFETY: the caller meets the requirements; the kernel has provided the address. The code there
        // preserves the registers that a C function preserves. To restart a call, the kernel goes back two
        // bytes, the length of `syscall` and of this instruction.
        unsafe {
            asm!(
                "call rcx",
                inlateout("rax") answer,
                in("rcx") entry,
                in("rdi") first, in("rsi") second, in("rdx") third,
                in("r10") fourth, in("r8") fifth, in("r9") sixth,
                clobber_abi("C"),
            );
        }
    }
    answer
}

/// Converts a system call's result to libc's convention: for an error, -1 and the error number in `errno`.
fn result(answer: isize) -> isize {
    if !(-4095..0).contains(&answer) {
        return answer;
    }
    // SAFETY: the address is that of the calling thread's errno.
    unsafe { *libc::__errno_location() = -answer as c_int };
    -1
}

macro_rules! system_calls {
    ($(
        $name:ident = $number:ident ($($argument:ident: $kind:ty),* $(; $($rest:literal),*)?) -> $result:ty;
    )*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            let mut arguments = [0; 6];
            let given = [$($argument as usize),* $(, $($rest),*)?];
            arguments[..given.len()].copy_from_slice(&given);
            // SAFETY: the caller meets the requirements of libc's function.
            result(unsafe { enter(libc::$number, arguments) }) as $result
        }
    )* };
}

system_calls! {
    accept4 = SYS_accept4(fd: c_int, peer: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    bind = SYS_bind(fd: c_int, own: *const sockaddr, length: socklen_t) -> c_int;
    close = SYS_close(fd: c_int) -> c_int;
    connect = SYS_connect(fd: c_int, peer: *const sockaddr, length: socklen_t) -> c_int;
    epoll_ctl = SYS_epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    epoll_wait = SYS_epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, ms: c_int) -> c_int;
    getsockname = SYS_getsockname(fd: c_int, own: *mut sockaddr, length: *mut socklen_t) -> c_int;
    getsockopt = SYS_getsockopt(
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t
    ) -> c_int;
    pread64 = SYS_pread64(fd: c_int, bytes: *mut c_void, count: size_t, offset: i64) -> ssize_t;
    read = SYS_read(fd: c_int, bytes: *mut c_void, count: size_t) -> ssize_t;
    recv = SYS_recvfrom(fd: c_int, bytes: *mut c_void, count: size_t, flags: c_int; 0, 0) -> ssize_t;
    recvmmsg = SYS_recvmmsg(
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, until: *mut timespec
    ) -> c_int;
    recvmsg = SYS_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    send = SYS_sendto(fd: c_int, bytes: *const c_void, count: size_t, flags: c_int; 0, 0) -> ssize_t;
    sendmmsg = SYS_sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    sendmsg = SYS_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    setsockopt = SYS_setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t
    ) -> c_int;
    socket = SYS_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    timerfd_settime = SYS_timerfd_settime(
        fd: c_int, flags: c_int, value: *const itimerspec, before: *mut itimerspec
    ) -> c_int;
    write = SYS_write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t;
}

/// Makes any system call, always with six arguments (libc's is variadic); the kernel ignores unneeded ones.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    // SAFETY: the caller meets the requirements of libc's function.
    result(unsafe { enter(number, [first, second, third, fourth, fifth, sixth]) }) as c_long
}

#[cfg(test)]
#[path = "../tests/unit/system_calls.rs"]
mod tests;

//! Two ways to make a system call: the instruction, and an address of the virtual engine's kernel.

use std::arch::asm;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::c_long;

/// Auxiliary vector: address that makes a system call when called.
const AT_SYSINFO: libc::c_ulong = 32;
/// Value of [`ENTRY`] before the first look. No function begins there.
const UNKNOWN: usize = 1;

static ENTRY: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// Returns the address that makes a system call; 0 if there is none.
fn entry() -> usize {
    let known = ENTRY.load(Relaxed);
    if known != UNKNOWN {
        return known;
    }
    // SAFETY: getauxval reads a list that the kernel has written before the program began.
    let found = unsafe { libc::getauxval(AT_SYSINFO) } as usize;
    ENTRY.store(found, Relaxed);
    found
}

/// Makes a system call.
///
/// # Safety
/// As the system call.
pub(super) unsafe fn enter(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let entry = entry();
    let mut answer = number as isize;
    if entry == 0 {
        // SAFETY: the caller's; the kernel changes no registers but these.
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
        // SAFETY: the caller's; the kernel has given the address. It keeps what a function keeps. A call that
        // is made again begins at this instruction, which has the two bytes of `syscall`.
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

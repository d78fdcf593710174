//! Makes a system call in one of two ways: with the instruction `syscall`, or by calling an address that the
//! virtual engine's kernel provides.

use std::arch::asm;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::c_long;

/// Key in the auxiliary vector of the address to call for a system call.
const AT_SYSINFO: libc::c_ulong = 32;
/// Value of [`ENTRY`] before the auxiliary vector was read. No function has this address.
const UNKNOWN: usize = 1;

static ENTRY: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// Returns the address to call for a system call; 0 if the kernel provides none.
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
pub(super) unsafe fn enter(number: c_long, arguments: [usize; 6]) -> isize {
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

//! Ways to make a system call: the instruction, an address of the virtual engine's kernel, and lists of
//! calls.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::c_long;

/// Auxiliary vector: address that makes a system call when called.
const AT_SYSINFO: libc::c_ulong = 32;
/// Number that stands for a list of system calls (`VSYSCALL_LIST`).
const LIST: c_long = 0x10000;
/// Maximum length of a list (`VSYSCALL_LIST_MAX`).
pub(super) const LIST_MAX: usize = 64;
/// Value of [`ENTRY`] before the first look. No function begins there.
const UNKNOWN: usize = 1;

static ENTRY: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// An entry of a list, as the kernel reads it (`struct vsyscall_entry`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) number: c_long,
    pub(super) arguments: [usize; 6],
    /// A smaller result ends the list.
    pub(super) least: isize,
    pub(super) result: isize,
}

impl Entry {
    pub(super) fn new(number: c_long, arguments: [usize; 6]) -> Self {
        Self { number, arguments, least: isize::MIN, result: 0 }
    }
}

/// Returns the address that makes a system call; 0 if there is none.
pub(super) fn entry() -> usize {
    if cfg!(not(target_arch = "x86_64")) {
        return 0;
    }
    let known = ENTRY.load(Relaxed);
    if known != UNKNOWN {
        return known;
    }
    // SAFETY: getauxval reads a list that the kernel has written before the program began.
    let found = unsafe { libc::getauxval(AT_SYSINFO) } as usize;
    ENTRY.store(found, Relaxed);
    found
}

/// Returns true if the kernel accepts lists.
pub(super) fn takes_lists() -> bool {
    // SAFETY: an empty list has no effect.
    entry() != 0 && unsafe { enter(LIST, [0; 6]) } == 0
}

/// Makes the calls of a list in order, and stops after one whose result is below its `least`. Returns the
/// number of calls made.
///
/// # Safety
/// As the system calls.
pub(super) unsafe fn make_list(list: &mut [Entry]) -> usize {
    if list.len() > 1 && entry() != 0 {
        // SAFETY: the caller's; the kernel only writes results within the list.
        let made = unsafe { enter(LIST, [list.as_mut_ptr() as usize, list.len(), 0, 0, 0, 0]) };
        if made != -(libc::ENOSYS as isize) {
            return usize::try_from(made).expect("the list lies in memory");
        }
    }
    // One by one, if this process is traced or the kernel accepts no lists.
    let mut made = 0;
    for entry in list {
        // SAFETY: the caller's.
        entry.result = unsafe { enter(entry.number, entry.arguments) };
        made += 1;
        if entry.result < entry.least {
            break;
        }
    }
    made
}

/// Makes a system call.
///
/// # Safety
/// As the system call.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn enter(number: c_long, arguments: [usize; 6]) -> isize {
    use std::arch::asm;

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

/// Makes a system call.
///
/// # Safety
/// As the system call.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn enter(
    number: c_long,
    [first, second, third, fourth, fifth, sixth]: [usize; 6],
) -> isize {
    // SAFETY: the caller's.
    match unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) } {
        -1 => -(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL) as isize),
        answer => answer as isize,
    }
}

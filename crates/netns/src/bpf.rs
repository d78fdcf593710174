//! Builds the instructions of seccomp filters (classic BPF), which restrict or intercept system calls.

use libc::{BPF_ABS, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// The kernel's number for the x86-64 architecture (`AUDIT_ARCH_X86_64`), which seccomp filters check first.
#[cfg(target_arch = "x86_64")]
pub const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
pub const ARCHITECTURE: u32 = 0xC000_00B7;
#[cfg(target_arch = "riscv64")]
pub const ARCHITECTURE: u32 = 0xC000_00F3;

/// Offset of the system call's number in `struct seccomp_data` (include/uapi/linux/seccomp.h).
pub const NUMBER: u32 = 0;
/// Offset of the architecture in `struct seccomp_data`.
pub const ARCH: u32 = 4;

/// Returns the offset of the low 32 bits of a system call's argument `number` (0 to 5; little-endian).
pub const fn argument(number: u32) -> u32 {
    16 + 8 * number
}

/// Returns an instruction that loads the 32-bit word at `offset` of `struct seccomp_data`.
pub const fn load(offset: u32) -> sock_filter {
    sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k: offset }
}

/// Returns an instruction that applies `comparison` (such as `BPF_JEQ`) to the loaded word and `k`. It skips
/// `jt` instructions if the result is true, otherwise `jf` instructions.
pub const fn jump(comparison: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | comparison | BPF_K) as u16, jt, jf, k }
}

/// Returns an instruction that ends the filter with an action (`SECCOMP_RET_*`).
pub const fn return_action(action: u32) -> sock_filter {
    sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: action }
}

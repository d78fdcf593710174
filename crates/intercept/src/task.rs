//! Accesses a process whose system call is suspended: duplicates descriptors, reads and writes memory.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

use fastopen_netns::process::{pidfd_getfd, pidfd_open};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

/// A handle (pidfd) to a thread. Unlike a thread ID, a pidfd never refers to another thread later.
pub(crate) struct Task {
    thread: i32,
    handle: OwnedFd,
    /// True if the pidfd refers to the thread (`PIDFD_THREAD`), false if it refers to the thread's process.
    own: bool,
}

impl Task {
    /// Opens a handle to a thread by its ID. Check afterwards that the thread's call is still suspended:
    /// otherwise the ID may belong to another thread now. Fails with ESRCH if the thread has ended.
    pub(crate) fn open(thread: i32) -> io::Result<Self> {
        match pidfd_open(thread, libc::PIDFD_THREAD) {
            // Before Linux 6.9 only processes have a pidfd. Threads share the descriptors of their process.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Ok(Self { thread, handle: pidfd_open(process_of(thread)?, 0)?, own: false })
            }
            done => Ok(Self { thread, handle: done?, own: true }),
        }
    }

    /// Returns true if this handle refers to the thread with the ID `thread`, and not to a whole process. If
    /// the ID was reused for a later thread, [`Task::fetch`] fails with ESRCH.
    pub(crate) fn is_good_for(&self, thread: i32) -> bool {
        self.own && self.thread == thread
    }

    /// Duplicates a descriptor of the thread. Fails with EPERM if the system protects the process, EBADF
    /// if the descriptor is not open, ESRCH if the thread ended.
    pub(crate) fn fetch(&self, descriptor: i32) -> io::Result<OwnedFd> {
        pidfd_getfd(&self.handle, descriptor)
    }

    /// Reads the thread's memory at `address` into `bytes`. A partial read is an error.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let there = RemoteIoVec { base: address as usize, len: bytes.len() };
        let mut here = [IoSliceMut::new(bytes)];
        complete(process_vm_readv(Pid::from_raw(self.thread), &mut here, &[there])?, there.len)
    }

    /// Writes `bytes` to the thread's memory at `address`. A partial write is an error.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let there = RemoteIoVec { base: address as usize, len: bytes.len() };
        let here = [IoSlice::new(bytes)];
        complete(process_vm_writev(Pid::from_raw(self.thread), &here, &[there])?, there.len)
    }
}

fn complete(moved: usize, wanted: usize) -> io::Result<()> {
    if moved == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn process_of(thread: i32) -> io::Result<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status"))?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("/proc/.../status has no Tgid"))
}

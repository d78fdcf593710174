//! A thread of another process: its descriptors and its memory.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

/// Holds on to the thread itself, not to its number, which the kernel gives to another once the thread has ended.
pub(crate) struct Task {
    thread: i32,
    handle: OwnedFd,
    /// Whether the handle is the thread's own, and not its process's.
    own: bool,
}

impl Task {
    /// The thread of that number. Who needs to be sure that it is the one meant asks afterwards whether its call still waits.
    ///
    /// # Errors
    /// ESRCH: it has ended.
    pub(crate) fn open(thread: i32) -> io::Result<Self> {
        match pidfd_open(thread, libc::PIDFD_THREAD) {
            // Before Linux 6.9 only a process has such a handle; its threads share its descriptors.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Ok(Self { thread, handle: pidfd_open(process_of(thread)?, 0)?, own: false })
            }
            done => Ok(Self { thread, handle: done?, own: true }),
        }
    }

    /// Whether it is good for the thread that has this number now, or for none. As long as a thread lives nobody else gets its
    /// number, and afterwards its own handle is good for nothing (ESRCH); its process's may outlive it.
    pub(crate) fn is_good_for(&self, thread: i32) -> bool {
        self.own && self.thread == thread
    }

    /// A duplicate of a descriptor of the thread.
    ///
    /// # Errors
    /// EPERM: the system protects the process from us. EBADF: it has no such descriptor. ESRCH: it has ended.
    pub(crate) fn fetch(&self, descriptor: i32) -> io::Result<OwnedFd> {
        // SAFETY: no pointers.
        let fetched = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.handle.as_raw_fd(), descriptor, 0) };
        owned(fetched)
    }

    /// Reads memory at `address`; fewer bytes than asked for are an error.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let there = RemoteIoVec { base: address as usize, len: bytes.len() };
        let wanted = bytes.len();
        whole(process_vm_readv(Pid::from_raw(self.thread), &mut [IoSliceMut::new(bytes)], &[there])?, wanted)
    }

    /// Writes memory at `address`.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let there = RemoteIoVec { base: address as usize, len: bytes.len() };
        whole(process_vm_writev(Pid::from_raw(self.thread), &[IoSlice::new(bytes)], &[there])?, bytes.len())
    }
}

fn whole(moved: usize, wanted: usize) -> io::Result<()> {
    if moved == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn pidfd_open(number: i32, flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, number, flags) })
}

fn owned(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor for us alone (close-on-exec).
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// The process that a thread belongs to.
fn process_of(thread: i32) -> io::Result<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status"))?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("its status names no process"))
}

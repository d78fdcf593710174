//! Installs the seccomp filter, which holds system calls until the supervisor answers.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::{Child, Command};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastopen_netns::bpf::{ARCH, ARCHITECTURE, NUMBER, argument, end, jump, load};
use fastopen_netns::clock::monotonic_ns;
use libc::{BPF_JEQ, BPF_JGE, BPF_JGT, SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF, sock_filter};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::Error;

/// Limits of `addrlen` in a TCP `connect`: sizes of `struct sockaddr_in` and `struct sockaddr_storage`.
const SHORTEST: u32 = 16;
const LONGEST: u32 = 128;
/// `sizeof(struct sockaddr_un)`: the usual `addrlen` of UNIX sockets. A filter sees the length, not the
/// address.
const UNIX: u32 = 110;

/// Holds `listen`, `getpeername`, and each `connect` whose `addrlen` is within the limits and not [`UNIX`].
static PROGRAM: [sock_filter; 12] = [
    load(ARCH),
    jump(BPF_JEQ, ARCHITECTURE, 0, 8),
    load(NUMBER),
    jump(BPF_JEQ, libc::SYS_listen as u32, 7, 0),
    jump(BPF_JEQ, libc::SYS_getpeername as u32, 6, 0),
    jump(BPF_JEQ, libc::SYS_connect as u32, 0, 4),
    load(argument(2)),
    jump(BPF_JEQ, UNIX, 2, 0),
    jump(BPF_JGT, LONGEST, 1, 0),
    jump(BPF_JGE, SHORTEST, 1, 0),
    end(SECCOMP_RET_ALLOW),
    end(SECCOMP_RET_USER_NOTIF),
];

/// Starts a command under the filter, from a new thread that calls `prepare` first. Returns the filter's
/// listener, the command's process, and the time of exec in nanoseconds of the monotonic clock, which is
/// after all work between fork and exec.
///
/// The filter applies to the new thread and its later children, but not to the supervising thread.
pub(crate) fn spawn(
    mut command: Command,
    prepare: impl FnOnce() -> fastopen_netns::Result<()> + Send + 'static,
) -> Result<(OwnedFd, Child, u64), Error> {
    let start = move || {
        prepare()?;
        let listener = install().map_err(Error::Seccomp)?;
        let executed_ns = SharedNumber::new().map_err(Error::kernel("sharing memory with a child"))?;
        executed_ns.note_exec(&mut command);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| Error::spawn(name, error))?;
        Ok((listener, child, executed_ns.get()))
    };
    let thread = thread::Builder::new().spawn(start).map_err(Error::kernel("starting a thread"))?;
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// A number that this process and its children share.
struct SharedNumber(NonNull<AtomicU64>);

// SAFETY: the number is atomic, and the memory stays mapped until the drop.
unsafe impl Send for SharedNumber {}
// SAFETY: as above.
unsafe impl Sync for SharedNumber {}

impl SharedNumber {
    const SIZE: NonZeroUsize = NonZeroUsize::new(size_of::<AtomicU64>()).expect("it is not 0");

    fn new() -> nix::Result<Arc<Self>> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of zeros, where the kernel finds room.
        let memory = unsafe { mmap_anonymous(None, Self::SIZE, access, MapFlags::MAP_SHARED) }?;
        Ok(Arc::new(Self(memory.cast())))
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: the memory is mapped, large enough and aligned to a page, and any bits are a number.
        unsafe { self.0.as_ref() }
    }

    fn get(&self) -> u64 {
        self.number().load(Ordering::Acquire)
    }

    /// Makes `command` store the time of exec here, after all its earlier `pre_exec` closures.
    fn note_exec(self: &Arc<Self>, command: &mut Command) {
        let number = self.clone();
        let note = move || {
            number.number().store(monotonic_ns(), Ordering::Release);
            Ok(())
        };
        // SAFETY: the closure reads the clock and writes to memory, which is allowed between fork and exec.
        unsafe { command.pre_exec(note) };
    }
}

impl Drop for SharedNumber {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this size, and no reference to it outlives this value.
        let _ = unsafe { munmap(self.0.cast(), Self::SIZE.get()) };
    }
}

/// Installs the filter permanently on the calling thread and its later children. Returns its listener.
///
/// Without `CAP_SYS_ADMIN` it sets `no_new_privs`, so that set-user-ID programs do not gain privileges.
///
/// # Errors
/// EBUSY if a filter with a listener is already installed. ENOSYS or EINVAL if the kernel has no user
/// notification.
fn install() -> io::Result<OwnedFd> {
    match attach() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            nix::sys::prctl::set_no_new_privs()?;
            attach()
        }
        done => done,
    }
}

fn attach() -> io::Result<OwnedFd> {
    // From Linux 5.19 on: only a fatal signal interrupts a held call that the supervisor has received.
    let killable = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    match attach_with(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | killable) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attach_with(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)
        }
        done => done,
    }
}

fn attach_with(flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog { len: PROGRAM.len() as u16, filter: PROGRAM.as_ptr().cast_mut() };
    // SAFETY: the kernel reads the program during the call and does not write to it.
    let descriptor =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: seccomp has just made this descriptor (close-on-exec); nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

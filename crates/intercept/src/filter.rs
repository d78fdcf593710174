//! Starts a command under a seccomp filter, which suspends some system calls until this process answers them.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::{Child, Command};
use std::thread;

use fastopen_netns::bpf::{ARCH, ARCHITECTURE, NUMBER, argument, jump, load, return_action};
use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::process::pipe;
use libc::{
    BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JSET, MSG_FASTOPEN, SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF, sock_filter,
};
use nix::unistd::write;

use crate::Error;

/// Minimum `addrlen` of `connect` for a TCP socket: the size of `struct sockaddr_in`.
const SHORTEST: u32 = 16;
const LONGEST: u32 = 128; // sizeof(struct sockaddr_storage)
/// Usual `addrlen` of a UNIX socket. The filter cannot read the address, so it checks only the length.
const UNIX: u32 = 110; // sizeof(struct sockaddr_un)

/// The filter: suspends `listen`, `getpeername`, calls that send (and connect) with `MSG_FASTOPEN`, and
/// `connect` if `addrlen` is from [`SHORTEST`] to [`LONGEST`] but not [`UNIX`].
static PROGRAM: [sock_filter; 19] = [
    load(ARCH),
    jump(BPF_JEQ, ARCHITECTURE, 0, 15),
    load(NUMBER),
    jump(BPF_JEQ, libc::SYS_listen as u32, 14, 0),
    jump(BPF_JEQ, libc::SYS_getpeername as u32, 13, 0),
    jump(BPF_JEQ, libc::SYS_connect as u32, 7, 0),
    jump(BPF_JEQ, libc::SYS_sendto as u32, 2, 0),
    jump(BPF_JEQ, libc::SYS_sendmmsg as u32, 1, 0),
    jump(BPF_JEQ, libc::SYS_sendmsg as u32, 2, 8),
    load(argument(3)),
    jump(BPF_JSET, MSG_FASTOPEN as u32, 7, 6),
    load(argument(2)),
    jump(BPF_JSET, MSG_FASTOPEN as u32, 5, 4),
    load(argument(2)),
    jump(BPF_JEQ, UNIX, 2, 0),
    jump(BPF_JGT, LONGEST, 1, 0),
    jump(BPF_JGE, SHORTEST, 1, 0),
    return_action(SECCOMP_RET_ALLOW),
    return_action(SECCOMP_RET_USER_NOTIF),
];

/// Starts `command` under the seccomp filter, from a new thread that calls `prepare` first. Returns the
/// descriptor from which to read suspended calls, the process, and the monotonic time of `exec` in ns.
pub(crate) fn spawn(
    mut command: Command,
    prepare: impl FnOnce() -> fastopen_netns::Result<()> + Send + 'static,
) -> Result<(OwnedFd, Child, u64), Error> {
    let start = move || {
        prepare()?;
        let listener = install().map_err(Error::Seccomp)?;
        let times = report_exec(&mut command).map_err(Error::kernel("making a pipe"))?;
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoSuchCommand(name),
            _ => Error::Spawn(name, error),
        })?;
        let mut executed_ns = [0; 8];
        File::from(times).read_exact(&mut executed_ns).map_err(Error::kernel("reading the time of exec"))?;
        Ok((listener, child, u64::from_ne_bytes(executed_ns)))
    };
    let thread = thread::Builder::new().spawn(start).map_err(Error::kernel("starting a thread"))?;
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Makes `command` write the time of exec to a pipe, after all `pre_exec` closures. Returns the read end.
fn report_exec(command: &mut Command) -> io::Result<OwnedFd> {
    let (reader, writer) = pipe()?;
    let report = move || {
        write(&writer, &monotonic_ns().to_ne_bytes())?;
        Ok(())
    };
    // SAFETY: the closure reads the clock and writes to a pipe, which is allowed between fork and exec.
    unsafe { command.pre_exec(report) };
    Ok(reader)
}

/// Installs the seccomp filter on this thread and its later children. Returns the filter's listener
/// descriptor. Without `CAP_SYS_ADMIN`, sets `no_new_privs`: set-user-ID programs then gain no privileges.
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

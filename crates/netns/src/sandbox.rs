//! Restricts the client and server programs in an emulated network (a "world"): the files of the machine that
//! they see, their resources and their sockets. See docs/security.md.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use libc::{BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_K, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, sock_filter};
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;
use nix::unistd::{getgid, getuid, pivot_root};

use crate::bpf::{ARCH, ARCHITECTURE, NUMBER, argument, jump, load, return_action};
use crate::namespace::{bind, make_mounts_private, mount_new, mount_temporary, scratch};
use crate::{Doing, Error, Result, check, sysctl};

/// Files that programs need: executables, libraries, fonts and certificates. Missing files are left out.
const SYSTEM: [&str; 37] = [
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt",
    "/sbin",
    "/usr",
    "/etc/alternatives",
    "/etc/ca-certificates.conf",
    "/etc/chromium",
    "/etc/chromium.d",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/opt/chrome",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/wget2rc",
    "/etc/wgetrc",
    "/var/cache/fontconfig",
    "/etc/perl",
];
/// Device files that sandboxed programs see. They need no hardware.
const DEVICES: [&str; 5] = ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];
/// Folders that [`View::enter`] creates in a sandbox's new root folder, because programs expect them.
const FOLDERS: [&str; 8] = ["/dev/shm", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/var/tmp"];
/// Folders whose content is hidden even if [`View::all`] is true.
const HIDDEN: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];
/// Mount point of the host's root folder while [`View::enter`] builds a sandbox's root folder.
const OLD: &str = "/.machine";
/// User and group ID of confined programs. Not 0, because some programs behave differently as root.
const CLIENT_ID: u32 = 1000;
/// Limits of a confined program: bytes of data in a process, and number of processes and threads. The second
/// limit does not apply to the machine's root user (`kernel/fork.c`), for which [`limit_processes`] is used.
const LIMITS: [(Resource, u64); 2] =
    [(Resource::RLIMIT_DATA, 1280 << 20), (Resource::RLIMIT_NPROC, MOST_PROCESSES)];
const MOST_PROCESSES: u64 = 4096;

/// The machine's files that sandboxed programs see. All are read-only, except for those in `writable`.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// True to show all files except for `/dev`, `/proc`, `/run`, `/sys` and private files in `/etc`. False
    /// to show only the files that programs need: executables, libraries, fonts and certificates.
    pub all: bool,
    /// Files and folders that the programs can read, in addition to the system's executables and libraries.
    pub files: Vec<PathBuf>,
    /// Folders to which the programs may write.
    pub writable: Vec<PathBuf>,
    /// Maximum size of [`scratch`] in bytes.
    pub scratch_bytes: u64,
}

impl View {
    /// Makes this view the root file system of the calling process, in a new mount namespace. The view's
    /// `/proc` shows the PID namespace of the process, if the kernel allows this.
    pub fn enter(&self) -> Result<()> {
        const STAGE: &str = "/tmp";
        // Use a new mount namespace, so that the waiting parent still sees the machine's files.
        unshare(CloneFlags::CLONE_NEWNS).doing(|| "making a mount namespace".into())?;
        let real = |path| Some((path, fs::canonicalize(path).ok()?));
        let further: Vec<_> = self.files.iter().filter_map(real).collect();
        mount_tmpfs(Path::new(STAGE), Some(1 << 20), "0755")?;
        make_folder(&Path::new(STAGE).join(&OLD[1..]))?;
        std::env::set_current_dir(STAGE).doing(|| format!("entering {STAGE}"))?;
        pivot_root(".", &OLD[1..]).doing(|| "making the world's root".into())?;
        std::env::set_current_dir("/").doing(|| "entering the world's root".into())?;
        for folder in FOLDERS {
            make_folder(Path::new(folder))?;
        }
        let mut shown = Shown(Vec::new());
        DEVICES.iter().try_for_each(|path| shown.show(Path::new(path)))?;
        if self.all {
            for entry in fs::read_dir(OLD).doing(|| "reading the root folder".into())?.flatten() {
                let path = Path::new("/").join(entry.file_name());
                if !HIDDEN.iter().any(|hidden| path == Path::new(hidden)) {
                    shown.show(&path)?;
                }
            }
            hide_private(Path::new("/etc"), 2)?;
        }
        SYSTEM.iter().try_for_each(|path| shown.show(Path::new(path)))?;
        mount_temporary(scratch(), Some(self.scratch_bytes))?;
        for (path, real) in &further {
            shown.show(real)?;
            // A symbolic link in the view may already lead to the file.
            if !path.exists() {
                shown.bind(path, real)?;
            }
        }
        self.writable.iter().try_for_each(|path| shown.bind(path, path))?;
        link_standard_streams()?;
        // If a mount hides a part of the old /proc, the kernel may refuse a new one. Then show the old one,
        // although it also lists processes outside this PID namespace.
        if mount_new("proc", "/proc", None).is_err() {
            bind(&old(Path::new("/proc")), Path::new("/proc"))?;
        }
        umount2(OLD, MntFlags::MNT_DETACH).doing(|| "unmounting the machine's root".into())?;
        limit_processes();
        let _ = fs::remove_dir(OLD);
        guard_proc()?;
        set_read_only(Path::new("/"), true)?;
        let writable = self.writable.iter().map(PathBuf::as_path);
        for path in writable.chain([scratch(), Path::new("/proc")]) {
            set_read_only(path, false)?;
        }
        Ok(())
    }

    /// Permanently restricts the calling thread and its children to the files of this view (Landlock). Since
    /// Linux 6.12, they can signal only each other. Set `entered` after [`View::enter`], to permit
    /// reading `/`, which then contains only this view's files. Returns true if the kernel has Landlock.
    pub fn restrict(&self, entered: bool) -> Result<bool> {
        let needed = [&SYSTEM[..], &DEVICES].concat();
        let readable = if self.all || entered { &["/"][..] } else { &needed };
        let readable = readable.iter().map(Path::new).chain(self.files.iter().map(PathBuf::as_path));
        let writable = self.writable.iter().map(PathBuf::as_path).chain(DEVICES.map(Path::new));
        restrict(readable, writable.chain([scratch(), Path::new("/proc")]))
    }
}

struct Shown(Vec<PathBuf>);

impl Shown {
    /// Bind-mounts the host's file or folder `path` in the sandbox, or copies it if it is a symbolic link.
    fn show(&mut self, path: &Path) -> Result<()> {
        if self.has(path) {
            return Ok(());
        }
        let Ok(target) = fs::read_link(old(path)) else { return self.bind(path, path) };
        path.parent().map_or(Ok(()), make_folder)?;
        self.0.push(path.to_owned());
        symlink(target, path).doing(|| format!("making {}", path.display()))
    }

    /// Bind-mounts the host's file or folder `real` at `path` in the sandbox, if it exists.
    fn bind(&mut self, path: &Path, real: &Path) -> Result<()> {
        let Ok(metadata) = fs::metadata(old(real)) else { return Ok(()) };
        // A path inside a shown folder exists already, and nothing may be created in the machine's folders.
        if !self.has(path) {
            if metadata.is_dir() {
                make_folder(path)?;
            } else {
                path.parent().map_or(Ok(()), make_folder)?;
                File::create(path).map(drop).doing(|| format!("making {}", path.display()))?;
            }
        }
        self.0.push(path.to_owned());
        bind(&old(real), path)
    }

    fn has(&self, path: &Path) -> bool {
        self.0.iter().any(|shown| path.starts_with(shown))
    }
}

/// Returns the path that leads to the host's file `path` while a sandbox's root folder is built.
fn old(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

/// Hides all files and folders that not every user can read, in `folder` and `depth` - 1 levels below it.
/// Otherwise commands in a sandbox could read them if the machine's root user runs this program.
fn hide_private(folder: &Path, depth: usize) -> Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let (path, hidden) = (entry.path(), metadata.permissions().mode() & 0o4 == 0);
        match (metadata.is_dir(), hidden) {
            (true, true) => bind(Path::new("/run"), &path)?,
            (true, false) if depth > 1 => hide_private(&path, depth - 1)?,
            (false, true) => bind(Path::new("/dev/null"), &path)?,
            _ => {}
        }
    }
    Ok(())
}

fn make_folder(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .doing(|| format!("making {}", path.display()))
}

pub(crate) fn link_standard_streams() -> Result<()> {
    [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")].iter().try_for_each(|(name, to)| {
        let link = Path::new("/dev").join(name);
        symlink(format!("/proc/self/fd{to}"), &link).doing(|| format!("making {}", link.display()))
    })
}

pub(crate) fn mount_tmpfs(place: &Path, bytes: Option<u64>, mode: &str) -> Result<()> {
    let size = bytes.map_or_else(|| "50%".to_owned(), |bytes| bytes.to_string());
    let options = format!("size={size},mode={mode}");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), place, Some("tmpfs"), flags, Some(options.as_str()))
        .doing(|| format!("mounting a tmpfs on {}", place.display()))
}

/// Makes `/proc` read-only, except for `/proc/sys` and the files of each process. Otherwise the machine's
/// root user could write to other files in `/proc` without any capability.
pub fn guard_proc() -> Result<()> {
    for entry in fs::read_dir("/proc").doing(|| "reading /proc".into())?.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let of_process = name.as_bytes().iter().all(u8::is_ascii_digit);
        // `DirEntry::metadata` does not follow symbolic links, which lead to files of processes.
        let Ok(metadata) = entry.metadata() else { continue };
        let guarded = metadata.is_dir() || metadata.permissions().mode() & 0o222 != 0;
        if of_process || name == "sys" || metadata.is_symlink() || !guarded {
            continue;
        }
        bind(&path, &path)?;
        set_read_only(&path, true)?;
    }
    Ok(())
}

/// Limits the number of processes and threads of this PID namespace, for all users. Before Linux 6.14 the
/// setting is global, so the kernel refuses it, and nothing is limited.
pub fn limit_processes() {
    let _ = sysctl::set("kernel.pid_max", &MOST_PROCESSES.to_string());
}

/// Makes a mount and all mounts below it read-only and nosuid. If `read_only` is false, makes the mount
/// writable instead, but not the mounts below it.
fn set_read_only(place: &Path, read_only: bool) -> Result<()> {
    let path = CString::new(place.as_os_str().as_bytes()).expect("it was a path");
    let (flags, set, clear) = if read_only {
        (libc::AT_RECURSIVE, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID, 0)
    } else {
        (0, 0, libc::MOUNT_ATTR_RDONLY)
    };
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    // SAFETY: the kernel reads the path and the structure during the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    let how = if read_only { "read-only" } else { "writable" };
    check(done as libc::c_int).map(drop).doing(|| format!("making {} {how}", place.display()))
}

/// Makes `/proc/sys` read-only for the calling thread and its children, in a new mount namespace.
pub fn protect_settings() -> Result<()> {
    const SETTINGS: &str = "/proc/sys";
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).doing(|| "making a mount namespace".into())?;
    make_mounts_private()?;
    bind(Path::new(SETTINGS), Path::new(SETTINGS))?;
    set_read_only(Path::new(SETTINGS), true)
}

/// Prepares the calling thread to start a program that may write only to `folder`. In a new mount namespace
/// everything else is read-only, including `/proc/sys`. Devices and the rest of `/proc` stay writable. Needs
/// Linux 5.12 (`mount_setattr`).
pub fn protect_files(folder: &Path) -> Result<()> {
    protect_settings()?;
    bind(folder, folder)?;
    set_read_only(Path::new("/"), true)?;
    set_read_only(folder, false)?;
    // Clients write to their own /proc/self/uid_map.
    set_read_only(Path::new("/proc"), false)?;
    let writable = DEVICES.map(Path::new).into_iter().chain([folder, Path::new("/proc")]);
    restrict([Path::new("/")], writable).map(drop)
}

/// Permanently drops all capabilities of the calling thread, and its access to files if the kernel has
/// Landlock. Open files stay usable.
pub fn renounce() -> Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let (header, none) = ([VERSION_3, 0], [0u32; 6]);
    // SAFETY: the kernel reads the header and both sets (include/uapi/linux/capability.h) during the call.
    let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    check(done as libc::c_int).doing(|| "giving up capabilities".into())?;
    restrict([], []).map(drop)
}

/// Permanently prevents the calling thread and its children from creating sockets, except for Internet and
/// netlink sockets, and UNIX sockets if `unix` is true. Some other sockets can reach programs outside the
/// network namespace: `AF_VSOCK` sockets always, and UNIX sockets through files.
pub fn restrict_sockets(unix: bool) -> Result<()> {
    // Masks out the flags, which are in the higher bits of a socket's type.
    const TYPE: sock_filter = sock_filter { code: (BPF_ALU | BPF_AND | BPF_K) as u16, jt: 0, jf: 0, k: 0xf };
    const NONE: u32 = u32::MAX;
    // Without UNIX sockets, forbid datagram pairs too: a socket of a pair can send to any UNIX address.
    let (family, pair) = if unix { (libc::AF_UNIX as u32, NONE) } else { (NONE, libc::SOCK_DGRAM as u32) };
    let program = [
        load(ARCH),
        jump(BPF_JEQ, ARCHITECTURE, 0, 14),
        load(NUMBER),
        // System calls of the x32 ABI have numbers from here on.
        jump(BPF_JGE, 0x4000_0000, 12, 0),
        jump(BPF_JEQ, libc::SYS_io_uring_setup as u32, 11, 0),
        jump(BPF_JEQ, libc::SYS_socket as u32, 4, 0),
        jump(BPF_JEQ, libc::SYS_socketpair as u32, 0, 8),
        load(argument(1)),
        TYPE,
        jump(BPF_JEQ, pair, 6, 5),
        load(argument(0)),
        jump(BPF_JEQ, libc::AF_INET as u32, 3, 0),
        jump(BPF_JEQ, libc::AF_INET6 as u32, 2, 0),
        jump(BPF_JEQ, libc::AF_NETLINK as u32, 1, 0),
        jump(BPF_JEQ, family, 0, 1),
        return_action(SECCOMP_RET_ALLOW),
        return_action(SECCOMP_RET_ERRNO | libc::EACCES as u32),
    ];
    let doing = || "restricting sockets".into();
    nix::sys::prctl::set_no_new_privs().doing(doing)?;
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel reads the program during the call and does not write to it.
    let done =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    check(done as libc::c_int).map(drop).doing(doing)
}

/// Limits this thread and its children to these files and folders. Returns true if the kernel has Landlock.
fn restrict<'a>(
    readable: impl IntoIterator<Item = &'a Path>,
    writable: impl IntoIterator<Item = &'a Path>,
) -> Result<bool> {
    let abi = ABI::V6;
    let rules = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(abi))?
            .scope(Scope::from_all(abi))?
            .create()?
            .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?
            .add_rules(path_beneath_rules(writable, AccessFs::from_all(abi)))?
            .restrict_self()
    };
    let status = rules().map_err(|error: RulesetError| {
        Error::other("restricting a process to its files", io::Error::other(error))
    })?;
    Ok(status.ruleset != landlock::RulesetStatus::NotEnforced)
}

/// Confines the process that `command` starts to its own user and mount namespaces. Limits its memory and
/// processes. The process has no capabilities and cannot gain any (`no_new_privs`). Earlier mounts are locked
/// (`MNT_LOCKED`, `mount_namespaces(7)`): not even root in a nested user namespace can make them writable.
pub fn confine(command: &mut Command) {
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("{CLIENT_ID} {} 1", getuid())),
        (c"/proc/self/gid_map", format!("{CLIENT_ID} {} 1", getgid())),
    ];
    let confine = move || {
        // Set the limits before the user namespace is created, because it inherits the limit of processes.
        for (resource, most) in LIMITS {
            // The current limit may be lower, and only root can raise it.
            let most = most.min(getrlimit(resource)?.1);
            setrlimit(resource, most, most)?;
        }
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        for (path, text) in &maps {
            let file = nix::fcntl::open(*path, OFlag::O_WRONLY, Mode::empty())?;
            nix::unistd::write(&file, text.as_bytes())?;
        }
        for capability in 0.. {
            // SAFETY: the call takes no pointers. After the last capability, it fails with EINVAL.
            if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability) } < 0 {
                break;
            }
        }
        // exec drops the other sets of capabilities, because the user is not root.
        Ok(nix::sys::prctl::set_no_new_privs()?)
    };
    // SAFETY: system calls without locks and allocated memory, which are allowed between fork and exec.
    unsafe { command.pre_exec(confine) };
}

//! Answers system calls that the filter suspends in a command and its children. Counts their connections.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::poll::wait_readable;
use fastopen_netns::sock_diag::{DestroyEvents, Outcome, open_sockets};
use fastopen_netns::socket::{cookie, is_mptcp, is_tcp, namespace_cookie};
use fastopen_netns::tcp::{self, SYN_SENT, TcpInfo};
use nix::errno::Errno;
use nix::poll::PollFlags;
use socket2::SockRef;

use crate::descriptor;
use crate::listener::{Call, Listener};
use crate::report::{Peer, Traffic};
use crate::tally::Tally;
use crate::task::Task;

/// Length of the TCP Fast Open queue that is set on listeners: the default of emulated origin servers.
const LISTENER_QUEUE: i32 = 4096;
/// Maximum number of peers (servers' addresses and ports) whose connections are counted separately.
const PEERS: usize = 1000;
/// Maximum time, in ns, to wait for reports of sockets that the kernel has destroyed and no longer lists.
const DESTROY_EVENTS_TIMEOUT_NS: u64 = 100_000_000;
/// Maximum number of connections in [`Supervisor::deferred`], whose SYN may still wait for the client's first
/// write. Each may keep a descriptor of this process open (pidfd).
const DEFERRED: usize = 4096;
const MULTIPATH: &str = "its socket uses Multipath TCP";

/// A connection that is not counted yet: the kernel has not reported that its socket was destroyed.
struct Connection {
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
    opened_ns: u64,
    /// `TCP_INFO` at an earlier check, in case the kernel's report of the destroyed socket lacks it.
    seen: Option<TcpInfo>,
}

/// A connection whose SYN may still wait for the client's first write (`defer_connect`).
///
/// With a cookie and `TCP_FASTOPEN_CONNECT`, `connect` returns at once and the first write sends the SYN. If
/// the server speaks first (SMTP, FTP, databases), the client does not write, and both would wait forever.
struct DeferredConnect {
    /// Time at which to send the SYN without data.
    due_ns: u64,
    task: Rc<Task>,
    descriptor: i32,
    /// `SO_COOKIE` of the socket, which shows later if the descriptor was reused for another socket.
    cookie: u64,
}

/// Intercepts a command's system calls (`connect`, `listen`) to enable Fast Open, and counts its connections.
pub(crate) struct Supervisor {
    pub(crate) listener: Listener,
    events: DestroyEvents,
    namespace: u64,
    first_write_timeout_ns: u64,
    /// Connections whose SYN may have to be sent without data later, the earliest due first.
    deferred: VecDeque<DeferredConnect>,
    last_task: Option<Rc<Task>>,
    /// Connections that are not counted yet, keyed by the client socket's `SO_COOKIE`.
    open: BTreeMap<u64, Connection>,
    peers: BTreeMap<Option<SocketAddr>, Tally>,
    traffic: Traffic,
    /// Collects a record of each connection; `None` if connections are only counted.
    pub(crate) observer: Option<Observer>,
    /// True to set a Fast Open queue on listeners that have none.
    pub(crate) gives_queues: bool,
    /// True once all processes under the seccomp filter have ended, so that no more calls can arrive.
    pub(crate) all_ended: bool,
}

/// Collects every connection, with or without Fast Open.
#[derive(Default)]
pub(crate) struct Observer {
    /// Client port of the next connection; `None` if the kernel chooses the port.
    pub(crate) next_port: Option<u16>,
    /// Connections that have ended, or that were open when [`Supervisor::count_all`] was last called.
    pub(crate) connections: Vec<Opened>,
}

/// A connection that was opened by a command whose system calls are intercepted.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// Time of `connect`, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// The client's address and port, if known.
    pub local: Option<SocketAddr>,
    /// The server's address and port.
    pub peer: SocketAddr,
    /// `TCP_INFO` of the client's socket; None if the kernel has cleared it.
    pub info: Option<TcpInfo>,
}

impl Supervisor {
    pub(crate) fn new(listener: OwnedFd, events: DestroyEvents, first_write_timeout_ns: u64) -> Self {
        Self {
            listener: Listener::new(listener),
            namespace: events.namespace(),
            events,
            first_write_timeout_ns,
            deferred: VecDeque::new(),
            last_task: None,
            open: BTreeMap::new(),
            peers: BTreeMap::new(),
            traffic: Traffic::default(),
            observer: None,
            gives_queues: true,
            all_ended: false,
        }
    }

    /// Waits until there is work or the descriptor `other` is readable. Does the work: answers a system call,
    /// counts closed sockets, sends deferred SYNs. Returns true if `other` is readable, without reading it.
    pub(crate) fn step(&mut self, other: BorrowedFd<'_>) -> io::Result<bool> {
        let mut descriptors = vec![other, self.events.as_fd()];
        // Once all processes have ended, the listener is always ready (POLLHUP).
        if !self.all_ended {
            descriptors.push(self.listener.as_fd());
        }
        let due_ns = self.deferred.front().map(|connect| connect.due_ns);
        let timeout_ns = due_ns.map(|due_ns| due_ns.saturating_sub(monotonic_ns()));
        let ready = wait_readable(&descriptors, timeout_ns)?;
        let listener = ready.get(2).copied().unwrap_or(PollFlags::empty());
        // Answer suspended calls first, because their threads wait for the answers.
        if listener.contains(PollFlags::POLLIN) {
            self.answer_call()?;
        }
        self.all_ended |= listener.contains(PollFlags::POLLHUP);
        if !ready[1].is_empty() {
            self.handle_events();
        }
        self.check_deferred();
        Ok(!ready[0].is_empty())
    }

    fn answer_call(&mut self) -> io::Result<()> {
        let Some(call) = self.listener.receive()? else { return Ok(()) };
        let answered = match call.number {
            libc::SYS_listen => self.listen(&call).map(|()| false),
            libc::SYS_getpeername => self.peer_name(&call),
            _ => self.connect(&call).map(|()| false),
        };
        if let Err(error) = &answered {
            self.count_failure(error);
        }
        // Resume also after a failure, so that the kernel runs the call.
        self.listener.answer(&call, !answered.unwrap_or(false));
        Ok(())
    }

    /// Returns a handle to the thread of a suspended system call, and a duplicate of the call's TCP socket.
    /// Returns None if the descriptor is not a TCP socket, or if the call has ended.
    fn socket_of(&mut self, call: &Call) -> io::Result<Option<(Rc<Task>, OwnedFd)>> {
        let (task, descriptor) = match self.fetch(call) {
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => return Ok(None),
            fetched => fetched?,
        };
        // `is_held` proves that the thread has not ended, so that `fetch` found the right thread by its ID.
        let connects = !matches!(call.number, libc::SYS_listen | libc::SYS_getpeername);
        if connects && is_mptcp(&descriptor) && self.listener.is_held(call) {
            *self.traffic.not_helped.entry(MULTIPATH).or_default() += 1;
        }
        let is_meant = is_tcp(&descriptor) && self.listener.is_held(call);
        Ok(is_meant.then_some((task, descriptor)))
    }

    /// Returns a handle to the thread of a suspended system call, and a duplicate of the call's descriptor.
    fn fetch(&mut self, call: &Call) -> io::Result<(Rc<Task>, OwnedFd)> {
        // Reuse the last call's handle, because one thread often makes many calls in a row.
        if let Some(task) = self.last_task.clone().filter(|task| task.is_good_for(call.thread)) {
            match task.fetch(call.descriptor()) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                fetched => return Ok((task, fetched?)),
            }
        }
        let task = Rc::new(Task::open(call.thread)?);
        self.last_task = Some(task.clone());
        let descriptor = task.fetch(call.descriptor())?;
        Ok((task, descriptor))
    }

    /// Enables Fast Open on the socket of a call that connects, and registers the connection. Does nothing if
    /// the socket is already connecting or connected, because the kernel then refuses the option.
    fn connect(&mut self, call: &Call) -> io::Result<()> {
        let Some((task, socket)) = self.socket_of(call)? else { return Ok(()) };
        let peer = peer_of(call, &task);
        let cookie = cookie(&socket)?;
        let with_fast_open = match tcp::set_fastopen_connect(&socket) {
            // The socket is not in TCP_CLOSE: a program may repeat `connect` to get the first call's result.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
            // Fast Open is off, but an observer also records connections without Fast Open. Only `connect`
            // opens connections then, because the kernel refuses to send with `MSG_FASTOPEN`.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) && self.observer.is_some() => {
                if call.number != libc::SYS_connect || self.open.contains_key(&cookie) {
                    return Ok(());
                }
                false
            }
            done => done.map(|()| true)?,
        };
        let opened_ns = monotonic_ns();
        let local = self.bind_port(&socket, peer);
        if namespace_cookie(&socket) == self.namespace {
            self.open.insert(cookie, Connection { peer, local, opened_ns, seen: None });
        } else {
            self.tally(peer).add(&Tally { connections: 1, elsewhere: 1, ..Tally::default() });
        }
        if with_fast_open && self.deferred.len() < DEFERRED {
            let (due_ns, descriptor) = (opened_ns + self.first_write_timeout_ns, call.descriptor());
            self.deferred.push_back(DeferredConnect { due_ns, task, descriptor, cookie });
        }
        Ok(())
    }

    /// Binds a client's socket before `connect`, to [`Observer::next_port`] or, if that is `None`, to any
    /// free port. Does not bind the socket if `peer` is a loopback or IPv4-mapped address. Returns the
    /// socket's address; `None` if the socket is not bound, or if there is no observer.
    fn bind_port(&mut self, socket: &OwnedFd, peer: Option<SocketAddr>) -> Option<SocketAddr> {
        let observer = self.observer.as_mut()?;
        let leaves = |peer: &SocketAddr| peer.ip() == peer.ip().to_canonical() && !peer.ip().is_loopback();
        if let Some(peer) = peer.filter(leaves) {
            // EINVAL if the program has bound the socket itself.
            if descriptor::bind(socket, peer.ip(), observer.next_port).is_ok() {
                observer.next_port = observer.next_port.and_then(|port| port.checked_add(1));
            }
        }
        let name = SockRef::from(socket).local_addr().ok()?;
        name.as_socket().filter(|address| address.port() != 0)
    }

    fn listen(&mut self, call: &Call) -> io::Result<()> {
        if let Some((_, socket)) = self.socket_of(call)? {
            // Keep a queue length that the program has set.
            if self.gives_queues && tcp::fastopen_queue(&socket)? == 0 {
                tcp::set_fastopen_queue(&socket, LISTENER_QUEUE)?;
            }
            self.traffic.listeners += 1;
        }
        Ok(())
    }

    /// Answers `getpeername` with the server's address while a Fast Open handshake is not complete, because
    /// TLS libraries send cleartext after ENOTCONN. Returns false if the kernel should answer instead.
    fn peer_name(&mut self, call: &Call) -> io::Result<bool> {
        let Some((task, socket)) = self.socket_of(call)? else { return Ok(false) };
        let connection = self.open.get(&cookie(&socket)?);
        let Some(peer) = connection.and_then(|connection| connection.peer) else { return Ok(false) };
        let info = tcp::info(&socket)?;
        let connect_succeeded = info.state == SYN_SENT && (info.segments_out == 0 || info.bytes_sent > 0);
        if !connect_succeeded {
            return Ok(false);
        }
        let [_, address, length, ..] = call.arguments;
        let mut room = [0; 4];
        task.read(length, &mut room)?;
        let name = descriptor::name(peer);
        let copied = name.len().min(u32::from_ne_bytes(room) as usize);
        task.write(address, &name[..copied])?;
        task.write(length, &(name.len() as u32).to_ne_bytes())?;
        Ok(true)
    }

    /// Makes the kernel send a SYN without data for each connection whose client has not written in time.
    fn check_deferred(&mut self) {
        let now_ns = monotonic_ns();
        let due = self.deferred.partition_point(|connect| connect.due_ns <= now_ns);
        for connect in self.deferred.drain(..due).collect::<Vec<_>>() {
            // Ignore errors: most of the sockets are already closed (EBADF or ESRCH).
            let _ = self.check(&connect);
        }
    }

    fn check(&mut self, connect: &DeferredConnect) -> io::Result<()> {
        let socket = connect.task.fetch(connect.descriptor)?;
        if cookie(&socket)? != connect.cookie {
            return Ok(());
        }
        let mut info = tcp::info(&socket)?;
        if info.state == SYN_SENT && info.segments_out == 0 {
            // Make the kernel send the SYN, with the cookie and without data. The call returns EINPROGRESS.
            let _ = SockRef::from(&socket).send_with_flags(&[], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
            self.traffic.begun_without_data += 1;
            info = tcp::info(&socket)?;
        }
        if let Some(connection) = self.open.get_mut(&connect.cookie) {
            connection.seen = Some(info);
        }
        Ok(())
    }

    fn handle_events(&mut self) {
        while let Some(report) = self.events.try_next() {
            self.count(report.cookie, &report.outcome);
        }
    }

    fn count(&mut self, cookie: u64, outcome: &Outcome) {
        let Some(connection) = self.open.remove(&cookie) else { return };
        let Connection { peer, local, opened_ns: at_ns, seen } = connection;
        let info = match outcome {
            Outcome::Known(info) => Some(*info),
            Outcome::Failed | Outcome::Unknown => seen,
        };
        if let (Some(observer), Some(peer)) = (&mut self.observer, peer) {
            observer.connections.push(Opened { at_ns, local, peer, info });
        }
        let counted = match (outcome, &info) {
            (Outcome::Failed, _) => Tally { connections: 1, failed: 1, ..Tally::default() },
            (_, Some(info)) => Tally::of(info),
            (_, None) => Tally { connections: 1, unknown: 1, ..Tally::default() },
        };
        self.tally(peer).add(&counted);
    }

    /// Returns the connections since the last call, including open ones, in the order of the `connect` calls.
    /// Later connections get client ports from `next_port` on; if it is `None`, the kernel chooses ports.
    pub(crate) fn connections(&mut self, next_port: Option<u16>) -> io::Result<Vec<Opened>> {
        self.count_all()?;
        let observer = self.observer.get_or_insert_default();
        observer.next_port = next_port;
        let mut connections = std::mem::take(&mut observer.connections);
        connections.sort_by_key(|connection| connection.at_ns);
        Ok(connections)
    }

    /// Returns counts of the connections that no earlier call has counted, including connections still open.
    pub(crate) fn traffic(&mut self) -> io::Result<Traffic> {
        self.count_all()?;
        let mut traffic = std::mem::take(&mut self.traffic);
        traffic.overrun = self.events.overrun;
        for (peer, tally) in std::mem::take(&mut self.peers) {
            traffic.total.add(&tally);
            let peer = peer.map_or_else(|| "others".to_owned(), |peer| peer.to_string());
            traffic.peers.push(Peer { peer, tally });
        }
        traffic.peers.sort_by_key(|peer| std::cmp::Reverse(peer.tally.connections));
        Ok(traffic)
    }

    fn count_all(&mut self) -> io::Result<()> {
        self.handle_events();
        for report in open_sockets()? {
            self.count(report.cookie, &report.outcome);
        }
        // The kernel no longer lists a destroyed socket, but may send its event later (from a workqueue).
        let until_ns = monotonic_ns() + DESTROY_EVENTS_TIMEOUT_NS;
        while !self.open.is_empty() {
            let Some(left_ns) = until_ns.checked_sub(monotonic_ns()) else { break };
            wait_readable(&[self.events.as_fd()], Some(left_ns))?;
            self.handle_events();
        }
        for cookie in self.open.keys().copied().collect::<Vec<_>>() {
            self.count(cookie, &Outcome::Unknown);
        }
        Ok(())
    }

    /// Returns a server's tally. Servers after the first [`PEERS`] and unknown servers share one tally.
    fn tally(&mut self, peer: Option<SocketAddr>) -> &mut Tally {
        let is_separate = self.peers.len() < PEERS || self.peers.contains_key(&peer);
        self.peers.entry(peer.filter(|_| is_separate)).or_default()
    }

    fn count_failure(&mut self, error: &io::Error) {
        let reason = match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ESRCH) => return, // the calling thread has ended
            Some(Errno::EPERM | Errno::EACCES) => "the system protects the process",
            Some(Errno::EOPNOTSUPP) => "net.ipv4.tcp_fastopen lacks the client bit",
            _ => "the kernel refused",
        };
        *self.traffic.not_helped.entry(reason).or_default() += 1;
    }
}

/// Reads the server's address that a call passes from the calling thread's memory; `None` if this fails.
fn peer_of(call: &Call, task: &Task) -> Option<SocketAddr> {
    let [_, second, third, _, fifth, sixth] = call.arguments;
    let (address, length) = match call.number {
        libc::SYS_connect => (second, third),
        libc::SYS_sendto => (fifth, sixth),
        // `struct msghdr` begins with the address's pointer and length, and `struct mmsghdr` with a msghdr.
        _ => {
            let (mut address, mut length) = ([0; 8], [0; 4]);
            task.read(second, &mut address).ok()?;
            task.read(second + 8, &mut length).ok()?;
            (u64::from_ne_bytes(address), u32::from_ne_bytes(length).into())
        }
    };
    let mut bytes = [0; 28];
    let length = (length as usize).min(bytes.len());
    task.read(address, &mut bytes[..length]).ok()?;
    descriptor::address(&bytes[..length])
}

//! Helps the held calls of a command and of all that it starts, and keeps account of their connections.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::tcp::{self, TcpInfo};
use nix::errno::Errno;
use nix::poll::PollFlags;

use crate::descriptor;
use crate::diag::{self, Ends, Fate, Word};
use crate::listener::{Call, Listener};
use crate::report::{Peer, Traffic};
use crate::tally::Tally;
use crate::task::Task;
use crate::waiting::{Waiter, Waiting};

/// `TCP_SYN_SENT` of `include/net/tcp_states.h`: the state of a connection that waits for its first write, too.
const SYN_SENT: u8 = 2;
/// How many connections with data in the SYN a listener may hold unacknowledged; the world's origins have the same.
const LISTENER_QUEUE: i32 = 4096;
/// How many peers are told apart.
const PEERS: usize = 1000;
/// How long to wait, once the command has ended, for the kernel's last words on its sockets.
const LAST_WORDS_NS: u64 = 100_000_000;

/// A connection that has not ended, as far as is known.
struct Connection {
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
    opened_ns: u64,
    /// What was seen of it on the way, for the case that its end is not told.
    seen: Option<TcpInfo>,
}

/// Everything known of the command's sockets.
pub(crate) struct Supervisor {
    pub(crate) listener: Listener,
    pub(crate) ends: Ends,
    namespace: u64,
    waiting: Waiting,
    /// Whose call was held last.
    last_task: Option<Rc<Task>>,
    living: BTreeMap<u64, Connection>,
    peers: BTreeMap<Option<SocketAddr>, Tally>,
    traffic: Traffic,
    /// Where connections are told one by one.
    pub(crate) told: Option<Told>,
}

/// Connections told one by one, also those that Fast Open is switched off for.
#[derive(Default)]
pub(crate) struct Told {
    /// The port of the next connection; none: the kernel chooses.
    pub(crate) next_port: Option<u16>,
    /// Those that have ended, or were asked for.
    pub(crate) known: Vec<Opened>,
}

/// A connection that was opened under interception.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// When `connect` was called, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// The client's end.
    pub local: Option<SocketAddr>,
    /// The server's end.
    pub peer: SocketAddr,
    /// What the kernel says of the client's socket; none where it has forgotten.
    pub info: Option<TcpInfo>,
}

impl Supervisor {
    pub(crate) fn new(listener: OwnedFd, ends: Ends, patience_ns: u64) -> Self {
        Self {
            listener: Listener::new(listener),
            namespace: ends.namespace(),
            ends,
            waiting: Waiting::new(patience_ns),
            last_task: None,
            living: BTreeMap::new(),
            peers: BTreeMap::new(),
            traffic: Traffic::default(),
            told: None,
        }
    }

    /// How long it has nothing to do of its own accord.
    pub(crate) fn timeout_ns(&self) -> Option<u64> {
        self.waiting.timeout_ns(monotonic_ns())
    }

    /// Answers a held call if there is one; false: nobody is under the filter any more.
    pub(crate) fn answer_if_held(&mut self) -> io::Result<bool> {
        let ready = self.listener.ready();
        if ready.contains(PollFlags::POLLIN) {
            self.answer_call()?;
        }
        Ok(!ready.contains(PollFlags::POLLHUP))
    }

    /// Answers one held call.
    pub(crate) fn answer_call(&mut self) -> io::Result<()> {
        let Some(call) = self.listener.receive()? else { return Ok(()) };
        let answered = match call.number {
            libc::SYS_connect => self.connect(&call).map(|()| false),
            libc::SYS_listen => self.listen(&call).map(|()| false),
            _ => self.peer_name(&call),
        };
        // A call that could not be helped is the kernel's affair, as if nobody had looked.
        if let Err(error) = &answered {
            self.note(error);
        }
        if !answered.unwrap_or(false) {
            self.listener.carry_out(&call);
        }
        Ok(())
    }

    /// The thread of a call and the TCP socket that the call is about. None: it is about something else.
    fn socket_of(&mut self, call: &Call) -> io::Result<Option<(Rc<Task>, OwnedFd)>> {
        let (task, fetched) = self.fetch(call)?;
        let descriptor = match fetched {
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => return Ok(None),
            fetched => fetched?,
        };
        // Only now: as long as the call waits, the thread's number was its own.
        let is_meant = descriptor::is_tcp(&descriptor) && self.listener.waits(call);
        Ok(is_meant.then_some((task, descriptor)))
    }

    /// The thread of a call and what is behind its descriptor. One thread often makes many calls, so its handle is kept.
    fn fetch(&mut self, call: &Call) -> io::Result<(Rc<Task>, io::Result<OwnedFd>)> {
        if let Some(task) = self.last_task.clone().filter(|task| task.is_good_for(call.thread)) {
            let fetched = task.fetch(call.descriptor());
            if !matches!(&fetched, Err(error) if error.raw_os_error() == Some(libc::ESRCH)) {
                return Ok((task, fetched));
            }
        }
        let task = Rc::new(Task::open(call.thread)?);
        self.last_task = Some(task.clone());
        let fetched = task.fetch(call.descriptor());
        Ok((task, fetched))
    }

    fn connect(&mut self, call: &Call) -> io::Result<()> {
        let Some((task, socket)) = self.socket_of(call)? else { return Ok(()) };
        let mut bytes = [0; 28];
        let length = (call.arguments[2] as usize).min(bytes.len());
        let peer = match task.read(call.arguments[1], &mut bytes[..length]) {
            Ok(()) => descriptor::address(&bytes[..length]),
            Err(_) => None,
        };
        let cookie = descriptor::cookie(&socket)?;
        let helped = match tcp::set_fastopen_connect(&socket) {
            // It is connected or on its way: a program may ask again how far it is.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
            // Where connections are told, those without are told as well.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) && self.told.is_some() => {
                if self.living.contains_key(&cookie) {
                    return Ok(());
                }
                false
            }
            done => done.map(|()| true)?,
        };
        let opened_ns = monotonic_ns();
        let local = self.name_port(&socket, peer);
        if descriptor::namespace(&socket) == self.namespace {
            self.living.insert(cookie, Connection { peer, local, opened_ns, seen: None });
        } else {
            self.tally(peer).count_elsewhere();
        }
        if helped {
            self.waiting.add(opened_ns, task, call.descriptor(), cookie);
        }
        Ok(())
    }

    /// Gives a connection that is told its port before the kernel does, by which the server's end knows it.
    fn name_port(&mut self, socket: &OwnedFd, peer: Option<SocketAddr>) -> Option<SocketAddr> {
        let told = self.told.as_mut()?;
        if peer.is_some_and(|peer| peer.is_ipv4() && !peer.ip().is_loopback()) {
            // A program that has bound it itself has its reasons.
            if descriptor::bind(socket, told.next_port).is_ok() {
                told.next_port = told.next_port.and_then(|port| port.checked_add(1));
            }
        }
        descriptor::local(socket)
    }

    fn listen(&mut self, call: &Call) -> io::Result<()> {
        if let Some((_, socket)) = self.socket_of(call)? {
            tcp::set_fastopen_queue(&socket, LISTENER_QUEUE)?;
            self.traffic.listeners += 1;
        }
        Ok(())
    }

    /// Tells the peer of a connection that waits for its first write; true: that is done. The kernel would deny that there is one,
    /// though `connect` has succeeded, and a TLS library would take the connection for none and send in the clear.
    fn peer_name(&mut self, call: &Call) -> io::Result<bool> {
        let Some((task, socket)) = self.socket_of(call)? else { return Ok(false) };
        let Some(peer) = self.living.get(&descriptor::cookie(&socket)?).and_then(|known| known.peer) else {
            return Ok(false);
        };
        if descriptor::has_peer(&socket) {
            return Ok(false);
        }
        let info = tcp::info(&socket)?;
        let as_good_as_connected = info.state == SYN_SENT && (info.segments_out == 0 || info.bytes_sent > 0);
        if !as_good_as_connected {
            return Ok(false);
        }
        let [_, address, length, ..] = call.arguments;
        let mut room = [0; 4];
        task.read(length, &mut room)?;
        let name = descriptor::name(peer);
        let given = name.len().min(u32::from_ne_bytes(room) as usize);
        task.write(address, &name[..given])?;
        task.write(length, &(name.len() as u32).to_ne_bytes())?;
        if self.listener.waits(call) {
            self.listener.succeed(call);
        }
        Ok(true)
    }

    /// Looks at connections that may be waiting for a first write that does not come.
    pub(crate) fn look_after_waiting(&mut self) {
        let now_ns = monotonic_ns();
        while let Some(waiter) = self.waiting.next_due(now_ns) {
            // Closed meanwhile, most of them.
            let _ = self.look_after(&waiter);
        }
    }

    fn look_after(&mut self, waiter: &Waiter) -> io::Result<()> {
        let socket = waiter.task.fetch(waiter.descriptor)?;
        if descriptor::cookie(&socket)? != waiter.cookie {
            return Ok(());
        }
        let mut info = tcp::info(&socket)?;
        if info.state == SYN_SENT && info.segments_out == 0 {
            descriptor::begin_handshake(&socket);
            self.traffic.begun_without_data += 1;
            info = tcp::info(&socket)?;
        }
        if let Some(connection) = self.living.get_mut(&waiter.cookie) {
            connection.seen = Some(info);
        }
        Ok(())
    }

    /// Takes account of the sockets that have ended.
    pub(crate) fn hear_ends(&mut self) {
        while let Some(word) = self.ends.next() {
            self.account(&word);
        }
    }

    fn account(&mut self, word: &Word) {
        let Some(connection) = self.living.remove(&word.cookie) else { return };
        if let (Some(told), Some(peer)) = (&mut self.told, connection.peer) {
            let info = match word.fate {
                Fate::Known(info) => Some(info),
                Fate::Failed | Fate::Unknown => connection.seen,
            };
            told.known.push(Opened { at_ns: connection.opened_ns, local: connection.local, peer, info });
        }
        match (&word.fate, connection.seen) {
            (Fate::Known(info), _) => self.tally(connection.peer).count(info),
            (Fate::Failed, _) => self.tally(connection.peer).count_failed(),
            (Fate::Unknown, Some(info)) => self.tally(connection.peer).count(&info),
            (Fate::Unknown, None) => self.tally(connection.peer).count_unknown(),
        }
    }

    /// The connections since this was asked last, those that still live included, in order of opening; and the port of the next.
    pub(crate) fn connections(&mut self, next_port: Option<u16>) -> io::Result<Vec<Opened>> {
        self.account_for_all()?;
        let told = self.told.get_or_insert_default();
        told.next_port = next_port;
        let mut known = std::mem::take(&mut told.known);
        known.sort_by_key(|connection| connection.at_ns);
        Ok(known)
    }

    /// Everything seen so far, what still lives included. Takes account of it for good.
    pub(crate) fn traffic(&mut self) -> io::Result<Traffic> {
        self.account_for_all()?;
        Ok(self.summary())
    }

    fn account_for_all(&mut self) -> io::Result<()> {
        self.hear_ends();
        for word in diag::living()? {
            self.account(&word);
        }
        // What has just ended is told a little later, by a worker of the kernel's.
        let until_ns = monotonic_ns() + LAST_WORDS_NS;
        while !self.living.is_empty() {
            let Some(left_ns) = until_ns.checked_sub(monotonic_ns()) else { break };
            fastopen_netns::poll::wait_readable(&[std::os::fd::AsFd::as_fd(&self.ends)], Some(left_ns))?;
            self.hear_ends();
        }
        for cookie in self.living.keys().copied().collect::<Vec<_>>() {
            self.account(&Word { cookie, fate: Fate::Unknown });
        }
        Ok(())
    }

    fn summary(&mut self) -> Traffic {
        let mut traffic = std::mem::take(&mut self.traffic);
        traffic.overrun = self.ends.overrun;
        for (peer, tally) in std::mem::take(&mut self.peers) {
            traffic.total.add(&tally);
            let peer = peer.map_or_else(|| "others".to_owned(), |peer| peer.to_string());
            traffic.peers.push(Peer { peer, tally });
        }
        traffic.peers.sort_by_key(|peer| std::cmp::Reverse(peer.tally.connections));
        traffic
    }

    fn tally(&mut self, peer: Option<SocketAddr>) -> &mut Tally {
        let known = self.peers.len() < PEERS || self.peers.contains_key(&peer);
        self.peers.entry(peer.filter(|_| known)).or_default()
    }

    fn note(&mut self, error: &io::Error) {
        let reason = match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ESRCH) => return, // its thread has ended
            Some(Errno::EPERM | Errno::EACCES) => "the system protects the process",
            Some(Errno::EOPNOTSUPP) => "net.ipv4.tcp_fastopen lacks the client bit",
            _ => "the kernel refused",
        };
        *self.traffic.not_helped.entry(reason).or_default() += 1;
    }
}

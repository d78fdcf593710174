//! Reads an external server's sockets (`sock_diag`), and sets the lengths of its listeners' Fast Open queues.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fastopen_netns::namespace::NetNs;
use fastopen_netns::poll::wait_readable;
use fastopen_netns::process::socket_of_inode;
use fastopen_netns::sock_diag::{DestroyEvents, Outcome, SocketReport, open_sockets};
use fastopen_netns::tcp::{self, ESTABLISHED, LISTEN, TcpInfo};
use fastopen_netns::{Error, Result};
use fastopen_replay::sockets::FourTuple;

use super::{INTERVAL, PORT};

/// Maximum time for the kernel's work queue to report a destroyed socket (`net/core/sock_diag.c`).
const DESTROY_EVENTS_TIMEOUT: Duration = Duration::from_millis(100);

/// A listener.
#[derive(Debug, Clone, Copy)]
pub struct Listening {
    /// The address (`0.0.0.0` or `::` if the listener accepts connections to any address) and the port.
    pub at: SocketAddr,
    inode: u32,
}

impl Listening {
    /// Returns true if the listener accepts connections to this address.
    pub fn accepts(&self, address: IpAddr) -> bool {
        // `::` also accepts IPv4, unless the program has set IPV6_V6ONLY.
        let own = self.at.ip();
        own == address || own.is_unspecified() && (own.is_ipv6() || address.is_ipv4())
    }
}

/// An external server's sockets in one network namespace: its listeners, and the connections to [`PORT`].
pub struct ServerSockets {
    namespace: NetNs,
    /// Subscription to reports of destroyed sockets; None if only open sockets are observed.
    events: Option<RefCell<DestroyEvents>>,
    closed: RefCell<BTreeMap<FourTuple, TcpInfo>>,
}

impl ServerSockets {
    /// Observes the sockets of the calling thread's network namespace, which must be `namespace`. If
    /// `destroyed` is true, also observes sockets that are destroyed, which costs the kernel some time.
    pub fn observe(namespace: NetNs, destroyed: bool) -> io::Result<Self> {
        let events = destroyed.then(DestroyEvents::subscribe).transpose()?.map(RefCell::new);
        Ok(Self { namespace, events, closed: RefCell::default() })
    }

    fn open(&self) -> Result<Vec<SocketReport>> {
        self.namespace.run(|| open_sockets().map_err(|error| Error::other("listing TCP sockets", error)))
    }

    pub fn listening(&self) -> Result<Vec<Listening>> {
        let listening = |report: SocketReport| {
            let Outcome::Known(info) = report.outcome else { return None };
            (info.state == LISTEN).then_some(Listening { at: report.local, inode: report.inode })
        };
        Ok(self.open()?.into_iter().filter_map(listening).collect())
    }

    /// Maps each address with listeners on [`PORT`] to the maximum length of the Fast Open queue: the
    /// smallest maximum if there are several listeners, and None if the maximum of a listener cannot be read.
    pub fn queues(&self) -> Result<BTreeMap<IpAddr, Option<u32>>> {
        let mut queues = BTreeMap::new();
        for one in self.listening()?.into_iter().filter(|one| one.at.port() == PORT) {
            let socket = socket_of_inode(one.inode);
            let queue = socket.and_then(|socket| tcp::fastopen_queue(socket).ok()?.try_into().ok());
            let least = queues.entry(one.at.ip()).or_insert(queue);
            *least = (*least).min(queue);
        }
        Ok(queues)
    }

    /// Gives a Fast Open queue of maximum length `queue` to each listener on [`PORT`] that has none.
    pub fn set_missing_queues(&self, queue: u16) -> Result<()> {
        for one in self.listening()?.into_iter().filter(|one| one.at.port() == PORT) {
            let set = || {
                let socket = socket_of_inode(one.inode).ok_or(io::ErrorKind::NotFound)?;
                if tcp::fastopen_queue(&socket)? == 0 {
                    tcp::set_fastopen_queue(&socket, queue.into())?;
                }
                Ok::<_, io::Error>(())
            };
            set().map_err(|error| Error::other(format!("the listener on {}", one.at), error))?;
        }
        Ok(())
    }

    /// Returns `TCP_INFO` of each connection that is open or was destroyed since the last [`Self::forget`].
    pub fn evidence(&self) -> Result<BTreeMap<FourTuple, TcpInfo>> {
        let open = self.open()?;
        self.handle_events();
        let mut evidence = self.closed.borrow().clone();
        evidence.extend(open.iter().filter_map(connection));
        Ok(evidence)
    }

    /// Adds `TCP_INFO` of destroyed connections to `evidence`, without replacing existing entries. If any of
    /// the connections `wanted` is then still missing, waits for reports, up to `DESTROY_EVENTS_TIMEOUT`.
    pub fn complete(&self, evidence: &mut BTreeMap<FourTuple, TcpInfo>, wanted: &BTreeSet<FourTuple>) {
        let until = Instant::now() + DESTROY_EVENTS_TIMEOUT;
        loop {
            self.handle_events();
            for (four_tuple, info) in self.closed.borrow().iter() {
                evidence.entry(*four_tuple).or_insert(*info);
            }
            let Some(events) = &self.events else { return };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || wanted.iter().all(|one| evidence.contains_key(one)) {
                return;
            }
            let _ = wait_readable(&[events.borrow().as_fd()], Some(left.as_nanos() as u64));
        }
    }

    /// Waits until a connection from `client` is established. Returns false if none is established in time.
    pub fn wait_until_established(&self, client: SocketAddr, timeout: Duration) -> Result<bool> {
        self.wait(timeout, |sockets| {
            let is_it = |(four_tuple, info): (FourTuple, TcpInfo)| {
                four_tuple.client == client && info.state == ESTABLISHED
            };
            sockets.iter().filter_map(connection).any(is_it)
        })
    }

    /// Waits until no connection to the server is open. Returns false if one is still open after `timeout`.
    pub fn wait_until_closed(&self, timeout: Duration) -> Result<bool> {
        self.wait(timeout, |sockets| !sockets.iter().any(|one| connection(one).is_some()))
    }

    fn wait(&self, timeout: Duration, done: impl Fn(Vec<SocketReport>) -> bool) -> Result<bool> {
        let until = Instant::now() + timeout;
        while !done(self.open()?) {
            if Instant::now() > until {
                return Ok(false);
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(true)
    }

    /// Discards the evidence of connections that have been destroyed so far.
    pub fn forget(&self) {
        self.handle_events();
        self.closed.borrow_mut().clear();
    }

    fn handle_events(&self) {
        let Some(events) = &self.events else { return };
        let (mut events, mut closed) = (events.borrow_mut(), self.closed.borrow_mut());
        while let Some(report) = events.try_next() {
            closed.extend(connection(&report));
        }
    }
}

/// Returns four-tuple and `TCP_INFO` of a connection to [`PORT`]; None for others or without `TCP_INFO`.
fn connection(report: &SocketReport) -> Option<(FourTuple, TcpInfo)> {
    let (origin, client) = (report.local, report.peer);
    match &report.outcome {
        Outcome::Known(info) if origin.port() == PORT && info.state != LISTEN => {
            Some((FourTuple { client, origin }, *info))
        }
        _ => None,
    }
}

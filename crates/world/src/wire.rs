//! Moves real packets through the link model: a thread between the client's and the origins' end of the link.
//!
//! A packet enters the model at the time the kernel stamped it, not when this thread came round to it, so a late wake-up
//! delays nothing that is not due yet. What is due is sent at once, and how late each packet left is kept as evidence.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use fastopen_link::{ConfigError, Direction, DirectionConfig, Flight, Nanos};
use fastopen_netns::clock::{exact_timers, monotonic_ns};
use fastopen_netns::packet::{ETHERNET_HEADER, PacketPort};
use fastopen_netns::poll::{Timer, Waker, wait_readable};
use fastopen_netns::process::set_time_slice;

use crate::link::{DirectionReport, LinkConfig, LinkReport};
use crate::topology::origin_number;

/// Frames taken from one end before the other gets its turn.
const BATCH: usize = 64;
/// Longest turn of the link's thread on a processor that others want too.
const SLICE_NS: u64 = 100_000;
/// Frame buffers kept for reuse.
const POOL: usize = 4096;

enum Command {
    /// Drop what is queued, be this from now on.
    Configure(Box<LinkConfig>, Sender<Result<(), ConfigError>>),
    Report(Sender<LinkReport>),
}

/// A running link. It stops when dropped.
pub struct Wire {
    commands: Option<Sender<Command>>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Starts the link's thread. `spin` is how long before a packet is due the thread stops sleeping and watches the clock: it
    /// buys exactness with processor time, and must be 0 where virtual time stands still while anybody runs.
    ///
    /// # Errors
    /// Where there are no descriptors left, or with an impossible configuration.
    pub fn start(
        client: PacketPort,
        origins: PacketPort,
        config: LinkConfig,
        spin: Nanos,
    ) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        let (commands, received) = channel();
        let directions = Directions::new(config).map_err(io::Error::other)?;
        let driver = Driver {
            client,
            origins,
            directions,
            commands: received,
            waker: waker.clone(),
            timer: Timer::new()?,
            spin,
            pool: Vec::new(),
        };
        let thread = thread::Builder::new().name("wire".into()).spawn(move || {
            exact_timers();
            set_time_slice(SLICE_NS);
            driver.run();
        })?;
        Ok(Self { commands: Some(commands), waker, thread: Some(thread) })
    }

    /// Drops what is under way and not due yet, forgets the counts, and is a new link from now on.
    ///
    /// # Errors
    /// With an impossible configuration; the link stays what it was.
    pub fn configure(&self, config: LinkConfig) -> Result<(), ConfigError> {
        let (reply, answer) = channel();
        self.command(Command::Configure(Box::new(config), reply));
        answer.recv().expect("the wire answers")
    }

    /// What happened since the last [`Wire::configure`].
    pub fn report(&self) -> LinkReport {
        let (reply, answer) = channel();
        self.command(Command::Report(reply));
        answer.recv().expect("the wire answers")
    }

    fn command(&self, command: Command) {
        let commands = self.commands.as_ref().expect("it is taken on drop only");
        commands.send(command).expect("the wire runs");
        self.waker.wake();
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.commands = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One direction: its model, what is due, and how late it left.
struct Lane {
    /// On the way from hosts that are further away than the link's other end.
    approaching: Flight<Vec<u8>>,
    /// When the latest frame set out.
    latest: Nanos,
    model: Direction<Vec<u8>>,
    due: VecDeque<Vec<u8>>,
    late_ns: Vec<u64>,
    overruns: u32,
}

impl Lane {
    fn new(config: DirectionConfig) -> Result<Self, ConfigError> {
        let seed = config.seed;
        let mut model = Direction::new(config)?;
        // A trace begins now, so that loads to be compared meet the same link.
        model.restart(monotonic_ns(), seed);
        Ok(Self {
            approaching: Flight::new(),
            latest: 0,
            model,
            due: VecDeque::new(),
            late_ns: Vec::new(),
            overruns: 0,
        })
    }

    /// Lets a frame set out from its host, which is `extra_delay` away from the link.
    fn approach(&mut self, at: Nanos, extra_delay: Nanos, frame: Vec<u8>) {
        self.latest = self.latest.max(at);
        self.approaching.push(self.latest, 0, extra_delay, frame);
    }

    /// Gives the model a frame that is at its beginning at this moment.
    fn offer(&mut self, at: Nanos, extra_delay: Nanos, frame: Vec<u8>, pool: &mut Vec<Vec<u8>>) {
        let bytes = (frame.len() - ETHERNET_HEADER) as u32;
        if let Err(dropped) = self.model.offer(at, bytes, extra_delay, frame) {
            recycle(pool, dropped.packet);
        }
    }

    /// When something is to be done next, if nothing arrives.
    fn next_due(&self) -> Option<Nanos> {
        self.approaching.next_due().into_iter().chain(self.model.next_release()).min()
    }

    /// Sends all that is due by now through `port`. Returns whether there was any.
    fn send_due(&mut self, port: &PacketPort, pool: &mut Vec<Vec<u8>>) -> bool {
        let now = monotonic_ns();
        while let Some((at, frame)) = self.approaching.pop(now) {
            self.offer(at, 0, frame, pool);
        }
        while let Some((due, frame)) = self.model.release(now) {
            self.late_ns.push(now - due);
            self.due.push_back(frame);
        }
        if self.due.is_empty() {
            return false;
        }
        let sent = port.send(&mut self.due, |frame| recycle(pool, frame));
        if let Err(error) = sent {
            // A full buffer passes; an interface that is gone takes its packets with it.
            if error.kind() != io::ErrorKind::WouldBlock && error.raw_os_error() != Some(105) {
                self.overruns += self.due.len() as u32;
                self.due.drain(..).for_each(|frame| recycle(pool, frame));
            }
        }
        true
    }

    fn report(&mut self) -> DirectionReport {
        self.late_ns.sort_unstable();
        let quantile = |share: f64| {
            let last = self.late_ns.len().saturating_sub(1);
            self.late_ns.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
        };
        DirectionReport {
            stats: self.model.stats(),
            queue_watched: true,
            late_ns: [quantile(0.5), quantile(0.99), quantile(1.0)],
            overruns: self.overruns,
        }
    }
}

struct Directions {
    down: Lane,
    up: Lane,
    extra_delay: Vec<Nanos>,
}

impl Directions {
    fn new(config: LinkConfig) -> Result<Self, ConfigError> {
        Ok(Self { down: Lane::new(config.down)?, up: Lane::new(config.up)?, extra_delay: config.extra_delay })
    }
}

struct Driver {
    client: PacketPort,
    origins: PacketPort,
    directions: Directions,
    commands: Receiver<Command>,
    waker: Arc<Waker>,
    timer: Timer,
    spin: Nanos,
    pool: Vec<Vec<u8>>,
}

impl Driver {
    fn run(mut self) {
        while self.obey() {
            let received = self.receive();
            let sent_down = self.directions.down.send_due(&self.client, &mut self.pool);
            let sent_up = self.directions.up.send_due(&self.origins, &mut self.pool);
            if !(received || sent_down || sent_up) {
                self.wait();
            }
        }
    }

    /// Carries out what was commanded. Returns false when nobody commands any more.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Configure(config, reply)) => {
                    self.finish();
                    let made = Directions::new(*config).map(|directions| self.directions = directions);
                    let _ = reply.send(made);
                }
                Ok(Command::Report(reply)) => {
                    self.directions.up.overruns += self.client.take_overruns().unwrap_or(0);
                    self.directions.down.overruns += self.origins.take_overruns().unwrap_or(0);
                    let (down, up) = (self.directions.down.report(), self.directions.up.report());
                    let _ = reply.send(LinkReport { down, up });
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Packets that arrived before a new configuration belong to the old one: those that are due by now still leave. Where the old
    /// one holds nothing up that is all of them, the resets of connections among them.
    fn finish(&mut self) {
        while self.receive() {}
        self.directions.down.send_due(&self.client, &mut self.pool);
        self.directions.up.send_due(&self.origins, &mut self.pool);
        let _ = (self.client.take_overruns(), self.origins.take_overruns());
    }

    fn receive(&mut self) -> bool {
        let Self { client, origins, directions: Directions { down, up, extra_delay }, pool, .. } = self;
        let extra = |address: &[u8]| {
            let number = address.try_into().ok().and_then(origin_number);
            number.and_then(|number| extra_delay.get(number)).copied().unwrap_or(0)
        };
        // Source and destination address stand at bytes 12 and 16 of an IPv4 header (RFC 791 section 3.1).
        let from_client = client.receive(BATCH, |at, frame| {
            if let Some(address) = frame.get(ETHERNET_HEADER + 16..ETHERNET_HEADER + 20) {
                let frame = copied(pool, frame);
                up.offer(at, extra(address), frame, pool);
            }
        });
        let from_origins = origins.receive(BATCH, |at, frame| {
            if let Some(address) = frame.get(ETHERNET_HEADER + 12..ETHERNET_HEADER + 16) {
                down.approach(at, extra(address), copied(pool, frame));
            }
        });
        from_client + from_origins > 0
    }

    /// Sleeps until a packet arrives, one is due, or a command comes.
    fn wait(&mut self) {
        let Directions { down, up, .. } = &self.directions;
        let next = down.next_due().into_iter().chain(up.next_due()).min();
        let now = monotonic_ns();
        let left = next.map(|due| due.saturating_sub(now));
        match left {
            Some(left) if left <= self.spin => {
                while monotonic_ns() < now + left && !self.client.is_readable() && !self.origins.is_readable()
                {
                    std::hint::spin_loop();
                }
            }
            _ => {
                let set = self.timer.set(next.map(|due| due.max(now) - self.spin));
                let ends = [self.client.as_fd(), self.origins.as_fd(), self.waker.as_fd()];
                let waited =
                    set.and_then(|()| wait_readable(&[&ends[..], &[self.timer.as_fd()]].concat(), None));
                debug_assert!(waited.is_ok(), "{waited:?}");
                self.waker.clear();
            }
        }
    }
}

fn copied(pool: &mut Vec<Vec<u8>>, frame: &[u8]) -> Vec<u8> {
    let mut buffer = pool.pop().unwrap_or_else(|| Vec::with_capacity(1600));
    buffer.clear();
    buffer.extend_from_slice(frame);
    buffer
}

fn recycle(pool: &mut Vec<Vec<u8>>, frame: Vec<u8>) {
    if pool.len() < POOL {
        pool.push(frame);
    }
}

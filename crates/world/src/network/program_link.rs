//! Forwards real packets through the link model, in a thread between both ends of the link.
//!
//! A packet enters the model at the time of its kernel timestamp, not when this thread received it, so a late
//! wake-up does not delay packets that are due later. Due packets are sent at once. The lateness of a packet
//! is the time from its due time to its sending; the median, 99th percentile and maximum are reported.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use fastopen_link::ip::{self, Header};
use fastopen_link::stage::Datagram;
use fastopen_link::{DelayLine, Direction, Nanos, Stats};
use fastopen_netns::actor::Actor;
use fastopen_netns::clock::{exact_timers, monotonic_ns};
use fastopen_netns::packet::{ETHERNET_HEADER, PacketSocket};
use fastopen_netns::poll::{Timer, Waker, wait_readable};
use fastopen_netns::process::set_time_slice;

use crate::contract::{LinkDirectionRecord, LinkRecord};
use crate::network::link_config::LinkConfig;

/// Maximum number of frames received from one end before frames from the other end are received.
const BATCH: usize = 64;
/// Time slice in nanoseconds of the forwarder's thread on a processor that other threads also use.
const SLICE_NS: u64 = 100_000;
/// Size of an Ethernet address in bytes. A frame begins with the addresses of its destination and its source.
const MAC_ADDRESS: usize = 6;

enum Command {
    /// Send the packets that are due, discard the rest, and use this configuration.
    Configure(Box<LinkConfig>, Sender<()>),
    Report(Sender<LinkRecord>),
}

/// A running link. Dropping it stops the link.
pub struct Forwarder(Actor<Command>);

impl Forwarder {
    /// Starts the forwarder's thread. The link has no delay or loss until it is configured. In the last
    /// `spin` nanoseconds before a packet is due, the thread polls the clock instead of sleeping, which is
    /// more exact. `spin` must be 0 in virtual time, which advances only while all threads sleep.
    pub fn start(client: PacketSocket, origins: PacketSocket, spin: Nanos) -> io::Result<Self> {
        let (config, timer) = (LinkConfig::default(), Timer::new()?);
        let (down, up) = directions(&config);
        let forward = move |commands, waker| {
            exact_timers();
            set_time_slice(SLICE_NS);
            Worker { client, origins, down, up, config, commands, waker, timer, spin }.run();
        };
        Ok(Self(Actor::start("forwarder", forward)?))
    }

    /// Applies a new configuration: discards the packets that are not due yet, and resets the counts.
    pub fn configure(&self, config: LinkConfig) {
        self.0.ask(|reply| Command::Configure(Box::new(config), reply)).expect("the forwarder runs");
    }

    /// Returns packet counts since the last [`Forwarder::configure`], and the lateness of packets since the
    /// last report.
    pub fn report(&self) -> LinkRecord {
        self.0.ask(Command::Report).expect("the forwarder runs")
    }
}

struct Frame(Vec<u8>);

impl Datagram for Frame {
    fn ip(&mut self) -> &mut [u8] {
        &mut self.0[ETHERNET_HEADER..]
    }
}

/// One direction of the link: its model and the frames that it forwards.
struct ForwardedDirection {
    /// Frames that have left their host and have not reached the link yet.
    before: DelayLine<Frame>,
    /// The latest time at which a frame left its host.
    latest: Nanos,
    model: Direction<Frame>,
    due: VecDeque<Vec<u8>>,
    late_ns: Vec<u64>,
    overruns: u32,
}

impl ForwardedDirection {
    fn new(model: Direction<Frame>) -> Self {
        Self {
            before: DelayLine::default(),
            latest: 0,
            model,
            due: VecDeque::new(),
            late_ns: Vec::new(),
            overruns: 0,
        }
    }

    /// Queues a frame that its host sends at `at`, so that it enters the link after `extra_delay`.
    fn enqueue_at_host(&mut self, at: Nanos, extra_delay: Nanos, frame: Frame) {
        self.latest = self.latest.max(at);
        self.before.push(self.latest, extra_delay, frame);
    }

    /// Puts a frame on the link at time `at`, with an additional delay.
    fn enqueue(&mut self, at: Nanos, extra_delay: Nanos, frame: Frame) {
        let bytes = (frame.0.len() - ETHERNET_HEADER) as u32;
        // The model counts the frames that it drops.
        let _ = self.model.offer(at, bytes, extra_delay, frame);
    }

    /// Queues a middlebox's answer to a frame, to be sent back at `at`. Swaps the Ethernet addresses.
    fn enqueue_answer(&mut self, at: Nanos, mut frame: Frame) {
        let length = ip::length(frame.ip()).unwrap_or(0);
        frame.0.truncate(ETHERNET_HEADER + length);
        for byte in 0..MAC_ADDRESS {
            frame.0.swap(byte, MAC_ADDRESS + byte);
        }
        self.before.push(at, 0, frame);
    }

    fn next_due(&self) -> Option<Nanos> {
        self.before.next_due().into_iter().chain(self.model.next_release()).min()
    }

    /// Sends the frames that are due. Returns true if there were any.
    fn send_due(&mut self, socket: &PacketSocket) -> bool {
        let now = monotonic_ns();
        while let Some((at, frame)) = self.before.pop(now) {
            self.enqueue(at, 0, frame);
        }
        while let Some((due, frame)) = self.model.release(now) {
            self.late_ns.push(now - due);
            self.due.push_back(frame.0);
        }
        if self.due.is_empty() {
            return false;
        }
        if socket.send(&mut self.due).is_err() {
            // The interface may have been removed. Its packets are lost.
            self.overruns += self.due.len() as u32;
            self.due.clear();
        }
        true
    }

    fn report(&mut self) -> LinkDirectionRecord {
        self.late_ns.sort_unstable();
        let late_us = |share: f64| {
            let last = self.late_ns.len().saturating_sub(1);
            self.late_ns.get((last as f64 * share).round() as usize).copied().unwrap_or(0) / 1000
        };
        let Stats { packets, bytes, dropped_queue, dropped_loss, dropped_path, queue_bytes_max } =
            self.model.stats();
        let record = LinkDirectionRecord {
            packets,
            bytes,
            dropped_queue,
            dropped_loss,
            dropped_path,
            overruns: self.overruns,
            queue_bytes_max: Some(queue_bytes_max),
            late_us_p50: late_us(0.5),
            late_us_p99: late_us(0.99),
            late_us_max: late_us(1.0),
        };
        self.late_ns.clear();
        record
    }
}

/// Returns the directions down and up. A rate trace starts now, so that compared loads have the same link.
fn directions(config: &LinkConfig) -> (ForwardedDirection, ForwardedDirection) {
    let (down, up) = Direction::pair(&config.down, &config.up, &config.path, monotonic_ns());
    (ForwardedDirection::new(down), ForwardedDirection::new(up))
}

struct Worker {
    client: PacketSocket,
    origins: PacketSocket,
    down: ForwardedDirection,
    up: ForwardedDirection,
    config: LinkConfig,
    commands: Receiver<Command>,
    waker: Arc<Waker>,
    timer: Timer,
    spin: Nanos,
}

impl Worker {
    fn run(mut self) {
        while self.handle_commands() {
            let received = self.receive();
            let sent = self.send_due();
            if !(received || sent) {
                self.wait();
            }
        }
    }

    /// Executes the queued commands. Returns false once the [`Forwarder`] that sends them has been dropped.
    fn handle_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Configure(config, reply)) => {
                    self.flush();
                    (self.down, self.up) = directions(&config);
                    self.config = *config;
                    let _ = reply.send(());
                }
                Ok(Command::Report(reply)) => {
                    self.up.overruns += self.client.take_overruns().unwrap_or(0);
                    self.down.overruns += self.origins.take_overruns().unwrap_or(0);
                    let _ = reply.send(LinkRecord { down: self.down.report(), up: self.up.report() });
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Receives all waiting packets, and sends the packets that are due.
    fn flush(&mut self) {
        while self.receive() {}
        self.send_due();
        let _ = (self.client.take_overruns(), self.origins.take_overruns());
    }

    fn send_due(&mut self) -> bool {
        while let Some((at, answer)) = self.up.model.take_answer() {
            self.down.enqueue_answer(at, answer);
        }
        let sent_down = self.down.send_due(&self.client);
        let sent_up = self.up.send_due(&self.origins);
        sent_down || sent_up
    }

    fn receive(&mut self) -> bool {
        let Self { client, origins, down, up, config, .. } = self;
        let header = |frame: &[u8]| frame.get(ETHERNET_HEADER..).and_then(Header::of);
        let from_client = client.receive(BATCH, |at, frame| {
            if let Some(header) = header(frame) {
                up.enqueue(at, config.extra_delay_of(header.destination), Frame(frame.to_vec()));
            }
        });
        let from_origins = origins.receive(BATCH, |at, frame| {
            if let Some(header) = header(frame) {
                down.enqueue_at_host(at, config.extra_delay_of(header.source), Frame(frame.to_vec()));
            }
        });
        from_client + from_origins > 0
    }

    fn wait(&mut self) {
        let next = self.down.next_due().into_iter().chain(self.up.next_due()).min();
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

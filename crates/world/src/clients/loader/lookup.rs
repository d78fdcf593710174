//! The loader's stub resolver: one question a name, over UDP or one connection of TCP, with the timeouts of
//! glibc's (resolv.conf(5): `timeout:5`, `attempts:2`).

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use fastopen_netns::clock::{Alarm, monotonic_ns, sleep_until};
use fastopen_replay::names::{Answer, query, read_answer, read_message, write_message};
use fastopen_replay::sockets::SocketTable;
use tokio::io::AsyncWrite;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::{Report, open};

/// How long it waits for the answer to a query.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often it asks.
const ATTEMPTS: u16 = 2;
/// The largest answer to a query without extensions (RFC 1035 section 4.2.1).
const MESSAGE_BYTES: usize = 512;

/// A finished lookup; times in nanoseconds of the monotonic clock.
pub(super) struct Lookup {
    pub(super) host: String,
    pub(super) asked_ns: u64,
    pub(super) answered_ns: u64,
    /// How many queries it sent.
    pub(super) queries: usize,
    /// The address, or why there is none.
    pub(super) outcome: Result<Ipv4Addr, String>,
}

/// Asks the resolver over UDP for the address of `host`. `number` is the message ID.
pub(super) async fn look_up(resolver: SocketAddrV4, host: String, number: u16) -> Lookup {
    let (asked_ns, mut queries) = (monotonic_ns(), 0);
    let outcome = ask(resolver, &host, number, &mut queries).await;
    Lookup::ended(host, asked_ns, queries, outcome)
}

impl Lookup {
    /// A lookup that ends now; without an answer the time was over.
    fn ended(host: String, asked_ns: u64, queries: usize, outcome: io::Result<Option<Answer>>) -> Self {
        let outcome = match outcome {
            Ok(Some(Answer::Address(address))) => Ok(address),
            Ok(Some(Answer::NoName)) => Err(format!("{host}: name or service not known (NXDOMAIN)")),
            Ok(Some(Answer::Failed)) => Err(format!("{host}: the resolver failed")),
            Ok(None) => Err(format!(
                "{host}: temporary failure in name resolution (no answer to {ATTEMPTS} queries in {} s)",
                TIMEOUT.as_secs() * u64::from(ATTEMPTS)
            )),
            Err(error) => Err(format!("{host}: {error}")),
        };
        Self { host, asked_ns, answered_ns: monotonic_ns(), queries, outcome }
    }
}

async fn ask(
    resolver: SocketAddrV4,
    host: &str,
    number: u16,
    queries: &mut usize,
) -> io::Result<Option<Answer>> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(resolver)?;
    let socket = UdpSocket::from_std(socket)?;
    let message = query(number, host)?;
    for _ in 0..ATTEMPTS {
        socket.send(&message).await?;
        *queries += 1;
        let until_ns = monotonic_ns() + TIMEOUT.as_nanos() as u64;
        tokio::select! {
            biased;
            answer = answer(&socket, number) => return answer.map(Some),
            slept = sleep_until(until_ns) => slept?,
        }
    }
    Ok(None)
}

async fn answer(socket: &UdpSocket, number: u16) -> io::Result<Answer> {
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let length = socket.recv(&mut message).await?;
        if let Some(answer) = read_answer(&message[..length], number) {
            return Ok(answer);
        }
    }
}

/// A question for the resolver.
pub(super) struct Question {
    pub(super) host: String,
    /// The message ID.
    pub(super) number: u16,
    /// When it was put, in nanoseconds of the monotonic clock.
    pub(super) asked_ns: u64,
}

/// How the resolver is asked over TCP.
pub(super) struct Stream {
    pub(super) resolver: SocketAddrV4,
    pub(super) fastopen: bool,
    pub(super) sockets: Arc<SocketTable>,
    pub(super) reports: UnboundedSender<Report>,
}

/// What was asked and is not answered.
struct Pending {
    host: String,
    asked_ns: u64,
    queries: usize,
    until_ns: u64,
}

impl Stream {
    /// Asks all questions over one connection, until their channel ends.
    pub(super) async fn run(self, questions: UnboundedReceiver<Question>) {
        let reports = self.reports.clone();
        if let Err(error) = self.try_run(questions).await {
            let _ = reports.send(Report::ResolverFailed(error));
        }
    }

    async fn try_run(self, mut questions: UnboundedReceiver<Question>) -> io::Result<()> {
        let (stream, opened) = open(self.resolver, None, self.fastopen, &self.sockets).await?;
        let _ = self.reports.send(Report::ResolverConnected(opened));
        let (mut from, mut to) = tokio::io::split(stream);
        let (answers, mut answered) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok(message) = read_message(&mut from).await {
                if answers.send(message).is_err() {
                    return;
                }
            }
        });
        let mut pending: BTreeMap<u16, Pending> = BTreeMap::new();
        let mut alarm = Alarm::new()?;
        loop {
            let next = pending.values().map(|one| one.until_ns).min().unwrap_or(u64::MAX);
            tokio::select! {
                biased;
                message = answered.recv() => {
                    let Some(message) = message else { return Err(io::ErrorKind::ConnectionReset.into()) };
                    let found = pending.keys().find_map(|id| Some((*id, read_answer(&message, *id)?)));
                    if let Some((number, answer)) = found {
                        let one = pending.remove(&number).expect("it is pending");
                        self.report(one, Ok(Some(answer)));
                    }
                }
                question = questions.recv() => {
                    let Some(Question { host, number, asked_ns }) = question else { return Ok(()) };
                    let mut one = Pending { host, asked_ns, queries: 0, until_ns: 0 };
                    match one.send(number, &mut to).await {
                        Ok(()) => drop(pending.insert(number, one)),
                        Err(error) => self.report(one, Err(error)),
                    }
                }
                slept = alarm.wait_until(next) => {
                    slept?;
                    let due = pending.iter().find(|(_, one)| one.until_ns <= monotonic_ns());
                    let Some(number) = due.map(|(number, _)| *number) else { continue };
                    let mut one = pending.remove(&number).expect("it is pending");
                    if one.queries >= ATTEMPTS.into() {
                        self.report(one, Ok(None));
                    } else {
                        one.send(number, &mut to).await?;
                        pending.insert(number, one);
                    }
                }
            }
        }
    }

    fn report(&self, one: Pending, outcome: io::Result<Option<Answer>>) {
        let Pending { host, asked_ns, queries, .. } = one;
        let _ = self.reports.send(Report::LookedUp(Lookup::ended(host, asked_ns, queries, outcome)));
    }
}

impl Pending {
    async fn send(&mut self, number: u16, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        write_message(to, &query(number, &self.host)?).await?;
        self.queries += 1;
        self.until_ns = monotonic_ns() + TIMEOUT.as_nanos() as u64;
        Ok(())
    }
}

//! Implements the stub resolver of the built-in client: one lookup for each name, over UDP or over one
//! connection (TCP, TLS or HTTPS), with glibc's default timeouts (`timeout:5`, `attempts:2`, resolv.conf(5)).

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use bytes::Bytes;
use fastopen_link::ip::Version;
use fastopen_netns::clock::{Alarm, monotonic_ns, sleep_until};
use fastopen_replay::counters::Duplex;
use fastopen_replay::http2::cork::corked;
use fastopen_replay::http2::receive;
use fastopen_replay::names::{
    Answer, MESSAGE_BYTES_MAX, https_request, message_id, query, read_answer, read_message, write_message,
};
use h2::client::{Builder, ResponseFuture, SendRequest};
use tokio::io::WriteHalf;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::connection::{Report, Shared, open};
use crate::clients::tls::connect;
use crate::contract::{LOOKUP_TIMEOUT, LookupRecord, NameLookup};

const QUERIES_MAX: u16 = 2;
/// Maximum size in bytes of the answer to a DNS query without EDNS (RFC 1035 section 4.2.1).
const MESSAGE_BYTES: usize = 512;

/// A finished DNS lookup: its record, with times on the monotonic clock, and the address; None if it failed.
pub(super) type Lookup = (LookupRecord, Option<IpAddr>);

/// Looks up the address of `host` at the resolver, over UDP. `number` is the message ID.
pub(super) async fn look_up(resolver: SocketAddr, host: String, number: u16) -> Lookup {
    let mut record = LookupRecord { host, asked_ns: monotonic_ns(), ..LookupRecord::default() };
    let asked = async {
        let socket = std::net::UdpSocket::bind((Version::of(resolver.ip()).unspecified(), 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(resolver)?;
        let socket = UdpSocket::from_std(socket)?;
        let message = query(number, &record.host, Version::of(resolver.ip()))?;
        for _ in 0..QUERIES_MAX {
            socket.send(&message).await?;
            record.queries += 1;
            let until_ns = monotonic_ns() + LOOKUP_TIMEOUT.as_nanos() as u64;
            tokio::select! {
                biased;
                answer = answer(&socket, number) => return answer.map(Some),
                slept = sleep_until(until_ns) => slept?,
            }
        }
        Ok(None)
    };
    let outcome = asked.await;
    ended(record, outcome)
}

/// Returns the result of a lookup that ends now. `outcome` is `Ok(None)` after a timeout.
fn ended(mut record: LookupRecord, outcome: io::Result<Option<Answer>>) -> Lookup {
    let failed = match outcome {
        Ok(Some(Answer::Address(address))) => {
            record.answered_ns = Some(monotonic_ns());
            return (record, Some(address));
        }
        Ok(Some(Answer::NoName)) => "name or service not known (NXDOMAIN)".to_owned(),
        Ok(Some(Answer::Failed)) => "the resolver failed".to_owned(),
        Ok(None) => format!(
            "temporary failure in name resolution (no answer to {QUERIES_MAX} queries in {} s)",
            LOOKUP_TIMEOUT.as_secs() * u64::from(QUERIES_MAX)
        ),
        Err(error) => error.to_string(),
    };
    record.error = Some(format!("{}: {failed}", record.host));
    (record, None)
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

/// A stub resolver that sends all queries over one connection.
pub(super) struct Stream {
    pub(super) resolver: SocketAddr,
    pub(super) names: NameLookup,
    pub(super) shared: Arc<Shared>,
}

/// A lookup that has no answer yet.
pub(super) struct Pending {
    /// The record so far, with times on the monotonic clock.
    pub(super) record: LookupRecord,
    until_ns: u64,
    /// The task of the last query's HTTP/2 request; empty over TCP or TLS. Dropping the task before the
    /// response has arrived resets the stream.
    exchange: JoinSet<()>,
}

/// The message ID and the answer of a query, or the error that ended the connection to the resolver.
type Answered = io::Result<(u16, Answer)>;

impl Stream {
    /// Performs the lookups in the channel `questions`, each with the message ID of its queries, until the
    /// channel is closed or the connection has failed.
    pub(super) async fn run(self, mut questions: UnboundedReceiver<(u16, Pending)>) {
        let mut pending = BTreeMap::new();
        if let Err(error) = self.try_run(&mut questions, &mut pending).await {
            // Sending further questions fails, and the questions that are still in the channel fail here.
            questions.close();
            while let Some((number, one)) = questions.recv().await {
                pending.insert(number, one);
            }
            for one in pending.into_values() {
                self.report(one, Err(io::Error::new(error.kind(), format!("the resolver: {error}"))));
            }
        }
    }

    async fn try_run(
        &self,
        questions: &mut UnboundedReceiver<(u16, Pending)>,
        pending: &mut BTreeMap<u16, Pending>,
    ) -> io::Result<()> {
        let stream = self.open().await?;
        let (answers, mut answered) = unbounded_channel();
        let mut queries = match self.names {
            NameLookup::Doh => Queries::Https(Https::over(stream, self.resolver, answers).await?),
            _ => Queries::over(stream, Version::of(self.resolver.ip()), answers),
        };
        let mut alarm = Alarm::new()?;
        loop {
            let next = pending.values().map(|one| one.until_ns).min().unwrap_or(u64::MAX);
            tokio::select! {
                biased;
                answer = answered.recv() => {
                    let Some(answer) = answer else { return Err(io::ErrorKind::ConnectionReset.into()) };
                    let (number, answer) = answer?;
                    if let Some(one) = pending.remove(&number) {
                        self.report(one, Ok(Some(answer)));
                    }
                }
                question = questions.recv() => {
                    let Some((number, mut one)) = question else { return Ok(()) };
                    match one.send(number, &mut queries).await {
                        Ok(()) => drop(pending.insert(number, one)),
                        Err(error) => self.report(one, Err(error)),
                    }
                }
                slept = alarm.wait_until(next) => {
                    slept?;
                    let due = pending.iter().find(|(_, one)| one.until_ns <= monotonic_ns());
                    let Some(number) = due.map(|(number, _)| *number) else { continue };
                    let mut one = pending.remove(&number).expect("it is pending");
                    if one.record.queries >= QUERIES_MAX.into() {
                        self.report(one, Ok(None));
                    } else {
                        let sent = one.send(number, &mut queries).await;
                        pending.insert(number, one);
                        sent?;
                    }
                }
            }
        }
    }

    /// Connects to the resolver. With TLS, also waits for the handshake, unless early data carries a query.
    async fn open(&self) -> io::Result<Box<dyn Duplex>> {
        let (socket, opened) = open(self.resolver, None, &self.shared).await?;
        let _ = self.shared.reports.send(Report::Connected(None, opened));
        let Some(config) = self.shared.secure.lookups.clone() else { return Ok(Box::new(socket)) };
        let reports = self.shared.reports.clone();
        let secured = move |record| drop(reports.send(Report::Secured(None, record)));
        let mut stream = connect(config, &self.resolver.ip().to_string(), socket, secured)?;
        if !stream.offers_early_data() {
            stream.handshake().await?;
        }
        Ok(Box::new(stream))
    }

    fn report(&self, one: Pending, outcome: io::Result<Option<Answer>>) {
        let _ = self.shared.reports.send(Report::LookedUp(ended(one.record, outcome)));
    }
}

impl Pending {
    pub(super) fn new(host: String) -> Self {
        let record = LookupRecord { host, asked_ns: monotonic_ns(), ..LookupRecord::default() };
        Self { record, until_ns: 0, exchange: JoinSet::new() }
    }

    async fn send(&mut self, number: u16, queries: &mut Queries) -> io::Result<()> {
        self.exchange = queries.send(number, &self.record.host).await?;
        self.record.queries += 1;
        self.until_ns = monotonic_ns() + LOOKUP_TIMEOUT.as_nanos() as u64;
        Ok(())
    }
}

/// The sending half of the connection to the resolver.
enum Queries {
    /// DNS queries for addresses of the given IP version, each preceded by its length, over TCP or TLS.
    Messages(WriteHalf<Box<dyn Duplex>>, Version),
    Https(Https),
}

impl Queries {
    /// Returns the sending half of `stream`. A new task sends the received DNS responses to `answers`.
    fn over(stream: Box<dyn Duplex>, version: Version, answers: UnboundedSender<Answered>) -> Self {
        let (mut from, to) = tokio::io::split(stream);
        tokio::spawn(async move {
            loop {
                let message = read_message(&mut from).await;
                let ended = message.is_err();
                let answer = message.map(|message| {
                    let number = message_id(&message)?;
                    Some((number, read_answer(&message, number)?))
                });
                if answer.transpose().is_some_and(|answer| answers.send(answer).is_err()) || ended {
                    return;
                }
            }
        });
        Self::Messages(to, version)
    }

    async fn send(&mut self, number: u16, host: &str) -> io::Result<JoinSet<()>> {
        match self {
            Self::Messages(to, version) => {
                write_message(to, &query(number, host, *version)?).await.map(|()| JoinSet::new())
            }
            Self::Https(https) => https.send(number, host).await,
        }
    }
}

struct Https {
    resolver: SocketAddr,
    sender: SendRequest<Bytes>,
    /// The future that sends and receives HTTP/2 frames; None once the first request has spawned it.
    driver: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    answers: UnboundedSender<Answered>,
}

impl Https {
    async fn over(
        stream: Box<dyn Duplex>,
        resolver: SocketAddr,
        answers: UnboundedSender<Answered>,
    ) -> io::Result<Self> {
        let (stream, cork) = corked(stream);
        let handshake = Builder::new().enable_push(false).handshake(stream).await;
        let (sender, mut connection) = handshake.map_err(io::Error::other)?;
        let ended = answers.clone();
        let driver = async move {
            let step = |context: &mut Context<'_>| {
                cork.flush_after(context, |context| Pin::new(&mut connection).poll(context))
            };
            let outcome = poll_fn(step).await;
            let error = outcome.err().map_or(io::ErrorKind::ConnectionReset.into(), io::Error::other);
            let _ = ended.send(Err(error));
        };
        Ok(Self { resolver, sender, driver: Some(Box::pin(driver)), answers })
    }

    /// Asks for the address of `host`. `number` identifies the answer, as all messages have ID 0 (RFC 8484).
    async fn send(&mut self, number: u16, host: &str) -> io::Result<JoinSet<()>> {
        let request = https_request(self.resolver, &query(0, host, Version::of(self.resolver.ip()))?)?;
        poll_fn(|context| self.sender.poll_ready(context)).await.map_err(io::Error::other)?;
        let (response, _) = self.sender.send_request(request, true).map_err(io::Error::other)?;
        let answers = self.answers.clone();
        let mut exchange = JoinSet::new();
        exchange.spawn(async move {
            let answer = match answer_in(response).await {
                Ok(answer) => answer,
                Err(error) if error.is_reset() => Answer::Failed,
                // The driver reports the failure of the connection.
                Err(_) => return,
            };
            let _ = answers.send(Ok((number, answer)));
        });
        self.driver.take().map(tokio::spawn);
        Ok(exchange)
    }
}

async fn answer_in(response: ResponseFuture) -> Result<Answer, h2::Error> {
    let (head, body) = response.await?.into_parts();
    let message = receive(body, MESSAGE_BYTES_MAX).await?.filter(|_| head.status.is_success());
    Ok(message.and_then(|message| read_answer(&message, 0)).unwrap_or(Answer::Failed))
}

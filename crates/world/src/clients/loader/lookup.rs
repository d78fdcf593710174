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
use fastopen_netns::clock::{Alarm, monotonic_ns};
use fastopen_replay::counters::Duplex;
use fastopen_replay::http2::cork::corked;
use fastopen_replay::http2::receive;
use fastopen_replay::names::{
    Answer, MESSAGE_BYTES, MESSAGE_BYTES_MAX, https_request, message_id, query, read_answer, read_message,
    write_message,
};
use h2::client::{Builder, ResponseFuture, SendRequest};
use tokio::io::WriteHalf;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::connection::{Report, Shared, open};
use crate::clients::Resolver;
use crate::clients::tls::connect;
use crate::contract::{LOOKUP_TIMEOUT, NameLookup};

const QUERIES_MAX: u16 = 2;

/// A finished DNS lookup.
pub(super) struct Lookup {
    pub(super) host: String,
    /// The time at which the lookup ended, on the monotonic clock.
    pub(super) answered_ns: u64,
    pub(super) queries: usize,
    pub(super) outcome: Result<IpAddr, String>,
}

impl Lookup {
    /// Returns the result of a lookup of `host` that ends now. `outcome` is `Ok(None)` after a timeout.
    pub(super) fn ended(host: String, queries: usize, outcome: io::Result<Option<Answer>>) -> Self {
        let outcome = match outcome {
            Ok(Some(Answer::Address(address))) => Ok(address),
            Ok(Some(Answer::NoName)) => Err(format!("{host}: name or service not known (NXDOMAIN)")),
            Ok(Some(Answer::Failed)) => Err(format!("{host}: the resolver failed")),
            Ok(None) => Err(format!(
                "{host}: temporary failure in name resolution (no answer to {QUERIES_MAX} queries in {} s)",
                LOOKUP_TIMEOUT.as_secs() * u64::from(QUERIES_MAX)
            )),
            Err(error) => Err(format!("{host}: {error}")),
        };
        Self { host, answered_ns: monotonic_ns(), queries, outcome }
    }
}

/// A host whose address is to be looked up.
pub(super) struct Question {
    pub(super) host: String,
    pub(super) number: u16,
}

/// A stub resolver that sends all queries from one UDP socket or over one connection.
pub(super) struct StubResolver {
    pub(super) resolver: Resolver,
    pub(super) shared: Arc<Shared>,
}

/// A lookup that has no answer yet.
struct Pending {
    host: String,
    queries: usize,
    until_ns: u64,
    /// The HTTP/2 request of the last query; None without HTTP/2.
    exchange: Option<Exchange>,
}

/// The task of an HTTP/2 request. Dropping this value before the response has arrived resets the stream.
struct Exchange(AbortHandle);

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The message ID and the answer of a query, or the error of the socket or connection to the resolver.
type Answered = io::Result<(u16, Answer)>;

impl StubResolver {
    /// Looks up the hosts in the channel `questions`, until it is closed or the connection has failed.
    pub(super) async fn run(self, mut questions: UnboundedReceiver<Question>) {
        let mut pending = BTreeMap::new();
        if let Err(error) = self.try_run(&mut questions, &mut pending).await {
            questions.close();
            while let Some(Question { host, number }) = questions.recv().await {
                pending.insert(number, Pending::new(host));
            }
            for one in pending.into_values() {
                self.report(one, Err(io::Error::new(error.kind(), format!("the resolver: {error}"))));
            }
        }
    }

    async fn try_run(
        &self,
        questions: &mut UnboundedReceiver<Question>,
        pending: &mut BTreeMap<u16, Pending>,
    ) -> io::Result<()> {
        let (answers, mut answered) = unbounded_channel();
        let mut queries = match self.resolver.names {
            NameLookup::None | NameLookup::Do53 => Queries::over_udp(self.resolver.address, answers)?,
            NameLookup::Tcp | NameLookup::Dot => Queries::over_stream(self.open().await?, answers),
            NameLookup::Doh => {
                Queries::Https(Https::over(self.open().await?, self.resolver.address, answers).await?)
            }
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
                    let Some(Question { host, number }) = question else { return Ok(()) };
                    let mut one = Pending::new(host);
                    match self.send(&mut one, number, &mut queries).await {
                        Ok(()) => drop(pending.insert(number, one)),
                        Err(error) => self.report(one, Err(error)),
                    }
                }
                slept = alarm.wait_until(next) => {
                    slept?;
                    let due = pending.iter().find(|(_, one)| one.until_ns <= monotonic_ns());
                    let Some(number) = due.map(|(number, _)| *number) else { continue };
                    let mut one = pending.remove(&number).expect("it is pending");
                    if one.queries >= QUERIES_MAX.into() {
                        self.report(one, Ok(None));
                    } else {
                        let sent = self.send(&mut one, number, &mut queries).await;
                        pending.insert(number, one);
                        sent?;
                    }
                }
            }
        }
    }

    /// Connects to the resolver. With TLS, also waits for the handshake, unless early data carries a query.
    async fn open(&self) -> io::Result<Box<dyn Duplex>> {
        let Resolver { address, tls, .. } = &self.resolver;
        let (socket, opened) = open(*address, None, &self.shared).await?;
        let _ = self.shared.reports.send(Report::ResolverConnected(opened));
        let Some(config) = tls.clone() else { return Ok(Box::new(socket)) };
        let reports = self.shared.reports.clone();
        let secured = move |record| drop(reports.send(Report::ResolverSecured(record)));
        let mut stream = connect(config, &address.ip().to_string(), socket, secured)?;
        if !stream.offers_early_data() {
            stream.handshake().await?;
        }
        Ok(Box::new(stream))
    }

    /// Sends a query for the host of `one`. `number` identifies the answer.
    async fn send(&self, one: &mut Pending, number: u16, queries: &mut Queries) -> io::Result<()> {
        let message = |id| query(id, &one.host, Version::of(self.resolver.address.ip()));
        one.exchange = match queries {
            Queries::Datagrams(socket) => socket.send(&message(number)?).await.map(|_| None)?,
            Queries::Messages(to) => write_message(to, &message(number)?).await.map(|()| None)?,
            // All messages over HTTPS have ID 0 (RFC 8484 section 4.1).
            Queries::Https(https) => Some(https.send(number, &message(0)?).await?),
        };
        one.queries += 1;
        one.until_ns = monotonic_ns() + LOOKUP_TIMEOUT.as_nanos() as u64;
        Ok(())
    }

    fn report(&self, one: Pending, outcome: io::Result<Option<Answer>>) {
        let lookup = Lookup::ended(one.host, one.queries, outcome);
        let _ = self.shared.reports.send(Report::LookedUp(lookup));
    }
}

impl Pending {
    fn new(host: String) -> Self {
        Self { host, queries: 0, until_ns: 0, exchange: None }
    }
}

/// The sending half of the socket or connection to the resolver.
enum Queries {
    /// DNS queries over UDP.
    Datagrams(Arc<UdpSocket>),
    /// DNS queries over TCP or TLS, each preceded by its length.
    Messages(WriteHalf<Box<dyn Duplex>>),
    Https(Https),
}

impl Queries {
    /// Opens a UDP socket. A new task sends the received DNS responses to `answers`.
    fn over_udp(resolver: SocketAddr, answers: UnboundedSender<Answered>) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind((Version::of(resolver.ip()).unspecified(), 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(resolver)?;
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        let from = socket.clone();
        tokio::spawn(async move {
            let mut message = [0; MESSAGE_BYTES];
            loop {
                let received = from.recv(&mut message).await;
                if !forward(received.map(|length| &message[..length]), &answers) {
                    return;
                }
            }
        });
        Ok(Self::Datagrams(socket))
    }

    /// Returns the sending half of `stream`. A new task sends the received DNS responses to `answers`.
    fn over_stream(stream: Box<dyn Duplex>, answers: UnboundedSender<Answered>) -> Self {
        let (mut from, to) = tokio::io::split(stream);
        tokio::spawn(async move { while forward(read_message(&mut from).await, &answers) {} });
        Self::Messages(to)
    }
}

/// Sends the answer in a received message, or the error, to `answers`. Returns false if no more can come.
fn forward(message: io::Result<impl AsRef<[u8]>>, answers: &UnboundedSender<Answered>) -> bool {
    let is_open = message.is_ok();
    let answer = message.map(|message| {
        let number = message_id(message.as_ref())?;
        Some((number, read_answer(message.as_ref(), number)?))
    });
    answer.transpose().is_none_or(|answer| answers.send(answer).is_ok()) && is_open
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

    async fn send(&mut self, number: u16, query: &[u8]) -> io::Result<Exchange> {
        let request = https_request(self.resolver, query)?;
        poll_fn(|context| self.sender.poll_ready(context)).await.map_err(io::Error::other)?;
        let (response, _) = self.sender.send_request(request, true).map_err(io::Error::other)?;
        let answers = self.answers.clone();
        let exchange = tokio::spawn(async move {
            let answer = match answer_in(response).await {
                Ok(answer) => answer,
                Err(error) if error.is_reset() => Answer::Failed,
                // The driver reports the failure of the connection.
                Err(_) => return,
            };
            let _ = answers.send(Ok((number, answer)));
        });
        self.driver.take().map(tokio::spawn);
        Ok(Exchange(exchange.abort_handle()))
    }
}

async fn answer_in(response: ResponseFuture) -> Result<Answer, h2::Error> {
    let (head, body) = response.await?.into_parts();
    let message = receive(body, MESSAGE_BYTES_MAX).await?.filter(|_| head.status.is_success());
    Ok(message.and_then(|message| read_answer(&message, 0)).unwrap_or(Answer::Failed))
}

//! Implements the DNS resolver of an emulated network, and builds and parses DNS messages (RFC 1035) for it
//! and for the page loader. Messages travel over UDP, TCP, TLS (RFC 7858) or HTTPS (RFC 8484).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use fastopen_link::ip;
use fastopen_netns::clock::monotonic_ns;
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Version};
use rustls::ServerConfig;
use serde::Deserialize;
use simple_dns::rdata::{A, AAAA, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, Question, RCODE, ResourceRecord, TYPE};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UdpSocket;

use crate::log::{OriginLog, Query};
use crate::tls::Sessions;

/// The port of DNS over UDP and TCP.
const PORT: u16 = 53;
/// The path in the resolver's URI template, `https://ADDRESS/dns-query{?dns}`.
const HTTPS_PATH: &str = "/dns-query";
/// The Content-Type of DNS messages over HTTPS (RFC 8484 section 6).
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/dns-message");
/// The largest DNS message over UDP without extensions, in bytes (RFC 1035 section 4.2.1).
const MESSAGE_BYTES: usize = 512;
/// The largest DNS message in bytes (RFC 1035 section 4.2.2).
pub const MESSAGE_BYTES_MAX: usize = u16::MAX as usize;
/// Maximum number of concurrent queries over HTTPS. It exceeds the number of hosts of any page, so that
/// unanswered queries, which keep their streams, do not delay other queries.
pub(crate) const HTTPS_QUERIES_MAX: u32 = 65_536;
/// TTL of a DNS record in seconds: longer than any page load.
const LIFETIME_S: u32 = 86_400;
const LIFETIME_S_HEADER: HeaderValue = HeaderValue::from_static("max-age=86400");

/// A behaviour of the emulated DNS resolver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conduct {
    /// Answers all queries.
    #[default]
    Answers,
    /// Ignores the first query for each name and type, as if the network had lost it.
    DropFirst,
    /// Ignores all queries.
    Silent,
    /// Answers all queries with NXDOMAIN: no name exists.
    Nxdomain,
}

/// The configuration of an emulated network's DNS resolver, and the addresses that it returns.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Names {
    pub address: SocketAddr,
    /// The addresses of each name; names are in lower case.
    pub zone: BTreeMap<String, ip::Addresses>,
    pub conduct: Conduct,
    pub protocol: NameLookup,
    /// The TLS settings; `None` if queries are in cleartext.
    pub tls: Option<TlsNames>,
}

/// The way in which the client learns the addresses of hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NameLookup {
    /// The client knows all addresses.
    #[default]
    None,
    /// DNS queries over UDP.
    Do53,
    /// DNS queries over one TCP connection.
    Tcp,
    /// DNS queries over one TLS connection (RFC 7858).
    Dot,
    /// DNS queries over one HTTPS connection (RFC 8484).
    Doh,
}

impl NameLookup {
    /// Returns the port of the resolver; `None` if the client knows all addresses.
    pub fn port(self) -> Option<u16> {
        match self {
            Self::None => None,
            Self::Do53 | Self::Tcp => Some(PORT),
            // RFC 7858 section 3.1.
            Self::Dot => Some(853),
            Self::Doh => Some(443),
        }
    }

    /// Returns the ALPN protocol of the resolver, from IANA's registry; `None` if queries do not use TLS.
    pub fn alpn(self) -> Option<&'static [u8]> {
        match self {
            Self::None | Self::Do53 | Self::Tcp => None,
            Self::Dot => Some(b"dot"),
            // HTTP/2 is the lowest version that RFC 8484 recommends (section 5.2).
            Self::Doh => Some(b"h2"),
        }
    }

    /// Returns true if the client sends its queries over a TCP connection.
    pub fn is_over_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::Dot | Self::Doh)
    }
}

/// The TLS settings of a resolver.
#[derive(Debug, Clone)]
pub struct TlsNames {
    /// The configuration of the resolver's connections.
    pub config: Arc<ServerConfig>,
    /// The sessions that clients can resume.
    pub sessions: Arc<Sessions>,
}

/// The DNS queries received in this page load on one UDP socket or connection, for [`Conduct::DropFirst`].
#[derive(Debug, Default)]
pub(crate) struct Asked {
    queries: BTreeSet<Vec<u8>>,
    load: u64,
}

impl Asked {
    /// Handles a received message. Returns `None` if it is not a query, otherwise the query's log entry and
    /// the answer to send. The answer is `None` if the resolver ignores the query.
    pub(crate) fn receive(
        &mut self,
        message: &[u8],
        names: &Names,
        log: &OriginLog,
    ) -> Option<(Query, Option<Vec<u8>>)> {
        let (name, answer) = answer(message, names)?;
        if std::mem::replace(&mut self.load, log.number()) != self.load {
            self.queries.clear();
        }
        // Skip the header, which holds the message's ID: name and type identify a query.
        let is_first = self.queries.insert(message.get(12..).unwrap_or_default().to_vec());
        let answers = match names.conduct {
            Conduct::Answers | Conduct::Nxdomain => true,
            Conduct::DropFirst => !is_first,
            Conduct::Silent => false,
        };
        Some((Query { name, at_ns: monotonic_ns(), answered: false }, answers.then_some(answer)))
    }
}

/// Reads a length prefix and the DNS message that follows it (RFC 1035 section 4.2.2); returns the message.
pub async fn read_message(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut message = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// Writes a DNS message and its length prefix (RFC 1035 section 4.2.2) in one write.
pub async fn write_message(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> io::Result<()> {
    let length = (message.len() as u16).to_be_bytes();
    stream.write_all(&[&length, message].concat()).await
}

pub(crate) async fn serve_stream(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    names: &Names,
    log: &OriginLog,
) -> io::Result<()> {
    let mut asked = Asked::default();
    loop {
        let message = read_message(&mut stream).await?;
        let Some((mut query, answer)) = asked.receive(&message, names, log) else { continue };
        if let Some(answer) = answer {
            query.answered = write_message(&mut stream, &answer).await.is_ok();
        }
        log.queried(query);
    }
}

/// Answers the DNS queries that arrive on a UDP socket, and logs them. Never returns.
pub(crate) async fn serve(socket: &UdpSocket, names: &Names, log: &OriginLog) {
    let mut asked = Asked::default();
    loop {
        let mut message = [0; MESSAGE_BYTES];
        // An error here belongs to an earlier answer, whose client had closed its socket (ICMP).
        let Ok((length, client)) = socket.recv_from(&mut message).await else { continue };
        let Some((mut query, answer)) = asked.receive(&message[..length], names, log) else { continue };
        if let Some(answer) = answer {
            query.answered = socket.send_to(&answer, client).await.is_ok();
        }
        log.queried(query);
    }
}

/// Returns the name in a DNS query and the answer to it; `None` if the message is not a query.
fn answer(message: &[u8], names: &Names) -> Option<(String, Vec<u8>)> {
    let query = Packet::parse(message).ok()?;
    let question = query.questions.first()?.clone();
    let name = question.qname.to_string().to_lowercase();
    let mut reply = Packet::new_reply(query.id());
    reply.set_flags(PacketFlag::RECURSION_AVAILABLE);
    if query.has_flags(PacketFlag::RECURSION_DESIRED) {
        reply.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    let addresses = names.zone.get(&name).filter(|_| names.conduct != Conduct::Nxdomain);
    if addresses.is_none() {
        *reply.rcode_mut() = RCODE::NameError;
    }
    // A name may exist without a record of the requested type.
    let of_type = |one: &IpAddr| question.qtype == QTYPE::TYPE(record_type(ip::Version::of(*one)));
    if let Some(address) = addresses.and_then(|addresses| addresses.iter().find(of_type)) {
        let data = match address {
            IpAddr::V4(address) => RData::A(A::from(address)),
            IpAddr::V6(address) => RData::AAAA(AAAA::from(address)),
        };
        reply.answers.push(ResourceRecord::new(question.qname.clone(), CLASS::IN, LIFETIME_S, data));
    }
    reply.questions.push(question);
    Some((name, reply.build_bytes_vec_compressed().ok()?))
}

fn record_type(version: ip::Version) -> TYPE {
    match version {
        ip::Version::V4 => TYPE::A,
        ip::Version::V6 => TYPE::AAAA,
    }
}

/// Creates a DNS query for the IPv4 or IPv6 address of `name`. The answer will have the same `id`.
pub fn query(id: u16, name: &str, version: ip::Version) -> io::Result<Vec<u8>> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("{name}: {error}"));
    let mut query = Packet::new_query(id);
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(invalid)?;
    query.questions.push(Question::new(name, QTYPE::TYPE(record_type(version)), CLASS::IN.into(), false));
    query.build_bytes_vec_compressed().map_err(invalid)
}

/// Creates the HTTPS request that carries a DNS query. Its method is GET, because only requests with a safe
/// method may be early data (RFC 8470 section 4).
pub fn https_request(resolver: SocketAddr, query: &[u8]) -> io::Result<Request<()>> {
    let encoded = BASE64_URL_SAFE_NO_PAD.encode(query);
    // RFC 3986 section 3.2.2 puts IPv6 addresses in brackets.
    let host = match resolver.ip() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let uri = format!("https://{host}{HTTPS_PATH}?dns={encoded}");
    let request = Request::get(uri).version(Version::HTTP_2).header(ACCEPT, MEDIA_TYPE).body(());
    request.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Returns the query in an HTTPS request: the parameter `dns` of a GET, or the body of a POST (RFC 8484
/// section 4.1). `None` if the request has no valid query.
pub(crate) fn https_query(request: &Parts, body: Vec<u8>) -> Option<Vec<u8>> {
    if request.uri.path() != HTTPS_PATH {
        return None;
    }
    match request.method {
        Method::GET => {
            let encoded = request.uri.query()?.strip_prefix("dns=")?;
            BASE64_URL_SAFE_NO_PAD.decode(encoded).ok()
        }
        Method::POST if request.headers.get(CONTENT_TYPE) == Some(&MEDIA_TYPE) => Some(body),
        _ => None,
    }
}

/// Creates the header of an HTTPS response with a DNS answer of `bytes` bytes (RFC 8484 section 5.1).
pub(crate) fn https_response(bytes: usize) -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, MEDIA_TYPE);
    headers.insert(CONTENT_LENGTH, bytes.into());
    headers.insert(CACHE_CONTROL, LIFETIME_S_HEADER);
    response
}

/// Returns the ID of a DNS message; `None` if the message is too short.
pub fn message_id(message: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*message.first_chunk()?))
}

/// The result of a DNS query for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The name's address.
    Address(IpAddr),
    /// The name does not exist (NXDOMAIN), or has no address.
    NoName,
    /// The resolver reported another error.
    Failed,
}

/// Parses the answer to the DNS query with this `id`; `None` if `message` is not an answer to the query.
pub fn read_answer(message: &[u8], id: u16) -> Option<Answer> {
    let reply = Packet::parse(message).ok()?;
    if reply.id() != id || !reply.has_flags(PacketFlag::RESPONSE) {
        return None;
    }
    let address = reply.answers.iter().find_map(|record| match &record.rdata {
        RData::A(a) => Some(IpAddr::from(a.address.to_be_bytes())),
        RData::AAAA(a) => Some(IpAddr::from(a.address.to_be_bytes())),
        _ => None,
    });
    Some(match (reply.rcode(), address) {
        (RCODE::NoError, Some(address)) => Answer::Address(address),
        (RCODE::NoError | RCODE::NameError, _) => Answer::NoName,
        _ => Answer::Failed,
    })
}

#[cfg(test)]
#[path = "../tests/unit/names.rs"]
mod tests;

//! The loader's stub resolver: one question a name over UDP, with the timeouts of glibc's (resolv.conf(5):
//! `timeout:5`, `attempts:2`).

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use fastopen_netns::clock::{monotonic_ns, sleep_until};
use fastopen_replay::names::{Answer, query, read_answer};
use tokio::net::UdpSocket;

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

/// Asks the resolver for the address of `host`. `number` is the message ID.
pub(super) async fn look_up(resolver: SocketAddrV4, host: String, number: u16) -> Lookup {
    let (asked_ns, mut queries) = (monotonic_ns(), 0);
    let outcome = ask(resolver, &host, number, &mut queries).await;
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
    Lookup { host, asked_ns, answered_ns: monotonic_ns(), queries, outcome }
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

//! Performs a transaction: opens a connection, sends the request, reads the response and the server's FIN.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::tcp::{self, TcpInfo};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use socket2::{Domain, SockAddr, Socket, Type};

use super::Target;

/// Maximum size of the head of a response, in bytes.
const HEAD_BYTES: usize = 16 << 10;

pub(super) struct Transaction<'a> {
    target: &'a Target,
    socket: Socket,
    due_ns: u64,
    /// Number of bytes of the request that have been written.
    sent: usize,
    answer: Answer,
    answered_ns: Option<u64>,
}

pub(super) enum End {
    Answered {
        at_ns: u64,
        latency_ns: u64,
    },
    /// The response differs from the expected one.
    Wrong(String),
    Failed(String),
}

impl<'a> Transaction<'a> {
    /// Starts connecting. Latency is measured from `due_ns`. `epoll` reports socket events with `token`.
    pub(super) fn begin(
        target: &'a Target,
        fastopen: bool,
        from: SocketAddr,
        due_ns: u64,
        epoll: &Epoll,
        token: u64,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(from), Type::STREAM.nonblocking(), None)?;
        // Connections to different servers may use the same port.
        socket.set_reuse_address(true)?;
        socket.bind(&from.into())?;
        if fastopen {
            tcp::set_fastopen_connect(&socket)?;
        }
        match socket.connect(&SockAddr::from(target.server)) {
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => return Err(error),
            _ => {}
        }
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        epoll.add(socket.as_fd(), EpollEvent::new(flags, token))?;
        Ok(Self { target, socket, due_ns, sent: 0, answer: Answer::default(), answered_ns: None })
    }

    /// Continues the transaction without blocking; `buffer` is scratch space. Returns None until it ends.
    pub(super) fn advance(&mut self, buffer: &mut [u8]) -> Option<End> {
        match self.exchange(buffer) {
            Ok(end) => Some(end),
            Err(error) if is_not_yet(&error) => None,
            Err(error) => Some(End::Failed(error.to_string())),
        }
    }

    fn exchange(&mut self, buffer: &mut [u8]) -> io::Result<End> {
        while self.sent < self.target.request.len() {
            self.sent += self.socket.send(&self.target.request[self.sent..])?;
        }
        loop {
            let count = io::Read::read(&mut &self.socket, buffer)?;
            if count == 0 {
                return Ok(self.ended());
            }
            self.answer.take(&buffer[..count])?;
            if self.answered_ns.is_none() && self.answer.is_whole(self.target.answer.1) {
                self.answered_ns = Some(monotonic_ns());
            }
        }
    }

    /// Returns the transaction's result. Call this when the server has closed the connection.
    fn ended(&self) -> End {
        let wanted = self.target.answer;
        let came = (self.answer.status.unwrap_or(0), self.answer.body_bytes);
        match self.answered_ns.filter(|_| came == wanted) {
            Some(at_ns) => End::Answered { at_ns, latency_ns: at_ns - self.due_ns },
            None => End::Wrong(format!(
                "status {} and {} bytes instead of {} and {}",
                came.0, came.1, wanted.0, wanted.1
            )),
        }
    }

    pub(super) fn info(&self) -> Option<TcpInfo> {
        tcp::info(&self.socket).ok()
    }

    /// Makes the kernel reset the connection when this transaction is dropped.
    pub(super) fn reset(&self) {
        let _ = self.socket.set_linger(Some(Duration::ZERO));
    }
}

const IN_PROGRESS: i32 = Errno::EINPROGRESS as i32;

/// Returns true if the socket is not ready: EAGAIN or, at the first write without a cookie, EINPROGRESS.
fn is_not_yet(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(IN_PROGRESS)
}

#[derive(Default)]
struct Answer {
    /// The part of the head that has been received so far; empty once the head is complete.
    head: Vec<u8>,
    status: Option<u16>,
    body_bytes: u64,
}

impl Answer {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.status.is_some() {
            self.body_bytes += bytes.len() as u64;
            return Ok(());
        }
        self.head.extend_from_slice(bytes);
        if let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") {
            let words = self.head[..end].split(|byte| *byte == b' ');
            let status =
                words.into_iter().nth(1).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
            self.status = Some(status.unwrap_or(0));
            self.body_bytes = (self.head.len() - end - 4) as u64;
            self.head = Vec::new();
        } else if self.head.len() > HEAD_BYTES {
            return Err(io::Error::other("a head without end"));
        }
        Ok(())
    }

    fn is_whole(&self, body_bytes: u64) -> bool {
        self.status.is_some() && self.body_bytes >= body_bytes
    }
}

#[cfg(test)]
#[path = "../../tests/unit/transaction.rs"]
mod tests;

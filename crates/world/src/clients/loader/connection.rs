//! The task of one of the loader's connections: from its socket, over TLS, to its requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use fastopen_netns::clock::monotonic_ns;
use fastopen_netns::tcp;
use fastopen_page::ConnectionId;
use fastopen_replay::stream::{Connections, Duplex, Ends, ObservedStream};
use hyper::Version;
use rustls::ClientConfig;
use tokio::net::TcpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::{Command, Opened, Report, one_by_one, streams};
use crate::tls::secure;

/// What a connection is to be.
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) address: SocketAddrV4,
    pub(super) fastopen: bool,
    pub(super) version: Version,
    /// How to speak TLS, and with whom.
    pub(super) tls: Option<(Arc<ClientConfig>, String)>,
    pub(super) port: Option<u16>,
    pub(super) sockets: Arc<Connections>,
    pub(super) events: UnboundedSender<Report>,
}

impl Connection {
    /// Opens it, and carries requests until nobody has any more or it breaks.
    pub(super) async fn run(self, commands: UnboundedReceiver<Command>) {
        let carried = match self.open().await {
            Ok((stream, opened)) if self.version == Version::HTTP_2 => {
                streams::carry(&self, stream, opened, commands).await
            }
            Ok((stream, opened)) => one_by_one::carry(&self, stream, opened, commands).await,
            Err(error) => Err(error),
        };
        if let Err(error) = carried {
            self.tell(Report::Failed(self.id, error));
        }
    }

    pub(super) fn tell(&self, report: Report) {
        // Nobody listens once the load is over.
        let _ = self.events.send(report);
    }

    async fn open(&self) -> io::Result<(Box<dyn Duplex>, Opened)> {
        let socket = TcpSocket::new_v4()?;
        if let Some(port) = self.port {
            socket.set_reuseaddr(true)?;
            socket.bind((Ipv4Addr::UNSPECIFIED, port).into())?;
        }
        socket.set_nodelay(true)?;
        if self.fastopen {
            tcp::set_fastopen_connect(&socket)?;
        }
        let stream = socket.connect(SocketAddr::V4(self.address)).await?;
        let at_ns = monotonic_ns();
        // Without Fast Open the kernel lets a socket be written to once its handshake is over. With a cookie at hand it does so
        // in SYN_SENT, where the socket waits for its first write; state 1 is ESTABLISHED.
        let established = !self.fastopen || tcp::info(&stream)?.state == 1;
        let SocketAddr::V4(client) = stream.local_addr()? else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let ends = Ends { client, origin: self.address };
        let stream = ObservedStream::new(stream, ends, self.sockets.clone());
        let (stream, tls): (Box<dyn Duplex>, _) = match &self.tls {
            None => (Box::new(stream), None),
            Some((config, host)) => {
                let (stream, record) = secure(config.clone(), host, stream).await?;
                (Box::new(stream), Some(record))
            }
        };
        Ok((stream, Opened { at_ns, established, ends, tls }))
    }
}

//! Creates cross traffic: long TCP flows that share the access link with a page load.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastopen_netns::{Result, tcp};
use socket2::{Domain, SockRef, Socket, Type};

use crate::contract::{CrossRecord, CrossTraffic as Kind, Way};
use crate::network::addresses::{client_address, origin_address};
use crate::network::measure::named;
use crate::network::topology::Topology;

/// Time for which the flows run before the page load begins: 1024 ticks of 4 ms. A multiple of 512 ticks does
/// not change how the kernel rounds a load's timers: below 131 s, to multiples of at most 512 ticks.
pub const WARM_UP: Duration = Duration::from_millis(4096);

/// Host number reserved for cross traffic, in both the client's and the origins' range of addresses.
const NUMBER: u16 = 64_001;
const DOING: &str = "starting cross traffic";
const CHUNK_BYTES: usize = 64 * 1024;

/// The running TCP flows. Dropping this value ends the flows.
pub struct CrossTraffic(BTreeMap<Way, Flow>);

impl CrossTraffic {
    /// Starts the flows. Each sends data as soon as its connection is established.
    #[expect(clippy::zero_sized_map_values, reason = "the contract's form, for further kinds of traffic")]
    pub fn start(asked: &BTreeMap<Way, Kind>, topology: &Topology) -> Result<Self> {
        let flow = |(way, kind): (&Way, &Kind)| match kind {
            Kind::Bulk => Ok((*way, Flow::start(*way, topology)?)),
        };
        asked.iter().map(flow).collect::<Result<_>>().map(Self)
    }

    /// Returns, for each direction, the number of bytes that the receiver's kernel has received in order.
    pub fn moved(&self) -> CrossRecord {
        let bytes = |way| {
            let received = |flow: &Flow| tcp::info(&*flow.receiver).map_or(0, |info| info.bytes_received);
            self.0.get(&way).map(received)
        };
        CrossRecord { down_bytes: bytes(Way::Down), up_bytes: bytes(Way::Up) }
    }
}

/// A connection on which one end writes as fast as it can, and the other reads.
struct Flow {
    sender: Arc<TcpStream>,
    receiver: Arc<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    fn start(way: Way, topology: &Topology) -> Result<Self> {
        let ip = topology.ip.preferred();
        let at = |address: IpAddr| SocketAddr::from((address, 10_000 + u16::from(way == Way::Up)));
        let (client, origin) = (at(client_address(ip, NUMBER)), at(origin_address(ip, NUMBER)));
        let listener = topology.origins.run(|| named(DOING, TcpListener::bind(origin)))?;
        let client = topology.client.run(|| {
            let socket = named(DOING, Socket::new(Domain::for_address(origin), Type::STREAM, None))?;
            named(DOING, socket.set_reuse_address(true))?;
            named(DOING, socket.bind(&client.into()))?;
            named(DOING, socket.connect(&origin.into()))?;
            Ok(TcpStream::from(socket))
        })?;
        let (origin, _) = named(DOING, listener.accept())?;
        let (sender, receiver) = match way {
            Way::Down => (origin, client),
            Way::Up => (client, origin),
        };
        let (sender, receiver) = (Arc::new(sender), Arc::new(receiver));
        let (writes, reads) = (sender.clone(), receiver.clone());
        let threads = vec![
            thread::spawn(move || while (&*writes).write_all(&[b'.'; CHUNK_BYTES]).is_ok() {}),
            thread::spawn(move || {
                let mut chunk = vec![0; CHUNK_BYTES];
                while (&*reads).read(&mut chunk).is_ok_and(|count| count > 0) {}
            }),
        ];
        Ok(Self { sender, receiver, threads })
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        for stream in [&self.sender, &self.receiver] {
            let _ = SockRef::from(&**stream).set_linger(Some(Duration::ZERO));
            // Wakes the thread that uses this stream.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

//! Tests sockets on loopback in the machine's namespace: options, `TCP_INFO`, destroy events, timestamps.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use fastopen_netns::clock::realtime_ns;
use fastopen_netns::counters;
use fastopen_netns::process::socket_of_inode;
use fastopen_netns::sock_diag::{DestroyEvents, Outcome, open_sockets};
use fastopen_netns::socket::{self, is_tcp};
use fastopen_netns::tcp::{self, ESTABLISHED, LISTEN, TcpInfo};
use fastopen_netns::udp::StampedSocket;
use socket2::{Domain, SockRef, Socket, Type};

#[test]
fn only_tcp_sockets_are_taken_for_such() {
    assert!(is_tcp(TcpListener::bind("127.0.0.1:0").expect("loopback works")));
    assert!(is_tcp(TcpListener::bind("[::1]:0").expect("loopback works")));
    assert!(!is_tcp(UdpSocket::bind("127.0.0.1:0").expect("loopback works")));
    assert!(!socket::is_mptcp(TcpListener::bind("127.0.0.1:0").expect("loopback works")));
    assert!(!is_tcp(UnixDatagram::unbound().expect("UNIX sockets exist")));
    assert!(!is_tcp(std::fs::File::open("/dev/null").expect("it is there")));
}

#[test]
fn a_fresh_connection_is_established_and_carried_no_syn_data() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let info = tcp::info(&stream).expect("it is a TCP socket");
    assert_eq!((info.state, info.syn_data_acked()), (ESTABLISHED, false));
    assert!(info.segments_out >= 1 && info.send_mss >= 536);
}

#[test]
fn a_datagram_has_the_kernels_timestamp() {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("loopback works");
    let address = receiver.local_addr().expect("it is bound");
    let receiver = StampedSocket::new(receiver).expect("the kernel stamps");
    let before = realtime_ns();
    UdpSocket::bind("127.0.0.1:0").and_then(|sender| sender.send_to(b"four", address)).expect("it is sent");
    let (bytes, stamp) = receiver.receive(&mut [0; 10]).expect("it arrives");
    assert_eq!(bytes, 4);
    assert!((before..=realtime_ns()).contains(&stamp));
}

#[test]
fn an_open_connection_is_listed_and_its_destroy_event_holds_its_counts() {
    let mut events = DestroyEvents::subscribe().expect("anybody may");
    let listener = TcpListener::bind("[::1]:0").expect("loopback works");
    let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let cookie = socket::cookie(&stream).expect("it is a socket");
    let open = open_sockets().expect("anybody may");
    let own = open.iter().find(|report| report.cookie == cookie).expect("it is open");
    assert!(matches!(own.outcome, Outcome::Known(TcpInfo { state: ESTABLISHED, .. })));
    drop((stream, listener.accept().expect("it connected")));
    let outcome = outcome_of(&mut events, cookie);
    assert!(matches!(outcome, Outcome::Known(info) if info.segments_out >= 2 && info.bytes_acked > 0));
}

#[test]
fn the_queue_of_a_listener_that_the_kernel_lists_is_read_and_set_from_outside() {
    let listener = TcpListener::bind("[::ffff:127.0.0.1]:0").expect("loopback works");
    let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().expect("it is bound").port()));
    let open = open_sockets().expect("anybody may");
    let own = open.iter().find(|report| report.local == address).expect("it listens");
    assert!(matches!(own.outcome, Outcome::Known(TcpInfo { state: LISTEN, .. })));
    let duplicate = socket_of_inode(own.inode).expect("this process holds it");
    assert_eq!(tcp::fastopen_queue(&duplicate).expect("it is TCP"), 0);
    tcp::set_fastopen_queue(&duplicate, 7).expect("it is TCP");
    assert_eq!(tcp::fastopen_queue(&listener).expect("it is TCP"), 7);
    assert!(socket_of_inode(u32::MAX).is_none());
}

#[test]
fn a_refused_connection_is_distinguished_from_one_that_was_established_and_aborted() {
    let mut events = DestroyEvents::subscribe().expect("anybody may");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("there are descriptors");
    let cookie = socket::cookie(&socket).expect("it is a socket");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("loopback works").local_addr().expect("it is bound");
    assert!(socket.connect(&nobody.into()).is_err());
    drop(socket);
    assert!(matches!(outcome_of(&mut events, cookie), Outcome::Failed));

    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let cookie = socket::cookie(&stream).expect("it is a socket");
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("it is a socket");
    drop(stream);
    assert!(matches!(outcome_of(&mut events, cookie), Outcome::Unknown));
}

/// Waits for the destroy event of the socket with this cookie, and returns the reported outcome.
fn outcome_of(events: &mut DestroyEvents, cookie: u64) -> Outcome {
    loop {
        fastopen_netns::poll::wait_readable(&[events.as_fd()], None).expect("it can be waited for");
        while let Some(report) = events.try_next() {
            if report.cookie == cookie {
                return report.outcome;
            }
        }
    }
}

#[test]
fn the_kernel_has_the_fast_open_counters() {
    let counters = counters::read().expect("/proc is mounted");
    for name in ["TCPFastOpenActive", "TCPFastOpenPassive", "TCPFastOpenListenOverflow", "ActiveOpens"] {
        assert!(counters.contains_key(name), "{name} is missing");
    }
}

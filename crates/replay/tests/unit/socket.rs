use std::future::poll_fn;
use std::net::{Ipv4Addr, Ipv6Addr};

use quinn::udp::EcnCodepoint;

use super::*;

#[test]
fn datagrams_keep_their_order_ecn_and_the_address_that_they_were_sent_to() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it runs");
    runtime.block_on(async {
        // The loopback interface has a whole network of IPv4 addresses, but only one IPv6 address.
        exchange(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(127, 0, 0, 9).into()).await;
        exchange(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()).await;
    });
}

/// Checks that a server bound to the wildcard address `any` receives the datagrams that a client sends to
/// the local address `own`, in order, with ECN mark and destination, and that its reply comes from `own`.
async fn exchange(any: IpAddr, own: IpAddr) {
    let any = SocketAddr::new(any, 0);
    let server = Datagrams::bind(any, None).expect("it binds");
    let address = SocketAddr::new(own, server.local.port());
    let client = Datagrams::bind(any, Some(address)).expect("it connects");
    let transmit = |destination, src_ip, ecn, contents| Transmit {
        destination,
        ecn: Some(ecn),
        contents,
        segment_size: None,
        src_ip,
    };
    for contents in [b"first".as_slice(), b"second", b"third"] {
        client.send(&transmit(address, None, EcnCodepoint::Ect0, contents)).expect("loopback works");
    }
    for expected in [b"first".as_slice(), b"second", b"third"] {
        let (meta, bytes) = receive(&server).await;
        assert_eq!(bytes, expected);
        assert_eq!((meta.addr, meta.dst_ip, meta.ecn), (client.local, Some(own), Some(EcnCodepoint::Ect0)));
    }
    server.send(&transmit(client.local, Some(own), EcnCodepoint::Ect1, b"back")).expect("loopback works");
    let (meta, bytes) = receive(&client).await;
    assert_eq!((bytes.as_slice(), meta.addr, meta.ecn), (&b"back"[..], address, Some(EcnCodepoint::Ect1)));
}

async fn receive(socket: &Datagrams) -> (RecvMeta, Vec<u8>) {
    let (mut buffer, mut meta) = ([0; 16], [RecvMeta::default()]);
    let received =
        poll_fn(|context| socket.poll_receive(context, &mut [IoSliceMut::new(&mut buffer)], &mut meta));
    assert_eq!(received.await.expect("the runtime runs"), 1);
    (meta[0], buffer[..meta[0].len].to_vec())
}

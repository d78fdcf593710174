//! Tests that an HTTP/3 client accepts the server's streams only once early data is accepted.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fastopen_replay::http3::{Early, Quic, StreamTable};
use fastopen_replay::tls::{Authority, Sessions, Settings, client, server};
use h3::quic;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};
use tokio::sync::watch;

/// Returns a client's loopback connection on which a server's stream has arrived, and values to keep it open.
async fn with_a_stream_of_the_server() -> (Connection, impl Sized) {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let settings = Settings::default();
    let authority = Authority::new(since_1970.as_nanos() as u64).unwrap();
    let identity = authority.identity(&BTreeSet::from(["a.test".to_owned()]), 0).unwrap();
    let mut served = server(&settings, identity, &[b"h3"], Arc::<Sessions>::default(), None).unwrap();
    served.max_early_data_size = 0;
    let served = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(served).unwrap()));
    let asked = client(&settings, &authority, &[b"h3"], 1).unwrap();
    let asked = ClientConfig::new(Arc::new(QuicClientConfig::try_from(asked).unwrap()));
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (origin, client) = (Endpoint::server(served, loopback).unwrap(), Endpoint::client(loopback).unwrap());
    let connecting = client.connect_with(asked, origin.local_addr().unwrap(), "a.test").unwrap();
    let accepting = async { origin.accept().await.unwrap().await };
    let (near, far) = tokio::join!(connecting, accepting);
    let (near, far) = (near.unwrap(), far.unwrap());
    let mut control = far.open_uni().await.unwrap();
    control.write_all(b"settings").await.unwrap();
    while near.stats().frame_rx.stream == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (near, (control, far, origin, client))
}

/// Returns true if `http` accepts a stream from the server without waiting.
async fn takes_a_stream(http: &mut Quic) -> bool {
    poll_fn(|context| Poll::Ready(quic::Connection::<Bytes>::poll_accept_recv(http, context).is_ready()))
        .await
}

#[tokio::test]
async fn streams_of_the_server_are_left_to_the_h3_that_takes_over_where_early_data_is_rejected() {
    let (connection, _others) = with_a_stream_of_the_server().await;
    let early = watch::Sender::new(Early::Pending);
    let mut first = Quic::new(connection.clone(), StreamTable::default(), early.subscribe());
    assert!(!takes_a_stream(&mut first).await, "it is not known yet");
    early.send_replace(Early::Rejected);
    assert!(!takes_a_stream(&mut first).await, "it is another's");
    drop(first);
    let mut second = Quic::without_early_data(connection, StreamTable::default());
    assert!(takes_a_stream(&mut second).await);
}

#[tokio::test]
async fn streams_of_the_server_are_taken_once_early_data_is() {
    let (connection, _others) = with_a_stream_of_the_server().await;
    let early = watch::Sender::new(Early::Pending);
    let mut http = Quic::new(connection, StreamTable::default(), early.subscribe());
    assert!(!takes_a_stream(&mut http).await);
    early.send_replace(Early::Taken);
    assert!(takes_a_stream(&mut http).await);
}

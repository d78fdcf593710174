//! Tests TLS streams at both ends of a pipe: early data, its rejection, and data that arrives in pieces.

use std::future::ready;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fastopen_replay::tls::{
    Authority, Handshake, SessionStart, Sessions, Settings, TlsStream, client, server, with_session_limit,
};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

const PIPE_BYTES: usize = 1 << 20;
/// The origins' limit on early data, in bytes.
const MOST: usize = 16_384;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// The states of the handshake that one end of a connection reported, in the order of the reports.
type Handshakes = Arc<Mutex<Vec<Handshake>>>;

struct Pair {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    sessions: Arc<Sessions>,
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

fn name() -> ServerName<'static> {
    ServerName::try_from("a.test").unwrap()
}

fn collecting(handshakes: &Handshakes) -> impl FnMut(Handshake) + Send + 'static {
    let handshakes = handshakes.clone();
    move |handshake| handshakes.lock().unwrap().push(handshake)
}

fn last(handshakes: &Handshakes) -> Handshake {
    handshakes.lock().unwrap().last().expect("a handshake was reported").clone()
}

impl Pair {
    /// Returns the configurations of client and server. The client has the tickets of one earlier connection.
    async fn with_tickets() -> Self {
        let settings = Settings::default();
        let authority = Authority::new(since_1970().as_nanos() as u64).unwrap();
        let identity = authority.identity(&["a.test".to_owned()].into(), 0).unwrap();
        let sessions = Arc::<Sessions>::default();
        let mut client = client(&settings, &authority, &[b"http/1.1"], 1).unwrap();
        client.enable_early_data = true;
        let server = server(&settings, identity, &[b"http/1.1"], sessions.clone(), None).unwrap();
        let pair = Self { client: Arc::new(client), server: Arc::new(server), sessions };
        let (near, far) = duplex(PIPE_BYTES);
        let mut first = pair.connect(near, &Handshakes::default());
        assert!(!first.offers_early_data(), "there is no ticket yet");
        let visit = async {
            first.handshake().await?;
            first.receive_tickets(settings.tickets.into()).await
        };
        let handshakes = Handshakes::default();
        let (visited, _) = tokio::join!(visit, pair.accept(far, &handshakes));
        visited.unwrap();
        pair
    }

    fn connect(&self, pipe: DuplexStream, handshakes: &Handshakes) -> TlsStream<DuplexStream> {
        TlsStream::connect(self.client.clone(), name(), pipe, collecting(handshakes)).unwrap()
    }

    async fn accept(
        &self,
        pipe: DuplexStream,
        handshakes: &Handshakes,
    ) -> io::Result<TlsStream<DuplexStream>> {
        TlsStream::accept(self.server.clone(), pipe, collecting(handshakes)).await
    }

    /// Sends a request as early data and reads the response. Returns the last state of client and server.
    async fn exchange(&self, pipe_bytes: usize) -> (Handshake, Handshake) {
        let (near, far) = duplex(pipe_bytes);
        let (at_client, at_server) = (Handshakes::default(), Handshakes::default());
        let mut client = self.connect(near, &at_client);
        assert!(client.offers_early_data());
        let ask = async {
            client.write_all(REQUEST).await.unwrap();
            let mut answer = vec![0; ANSWER.len()];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, ANSWER);
            client.shutdown().await.unwrap();
        };
        let serve = async {
            let mut server = self.accept(far, &at_server).await.unwrap();
            let mut request = vec![0; REQUEST.len()];
            server.read_exact(&mut request).await.unwrap();
            assert_eq!(request, REQUEST);
            server.write_all(ANSWER).await.unwrap();
            // The end of the stream arrives after the client's last handshake message.
            assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        };
        tokio::join!(ask, serve);
        (last(&at_client), last(&at_server))
    }
}

struct Later(Duration);

impl TimeProvider for Later {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(since_1970() + self.0))
    }
}

impl std::fmt::Debug for Later {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{:?} later", self.0)
    }
}

/// Polls a future once. Panics if the future is ready.
async fn polled_once<T>(future: impl Future<Output = T>) {
    tokio::select! {
        biased;
        _ = future => panic!("it is ready"),
        () = ready(()) => {}
    }
}

#[tokio::test]
async fn early_data_is_answered_before_the_handshake_is_complete() {
    let pair = Pair::with_tickets().await;
    let (near, far) = duplex(PIPE_BYTES);
    let handshakes = Handshakes::default();
    let mut client = pair.connect(near, &Handshakes::default());
    client.write_all(REQUEST).await.unwrap();
    // From now on the client sends nothing, so the server only has the client's first flight.
    let mut server = pair.accept(far, &handshakes).await.unwrap();
    let mut request = vec![0; REQUEST.len()];
    server.read_exact(&mut request).await.unwrap();
    server.write_all(ANSWER).await.unwrap();
    server.flush().await.unwrap();
    assert_eq!((request, *server.secured().borrow()), (REQUEST.to_vec(), false));
    let read = last(&handshakes);
    assert_eq!((read.early_bytes, read.complete), (REQUEST.len() as u64, false));
    assert!(read.session.resumed);
    let mut answer = vec![0; ANSWER.len()];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, ANSWER);
}

#[tokio::test]
async fn both_ends_tell_of_the_same_early_data() {
    let (at_client, at_server) = Pair::with_tickets().await.exchange(PIPE_BYTES).await;
    for end in [&at_client, &at_server] {
        assert!(end.complete && end.session.resumed);
        assert_eq!(end.early_bytes, REQUEST.len() as u64);
    }
    assert_eq!(at_client.hello_bytes, at_server.hello_bytes);
}

#[tokio::test]
async fn rejected_early_data_is_sent_again_and_read_once() {
    let mut pair = Pair::with_tickets().await;
    pair.server = Arc::new(with_session_limit(&pair.server, SessionStart::Resumed));
    let (at_client, at_server) = pair.exchange(PIPE_BYTES).await;
    assert_eq!((at_client.early_bytes, at_server.early_bytes), (0, 0));
    assert!(at_client.session.resumed && at_server.session.resumed);
}

#[tokio::test]
async fn a_server_that_has_forgotten_its_sessions_does_a_full_handshake() {
    let pair = Pair::with_tickets().await;
    pair.sessions.forget();
    let (at_client, at_server) = pair.exchange(PIPE_BYTES).await;
    assert_eq!((at_client.early_bytes, at_server.early_bytes), (0, 0));
    assert!(!at_client.session.resumed && !at_server.session.resumed);
}

#[tokio::test]
async fn early_data_with_a_ticket_whose_age_does_not_fit_is_rejected() {
    // rustls allows a difference of one minute between the clocks (RFC 8446 section 8.3 recommends ten
    // seconds).
    for (later_s, early_bytes) in [(30, REQUEST.len() as u64), (90, 0)] {
        let mut pair = Pair::with_tickets().await;
        let mut server = ServerConfig::clone(&pair.server);
        server.time_provider = Arc::new(Later(Duration::from_secs(later_s)));
        pair.server = Arc::new(server);
        let (_, at_server) = pair.exchange(PIPE_BYTES).await;
        assert_eq!((at_server.session.resumed, at_server.early_bytes), (true, early_bytes), "{later_s} s");
    }
}

#[tokio::test]
async fn a_ticket_serves_one_connection() {
    let pair = Pair::with_tickets().await;
    let offers = |_| pair.connect(duplex(PIPE_BYTES).0, &Handshakes::default()).offers_early_data();
    assert_eq!([0, 1, 2].map(offers), [true, true, false]);
}

#[tokio::test]
async fn what_is_more_than_the_limit_follows_the_handshake() {
    let pair = Pair::with_tickets().await;
    let (near, far) = duplex(PIPE_BYTES);
    let handshakes = Handshakes::default();
    let mut client = pair.connect(near, &Handshakes::default());
    let data: Vec<u8> = (0..3 * MOST).map(|number| number as u8).collect();
    let receive = async {
        let mut server = pair.accept(far, &handshakes).await.unwrap();
        let mut received = vec![0; data.len()];
        server.read_exact(&mut received).await.unwrap();
        received
    };
    let write = async {
        client.write_all(&data).await.unwrap();
        client.flush().await.unwrap();
    };
    let (received, ()) = tokio::join!(receive, write);
    assert_eq!(received, data);
    assert_eq!(last(&handshakes).early_bytes, MOST as u64);
}

#[tokio::test]
async fn a_server_refuses_more_early_data_than_it_takes() {
    let mut pair = Pair::with_tickets().await;
    let mut server = ServerConfig::clone(&pair.server);
    server.max_early_data_size = 10;
    pair.server = Arc::new(server);
    let (near, far) = duplex(PIPE_BYTES);
    let mut client = pair.connect(near, &Handshakes::default());
    client.write_all(REQUEST).await.unwrap();
    let refused = async { pair.accept(far, &Handshakes::default()).await?.read(&mut [0; 100]).await };
    let mut room = [0; 100];
    let (refused, answer) = tokio::join!(refused, client.read(&mut room));
    assert!(refused.unwrap_err().to_string().contains("TooMuchEarlyData"));
    assert!(answer.is_err(), "the alert reaches the client");
}

#[tokio::test]
async fn records_may_come_byte_by_byte() {
    let (_, at_server) = Pair::with_tickets().await.exchange(1).await;
    assert!(at_server.complete);
    assert_eq!(at_server.early_bytes, REQUEST.len() as u64);
}

#[tokio::test]
async fn early_data_of_a_client_that_closes_its_half_is_read_to_its_end() {
    let pair = Pair::with_tickets().await;
    let (near, mut captured) = duplex(PIPE_BYTES);
    let mut client = pair.connect(near, &Handshakes::default());
    client.write_all(REQUEST).await.unwrap();
    drop(client);
    let mut flight = Vec::new();
    captured.read_to_end(&mut flight).await.unwrap();
    let (mut near, far) = duplex(PIPE_BYTES);
    near.write_all(&flight).await.unwrap();
    near.shutdown().await.unwrap();
    let mut server = pair.accept(far, &Handshakes::default()).await.unwrap();
    let mut request = vec![0; REQUEST.len()];
    server.read_exact(&mut request).await.unwrap();
    assert_eq!(request, REQUEST);
    assert_eq!(server.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_server_that_closes_after_an_early_answer_waits_for_the_end_of_the_handshake() {
    let pair = Pair::with_tickets().await;
    let (near, far) = duplex(PIPE_BYTES);
    let handshakes = Handshakes::default();
    let mut client = pair.connect(near, &Handshakes::default());
    let serve = async {
        let mut server = pair.accept(far, &handshakes).await.unwrap();
        server.read_exact(&mut vec![0; REQUEST.len()]).await.unwrap();
        server.write_all(ANSWER).await.unwrap();
        server.shutdown().await.unwrap();
    };
    let ask = async {
        client.write_all(REQUEST).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let ((), answer) = tokio::join!(serve, ask);
    assert_eq!((answer, last(&handshakes).complete), (ANSWER.to_vec(), true));
}

#[tokio::test]
async fn a_client_without_a_request_sends_nothing_until_its_handshake_is_asked_for() {
    let pair = Pair::with_tickets().await;
    let (near, mut far) = duplex(PIPE_BYTES);
    let mut client = pair.connect(near, &Handshakes::default());
    polled_once(client.read(&mut [0])).await;
    client.flush().await.unwrap();
    polled_once(client.handshake()).await;
    drop(client);
    let mut sent = Vec::new();
    far.read_to_end(&mut sent).await.unwrap();
    // The client sent only a ClientHello and the ChangeCipherSpec record for middleboxes (RFC 8446 appendix
    // D.4).
    let hello = 5 + usize::from(u16::from_be_bytes([sent[3], sent[4]]));
    assert_eq!(sent[hello..], [20, 3, 3, 0, 1, 1]);
}

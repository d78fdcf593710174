//! Builds valid loads, which the tests change.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use fastopen_contract::{
    BothEnds, ConnectionRecord, Cookies, EndEvidence, Invalid, InvalidKind, Job, LinkDirectionRecord,
    LinkRecord, LoadPlan, LookupRecord, OriginTlsRecord, RequestRecord, SeenAt, ServerRecord, TlsRecord,
    Transport,
};
use fastopen_evidence::{Expectation, Observations, judge};
use fastopen_link::ip::Addresses;
use fastopen_link::path::PathRule;
use fastopen_replay::tls::{SessionStart, Version};

/// A load of a page with the root document on a.test and an image on b.test. Each test changes it.
pub(crate) struct Load {
    pub(crate) plan: LoadPlan,
    pub(crate) job: Job,
    pub(crate) requests: Vec<RequestRecord>,
    pub(crate) connections: Vec<ConnectionRecord>,
    pub(crate) lookups: Vec<LookupRecord>,
    pub(crate) counters: BothEnds<BTreeMap<String, i64>>,
    pub(crate) link: LinkRecord,
    pub(crate) cookies_before: Vec<IpAddr>,
    pub(crate) path: PathRule,
    pub(crate) server: Option<ServerRecord>,
    pub(crate) server_failure: Option<String>,
    pub(crate) finished: bool,
}

pub(crate) const A: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 19, 0, 1));
pub(crate) const B: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 19, 0, 2));
pub(crate) const LATE_US: u64 = 5000;
/// An empty list of reasons, as [`Load::kinds`] returns it for a valid load.
pub(crate) const NONE: [InvalidKind; 0] = [];

pub(crate) const PAGE: &str = r#"{"format": "fastopen-page/1", "name": "p", "url": "http://a.test/",
    "source": "made up", "initiators": "declared", "resources": [
    {"url": "http://a.test/", "type": "document", "body_bytes": 5000, "initiator": null},
    {"url": "http://b.test/", "type": "image", "body_bytes": 300, "initiator": 0}]}"#;

pub(crate) const NETWORK: &str = r#"{"rtt_us": 10000, "down": {"rate_bit_per_s": null, "queue_bytes": null},
    "up": {"rate_bit_per_s": null, "queue_bytes": null}}"#;

/// Returns the evidence of one end of an established connection.
pub(crate) fn end(syn_data_acked: bool) -> EndEvidence {
    EndEvidence {
        syn_data_acked,
        options: if syn_data_acked { 39 } else { 7 },
        fastopen_client_fail: 0,
        rtt_us: 0,
        min_rtt_us: 0,
        bytes_sent: 0,
        bytes_received: 0,
        segments_out: 5,
        segments_in: 5,
        retransmits: 0,
    }
}

/// Returns a connection that the client closed in `SYN_SENT`, after the origin had accepted the SYN data.
pub(crate) fn given_up_connection(host: &str, at_ms: u64) -> ConnectionRecord {
    ConnectionRecord {
        connected_ns: None,
        handshake_us: None,
        requests: 0,
        client: Some(EndEvidence { segments_out: 1, segments_in: 0, ..end(false) }),
        origin: Some(end(true)),
        ..connection(host, at_ms, false)
    }
}

/// Returns a connection that was opened at `at_ms`. The call `connect` returned 1 us later if the SYN carried
/// data, otherwise 10 ms later.
pub(crate) fn connection(host: &str, at_ms: u64, syn_data: bool) -> ConnectionRecord {
    let opened_ns = at_ms * 1_000_000;
    ConnectionRecord {
        id: 0,
        host: host.into(),
        port: 80,
        client_port: Some(40_000),
        opened_ns,
        connected_ns: Some(opened_ns + if syn_data { 1000 } else { 10_000_000 }),
        handshake_us: (!syn_data).then_some(10_000),
        tls: None,
        multiplexed: false,
        requests: 1,
        client: Some(end(syn_data)),
        origin: Some(end(syn_data)),
        quic: None,
        origin_samples: Vec::new(),
        four_tuple: None,
        address: None,
    }
}

/// Returns a TLS handshake with the same results at both ends.
pub(crate) fn handshake(resumed: bool, early: bool) -> TlsRecord {
    let early_bytes = if early { 400 } else { 0 };
    TlsRecord {
        secured_ns: 30_000_000,
        version: Version::Tls13,
        cipher: "TLS13_AES_256_GCM_SHA384".into(),
        group: None,
        alpn: None,
        resumed,
        early_bytes,
        hello_bytes: 300,
        sent_bytes: 300,
        received_bytes: 300,
        origin: Some(OriginTlsRecord { resumed, early_bytes, answer_held_ns: 0 }),
    }
}

pub(crate) fn request(resource: usize, body_bytes: u64) -> RequestRecord {
    let (end_ns, status) = (Some(1), Some(200));
    RequestRecord { resource, end_ns, status, body_bytes, ..RequestRecord::default() }
}

pub(crate) fn way() -> LinkDirectionRecord {
    LinkDirectionRecord {
        packets: 10,
        bytes: 1000,
        dropped_queue: 0,
        dropped_loss: 0,
        dropped_path: 0,
        overruns: 0,
        queue_bytes_max: Some(0),
        late_us_p50: 0,
        late_us_p99: 0,
        late_us_max: LATE_US,
    }
}

impl Load {
    pub(crate) fn new(
        transport: Transport,
        cookies: Option<Cookies>,
        connections: Vec<ConnectionRecord>,
    ) -> Self {
        let job = format!(
            r#"{{"contract": 2, "id": "job", "seed": 1, "page": {PAGE}, "network": {NETWORK}, "loads": [],
                "tolerance": {{"rtt_us": 1, "late_us": {LATE_US}}}}}"#
        );
        let mut load = Self {
            plan: LoadPlan { id: "load".into(), transport, cookies, transactions: None },
            job: serde_json::from_str(&job).expect("it is a job"),
            requests: vec![request(0, 5000), request(1, 300)],
            connections,
            lookups: Vec::new(),
            counters: BothEnds::default(),
            link: LinkRecord { down: way(), up: way() },
            cookies_before: Vec::new(),
            path: PathRule::default(),
            server: None,
            server_failure: None,
            finished: true,
        };
        load.count();
        load
    }

    pub(crate) fn tcp() -> Self {
        Self::new(Transport::Tcp, None, vec![connection("a.test", 0, false), connection("b.test", 20, false)])
    }

    pub(crate) fn warm() -> Self {
        let connections = vec![connection("a.test", 0, true), connection("b.test", 20, true)];
        let mut load = Self::new(Transport::Tfo, Some(Cookies::Warm), connections);
        load.cookies_before = vec![A, B];
        load
    }

    /// Returns a load over TLS with three connections. The first two use tickets of an earlier visit, unless
    /// `session` is `None`.
    pub(crate) fn tls(session: SessionStart) -> Self {
        let begins = |resumed| ConnectionRecord {
            tls: Some(handshake(resumed, resumed && session == SessionStart::Early)),
            ..connection("a.test", 0, false)
        };
        let connections = [session != SessionStart::None; 2].map(begins).into_iter().chain([begins(false)]);
        let connections = (0..).zip(connections).map(|(id, one)| ConnectionRecord { id, ..one }).collect();
        Self::new(Transport::Tls, None, connections).with(|load| {
            load.job.tls.session = session;
            let first = |(connection, number)| RequestRecord {
                connection: Some(connection),
                queued_ns: Some(0),
                connect_start_ns: Some(0),
                sent_ns: Some(1),
                first_byte_ns: Some(if session == SessionStart::Early { 20_000_000 } else { 30_000_000 }),
                ..request(0, number)
            };
            load.requests = [(0, 5000), (1, 5000)].map(first).into();
        })
    }

    pub(crate) fn cold(connections: Vec<ConnectionRecord>) -> Self {
        Self::new(Transport::Tfo, Some(Cookies::Cold), connections)
    }

    /// Sets both kernels' counters of accepted SYN data to the numbers that the sockets report.
    pub(crate) fn count(&mut self) {
        let with_data = |end: fn(&ConnectionRecord) -> Option<EndEvidence>| {
            self.connections.iter().filter(|one| end(one).is_some_and(|end| end.syn_data_acked)).count()
                as i64
        };
        let (client, origins) = (with_data(|one| one.client), with_data(|one| one.origin));
        self.counters.client.insert("TCPFastOpenActive".into(), client);
        self.counters.origins.insert("TCPFastOpenPassive".into(), origins);
    }

    pub(crate) fn reasons(&self) -> Vec<Invalid> {
        let observed = Observations {
            job: &self.job,
            hosts: &[("a.test", A), ("b.test", B)]
                .map(|(host, preferred)| (host.to_owned(), Addresses { preferred, other: None }))
                .into(),
            cookies_before: &self.cookies_before,
            requests: &self.requests,
            connections: &self.connections,
            lookups: &self.lookups,
            path: &self.path,
            server: self.server.as_ref(),
            server_failure: self.server_failure.as_deref(),
            unfinished: (!self.finished).then_some("not finished within the time limit"),
            counters: &self.counters,
            link: &self.link,
            seen_at: SeenAt::Client,
            schemes: self.job.schemes(self.plan.transport.is_encrypted()),
        };
        judge(&observed, Expectation::of(&self.plan, &self.job))
    }

    pub(crate) fn kinds(&self) -> Vec<InvalidKind> {
        self.reasons().into_iter().map(|reason| reason.kind).collect()
    }

    pub(crate) fn client_counts(mut self, counter: &str, growth: i64) -> Self {
        self.counters.client.insert(counter.into(), growth);
        self
    }

    pub(crate) fn origins_count(mut self, counter: &str, growth: i64) -> Self {
        self.counters.origins.insert(counter.into(), growth);
        self
    }

    /// Applies a change, and returns the load.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

pub(crate) fn retransmitted(mut connection: ConnectionRecord) -> ConnectionRecord {
    connection.client.as_mut().expect("there is evidence").retransmits = 1;
    connection
}

//! Checks when the first response byte of a connection arrives. The byte must not arrive before the necessary
//! round trips are over. If nothing else can delay the byte, it must arrive within one further round trip.

use fastopen_link::ip;
use fastopen_link::path::Behaviour;
use fastopen_page::Resource;
use fastopen_replay::tls::Version;

use super::Observations;
use fastopen_contract::{ConnectionRecord, Invalid, LinkDirection, RequestRecord, SeenAt, TlsRecord};

/// Bytes of data in the largest TLS record (RFC 8446 section 5.1). Only a complete record can be read.
const TLS_RECORD: u64 = 16_384;

/// Bytes of payload in a QUIC datagram of 1,200 bytes, which every path must carry (RFC 9000 section 14).
const DATAGRAM: u64 = 1150;

/// Upper bound on the bytes that one end sends for a SYN and acknowledgments, or for a resumed handshake.
const HANDSHAKE: u64 = 600;

/// Upper bound on the bytes that a client or server sends in padded QUIC datagrams before the first response:
/// four of at most 1252 bytes. Datagrams with Initial packets are padded (RFC 9000 section 14.1).
const PADDED: u64 = 4 * 1252;

/// Bytes of the TCP header, and of the space that the kernel reserves for TCP options in a SYN with data
/// (`tcp_send_syn_data`, `MAX_TCP_OPTION_SPACE`).
const HEADER_AND_SYN_OPTIONS: u64 = 20 + 40;

const HEADER_AND_TIME_STAMPS: u64 = 32;

/// TLS bytes around early data: a `change_cipher_spec` record (6), and the header (5), content type (1) and
/// AEAD tag (16) of the record with the early data (RFC 8446 sections 5.1, 5.2 and D.4).
const BESIDE_EARLY_DATA: u64 = 6 + 5 + 1 + 16;

impl Observations<'_> {
    /// Adds a reason if a connection's first response byte is earlier or later than its round trips allow.
    pub(super) fn first_bytes(&self, reasons: &mut Vec<Invalid>) {
        if self.seen_at != SeenAt::Client || self.job.network.varies() {
            return;
        }
        for connection in self.connections {
            // Skip records that have only the origins' times (no `queued_ns`): a browser that aborts and
            // repeats a request leaves such a record.
            let of_the_client = |first: &&RequestRecord| first.cache.is_none() && first.queued_ns.is_some();
            let first = self.first_request(connection).filter(of_the_client);
            let Some((first, first_byte_ns)) = first.and_then(|first| Some((first, first.first_byte_ns?)))
            else {
                continue;
            };
            let rtt_us = self.job.network.rtt_us_to(&connection.host);
            let rtts = round_trips(connection);
            let took_us = first_byte_ns.saturating_sub(connection.opened_ns) / 1000;
            let (host, took) = (&connection.host, shown_ms(took_us));
            let came = format!("the first byte from {host} came {took} after the connection was opened");
            if took_us < rtts * rtt_us.saturating_sub(self.job.tolerance.rtt_us) {
                invalid!(reasons, SoonerThanPossible, "{came}, which takes {rtts} round trips");
            }
            if self.is_undisturbed(connection, first) {
                let resource = &self.job.page.resources[first.resource];
                let (rtts, wire_us) = self.at_most(connection, resource, rtts);
                let held_us = held_ns(connection, first) / 1000;
                let latest_us =
                    rtts * rtt_us + held_us + resource.server_think_us + resource.server_send_us + wire_us;
                // Tolerance for a busy machine: less than a round trip, unless the round trip is short.
                if took_us > latest_us + (rtt_us * 3 / 4).max(2 * self.job.late_us()) {
                    let latest = shown_ms(latest_us);
                    invalid!(
                        reasons,
                        FirstByteLate,
                        "{came}, which takes {rtts} round trips, {latest} at most"
                    );
                }
            }
        }
    }

    /// Returns true if nothing but the necessary round trips delays a connection's first response. On a link
    /// with a rate limit, only the page load's first connection qualifies: others may wait in a queue.
    fn is_undisturbed(&self, connection: &ConnectionRecord, first: &RequestRecord) -> bool {
        let first_byte_ns = first.first_byte_ns.unwrap_or(u64::MAX);
        // A browser opens another connection if a server does not answer for a while.
        let is_earlier =
            |other: &ConnectionRecord| other.id != connection.id && other.opened_ns < first_byte_ns;
        let alone = first.resource == 0 && !self.connections.iter().any(is_earlier);
        let ways = [&self.job.network.down, &self.job.network.up];
        let no_queue = ways.iter().all(|way| way.rate_bit_per_s.is_none());
        // Delays by the machine make a load invalid for another reason, `LinkLate`.
        let on_time =
            [&self.link.down, &self.link.up].iter().all(|way| way.late_us_max <= self.job.late_us());
        let asked_first = first.queued_ns.is_some_and(|at| at <= connection.opened_ns);
        !self.job.is_foreign()
            && on_time
            && self.lost_packets() == 0
            && !self.lost_something(connection)
            && self.path.behaviour == Behaviour::None
            && self.job.network.cross.is_none()
            && ways.iter().all(|way| way.trace_ms.is_none())
            && (alone
                || no_queue && asked_first && !connection.multiplexed && !self.job.origins.single_threaded)
    }

    /// Returns the maximum number of round trips before a connection's first response, and the maximum time
    /// in microseconds to transmit the request and response. `least` is the minimum number of round trips.
    fn at_most(&self, connection: &ConnectionRecord, resource: &Resource, least: u64) -> (u64, u64) {
        let request = resource.request_header_bytes + resource.request_body_bytes;
        let tls = connection.tls.as_ref();
        let (hello, received) = tls.map_or((0, 0), |tls| (tls.hello_bytes, tls.received_bytes));
        let early = tls.is_some_and(|tls| tls.seen_early() > 0);
        // Data that does not fit into the SYN waits for the SYN-ACK.
        let first = if hello > 0 { hello } else { request + HANDSHAKE };
        let beyond_syn = connection.client.is_some_and(|end| end.syn_data_acked)
            && first > self.syn_room(connection)
            || early && tls.is_some_and(|tls| self.early_data_comes_later(connection, tls));
        let (quic_waits, padded) = connection.quic.map_or((0, 0), |quic| {
            // Before it has validated the client's address, a server may send only three times the bytes that
            // it has received (RFC 9000 section 8.1). Certificates may exceed this limit.
            let certificates = tls.is_some_and(|tls| !tls.resumed);
            (quic.client.received.retry + u64::from(certificates), PADDED)
        });
        // Data can be read once its packet, or its TLS record, is complete.
        let packet = u64::from(self.job.network.mtu_bytes);
        let record = if tls.is_some() && connection.quic.is_none() { TLS_RECORD } else { packet };
        // The congestion window counts packets. Data that is written separately, such as session tickets,
        // HTTP/2 settings and the response's head, may leave in short packets.
        let short = if tls.is_some() { 4 } else { 1 };
        let answer = resource.response_header_bytes + resource.body_bytes.min(record);
        let (up, down) = (HANDSHAKE + hello + request, HANDSHAKE + answer);
        // Certificates larger than the initial window take further round trips.
        let segment = match connection.quic {
            Some(_) => DATAGRAM,
            None => self.ip_payload(connection) - HEADER_AND_TIME_STAMPS,
        };
        let waits = self.more_windows(up, segment)
            + self.more_windows(received, segment)
            + self.more_windows(if early { down } else { answer } + short * segment, segment);
        let (up, down) = (up + padded, down + received + padded);
        let wire_us = wire_us(&self.job.network.up, up + acknowledgments(down, segment))
            + wire_us(&self.job.network.down, down + acknowledgments(up, segment));
        (least + u64::from(beyond_syn) + quic_waits + waits, wire_us)
    }

    fn ip_payload(&self, connection: &ConnectionRecord) -> u64 {
        let version = self.address(connection).map_or(self.job.network.ip.preferred(), ip::Version::of);
        u64::from(self.job.network.mtu_bytes) - version.header_bytes()
    }

    fn syn_room(&self, connection: &ConnectionRecord) -> u64 {
        self.ip_payload(connection) - HEADER_AND_SYN_OPTIONS
    }

    /// Returns true if the client cannot send its last early data until a round trip or more after the
    /// `ClientHello`. The server then answers the `ClientHello` before it has all early data.
    pub(super) fn early_data_comes_later(&self, connection: &ConnectionRecord, tls: &TlsRecord) -> bool {
        let end = tls.hello_bytes + BESIDE_EARLY_DATA + tls.early_bytes;
        tls.early_bytes > 0 && self.flight_of(connection, end) > self.flight_of(connection, tls.hello_bytes)
    }

    /// Returns the round trips from the SYN until the client can send the last of its first `bytes` bytes.
    fn flight_of(&self, connection: &ConnectionRecord, bytes: u64) -> u64 {
        let segment = self.ip_payload(connection) - HEADER_AND_TIME_STAMPS;
        let in_syn = connection.client.is_some_and(|client| client.syn_data_acked);
        let after_syn = bytes.saturating_sub(if in_syn { self.syn_room(connection) } else { 0 });
        if after_syn == 0 { 0 } else { 1 + self.more_windows(after_syn, segment) }
    }

    /// Returns the additional round trips to send `bytes` bytes if they exceed the initial congestion window.
    /// The window doubles in each round trip. `segment` is the payload of a full segment in bytes.
    fn more_windows(&self, bytes: u64, segment: u64) -> u64 {
        let mut sent = u64::from(self.job.tcp.initial_window_segments) * segment;
        // The acknowledgment of the first flight's last segment may be delayed (RFC 5681 section 4.2).
        let (mut window, mut more) = (2 * sent.saturating_sub(segment).max(segment), 0);
        while sent < bytes {
            sent += window;
            window *= 2;
            more += 1;
        }
        more
    }
}

/// Returns the smallest number of round trips from a connection's opening to the first response byte.
pub(super) fn round_trips(connection: &ConnectionRecord) -> u64 {
    // QUIC has no handshake of its own: it carries the TLS handshake.
    let tcp =
        u64::from(connection.quic.is_none() && !connection.client.is_some_and(|end| end.syn_data_acked));
    let tls = match &connection.tls {
        None => 0,
        Some(tls) if tls.version == Version::Tls12 => 2 - u64::from(tls.resumed),
        Some(tls) => u64::from(tls.seen_early() == 0),
    };
    tcp + tls + 1
}

/// Returns the time in nanoseconds for which the client held the request back while the connection was open.
/// A client does so if it limits the images in flight, or if it opened the connection for another request.
fn held_ns(connection: &ConnectionRecord, first: &RequestRecord) -> u64 {
    let connected = connection.connected_ns.unwrap_or(connection.opened_ns);
    let secured = connection.tls.as_ref().map_or(0, |tls| tls.secured_ns);
    first.sent_ns.map_or(0, |sent| sent.saturating_sub(connected.max(secured)))
}

fn shown_ms(us: u64) -> String {
    format!("{}.{:03} ms", us / 1000, us % 1000)
}

/// Returns the maximum total bytes of acknowledgments for `bytes` bytes sent in `segment`-byte segments.
fn acknowledgments(bytes: u64, segment: u64) -> u64 {
    (bytes / segment + 1) * 80
}

/// Returns the time in microseconds to transmit `bytes` bytes plus 5 % for headers; 0 without a fixed rate.
fn wire_us(direction: &LinkDirection, bytes: u64) -> u64 {
    direction.rate_bit_per_s.map_or(0, |rate| bytes * 21 / 20 * 8 * 1_000_000 / rate)
}

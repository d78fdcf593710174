//! When the first byte of a connection's first answer may come: not before the round trips of its first
//! flight are over, and not a round trip later where nothing else can have held it.

use fastopen_link::path::Behaviour;
use fastopen_page::Resource;
use fastopen_replay::tls::Version;

use super::{HEADERS_AND_TIME_STAMPS, Observations, invalid};
use fastopen_contract::{ConnectionRecord, Invalid, InvalidKind, LinkDirection, RequestRecord, SeenAt};

/// The largest record of TLS, which is read when all of it is there (RFC 8446 section 5.1).
const TLS_RECORD: u64 = 16_384;

/// What a datagram of QUIC carries besides headers, on any path (RFC 9000 section 14).
const DATAGRAM: u64 = 1150;

/// A little more than SYN and acknowledgments, or than a resumed handshake, take in one direction.
const HANDSHAKE: u64 = 600;

/// Datagrams with an Initial packet that an end may send before the first request is answered: each is
/// padded (RFC 9000 section 14.1).
const PADDED: u64 = 4 * 1252;

impl Observations<'_> {
    /// Holds each first answer against the bounds of its first flight.
    pub(super) fn first_bytes(&self, reasons: &mut Vec<Invalid>) {
        if self.seen_at != SeenAt::Client || self.network.varies() {
            return;
        }
        for connection in self.connections {
            // Of a request that a browser gave up and sent again, only the origins know, at their own times.
            let of_the_client = |first: &&RequestRecord| first.cache.is_none() && first.queued_ns.is_some();
            let first = self.first_request(connection).filter(of_the_client);
            let Some((first, first_byte_ns)) = first.and_then(|first| Some((first, first.first_byte_ns?)))
            else {
                continue;
            };
            let rtt_us = self.network.rtt_us_to(&connection.host);
            let rtts = round_trips(connection);
            let took_us = first_byte_ns.saturating_sub(connection.opened_ns) / 1000;
            let came = format!(
                "the first byte from {} came {} after the connection was opened",
                connection.host,
                shown_ms(took_us)
            );
            if took_us < rtts * rtt_us.saturating_sub(self.tolerance_us) {
                let detail = format!("{came}, which takes {rtts} round trips");
                reasons.push(invalid(InvalidKind::SoonerThanPossible, detail));
            }
            if self.is_undisturbed(connection, first) {
                let resource = &self.page.resources[first.resource];
                let (rtts, wire_us) = self.at_most(connection, resource, rtts);
                let held_us = held_ns(connection, first) / 1000;
                let latest_us =
                    rtts * rtt_us + held_us + resource.server_think_us + resource.server_send_us + wire_us;
                // Room for a machine that is busy, and less than a round trip where that is a long time.
                if took_us > latest_us + (rtt_us * 3 / 4).max(2 * self.late_us) {
                    let detail =
                        format!("{came}, which takes {rtts} round trips, {} at most", shown_ms(latest_us));
                    reasons.push(invalid(InvalidKind::FirstByteLate, detail));
                }
            }
        }
    }

    /// Whether nothing but its first flight decides when a first answer comes: of the load's first
    /// connection, with the document, and where the link has no rate and so no queue of the others that
    /// carry one response at a time.
    fn is_undisturbed(&self, connection: &ConnectionRecord, first: &RequestRecord) -> bool {
        let first_byte_ns = first.first_byte_ns.unwrap_or(u64::MAX);
        // After a while without an answer, a browser opens another connection.
        let is_earlier =
            |other: &ConnectionRecord| other.id != connection.id && other.opened_ns < first_byte_ns;
        let alone = first.resource == 0 && !self.connections.iter().any(is_earlier);
        let ways = [&self.network.down, &self.network.up];
        let no_queue = ways.iter().all(|way| way.rate_bit_per_s.is_none());
        // What the machine held is named by itself.
        let on_time = [&self.link.down, &self.link.up].iter().all(|way| way.late_us_max <= self.late_us);
        let asked_first = first.queued_ns.is_some_and(|at| at <= connection.opened_ns);
        !self.foreign
            && on_time
            && self.lost_packets() == 0
            && !self.lost_something(connection)
            && self.path.behaviour == Behaviour::None
            && self.network.cross.is_none()
            && ways.iter().all(|way| way.trace_ms.is_none())
            && (alone || no_queue && asked_first && !connection.multiplexed)
    }

    /// The round trips that a first answer takes at most, and the time of its bytes on the link in
    /// microseconds.
    fn at_most(&self, connection: &ConnectionRecord, resource: &Resource, least: u64) -> (u64, u64) {
        let request = resource.request_header_bytes + resource.request_body_bytes;
        let tls = connection.tls.as_ref();
        let (hello, received) = tls.map_or((0, 0), |tls| (tls.hello_bytes, tls.received_bytes));
        let early = tls.is_some_and(|tls| tls.seen_early() > 0);
        // What a SYN does not hold waits for the SYN-ACK.
        let first = if hello > 0 { hello } else { request + HANDSHAKE };
        let beyond_syn = connection.client.is_some_and(|end| end.syn_data_acked) && first > self.syn_room()
            || early && tls.is_some_and(|tls| self.early_data_comes_later(connection, tls));
        let (quic_waits, padded) = connection.quic.map_or((0, 0), |quic| {
            // Certificates wait where they are more than three times what the client has sent (RFC 9000
            // section 8.1).
            let certificates = tls.is_some_and(|tls| !tls.resumed);
            (quic.client.received.retry + u64::from(certificates), PADDED)
        });
        // Nothing of a packet is read before all of it is there.
        let packet = u64::from(self.network.mtu_bytes);
        let record = if tls.is_some() && connection.quic.is_none() { TLS_RECORD } else { packet };
        // Windows are counted in packets, of which those before the last of a write may be short: session
        // tickets, settings of HTTP/2, the head.
        let short = if tls.is_some() { 4 } else { 1 };
        let answer = resource.response_header_bytes + resource.body_bytes.min(record);
        let (up, down) = (HANDSHAKE + hello + request, HANDSHAKE + answer);
        // Certificates that the initial window does not hold take round trips of their own.
        let segment = match connection.quic {
            Some(_) => DATAGRAM,
            None => u64::from(self.network.mtu_bytes) - HEADERS_AND_TIME_STAMPS,
        };
        let waits = self.more_windows(up, segment)
            + self.more_windows(received, segment)
            + self.more_windows(if early { down } else { answer } + short * segment, segment);
        let (up, down) = (up + padded, down + received + padded);
        let wire_us = wire_us(&self.network.up, up + acknowledgments(down, segment))
            + wire_us(&self.network.down, down + acknowledgments(up, segment));
        (least + u64::from(beyond_syn) + quic_waits + waits, wire_us)
    }
}

/// The round trips that a first answer takes at least: one for the request, one for TCP without data in
/// the SYN, and those of TLS or QUIC unless the origin read early data.
pub(super) fn round_trips(connection: &ConnectionRecord) -> u64 {
    // QUIC has no handshake but that of TLS.
    let tcp =
        u64::from(connection.quic.is_none() && !connection.client.is_some_and(|end| end.syn_data_acked));
    let tls = match &connection.tls {
        None => 0,
        Some(tls) if tls.version == Version::Tls12 => 2 - u64::from(tls.resumed),
        Some(tls) => u64::from(tls.seen_early() == 0),
    };
    tcp + tls + 1
}

/// How long the client held the request on the open connection: one that was opened for another request, or
/// that waited for others because of the limit of pictures in flight.
fn held_ns(connection: &ConnectionRecord, first: &RequestRecord) -> u64 {
    let connected = connection.connected_ns.unwrap_or(connection.opened_ns);
    let secured = connection.tls.as_ref().map_or(0, |tls| tls.secured_ns);
    first.sent_ns.map_or(0, |sent| sent.saturating_sub(connected.max(secured)))
}

/// `12.345 ms`: as people read times.
fn shown_ms(us: u64) -> String {
    format!("{}.{:03} ms", us / 1000, us % 1000)
}

/// Bytes of the acknowledgments of so many bytes, at most: each a packet of headers, with room for QUIC's.
fn acknowledgments(bytes: u64, segment: u64) -> u64 {
    (bytes / segment + 1) * 80
}

/// How long a direction takes over so many bytes, with headers of IP and TCP.
fn wire_us(way: &LinkDirection, bytes: u64) -> u64 {
    way.rate_bit_per_s.map_or(0, |rate| bytes * 21 / 20 * 8 * 1_000_000 / rate)
}

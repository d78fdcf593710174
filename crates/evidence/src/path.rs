//! Checks loads in which a middlebox (`fastopen_link::path`) or TCP settings prevent TCP Fast Open.

use std::ops::RangeInclusive;

use fastopen_link::ip::Versions;
use fastopen_link::path::{Behaviour, PathRule};

use super::counters::{by_path, is_given_up};
use super::{Expectation, Observations, SynData, grown, retransmitted};
use fastopen_contract::{ClientFastOpen, ConnectionRecord, EndEvidence, Invalid, ListenerFastOpen, Tcp};

// Values of `tcpi_fastopen_client_fail` (`TFO_*` in include/uapi/linux/tcp.h).
const UNSPECIFIED: u8 = 0;
const COOKIE_UNAVAILABLE: u8 = 1;
const DATA_NOT_ACKED: u8 = 2;
const SYN_RETRANSMITTED: u8 = 3;

/// Minimum number of retransmissions when a socket's third timeout in a row makes Linux suspect a black hole.
const LEAST_RETRANSMITS: u32 = 2;
/// Maximum number of retransmissions of a socket after three timeouts in a row: 3, and 1 tail loss probe.
const MOST_RETRANSMITS: u32 = 4;
/// Shortest time until a socket's third timeout in a row: 200 ms (`TCP_RTO_MIN`), doubled by each timeout.
const THREE_TIMEOUTS_NS: u64 = (200 + 400 + 800) * 1_000_000;

/// The effect of the middlebox and the TCP settings on Fast Open, as Linux 7.3 reports it (docs/paths.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that sockets or counters show")]
pub(super) struct Effect {
    /// The client's `tcpi_fastopen_client_fail` if SYN data is not accepted; `None` if it is accepted.
    fail: Option<u8>,
    /// True if a client without a cookie receives a new cookie from the host.
    cookie: bool,
    /// True if the host's kernel counts SYN data in `TCPFastOpenPassiveFail` because of an invalid cookie.
    refused: bool,
    /// True if the host's kernel counts a SYN in `TCPFastOpenPassive` although a middlebox removed its data.
    accepted_without_data: bool,
    /// True if `TCPFastOpenPassive` of the host's kernel also counts SYNs that only request a cookie.
    accepted_asking: bool,
    /// True if a connection whose SYN has data can be established.
    connects: bool,
    /// True if the host's packets reach the client after the host has accepted data in a SYN.
    answered: bool,
}

/// The state of the cookie in a SYN when the SYN reaches the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cookie {
    None,
    Good,
    Broken,
}

impl Effect {
    /// Derives how a middlebox and the TCP settings of both ends affect Fast Open, for SYNs with data and
    /// SYNs that request a cookie (`tcp_try_fastopen` in Linux's `net/ipv4/tcp_fastopen.c`).
    fn of(behaviour: Behaviour, tcp: &Tcp) -> Self {
        let listens = tcp.listener_fastopen != ListenerFastOpen::Off;
        let cookie_not_required = matches!(
            tcp.listener_fastopen,
            ListenerFastOpen::CookieNotRequired | ListenerFastOpen::EveryListenerCookieNotRequired
        );
        let own = tcp.client_fastopen == ClientFastOpen::WithCookie;
        let dropped = match behaviour {
            Behaviour::DropSynData => true,
            Behaviour::DropOption => own,
            _ => false,
        };
        let cookie = match behaviour {
            _ if !own => Cookie::None,
            Behaviour::StripOption | Behaviour::StripBoth => Cookie::None,
            Behaviour::BreakCookie => Cookie::Broken,
            _ => Cookie::Good,
        };
        let data = !matches!(behaviour, Behaviour::StripData | Behaviour::StripBoth);
        let taken = listens && (cookie_not_required || cookie == Cookie::Good);
        let fail = match (dropped, data && taken) {
            (true, _) => Some(SYN_RETRANSMITTED),
            (false, false) => Some(DATA_NOT_ACKED),
            (false, true) => None,
        };
        let strips_option =
            matches!(behaviour, Behaviour::DropOption | Behaviour::StripOption | Behaviour::StripBoth);
        let asked = own && listens && !strips_option;
        let keeps_cookies = matches!(behaviour, Behaviour::StripSynackOption | Behaviour::DropSynackOption);
        Self {
            fail,
            cookie: asked && !cookie_not_required && !keeps_cookies,
            refused: !dropped && listens && !cookie_not_required && data && cookie == Cookie::Broken,
            accepted_without_data: !dropped && taken && !data && cookie != Cookie::None,
            accepted_asking: asked && cookie_not_required,
            connects: !matches!(
                behaviour,
                Behaviour::RstSynData | Behaviour::DropSynack | Behaviour::BlockIpv6
            ),
            answered: behaviour != Behaviour::DropAnswers,
        }
    }

    /// Returns true if Fast Open is possible despite the middlebox and the TCP settings. If the client has no
    /// cookie at first (`SynData::AfterCookie`), the client must also be able to receive one from the host.
    fn permits(self, syn_data: SynData) -> bool {
        self.connects && self.fail.is_none() && (self.cookie || syn_data == SynData::EveryConnection)
    }
}

impl Observations<'_> {
    fn effect_on(&self, connection: &ConnectionRecord) -> Option<Effect> {
        let address = self.address(connection)?;
        let PathRule { behaviour, .. } = *self.path;
        Some(Effect::of(if self.path.affects(address) { behaviour } else { Behaviour::None }, &self.job.tcp))
    }

    /// Returns true if a middlebox, TCP settings or a suspected black hole prevent Fast Open on a connection.
    /// With [`SynData::AfterCookie`], also returns true if they keep the client from receiving a cookie.
    pub(super) fn is_broken(&self, connection: &ConnectionRecord, syn_data: SynData) -> bool {
        self.effect_on(connection).is_some_and(|effect| !effect.permits(syn_data)) || self.paused(connection)
    }

    /// Returns true if the client used no Fast Open because its kernel had already suspected a black hole.
    fn paused(&self, connection: &ConnectionRecord) -> bool {
        let suspected = grown(&self.counters.client, "TCPFastOpenBlackhole") > 0;
        let by = |one: &ConnectionRecord| {
            one.client.is_some_and(|end| end.retransmits >= LEAST_RETRANSMITS)
                && one.opened_ns + THREE_TIMEOUTS_NS <= connection.opened_ns
        };
        let plain = |end: EndEvidence| !end.syn_data_acked && end.fastopen_client_fail == UNSPECIFIED;
        suspected && connection.client.is_some_and(plain) && self.in_black_hole(|one| one.client).any(by)
    }

    /// Yields connections on which a middlebox keeps one end, client or origin, from getting answers; none if
    /// the job turns off the kernel's detection of black holes. `end` returns the `TCP_INFO` of that end.
    fn in_black_hole(
        &self,
        end: impl Fn(&ConnectionRecord) -> Option<EndEvidence>,
    ) -> impl Iterator<Item = &ConnectionRecord> {
        let asked = self.job.tcp.blackhole_timeout_s > 0;
        self.connections
            .iter()
            .filter(move |one| asked && end(one).is_some_and(|end| self.gets_no_answer(one, end)))
    }

    /// Returns true if the middlebox keeps one end of `connection` (client or host) from getting an answer.
    /// `end` is the `TCP_INFO` of this end's socket.
    fn gets_no_answer(&self, connection: &ConnectionRecord, end: EndEvidence) -> bool {
        let Some(effect) = self.effect_on(connection) else { return false };
        if end.syn_data_acked {
            !effect.answered
        } else {
            !effect.connects && connection.handshake_us.is_none()
        }
    }

    /// Checks that each kernel suspected a black hole once for each of its sockets that had three timeouts in
    /// a row because of the middlebox.
    pub(super) fn black_holes(&self, expected: Expectation, reasons: &mut Vec<Invalid>) {
        type End = fn(&ConnectionRecord) -> Option<EndEvidence>;
        let ends: [(_, _, End); 2] = [
            ("client", &self.counters.client, |one| one.client),
            ("origins", &self.counters.origins, |one| one.origin),
        ];
        for (name, counters, end) in ends {
            let with_retransmits = |least: u32| {
                let often = |one: &&ConnectionRecord| {
                    expected.fast_open.is_some() && end(one).is_some_and(|end| end.retransmits >= least)
                };
                self.in_black_hole(end).filter(often).count() as i64
            };
            let by_rule = with_retransmits(MOST_RETRANSMITS)..=with_retransmits(LEAST_RETRANSMITS);
            let count = grown(counters, "TCPFastOpenBlackhole");
            if !by_rule.contains(&count) {
                invalid!(
                    reasons,
                    Blackhole,
                    "{count} times the kernel of the {name} suspected a black hole and turned Fast Open off \
                     (TCPFastOpenBlackhole{})",
                    by_path(&by_rule)
                );
            }
        }
    }

    /// Returns the range within which the growth of the client's counter `TCPFastOpenActiveFail` must be.
    pub(super) fn failed_as_expected(&self, expected: Expectation) -> RangeInclusive<i64> {
        if expected.fast_open.is_none() {
            return 0..=0;
        }
        let silent = |least: u32| {
            self.count(|one| {
                let silent = |end| self.gets_no_answer(one, end) && one.handshake_us.is_none();
                one.client.is_some_and(|end| silent(end) && end.retransmits >= least)
            })
        };
        // The record of a socket whose `ClientHello` was dropped does not show if the socket used Fast Open.
        let lost_hellos = self.count(|one| {
            let drops = self.path.behaviour == Behaviour::DropSplitHello;
            let affected = self.address(one).is_some_and(|address| self.path.affects(address));
            drops && affected && one.client.is_some_and(|end| end.retransmits > 0)
        });
        let failed =
            self.failed_at_client(|effect| effect.fail.is_some(), &[DATA_NOT_ACKED, SYN_RETRANSMITTED]);
        // The counter grows with timeouts of a socket that sent SYN data, whether accepted or not
        // (`tcp_write_timeout`). Retransmissions may also come from loss probes.
        failed + silent(MOST_RETRANSMITS)..=failed + silent(1) + lost_hellos
    }

    /// Counts connections with accepted SYN data whose SYN-ACK the middlebox dropped.
    pub(super) fn accepted_unanswered(&self) -> i64 {
        self.count(|one| {
            one.handshake_us.is_none()
                && one.origin.is_some_and(|end| end.syn_data_acked)
                && self.effect_on(one).is_some_and(|effect| !effect.connects)
                && !is_given_up(one)
        })
    }

    pub(super) fn refused_as_expected(&self) -> RangeInclusive<i64> {
        self.failed_at_host(|effect| effect.refused)
    }

    /// Returns the minimum and maximum number of connections that the hosts' kernels count as Fast Open
    /// (`TCPFastOpenPassive`) although no data arrived in the SYN.
    pub(super) fn accepted_without_data(&self) -> RangeInclusive<i64> {
        let asking = self.count(|one| {
            let unavailable = one.client.is_some_and(|end| end.fastopen_client_fail == COOKIE_UNAVAILABLE);
            unavailable && self.effect_on(one).is_some_and(|effect| effect.accepted_asking)
        });
        let failed = self.failed_at_host(|effect| effect.accepted_without_data);
        failed.start() + asking..=failed.end() + asking
    }

    /// Returns the minimum and maximum number of SYNs that reached a host, but whose data was not accepted.
    /// Counts only connections whose [`Effect`] satisfies `which`. The minimum leaves out retransmitted and
    /// aborted SYNs, because they may not have reached the host.
    fn failed_at_host(&self, which: impl Fn(Effect) -> bool) -> RangeInclusive<i64> {
        let certain = self.failed_at_client(&which, &[DATA_NOT_ACKED]);
        let retransmitted = self.failed_at_client(&which, &[SYN_RETRANSMITTED]);
        certain..=certain + retransmitted + self.failing(&which, is_given_up)
    }

    fn failed_at_client(&self, which: impl Fn(Effect) -> bool, codes: &[u8]) -> i64 {
        self.failing(which, |one| one.client.is_some_and(|end| codes.contains(&end.fastopen_client_fail)))
    }

    fn failing(&self, which: impl Fn(Effect) -> bool, kind: impl Fn(&ConnectionRecord) -> bool) -> i64 {
        let fails = |effect: Effect| effect.fail.is_some() && which(effect);
        self.count(|one| kind(one) && self.effect_on(one).is_some_and(fails))
    }

    pub(super) fn blocked_packets(&self, reasons: &mut Vec<Invalid>) {
        let by_quic = |one: &ConnectionRecord| one.quic.is_some_and(|quic| quic.origin.is_some());
        let (blocked, arrived): (_, &dyn Fn(&ConnectionRecord) -> bool) = match self.path.behaviour {
            Behaviour::BlockUdp => ("UDP", &by_quic),
            Behaviour::BlockIpv6 => ("IPv6", &|one| one.origin.is_some() || by_quic(one)),
            _ => return,
        };
        let affected = |one: &ConnectionRecord| self.address(one).is_some_and(|host| self.path.affects(host));
        if let Some(one) = self.connections.iter().find(|one| affected(one) && arrived(one)) {
            invalid!(
                reasons,
                PathWithoutEffect,
                "packets reached {}, although its path blocks {blocked}",
                one.host
            );
        }
    }

    /// Returns true if an unanswered IPv6 connection with a TFO cookie kept the client from trying IPv4.
    pub(super) fn kept_from_ipv4(&self, connection: &ConnectionRecord) -> bool {
        let end = connection.client.filter(|end| end.retransmits > 0 && end.segments_in == 0);
        let is_ipv4 = |one: &ConnectionRecord| one.address.is_some_and(|address| address.is_ipv4());
        let tried = |one: &ConnectionRecord| one.host == connection.host && is_ipv4(one);
        let had_cookie = self.address(connection).is_some_and(|one| self.cookies_before.contains(&one));
        self.job.network.ip == Versions::Both
            && had_cookie
            && end.is_some()
            && !self.connections.iter().any(tried)
    }

    /// Checks that no connection uses Fast Open if the middlebox or TCP settings prevent it. Adds the first
    /// violation to `reasons`: accepted SYN data, or an unexpected `tcpi_fastopen_client_fail`. `syn_data`
    /// selects the connections that would otherwise use Fast Open.
    pub(super) fn path_effects(&self, syn_data: SynData, reasons: &mut Vec<Invalid>) {
        let lossy = self.lost_packets() > 0 || self.timed_out_syns() > 0;
        for connection in self.connections.iter().filter(|one| one.requests > 0 && !self.paused(one)) {
            let effect = self.effect_on(connection).filter(|one| one.connects && !one.permits(syn_data));
            let (Some(effect), Some(end)) = (effect, connection.client) else { continue };
            let every = syn_data == SynData::EveryConnection;
            let code_fits = match end.fastopen_client_fail {
                COOKIE_UNAVAILABLE => !every,
                code => effect.fail == Some(code) && (every || effect.cookie),
            };
            if end.syn_data_acked || !(code_fits || lossy && retransmitted(connection)) {
                invalid!(
                    reasons,
                    PathWithoutEffect,
                    "a connection to {}, which its path or tcp_fastopen keeps from Fast Open: data in its \
                     SYN {}, tcpi_fastopen_client_fail {}",
                    connection.host,
                    if end.syn_data_acked { "accepted" } else { "not accepted" },
                    end.fastopen_client_fail
                );
                return;
            }
        }
    }
}

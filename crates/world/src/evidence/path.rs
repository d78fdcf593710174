//! What a load must show of connections whose packets cross a middlebox (`fastopen_link::path`).

use fastopen_link::path::{Behaviour, PathRule};

use super::{Observations, SynData, invalid, retransmitted};
use crate::contract::{ConnectionRecord, Invalid, InvalidKind};

/// `tcpi_fastopen_client_fail` of `include/uapi/linux/tcp.h`.
const COOKIE_UNAVAILABLE: u8 = 1;
const DATA_NOT_ACKED: u8 = 2;
const SYN_RETRANSMITTED: u8 = 3;

/// What a behaviour does to Fast Open, as Linux 7.3 shows it (docs/paths.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effect {
    /// Why the client's kernel did without data in a SYN for which it had a cookie; none: the data arrives.
    fail: Option<u8>,
    /// Whether a client without a cookie gets one.
    cookie: bool,
    /// Whether the host's kernel counts the cookie as refused.
    refused: bool,
    /// Whether a connection whose SYN has data is ever established.
    connects: bool,
}

impl Effect {
    fn of(behaviour: Behaviour) -> Self {
        let (fail, cookie, refused) = match behaviour {
            Behaviour::None
            | Behaviour::RstSynData
            | Behaviour::DropSynack
            | Behaviour::DropAnswers
            | Behaviour::BlockUdp
            | Behaviour::LimitUdp
            | Behaviour::DropZeroRtt
            | Behaviour::Rebind => (None, true, false),
            Behaviour::DropSynData => (Some(SYN_RETRANSMITTED), true, false),
            Behaviour::DropOption => (Some(SYN_RETRANSMITTED), false, false),
            Behaviour::StripOption | Behaviour::StripBoth => (Some(DATA_NOT_ACKED), false, false),
            Behaviour::StripData => (Some(DATA_NOT_ACKED), true, false),
            Behaviour::StripSynackOption => (None, false, false),
            Behaviour::BreakCookie => (Some(DATA_NOT_ACKED), true, true),
        };
        let connects = !matches!(behaviour, Behaviour::RstSynData | Behaviour::DropSynack);
        Self { fail, cookie, refused, connects }
    }

    /// Whether a load over the path shows what it would show without it.
    fn is_none(self, syn_data: SynData) -> bool {
        self.connects && self.fail.is_none() && (self.cookie || syn_data == SynData::EveryConnection)
    }
}

impl Observations<'_> {
    fn effect_on(&self, connection: &ConnectionRecord) -> Option<Effect> {
        let PathRule { behaviour, .. } = self.path;
        let address = self.hosts.get(&connection.host)?;
        self.path.affects(address.octets()).then(|| Effect::of(*behaviour))
    }

    /// Whether the path keeps the data of a connection's SYN from being accepted.
    pub(super) fn is_broken(&self, connection: &ConnectionRecord, syn_data: SynData) -> bool {
        self.effect_on(connection).is_some_and(|effect| !effect.is_none(syn_data))
    }

    /// How many connections the path had do without the data in their SYN.
    pub(super) fn failed_by_path(&self) -> i64 {
        self.count_failed(|_| true)
    }

    /// How many of them a host's kernel refused the cookie of.
    pub(super) fn refused_by_path(&self) -> i64 {
        self.count_failed(|effect| effect.refused)
    }

    /// How many of them a host's kernel took for connections with data in their SYN: the cookie was good.
    pub(super) fn accepted_without_data(&self) -> i64 {
        self.count_failed(|_| self.path.behaviour == Behaviour::StripData)
    }

    fn count_failed(&self, which: impl Fn(Effect) -> bool) -> i64 {
        let failed = |connection: &ConnectionRecord| {
            let code = connection.client.map(|end| end.fastopen_client_fail);
            code.is_some_and(|code| [DATA_NOT_ACKED, SYN_RETRANSMITTED].contains(&code))
        };
        let counted = self.connections.iter().filter(|one| {
            failed(one) && self.effect_on(one).is_some_and(|effect| effect.fail.is_some() && which(effect))
        });
        counted.count() as i64
    }

    /// Each connection behind the path must show what the path does, and no other reason.
    pub(super) fn path_effects(&self, syn_data: SynData, reasons: &mut Vec<Invalid>) {
        let lossy = self.lost_packets() > 0;
        for connection in self.connections.iter().filter(|one| one.requests > 0) {
            let effect = self.effect_on(connection).filter(|one| one.connects && !one.is_none(syn_data));
            let (Some(effect), Some(end)) = (effect, connection.client) else { continue };
            let warm = syn_data == SynData::EveryConnection;
            let code_fits = match end.fastopen_client_fail {
                COOKIE_UNAVAILABLE => !warm,
                code => effect.fail == Some(code) && (warm || effect.cookie),
            };
            if end.syn_data_acked || !(code_fits || lossy && retransmitted(connection)) {
                let detail = format!(
                    "a connection to {} on a broken path: data in its SYN {}, tcpi_fastopen_client_fail {}",
                    connection.host,
                    if end.syn_data_acked { "accepted" } else { "not accepted" },
                    end.fastopen_client_fail
                );
                reasons.push(invalid(InvalidKind::PathWithoutEffect, detail));
                return;
            }
        }
    }
}

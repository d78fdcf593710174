//! What a load's evidence must show, derived from its plan.

use fastopen_replay::tls::{SessionStart, Settings, TicketState};

use fastopen_contract::{ClientFastOpen, Cookies, LoadPlan, NameLookup, Tcp};

/// What a load's evidence must show. The world is prepared by it, and the load judged by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    /// Whether connections to the page's hosts speak TLS.
    pub tls: bool,
    /// How connections use Fast Open; none: no SYN asks for a cookie or carries data.
    pub fast_open: Option<FastOpen>,
    /// How the origins of the earlier visit let the load's connections begin.
    pub visit: SessionStart,
    /// The session tickets that the client has of each host when the load begins, and that are good.
    pub tickets_before: u8,
    /// What becomes of early data.
    pub early_data: EarlyData,
}

/// What becomes of early data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    /// None is sent.
    None,
    /// It is accepted, and answered before the handshake is complete.
    Accepted,
    /// It is rejected.
    Rejected,
    /// The tickets of the earlier visit are no good for it, and those of the load are.
    OfThisLoad,
}

/// How the connections of a load use Fast Open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpen {
    /// The cookies that the client holds when the load begins.
    pub cookies_before: CookiesBefore,
    /// The connections whose SYN data is acknowledged.
    pub syn_data: SynData,
}

/// The cookies that a client holds when a load begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookiesBefore {
    /// Of no host.
    NoHost,
    /// Of every host of the page.
    EveryHost,
}

/// The connections whose SYN data is acknowledged, of those that carried requests and lost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynData {
    /// Every one.
    EveryConnection,
    /// Those opened after a handshake with their host that brought the cookie, and none before the first
    /// handshake.
    AfterCookie,
}

impl Expectation {
    /// How the origins of the load let its connections begin: those of a load with early data take it.
    pub fn later(&self) -> SessionStart {
        match self.early_data {
            EarlyData::Accepted | EarlyData::OfThisLoad => SessionStart::Early,
            EarlyData::None | EarlyData::Rejected => SessionStart::Resumed,
        }
    }

    /// What a load as `plan` says must show, with TLS, TCP and lookups set so, by a client that an earlier
    /// visit leaves so many tickets of a host.
    pub fn of(plan: &LoadPlan, tls: &Settings, tcp: &Tcp, names: NameLookup, tickets_left: u8) -> Self {
        let fast_open = plan.cookies.filter(|_| plan.transport.is_fast_open()).map(|cookies| {
            let cookies_before = match cookies {
                Cookies::Cold => CookiesBefore::NoHost,
                Cookies::Warm => CookiesBefore::EveryHost,
            };
            let syn_data = match (cookies, tcp.client_fastopen) {
                (Cookies::Cold, ClientFastOpen::WithCookie) => SynData::AfterCookie,
                // Whoever sends no cookie waits for none.
                _ => SynData::EveryConnection,
            };
            FastOpen { cookies_before, syn_data }
        });
        let encrypted = plan.transport.is_encrypted();
        // The resolver may speak TLS where the page is in the clear.
        let begins = encrypted || names.alpn().is_some();
        let session = if begins { tls.session } else { SessionStart::None };
        let resumes = matches!(tls.ticket_state, TicketState::Valid | TicketState::Stale);
        let good = session != SessionStart::None && resumes;
        Self {
            tls: encrypted,
            fast_open,
            visit: session,
            tickets_before: if good { tls.tickets.min(tickets_left) } else { 0 },
            early_data: match session {
                SessionStart::Early if tls.early_data_rejected => EarlyData::Rejected,
                SessionStart::Early if tls.ticket_state != TicketState::Valid => EarlyData::OfThisLoad,
                SessionStart::Early => EarlyData::Accepted,
                SessionStart::None | SessionStart::Resumed => EarlyData::None,
            },
        }
    }
}

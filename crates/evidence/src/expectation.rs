//! The evidence that a load must have according to its plan.

use fastopen_replay::tls::{SessionStart, Settings, TicketState};

use fastopen_contract::{ClientFastOpen, Cookies, LoadPlan, NameLookup, Tcp};

/// The evidence that a load must have. It determines how the world is prepared and the load is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    /// True if connections to the page's hosts use TLS.
    pub tls: bool,
    /// The use of Fast Open; None: no SYN requests a cookie or carries data.
    pub fast_open: Option<FastOpen>,
    /// The sessions that the origins of the earlier visit offer to the load's connections.
    pub visit: SessionStart,
    /// The valid session tickets of each host that the client has when the load begins.
    pub tickets_before: u8,
    /// The treatment of early data.
    pub early_data: EarlyData,
}

/// The treatment of early data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    /// None is sent.
    None,
    /// The origins accept it, and respond before the handshake is complete.
    Accepted,
    /// The origins reject it.
    Rejected,
    /// The tickets of the earlier visit are not valid for it, those of the load are.
    OfThisLoad,
}

/// The use of Fast Open by the connections of a load.
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
    /// Cookies of no host.
    NoHost,
    /// A cookie of every host of the page.
    EveryHost,
}

/// The connections whose SYN data is acknowledged, of those that carried requests and lost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynData {
    /// Every one.
    EveryConnection,
    /// Connections opened after a handshake with their host that brought the cookie, and none before.
    AfterCookie,
}

impl Expectation {
    /// Returns the sessions that the origins of the load itself offer. Early data is among them if the load
    /// has it.
    pub fn later(&self) -> SessionStart {
        match self.early_data {
            EarlyData::Accepted | EarlyData::OfThisLoad => SessionStart::Early,
            EarlyData::None | EarlyData::Rejected => SessionStart::Resumed,
        }
    }

    /// Derives the expectation of a load from its plan and the settings of TLS, TCP and lookups. An earlier
    /// visit leaves the client at most `tickets_left` tickets of a host.
    pub fn of(plan: &LoadPlan, tls: &Settings, tcp: &Tcp, names: NameLookup, tickets_left: u8) -> Self {
        let fast_open = plan.cookies.filter(|_| plan.transport.is_fast_open()).map(|cookies| {
            let cookies_before = match cookies {
                Cookies::Cold => CookiesBefore::NoHost,
                Cookies::Warm => CookiesBefore::EveryHost,
            };
            let syn_data = match (cookies, tcp.client_fastopen) {
                (Cookies::Cold, ClientFastOpen::WithCookie) => SynData::AfterCookie,
                // A client that sends no cookies waits for none.
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

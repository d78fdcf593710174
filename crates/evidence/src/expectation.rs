//! Derives the expected use of TLS, Fast Open and session tickets from the plan and the job of a page load.

use fastopen_replay::tls::{SessionStart, TicketState};

use fastopen_contract::{ClientFastOpen, Cookies, Job, LoadPlan};

/// The expected use of TLS, Fast Open and session tickets. A page load that differs from it is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    /// True if connections for the page's https URLs use TLS; false if all connections use cleartext.
    pub tls: bool,
    /// The expected use of Fast Open; `None` if no SYN may request a cookie or carry data.
    pub fast_open: Option<FastOpen>,
    /// The permitted use of session tickets from a visit before the load: none, resumption, or early data.
    pub visit: SessionStart,
    /// Number of valid session tickets that the client has for each host when the load begins.
    pub tickets_before: u8,
    /// The early data (0-RTT data) that the client may send, and the origins' treatment of this data.
    pub early_data: EarlyData,
}

/// The early data (0-RTT data) that the client may send, and the origins' treatment of this data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    /// The client must send no early data.
    None,
    /// The origins accept early data, and respond before the handshake is complete.
    Accepted,
    /// The origins reject early data.
    Rejected,
    /// A ticket is valid for early data only if the client received it during this load.
    OfThisLoad,
}

/// The expected use of Fast Open by the connections of a page load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpen {
    /// The TFO cookies that the client has when the load begins: none, or those of all hosts of the page.
    pub cookies_before: Cookies,
    /// The connections whose SYN data must be acknowledged.
    pub syn_data: SynData,
}

/// The connections whose SYN data must be acknowledged, unless they carried no request or lost a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynData {
    /// The SYN data of every connection must be acknowledged.
    EveryConnection,
    /// The SYN data of connections opened after the client received the host's cookie must be acknowledged.
    AfterCookie,
}

impl Expectation {
    /// Returns the permitted use of session tickets that the client receives during the load: resumption, or
    /// early data if the origins accept it.
    pub fn later(&self) -> SessionStart {
        match self.early_data {
            EarlyData::Accepted | EarlyData::OfThisLoad => SessionStart::Early,
            EarlyData::None | EarlyData::Rejected => SessionStart::Resumed,
        }
    }

    /// Derives the expected use of TLS, Fast Open and session tickets from a page load's plan and job.
    pub fn of(plan: &LoadPlan, job: &Job) -> Self {
        let tls = &job.tls;
        let fast_open = plan.cookies.filter(|_| plan.transport.is_fast_open()).map(|cookies_before| {
            let syn_data = match (cookies_before, job.tcp.client_fastopen) {
                (Cookies::Cold, ClientFastOpen::WithCookie) => SynData::AfterCookie,
                // A client that has all cookies, or sends none, need not wait for a cookie.
                _ => SynData::EveryConnection,
            };
            FastOpen { cookies_before, syn_data }
        });
        let encrypted = plan.transport.is_encrypted();
        // The resolver may use TLS even if the page's origins use cleartext.
        let begins = encrypted || job.network.names.alpn().is_some();
        let session = if begins { tls.session } else { SessionStart::None };
        let resumes = matches!(tls.ticket_state, TicketState::Valid | TicketState::Stale);
        let good = session != SessionStart::None && resumes;
        let tickets_left = job.client.kind.capabilities().tickets_left;
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

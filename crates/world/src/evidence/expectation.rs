//! What a load's evidence must show, derived from its plan.

use crate::contract::{Cookies, LoadPlan};

/// What a load's evidence must show. The world is prepared by it, and the load judged by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    /// Whether connections speak TLS.
    pub tls: bool,
    /// How connections use Fast Open; none: no SYN asks for a cookie or carries data.
    pub fast_open: Option<FastOpen>,
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

impl From<&LoadPlan> for Expectation {
    fn from(plan: &LoadPlan) -> Self {
        let fast_open = plan.cookies.filter(|_| plan.transport.is_fast_open()).map(|cookies| match cookies {
            Cookies::Cold => {
                FastOpen { cookies_before: CookiesBefore::NoHost, syn_data: SynData::AfterCookie }
            }
            Cookies::Warm => {
                FastOpen { cookies_before: CookiesBefore::EveryHost, syn_data: SynData::EveryConnection }
            }
        });
        Self { tls: plan.transport.is_encrypted(), fast_open }
    }
}

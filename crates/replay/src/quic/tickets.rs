//! Stores a client's session tickets and address tokens (RFC 9000 section 8.1.3) for later connections, and
//! the tokens that origins have accepted.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use quinn::{TokenLog, TokenReuseError, TokenStore};
use rustls::NamedGroup;
use rustls::client::Tls13ClientSessionValue;
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue};
use rustls::pki_types::ServerName;
use tokio::sync::watch;

use crate::lock;

#[derive(Debug)]
pub(super) struct TicketStore {
    sessions: ClientSessionMemoryCache,
    tokens: Mutex<BTreeMap<String, VecDeque<Bytes>>>,
    /// Counts of the session tickets and of the address tokens that have been received.
    pub(super) received: watch::Sender<(usize, usize)>,
}

impl TicketStore {
    /// Creates an empty store with room for `room` session tickets.
    pub(super) fn new(room: usize) -> Arc<Self> {
        Arc::new(Self {
            sessions: ClientSessionMemoryCache::new(room),
            tokens: Mutex::default(),
            received: watch::Sender::default(),
        })
    }
}

impl ClientSessionStore for TicketStore {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.sessions.set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(server_name)
    }

    // QUIC has no TLS 1.2.
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.sessions.insert_tls13_ticket(server_name, value);
        self.received.send_modify(|(tickets, _)| *tickets += 1);
    }

    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions.take_tls13_ticket(server_name)
    }
}

impl TokenStore for TicketStore {
    fn insert(&self, server_name: &str, token: Bytes) {
        lock(&self.tokens).entry(server_name.to_owned()).or_default().push_back(token);
        self.received.send_modify(|(_, tokens)| *tokens += 1);
    }

    fn take(&self, server_name: &str) -> Option<Bytes> {
        lock(&self.tokens).get_mut(server_name)?.pop_front()
    }
}

/// The address tokens that origins have accepted; a token is valid for one connection. The set is exact,
/// because a probabilistic filter would refuse some unused tokens by chance.
#[derive(Debug, Default)]
pub(super) struct UsedTokens(Mutex<HashSet<u128>>);

impl TokenLog for UsedTokens {
    fn check_and_insert(&self, nonce: u128, _: SystemTime, _: Duration) -> Result<(), TokenReuseError> {
        if lock(&self.0).insert(nonce) { Ok(()) } else { Err(TokenReuseError) }
    }
}

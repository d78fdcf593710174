//! Session stores of TLS servers, which let clients resume sessions.

use std::collections::HashMap;
use std::sync::Mutex;

use rustls::server::StoresServerSessions;

use crate::lock;

/// The sessions of all origins, by ticket. The store has no size limit, because an evicted session would
/// cause a full handshake by chance. Sessions are forgotten between loads.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<HashMap<Vec<u8>, Vec<u8>>>);

impl Sessions {
    /// Forgets all sessions, so that no earlier ticket can be resumed.
    pub fn forget(&self) {
        lock(&self.0).clear();
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        lock(&self.0).insert(key, value);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        lock(&self.0).get(key).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        lock(&self.0).remove(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

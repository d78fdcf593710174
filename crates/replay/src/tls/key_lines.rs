//! Collects the secrets of TLS connections, with which Wireshark decrypts them.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::KeyLog;

/// Lines of NSS's key log (draft-ietf-tls-keylogfile), in memory.
#[derive(Debug, Default)]
pub struct KeyLines(Mutex<String>);

impl KeyLines {
    /// Returns the lines since the last call.
    pub fn take(&self) -> String {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyLog for KeyLines {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut lines = self.lock();
        lines.push_str(label);
        for bytes in [client_random, secret] {
            lines.push(' ');
            for byte in bytes {
                let _ = write!(lines, "{byte:02x}");
            }
        }
        lines.push('\n');
    }
}

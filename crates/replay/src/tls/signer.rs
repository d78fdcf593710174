//! Makes ECDSA signatures of a fixed length, so that TLS handshake messages have the same sizes in each load.
//!
//! No other part of the messages has a random length. DER writes the two integers of a signature without
//! leading zeros, which takes 70 to 72 bytes with P-256, rarely fewer. Half of all signatures have 71 bytes,
//! so a few tries are enough.

use std::sync::Arc;

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

/// Length that every signature gets, in bytes: the most common length of P-256 signatures in DER.
const SIGNATURE_BYTES: usize = 71;
const SCHEME: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;

/// A P-256 key whose signatures all have [`SIGNATURE_BYTES`] bytes. It signs certificates and handshakes.
#[derive(Debug, Clone)]
pub(super) struct FixedLengthKey(Arc<KeyPair>);

impl FixedLengthKey {
    pub(super) fn generate() -> Result<Self, rcgen::Error> {
        Ok(Self(Arc::new(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)))
    }

    pub(super) fn pem(&self) -> String {
        self.0.serialize_pem()
    }
}

impl rcgen::PublicKeyData for FixedLengthKey {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl rcgen::SigningKey for FixedLengthKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        loop {
            let signature = self.0.sign(message)?;
            if signature.len() == SIGNATURE_BYTES {
                return Ok(signature);
            }
        }
    }
}

impl SigningKey for FixedLengthKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SCHEME).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for FixedLengthKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        rcgen::SigningKey::sign(self, message).map_err(|error| rustls::Error::General(error.to_string()))
    }

    fn scheme(&self) -> SignatureScheme {
        SCHEME
    }
}

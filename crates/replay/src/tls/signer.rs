//! Makes ECDSA signatures of a fixed length, so that TLS handshake messages have the same sizes in each load.
//!
//! No other part of the messages has a random length. DER writes the two integers of a signature without
//! leading zeros, which takes 70 to 72 bytes with P-256, rarely fewer. Half of all signatures have 71 bytes,
//! so a few tries are enough.

use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

/// Length that every signature gets, in bytes: the most common length of P-256 signatures in DER.
const SIGNATURE_BYTES: usize = 71;
/// Maximum number of tries to sign with the fixed length. All fail with a probability of about 2^-200.
const MAX_TRIES: usize = 200;

fn sign_with_fixed_length<E>(sign: impl Fn() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
    let mut signature = sign()?;
    for _ in 0..MAX_TRIES {
        if signature.len() == SIGNATURE_BYTES {
            break;
        }
        signature = sign()?;
    }
    Ok(signature)
}

pub(super) struct IssuerKey(pub(super) rcgen::KeyPair);

impl rcgen::PublicKeyData for IssuerKey {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl rcgen::SigningKey for IssuerKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        sign_with_fixed_length(|| self.0.sign(message))
    }
}

#[derive(Debug)]
pub(super) struct ServerKey(pub(super) Arc<dyn SigningKey>);

impl SigningKey for ServerKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(FixedLengthSigner(self.0.choose_scheme(offered)?)))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct FixedLengthSigner(Box<dyn Signer>);

impl Signer for FixedLengthSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        sign_with_fixed_length(|| self.0.sign(message))
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}

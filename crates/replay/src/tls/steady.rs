//! Signatures of one length: nothing else in TLS has a size that is left to chance, and the same load is to have the same bytes.
//!
//! An ECDSA signature is a pair of numbers without leading zeros, 70 to 72 bytes with P-256 and now and then fewer. Half of them
//! have 71, so a second try is likely to do.

use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

/// Of a P-256 signature, as DER.
const BYTES: usize = 71;
/// Beyond any number of tries that chance would need.
const TRIES: usize = 200;

fn steady<E>(sign: impl Fn() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
    let mut signature = sign()?;
    for _ in 0..TRIES {
        if signature.len() == BYTES {
            break;
        }
        signature = sign()?;
    }
    Ok(signature)
}

/// A key that signs certificates.
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
        steady(|| self.0.sign(message))
    }
}

/// A key that signs handshakes.
#[derive(Debug)]
pub(super) struct ServerKey(pub(super) Arc<dyn SigningKey>);

impl SigningKey for ServerKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(SteadySigner(self.0.choose_scheme(offered)?)))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct SteadySigner(Box<dyn Signer>);

impl Signer for SteadySigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        steady(|| self.0.sign(message))
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}

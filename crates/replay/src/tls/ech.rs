//! Creates the placeholder that browsers send instead of an Encrypted `ClientHello` to hosts without an ECH
//! key (GREASE ECH, RFC 9849 section 6.2). It has the size of a real ECH extension. Servers ignore it.

use rustls::Error;
use rustls::client::{EchGreaseConfig, EchMode};
use rustls::crypto::hpke::{
    EncapsulatedSecret, Hpke, HpkeOpener, HpkePrivateKey, HpkePublicKey, HpkeSealer, HpkeSuite,
};
use rustls::crypto::ring::kx_group::X25519;
use rustls::internal::msgs::enums::{HpkeAead, HpkeKdf, HpkeKem};
use rustls::internal::msgs::handshake::HpkeSymmetricCipherSuite;

pub(super) fn grease() -> EchMode {
    EchGreaseConfig::new(&Placeholder, HpkePublicKey(vec![])).into()
}

/// An HPKE suite for the placeholder of Encrypted `ClientHello` (GREASE). It only creates encapsulated keys.
#[derive(Debug)]
struct Placeholder;

fn refused<T>() -> Result<T, Error> {
    Err(Error::General("a placeholder for Encrypted ClientHello encrypts nothing".to_owned()))
}

impl Hpke for Placeholder {
    fn suite(&self) -> HpkeSuite {
        HpkeSuite {
            kem: HpkeKem::DHKEM_X25519_HKDF_SHA256,
            sym: HpkeSymmetricCipherSuite { kdf_id: HpkeKdf::HKDF_SHA256, aead_id: HpkeAead::AES_128_GCM },
        }
    }

    fn setup_sealer(
        &self,
        _: &[u8],
        _: &HpkePublicKey,
    ) -> Result<(EncapsulatedSecret, Box<dyn HpkeSealer + 'static>), Error> {
        let key = X25519.start()?;
        Ok((EncapsulatedSecret(key.pub_key().to_vec()), Box::new(Self)))
    }

    fn seal(
        &self,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &HpkePublicKey,
    ) -> Result<(EncapsulatedSecret, Vec<u8>), Error> {
        refused()
    }

    fn open(
        &self,
        _: &EncapsulatedSecret,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &HpkePrivateKey,
    ) -> Result<Vec<u8>, Error> {
        refused()
    }

    fn setup_opener(
        &self,
        _: &EncapsulatedSecret,
        _: &[u8],
        _: &HpkePrivateKey,
    ) -> Result<Box<dyn HpkeOpener + 'static>, Error> {
        refused()
    }

    fn generate_key_pair(&self) -> Result<(HpkePublicKey, HpkePrivateKey), Error> {
        refused()
    }
}

impl HpkeSealer for Placeholder {
    fn seal(&mut self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, Error> {
        refused()
    }
}

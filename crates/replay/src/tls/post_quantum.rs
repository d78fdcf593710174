//! Implements post-quantum key exchange with the `ml-kem` crate: `X25519MLKEM768`, which also uses ring's
//! X25519 (draft-ietf-tls-ecdhe-mlkem), and `MLKEM1024` (draft-ietf-tls-mlkem). rustls supports these groups
//! only with aws-lc-rs, which takes minutes to build.

use std::marker::PhantomData;

use ml_kem::kem::{Decapsulate, Encapsulate, Kem, KeyExport, TryKeyInit};
use ml_kem::{MlKem768, MlKem1024};
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};

/// Size of an ML-KEM-768 public key in bytes (FIPS 203 table 3). X25519's key follows it in a key share.
const KEY_BYTES: usize = 1184;
/// Size of an ML-KEM-768 ciphertext in bytes (FIPS 203 table 3). X25519's key follows it in a key share.
const CIPHERTEXT_BYTES: usize = 1088;
const BAD_SHARE: Error = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);

static ML_KEM_768: MlKem<MlKem768> = MlKem(NamedGroup::MLKEM768, PhantomData);
/// The key exchange group `MLKEM1024`. Its encapsulation key and ciphertext have 1,568 bytes each (FIPS 203).
pub(super) static ML_KEM_1024: MlKem<MlKem1024> = MlKem(NamedGroup::MLKEM1024, PhantomData);

/// The key exchange group of a parameter set of ML-KEM, without a classical key exchange.
#[derive(Debug)]
pub(super) struct MlKem<K>(NamedGroup, PhantomData<K>);

impl<K: Kem<DecapsulationKey: Decapsulate + Send + Sync>> SupportedKxGroup for MlKem<K> {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let (secret, public) = K::generate_keypair();
        Ok(Box::new(ActiveMlKem::<K> { group: self.0, secret, share: public.to_bytes().to_vec() }))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let public = K::EncapsulationKey::new_from_slice(share).map_err(|_| BAD_SHARE)?;
        let (ciphertext, secret) = public.encapsulate();
        let (pub_key, secret) = (ciphertext.to_vec(), SharedSecret::from(secret.as_slice()));
        Ok(CompletedKeyExchange { group: self.0, pub_key, secret })
    }

    fn name(&self) -> NamedGroup {
        self.0
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

struct ActiveMlKem<K: Kem> {
    group: NamedGroup,
    secret: K::DecapsulationKey,
    share: Vec<u8>,
}

impl<K: Kem<DecapsulationKey: Decapsulate + Send + Sync>> ActiveKeyExchange for ActiveMlKem<K> {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let secret = self.secret.decapsulate_slice(share).map_err(|_| BAD_SHARE)?;
        Ok(SharedSecret::from(secret.as_slice()))
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        self.group
    }
}

#[derive(Debug)]
pub(super) struct X25519MlKem768;

impl SupportedKxGroup for X25519MlKem768 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let (post_quantum, classical) = (ML_KEM_768.start()?, X25519.start()?);
        let share = [post_quantum.pub_key(), classical.pub_key()].concat();
        Ok(Box::new(ActiveHybrid { post_quantum, classical, share }))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, classical) = share.split_at_checked(KEY_BYTES).ok_or(BAD_SHARE)?;
        let post_quantum = ML_KEM_768.start_and_complete(key)?;
        let classical = X25519.start_and_complete(classical)?;
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [post_quantum.pub_key, classical.pub_key].concat(),
            secret: joined(&post_quantum.secret, &classical.secret),
        })
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

struct ActiveHybrid {
    post_quantum: Box<dyn ActiveKeyExchange>,
    classical: Box<dyn ActiveKeyExchange>,
    share: Vec<u8>,
}

impl ActiveKeyExchange for ActiveHybrid {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, classical) = share.split_at_checked(CIPHERTEXT_BYTES).ok_or(BAD_SHARE)?;
        Ok(joined(&self.post_quantum.complete(ciphertext)?, &self.classical.complete(classical)?))
    }

    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.classical.group(), self.classical.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        self.classical.complete(share)
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

fn joined(post_quantum: &SharedSecret, classical: &SharedSecret) -> SharedSecret {
    SharedSecret::from([post_quantum.secret_bytes(), classical.secret_bytes()].concat())
}

#[cfg(test)]
#[path = "../../tests/unit/post_quantum.rs"]
mod tests;

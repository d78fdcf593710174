//! Implements post-quantum key exchange with ML-KEM of the crate ml-kem: `X25519MLKEM768`, combined with
//! X25519 of ring (draft-ietf-tls-ecdhe-mlkem), and `MLKEM1024` (draft-ietf-tls-mlkem). rustls supports these
//! groups only with aws-lc-rs, which takes minutes to build.

use ml_kem::array::Array;
use ml_kem::kem::{Decapsulate, Encapsulate, Kem, KeyExport};
use ml_kem::{DecapsulationKey, EncapsulationKey, MlKem768, MlKem1024 as MlKem1024Kem};
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};

/// Sizes of an ML-KEM-768 encapsulation key and ciphertext in bytes (FIPS 203 table 3). In a key share, the
/// 32 bytes of X25519 follow.
const KEY_BYTES: usize = 1184;
const CIPHERTEXT_BYTES: usize = 1088;
const BAD_SHARE: Error = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);

/// The key exchange group `X25519MLKEM768`.
#[derive(Debug)]
pub(super) struct X25519MlKem768;

impl SupportedKxGroup for X25519MlKem768 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let (secret, public) = MlKem768::generate_keypair();
        let classical = X25519.start()?;
        let share = [public.to_bytes().as_slice(), classical.pub_key()].concat();
        Ok(Box::new(Active { secret, classical, share }))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, classical) = share.split_at_checked(KEY_BYTES).ok_or(BAD_SHARE)?;
        let key = Array::try_from(key).map_err(|_| BAD_SHARE)?;
        let public = EncapsulationKey::<MlKem768>::new(&key).map_err(|_| BAD_SHARE)?;
        let classical = X25519.start_and_complete(classical)?;
        let (ciphertext, secret) = public.encapsulate();
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [ciphertext.as_slice(), &classical.pub_key].concat(),
            secret: joined(&secret, &classical.secret),
        })
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

struct Active {
    secret: DecapsulationKey<MlKem768>,
    classical: Box<dyn ActiveKeyExchange>,
    share: Vec<u8>,
}

impl ActiveKeyExchange for Active {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, classical) = share.split_at_checked(CIPHERTEXT_BYTES).ok_or(BAD_SHARE)?;
        let ciphertext = Array::try_from(ciphertext).map_err(|_| BAD_SHARE)?;
        let secret = self.secret.decapsulate(&ciphertext);
        Ok(joined(&secret, &self.classical.complete(classical)?))
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

/// The key exchange group `MLKEM1024`. Its encapsulation key and ciphertext have 1,568 bytes each (FIPS 203).
#[derive(Debug)]
pub(super) struct MlKem1024;

impl SupportedKxGroup for MlKem1024 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let (secret, public) = MlKem1024Kem::generate_keypair();
        Ok(Box::new(ActiveMlKem1024 { secret, share: public.to_bytes().to_vec() }))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let key = Array::try_from(share).map_err(|_| BAD_SHARE)?;
        let public = EncapsulationKey::<MlKem1024Kem>::new(&key).map_err(|_| BAD_SHARE)?;
        let (ciphertext, secret) = public.encapsulate();
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: ciphertext.to_vec(),
            secret: SharedSecret::from(secret.as_slice()),
        })
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::MLKEM1024
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

struct ActiveMlKem1024 {
    secret: DecapsulationKey<MlKem1024Kem>,
    share: Vec<u8>,
}

impl ActiveKeyExchange for ActiveMlKem1024 {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let ciphertext = Array::try_from(share).map_err(|_| BAD_SHARE)?;
        Ok(SharedSecret::from(self.secret.decapsulate(&ciphertext).as_slice()))
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::MLKEM1024
    }
}

/// Concatenates the ML-KEM secret and the X25519 secret.
fn joined(post_quantum: &[u8], classical: &SharedSecret) -> SharedSecret {
    SharedSecret::from([post_quantum, classical.secret_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_compute_one_secret_from_shares_of_the_drafts_sizes() {
        let client = X25519MlKem768.start().unwrap();
        assert_eq!(client.pub_key().len(), 1216);
        let server = X25519MlKem768.start_and_complete(client.pub_key()).unwrap();
        assert_eq!(server.pub_key.len(), 1120);
        let secret = client.complete(&server.pub_key).unwrap();
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
        assert_eq!(secret.secret_bytes().len(), 64);
    }

    #[test]
    fn both_ends_compute_one_secret_of_ml_kem_1024() {
        let client = MlKem1024.start().unwrap();
        assert_eq!(client.pub_key().len(), 1568);
        let server = MlKem1024.start_and_complete(client.pub_key()).unwrap();
        assert_eq!(server.pub_key.len(), 1568);
        let secret = client.complete(&server.pub_key).unwrap();
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
        assert_eq!(secret.secret_bytes().len(), 32);
    }

    #[test]
    fn a_share_of_another_length_is_refused() {
        assert!(X25519MlKem768.start_and_complete(&[0; 32]).is_err());
        assert!(X25519MlKem768.start().unwrap().complete(&[0; 1119]).is_err());
        assert!(MlKem1024.start_and_complete(&[0; 1567]).is_err());
        assert!(MlKem1024.start().unwrap().complete(&[0; 1569]).is_err());
    }
}

//! Issues the certificates of an emulated network. Clients trust the root, the root signs the intermediate,
//! and the intermediate signs the origins' certificates.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use ring::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use time::{Duration, OffsetDateTime};

use super::Error;
use super::signer::FixedLengthKey;

/// A meaningless certificate extension in the OID arc for documentation (RFC 5612). It pads a certificate to
/// the size that it would have with signed certificate timestamps, or with larger keys and signatures.
const FILLER: &[u64] = &[1, 3, 6, 1, 4, 1, 32473, 1];
/// The first bytes of a certificate's padding: URLs of the authority, as in public certificates. The rest of
/// the padding is random like keys and signatures, so that compression (RFC 8879) does not shorten it.
const FILLER_TEXT: &[u8] =
    b"http://ocsp.authority.example http://certificates.authority.example/intermediate.der \
    http://revoked.authority.example/origins.crl https://www.authority.example/policy";
/// Maximum attempts to pad a certificate to an exact size: padding can also lengthen DER's length fields.
const CORRECTIONS: usize = 4;

/// A certificate authority with new keys for each emulated network, but certificates of fixed sizes.
pub struct Authority {
    now: OffsetDateTime,
    root: Certificate,
    issuer: Issuer<'static, FixedLengthKey>,
    intermediate: Certificate,
    origins_key: FixedLengthKey,
}

impl Authority {
    /// Creates an authority. Its certificates are valid for weeks around `now_ns` (nanoseconds since 1970).
    pub fn new(now_ns: u64) -> Result<Self, Error> {
        let now = OffsetDateTime::UNIX_EPOCH + Duration::seconds((now_ns / 1_000_000_000) as i64);
        let root = authority(now, "fastopen root", 1);
        let root_issuer = Issuer::new(root.clone(), FixedLengthKey::generate()?);
        let intermediate = authority(now, "fastopen intermediate", 0);
        let key = FixedLengthKey::generate()?;
        Ok(Self {
            now,
            root: root.self_signed(root_issuer.key())?,
            intermediate: intermediate.signed_by(&key, &root_issuer)?,
            issuer: Issuer::new(intermediate, key),
            origins_key: FixedLengthKey::generate()?,
        })
    }

    /// Creates a client's verifier that trusts only this authority.
    pub(crate) fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<WebPkiServerVerifier>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.der().clone())?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))
    }

    /// Returns the root's certificate in PEM.
    pub fn root_pem(&self) -> String {
        self.root.pem()
    }

    /// Returns the pin of the intermediate: the SHA-256 of its `SubjectPublicKeyInfo`, in base64 (RFC 7469
    /// section 2.4). With this pin, a browser trusts all certificates that the intermediate has signed.
    pub fn pin(&self) -> String {
        STANDARD.encode(digest(&SHA256, &self.issuer.key().subject_public_key_info()))
    }

    /// Creates the certificate chain and key of an origin with these names. The chain has `chain_bytes`
    /// bytes, or more if its certificates are longer even without filler.
    pub fn identity(&self, names: &BTreeSet<String>, chain_bytes: usize) -> Result<CertifiedKey, Error> {
        let leaf = self.sized_leaf(names, chain_bytes)?;
        let chain = vec![leaf.der().clone(), self.intermediate.der().clone()];
        Ok(CertifiedKey::new(chain, Arc::new(self.origins_key.clone())))
    }

    /// Returns the certificate chain of [`Authority::identity`], and its key, in PEM for external servers.
    pub fn identity_pem(
        &self,
        names: &BTreeSet<String>,
        chain_bytes: usize,
    ) -> Result<(String, String), Error> {
        let leaf = self.sized_leaf(names, chain_bytes)?;
        Ok((leaf.pem() + &self.intermediate.pem(), self.origins_key.pem()))
    }

    fn sized_leaf(&self, names: &BTreeSet<String>, chain_bytes: usize) -> Result<Certificate, Error> {
        let wanted = chain_bytes.saturating_sub(self.intermediate.der().len());
        let mut filler = 0_usize;
        let mut leaf = self.leaf(names, filler)?;
        for _ in 0..CORRECTIONS {
            let missing = wanted as isize - leaf.der().len() as isize;
            let corrected = filler.saturating_add_signed(missing);
            if corrected == filler {
                break;
            }
            filler = corrected;
            leaf = self.leaf(names, filler)?;
        }
        Ok(leaf)
    }

    fn leaf(&self, names: &BTreeSet<String>, filler_bytes: usize) -> Result<Certificate, Error> {
        let mut params = certificate(
            self.now,
            "fastopen origin",
            serial_of(&names.iter().map(String::as_str).collect::<String>()),
        );
        for name in names {
            params.subject_alt_names.push(match address(name) {
                Some(address) => SanType::IpAddress(address),
                None => SanType::DnsName(name.as_str().try_into()?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        if filler_bytes > 0 {
            params.custom_extensions = vec![CustomExtension::from_oid_content(FILLER, filler(filler_bytes))];
        }
        Ok(params.signed_by(&self.origins_key, &self.issuer)?)
    }
}

/// Returns `bytes` bytes of padding for a certificate. The bytes are the same in each run.
fn filler(bytes: usize) -> Vec<u8> {
    let random = (0_u64..).flat_map(|block| digest(&SHA256, &block.to_be_bytes()).as_ref().to_vec());
    FILLER_TEXT.iter().copied().chain(random).take(bytes).collect()
}

/// Returns the IP address if `host` is an address (in brackets or not), and `None` if it is a name.
pub fn address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn authority(now: OffsetDateTime, name: &str, path_length: u8) -> CertificateParams {
    let mut params = certificate(now, name, serial_of(name));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(path_length));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = true;
    params
}

/// Returns a serial number derived from the name (RFC 5280 section 4.1.2.2). Its length is fixed.
fn serial_of(name: &str) -> SerialNumber {
    let mut bytes = [0x40; 16];
    bytes[1..].copy_from_slice(&digest(&SHA256, name.as_bytes()).as_ref()[..15]);
    SerialNumber::from_slice(&bytes)
}

fn certificate(now: OffsetDateTime, name: &str, serial: SerialNumber) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = now - Duration::days(10);
    params.not_after = now + Duration::days(80);
    params.serial_number = Some(serial);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

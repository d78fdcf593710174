"""Compute the size of a certificate chain for each kind of certificate.

Origins always sign with ECDSA P-256. A kind only sets a size: the chain is padded to the size that it would
have with keys, signatures and timestamps of this kind. CertificateVerify always has an ECDSA signature. If
the kind's signature would be larger, the difference is added to the chain. The messages Certificate and
CertificateVerify are in one flight, so this flight has the kind's exact size."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, get_args

CertificateKind = Literal["ecdsa", "rsa", "ml-dsa-44", "ml-dsa-65", "slh-dsa-128s", "merkle-tree"]

# Size of a list of two signed certificate timestamps (SCTs) without signatures (RFC 6962 section 3.3).
TIMESTAMPS_BYTES: Final = 124
# Sizes of publicly trusted certificates without keys and signatures: 598 of the 908 bytes of a leaf with two
# timestamps (Let's Encrypt, November 2024), and 506 of the 1,115 bytes of the intermediate certificate E5.
LEAF_BYTES: Final = 598
STRUCTURE_BYTES: Final = LEAF_BYTES + 506
# Inclusion proof of a tree with up to eight million certificates: 23 SHA-256 hashes
# (draft-ietf-plants-merkle-tree-certs).
PROOF_BYTES: Final = 23 * 32


class Algorithm(NamedTuple):
    """The sizes of a signature algorithm's public keys and signatures, and the documents that define them."""

    public_key_bytes: int
    signature_bytes: int
    source: str


# P-256 public keys are uncompressed points. Signatures have their most common length in DER.
ECDSA: Final = Algorithm(65, 71, "RFC 5480 section 2.2, RFC 3279 section 2.2.3")
RSA: Final = Algorithm(270, 256, "RFC 8017 appendix A.1.1, modulus of 2,048 bits")
ML_DSA_44: Final = Algorithm(1312, 2420, "FIPS 204 table 2")
ML_DSA_65: Final = Algorithm(1952, 3309, "FIPS 204 table 2")
SLH_DSA_128S: Final = Algorithm(32, 7856, "FIPS 205 table 2")


def _chain(keys: Algorithm, timestamps: Algorithm) -> int:
    """Return the total size in bytes of a leaf certificate, an intermediate certificate and the handshake's
    signature, minus the size of the ECDSA signature that origins really send. `timestamps` is the algorithm
    of the leaf's two timestamps. All other signatures, and all public keys, use the algorithm `keys`."""
    signatures = 3 * keys.signature_bytes + 2 * timestamps.signature_bytes - ECDSA.signature_bytes
    return STRUCTURE_BYTES + 2 * keys.public_key_bytes + signatures


# Size of a leaf whose inclusion proof replaces timestamps, CA's signature and intermediate certificate,
# minus an ECDSA signature (see `_chain`). CHAIN_BYTES adds the leaf's key and the handshake's signature.
_MERKLE_TREE: Final = LEAF_BYTES - TIMESTAMPS_BYTES + PROOF_BYTES - ECDSA.signature_bytes
# Certificate Transparency logs sign timestamps with ECDSA today, also for RSA certificates.
CHAIN_BYTES: Final[Mapping[CertificateKind, int]] = {
    "ecdsa": _chain(ECDSA, ECDSA),
    "rsa": _chain(RSA, ECDSA),
    "ml-dsa-44": _chain(ML_DSA_44, ML_DSA_44),
    "ml-dsa-65": _chain(ML_DSA_65, ML_DSA_65),
    "slh-dsa-128s": _chain(SLH_DSA_128S, SLH_DSA_128S),
    "merkle-tree": _MERKLE_TREE + ML_DSA_44.public_key_bytes + ML_DSA_44.signature_bytes,
}
"""Maps each kind of certificate to the size of its padded chain in bytes (see the module's docstring).
`merkle-tree` is a landmark-relative certificate with an ML-DSA-44 key."""
CLASSICAL: Final = frozenset({"ecdsa", "rsa"})
"""Kinds whose signature algorithms have code points in TLS 1.2."""
assert CHAIN_BYTES.keys() == {*get_args(CertificateKind)}

"""Compute the sizes of certificate chains by kind.

Origins always sign with ECDSA P-256. A kind only sets a size: the chain is padded to the size that it would
have with keys, signatures and timestamps of this kind. CertificateVerify always has an ECDSA signature, so
the bytes by which a signature of the kind would be larger are added to the chain. Both messages are in one
flight, so the flight has the exact size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

CertificateKind = Literal["ecdsa", "rsa", "ml-dsa-44", "ml-dsa-65", "slh-dsa-128s", "merkle-tree"]

# Names, extensions and DER of the two certificates of a public chain, without keys and signatures: 598 bytes
# of a leaf of Let's Encrypt from November 2024 (908 bytes) with two timestamps, and 506 of the intermediate
# E5 (1,115 bytes).
STRUCTURE_BYTES: Final = 598 + 506
# Parts of STRUCTURE_BYTES: the list of two timestamps without signatures (RFC 6962 section 3.3), and the
# intermediate.
TIMESTAMPS_BYTES: Final = 124
INTERMEDIATE_BYTES: Final = 506

# The signature in the CertificateVerify of origins: P-256 in DER.
ECDSA_SIGNATURE_BYTES: Final = 71


@dataclass(frozen=True)
class Algorithm:
    """A signature algorithm: the sizes of a public key and of a signature in certificates."""

    public_key_bytes: int
    signature_bytes: int
    source: str


# Points of P-256 are uncompressed; the signature has the most common length in DER.
ECDSA: Final = Algorithm(65, ECDSA_SIGNATURE_BYTES, "RFC 5480 section 2.2, RFC 3279 section 2.2.3")
RSA: Final = Algorithm(270, 256, "RFC 8017 appendix A.1.1, modulus of 2,048 bits")
ML_DSA_44: Final = Algorithm(1312, 2420, "FIPS 204 table 2")
ML_DSA_65: Final = Algorithm(1952, 3309, "FIPS 204 table 2")
SLH_DSA_128S: Final = Algorithm(32, 7856, "FIPS 205 table 2")

# 23 hashes of SHA-256: the inclusion proof of a tree with up to eight million certificates
# (draft-ietf-plants-merkle-tree-certs).
PROOF_BYTES: Final = 23 * 32


def _chain(keys: Algorithm, timestamps: Algorithm) -> int:
    """Return the bytes of a leaf with two timestamps and of an intermediate, plus the bytes by which their
    kind's signature in CertificateVerify would exceed that of ECDSA."""
    certificates = 2 * (keys.public_key_bytes + keys.signature_bytes) + 2 * timestamps.signature_bytes
    return STRUCTURE_BYTES + certificates + _beyond_ecdsa(keys)


def _beyond_ecdsa(key: Algorithm) -> int:
    return key.signature_bytes - ECDSA_SIGNATURE_BYTES


def _merkle_tree(key: Algorithm) -> int:
    """Return the bytes of a certificate with an inclusion proof instead of signatures, plus the bytes by
    which its kind's signature in CertificateVerify would exceed that of ECDSA."""
    structure = STRUCTURE_BYTES - TIMESTAMPS_BYTES - INTERMEDIATE_BYTES
    return structure + key.public_key_bytes + PROOF_BYTES + _beyond_ecdsa(key)


# Certificate Transparency logs sign timestamps with ECDSA today, also for RSA certificates.
CHAIN_BYTES: Final[Mapping[CertificateKind, int]] = {
    "ecdsa": _chain(ECDSA, ECDSA),
    "rsa": _chain(RSA, ECDSA),
    "ml-dsa-44": _chain(ML_DSA_44, ML_DSA_44),
    "ml-dsa-65": _chain(ML_DSA_65, ML_DSA_65),
    "slh-dsa-128s": _chain(SLH_DSA_128S, SLH_DSA_128S),
    "merkle-tree": _merkle_tree(ML_DSA_44),
}
"""Bytes of each kind's chain, plus the bytes by which its signature in CertificateVerify would exceed that of
ECDSA. The kind `merkle-tree` is a landmark-relative certificate with an ML-DSA-44 key."""
CLASSICAL: Final = frozenset({"ecdsa", "rsa"})
"""Kinds for which TLS 1.2 has code points."""
assert CHAIN_BYTES.keys() == {*get_args(CertificateKind)}

"""Each kind of certificate has the sizes that its standard defines."""

import pytest

from fastopen.common.errors import InputError
from fastopen.contract import Tls
from fastopen.contract.certificates import CHAIN_BYTES, STRUCTURE_BYTES
from fastopen.experiments import COMMAND_LINE, read_settings


def test_a_chain_has_five_signatures_two_keys_and_the_structure_of_a_public_one() -> None:
    # The published size of two keys and five signatures with ML-DSA-44 is 14,724 bytes
    # (netmeister.org/blog/pqc-certs.html). One signature is in CertificateVerify, where ECDSA takes 71 bytes.
    assert CHAIN_BYTES["ml-dsa-44"] == STRUCTURE_BYTES + 14_724 - 71 == 15_757
    assert CHAIN_BYTES["ml-dsa-65"] == STRUCTURE_BYTES + 2 * 1952 + 5 * 3309 - 71
    assert CHAIN_BYTES["slh-dsa-128s"] == STRUCTURE_BYTES + 2 * 32 + 5 * 7856 - 71
    assert CHAIN_BYTES["ecdsa"] == STRUCTURE_BYTES + 2 * 65 + 4 * 71
    # Certificate transparency logs sign with ECDSA, so two signatures have 71 bytes.
    assert CHAIN_BYTES["rsa"] == STRUCTURE_BYTES + 2 * 270 + 3 * 256 + 2 * 71 - 71


def test_a_merkle_tree_certificate_has_one_key_one_signature_and_a_proof() -> None:
    # The page above gives 4,468 bytes for key, signature and proof.
    leaf_without_timestamps = 474
    assert CHAIN_BYTES["merkle-tree"] == leaf_without_timestamps + 4468 - 71


def test_a_kind_sets_the_size_of_the_chain_unless_there_is_one() -> None:
    assert Tls(certificates="ml-dsa-44").chain_bytes == 15_757
    assert Tls().chain_bytes == 3500
    kept = Tls(certificates="ml-dsa-44", chain_bytes=15_000)
    assert Tls.model_validate_json(kept.model_dump_json()) == kept


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ({"certificates": "ml-dsa-44", "tls": "1.2"}, "--tls, --certificates"),
        ({"certificates": "merkle-tree", "tls": "1.2,1.3"}, "--tls, --certificates"),
        ({"certificate_compression": "brotli", "tls": "1.2"}, "--tls, --certificate-compression"),
        ({"ech": "grease", "tls": "1.2"}, "--tls, --ech"),
        ({"certificates": "ecdsa", "chain_bytes": "2000"}, "--certificates, --chain-bytes"),
        ({"certificates": "dilithium"}, "--certificates"),
        ({"key_share": "kyber"}, "--key-share"),
    ],
)
def test_what_tls_does_not_have_is_refused_by_name(written: dict[str, str], place: str) -> None:
    with pytest.raises(InputError) as raised:
        read_settings(written, COMMAND_LINE).arms_and_setups()
    assert raised.value.place == place


def test_classical_certificates_go_with_tls_12() -> None:
    (setup,) = read_settings({"certificates": "rsa", "tls": "1.2"}, COMMAND_LINE).arms_and_setups()[1]
    assert setup.tls == Tls(version="1.2", certificates="rsa")


def test_a_comparison_of_certificates_loads_each_remedy_by_itself() -> None:
    def remedies(**written: str) -> list[tuple[object, ...]]:
        written = {"certificates": "ecdsa,ml-dsa-44", **written}
        usual = ("none", "none", 10)
        found: list[tuple[object, ...]] = [
            (one.tls.session, one.tls.certificate_compression, one.tcp.initial_window_segments)
            for one in read_settings(written, COMMAND_LINE).arms_and_setups()[1]
            if one.tls is not None and one.tls.certificates == "ml-dsa-44"
        ]
        assert found.count(usual) <= 1
        return [one for one in found if one != usual]

    assert remedies() == [
        ("resumed", "none", 10),
        ("early", "none", 10),
        ("none", "brotli", 10),
        ("none", "none", 32),
    ]
    # Without tickets, no session can be resumed. Other clients may not support these settings.
    assert remedies(tickets="0") == [("none", "brotli", 10), ("none", "none", 32)]
    assert remedies(client="curl") == []
    assert remedies(session="none") == []
    assert remedies(certificates="ecdsa,rsa") == []

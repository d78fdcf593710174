"""The check of the dependencies in Cargo.lock: licences, sources and versions."""

import sys
from typing import Any

import pytest

from places import ROOT

sys.path.append(str(ROOT / "tools"))

from check_dependencies import allowed, faults

CRATE = {"name": "a", "version": "1.0.0", "source": "registry+index", "license": "MIT"}


def found(*packages: dict[str, Any]) -> list[str]:
    return [*faults([{**CRATE, **package} for package in packages])]


@pytest.mark.parametrize(
    ("expression", "fine"),
    [
        ("MIT", True),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("(MIT OR Apache-2.0) AND GPL-3.0-only", False),
        ("MIT AND GPL-2.0-only", False),
        ("", False),
    ],
)
def test_a_licence_counts_if_one_of_the_ways_to_meet_it_does(expression: str, fine: bool) -> None:
    assert allowed(expression) is fine


def test_a_crate_in_two_versions_or_from_elsewhere_is_named() -> None:
    assert found({}, {"name": "b"}) == []
    assert found({}, {"version": "2.0.0"}) == ["a: in 2 versions, 1.0.0 and 2.0.0 (DOUBLED excuses it)"]
    assert found({"source": "git+somewhere"}) == ["a 1.0.0: comes from git+somewhere, not from a registry"]
    assert found({"source": None, "license": None}) == []

"""`fastopen reproduce NAME --check`: results in virtual time equal the expected ones to the digit."""

import pytest

from fastopen.common.errors import InputError
from fastopen.engines import kernels
from fastopen.experiments import load_experiment, packaged_experiments
from fastopen.workflows import expected
from fastopen.workflows.expected import both_kernels, first_difference, measured

PUBLISHED = [name for name in packaged_experiments() if load_experiment(name).published is not None]


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_packaged_experiment_gives_its_expected_table(name: str) -> None:
    experiment = load_experiment(name)
    found = measured(experiment, watch=lambda _: None)
    # If a change alters times on purpose, tools/expected_tables.py writes the file again.
    assert first_difference(experiment, found) is None
    key, ns = next(iter(found.items()))
    assert ns is not None
    other = first_difference(experiment, {**found, key: ns + 1})
    assert other is not None
    assert other.endswith(f": {(ns + 1) / 1e6:.6f} ms, expected {ns / 1e6:.6f} ms")
    missing = first_difference(experiment, {**found, key: None})
    assert missing is not None
    assert "no valid load" in missing


@pytest.mark.usefixtures("kernel")
def test_a_difference_names_both_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    own = kernels.find().manifest
    measured_on = f"measured on {own.source} {own.source_version}"
    monkeypatch.setattr(expected, "KERNEL", f"{own.source} {own.source_version}")
    assert both_kernels(None).endswith(measured_on)
    monkeypatch.setattr(expected, "KERNEL", "linux-source-6.12 6.12.1-1")
    words = f"expected on linux-source-6.12 6.12.1-1, {measured_on} (another kernel is the likely cause)"
    assert both_kernels(None) == words


def test_an_experiment_without_an_expected_table_is_refused() -> None:
    with pytest.raises(InputError, match="broken-paths: --check works only with packaged experiments"):
        first_difference(load_experiment("broken-paths"), {})

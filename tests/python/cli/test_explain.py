"""`fastopen explain`: every kind of invalid load has an entry."""

import json

from command_line import fastopen
from fastopen.contract import InvalidKind
from fastopen.report.explained_kinds import EXPLANATIONS


def test_every_kind_is_explained() -> None:
    assert {*EXPLANATIONS} == {*InvalidKind}
    assert all(all(one) for one in EXPLANATIONS.values())


def test_a_kind_is_printed_with_its_remedy() -> None:
    text = " ".join(fastopen("explain", "listen_overflow").stdout.split())
    assert EXPLANATIONS[InvalidKind.LISTEN_OVERFLOW].remedy in text


def test_all_kinds_are_one_json_document() -> None:
    kinds = json.loads(fastopen("explain", "--json").stdout)["kinds"]
    assert [one["kind"] for one in kinds] == [*EXPLANATIONS]
    assert kinds[0].keys() == {"kind", "meaning", "cause", "remedy"}


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    done = fastopen("explain", "no_syndata")
    assert done.returncode == 2
    assert "no_syn_data" in done.stderr

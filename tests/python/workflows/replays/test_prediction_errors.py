"""The kind of step in a load, such as opening a connection, that causes most of a prediction's error."""

import pytest

from fastopen.workflows.replays import Cause, error_of
from made_up_loads import load, page, request

ROOT = request(0, 0, 50, 100, 150)
MEASURED = load(400, ROOT, request(1, 160, 200, 300, 350))


def found(picture: dict[str, object], think_ms: int = 0) -> Cause | None:
    return error_of(page(0, think_ms), load(400, ROOT, picture), page(0, 0), MEASURED)


@pytest.mark.parametrize(
    ("kind", "picture", "ms"),
    [
        ("discovery", request(1, 190, 230, 330, 380), 30),
        ("connection", request(1, 160, 260, 360, 410), 60),
        ("queue", request(1, 160, 200, 340, 390), 40),
        ("transfer", request(1, 160, 200, 300, 330), -20),
    ],
)
def test_the_step_that_differs_most_is_named_by_its_kind(
    kind: str, picture: dict[str, object], ms: int
) -> None:
    step = found(picture)
    assert step is not None
    assert (step.kind, step.url) == (kind, "http://a.test/1")
    assert step.replayed_ms - step.recorded_ms == pytest.approx(ms)


def test_a_wait_is_of_thinking_where_think_times_explain_most_of_it() -> None:
    late = request(1, 160, 200, 340, 390)
    steps = [found(late, think_ms) for think_ms in (10, 30)]
    assert [step and step.kind for step in steps] == ["queue", "think"]


def test_what_differs_by_less_than_clocks_do_is_no_error() -> None:
    assert found(request(1, 161, 203, 305, 355)) is None


def test_resources_are_known_by_their_names_however_the_import_orders_them() -> None:
    original = page(0, 0, 0)
    resources = original.resources
    imported = original.model_copy(update={"resources": (resources[0], resources[2], resources[1])})
    measured = load(500, ROOT, request(1, 160, 200, 300, 350), request(2, 160, 200, 400, 450))
    foretold = load(500, ROOT, request(1, 160, 200, 400, 450), request(2, 160, 200, 300, 350))
    assert error_of(imported, foretold, original, measured) is None

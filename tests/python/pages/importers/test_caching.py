"""Freshness and validators of responses, derived from their recorded headers."""

import pytest

from fastopen.pages.importers.exchange import Freshness, freshness_of
from fastopen.pages.model import MAX_FRESH_S
from pages.hars import entry, one_page

DATE = ("date", "Tue, 15 Nov 1994 08:12:31 GMT")
DAY_LATER = ("expires", "Wed, 16 Nov 1994 08:12:31 GMT")
TEN_DAYS_OLD = ("last-modified", "Sat, 05 Nov 1994 08:12:31 GMT")
DAY = 86_400


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("cache-control", "public, max-age=3600")], (3600, False)),
        ([("cache-control", "max-age=3600"), ("age", "600"), ("etag", '"x"')], (3000, True)),
        ([("cache-control", "max-age=60"), ("age", "600")], (0, False)),
        ([("cache-control", 's-maxage=9, Max-Age="7"')], (7, False)),
        ([("cache-control", "private"), ("cache-control", "max-age=5")], (5, False)),
        ([("cache-control", "no-cache, max-age=60"), TEN_DAYS_OLD], (0, True)),
        ([("cache-control", "no-store, max-age=60"), ("etag", "x")], (0, False)),
        ([("cache-control", "max-age=60"), DATE, DAY_LATER], (60, False)),
        ([DATE, DAY_LATER], (DAY, False)),
        ([DATE, ("expires", "0"), TEN_DAYS_OLD], (0, True)),
        ([DATE, ("expires", "-1")], (0, False)),
        # Heuristic freshness: a tenth of the time since the last modification.
        ([DATE, TEN_DAYS_OLD], (DAY, True)),
        ([DATE, TEN_DAYS_OLD, ("cache-control", "must-revalidate")], (0, True)),
        ([DATE, TEN_DAYS_OLD, ("pragma", "no-cache")], (0, True)),
        ([DATE, DAY_LATER, ("vary", "*")], (0, False)),
        ([("content-type", "text/html")], (0, False)),
        ([("cache-control", "max-age=99999999999999")], (MAX_FRESH_S, False)),
        ([("cache-control", f"max-age={'9' * 5000}")], (MAX_FRESH_S, False)),
        ([("cache-control", "max-age=60"), ("age", "9" * 5000)], (0, False)),
        ([DATE, ("expires", "Thu, 01 Jan 1970 00:00:00 +9999999999999")], (0, False)),
        ([("cache-control", "max-age=soon")], (0, False)),
        ([], (None, False)),
    ],
)
def test_headers_say_how_long_a_response_is_good(
    headers: list[tuple[str, str]], expected: tuple[int | None, bool]
) -> None:
    assert freshness_of("GET", 200, headers, None) == Freshness(*expected)


def test_a_redirect_for_good_is_kept_for_good_and_another_is_not() -> None:
    plain = [("content-type", "text/html")]
    assert [freshness_of("GET", status, plain, None).fresh_s for status in (301, 308, 302, 404)] == [
        MAX_FRESH_S,
        MAX_FRESH_S,
        0,
        0,
    ]


def test_what_was_not_got_is_not_kept() -> None:
    assert freshness_of("POST", 200, [("cache-control", "max-age=60")], None) == Freshness()


def test_without_a_date_the_recorders_clock_counts() -> None:
    at_ms = 784_887_151_000.0  # the time in DATE
    assert freshness_of("GET", 200, [DAY_LATER], at_ms).fresh_s == DAY


def test_a_har_keeps_what_caching_needs() -> None:
    headers = [{"name": "Cache-Control", "value": "max-age=60"}, {"name": "ETag", "value": '"x"'}]
    page = one_page(
        entry("http://a.test/"), entry("http://a.test/1", 100, response={"headers": headers})
    ).page
    assert [(one.fresh_s, one.validator) for one in page.resources] == [(0, False), (60, True)]

"""Sizes and bodies of a HAR's entries."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from fastopen.pages import Page
from pages.hars import ROOT, entry, one_page


class TestSizes:
    def body(self, **changes: Any) -> int:
        page: Page = one_page(ROOT, entry("http://a.test/x", 100, **changes)).page
        return page.resources[1].body_bytes

    def test_the_recorded_size_holds(self) -> None:
        assert self.body(response={"bodySize": 700}) == 700

    @pytest.mark.parametrize(
        ("response", "expected"),
        [
            ({"headers": [{"name": "content-length", "value": "640"}]}, 640),
            ({"headers": [{"name": "content-length", "value": 640}]}, 640),
            ({"_transferSize": 850}, 700),
            ({"_transferSize": 850, "headers": [{"name": "content-length", "value": "9000"}]}, 700),
            ({"_transferSize": 700, "headers": [{"name": "content-length", "value": "640"}]}, 640),
            ({"_transferSize": 100, "headers": [{"name": "content-length", "value": "640"}]}, 640),
            ({"content": {"size": 900, "compression": 300}}, 600),
            ({"content": {"size": 900}}, 900),
            ({"content": {"size": 900}, "headers": [{"name": "Content-Encoding", "value": "br"}]}, 300),
            ({"content": {"size": 900}, "headers": [{"name": "Content-Encoding", "value": "x, gzip"}]}, 300),
            ({"content": {"size": 900}, "headers": [{"name": "Content-Encoding", "value": "dcz"}]}, 300),
            ({"content": {"size": 900, "compression": 917, "mimeType": "image/png"}, "headers": []}, 900),
            ({"content": {"size": 900, "mimeType": "text/css"}, "headers": []}, 300),
            ({"content": {"text": "äö"}}, 4),
            ({"content": {}}, 0),
            ({"content": None}, 0),
        ],
    )
    def test_a_missing_size_has_fallbacks(self, response: dict[str, Any], expected: int) -> None:
        for missing in (-1, None, "?", 0):
            assert self.body(response={"bodySize": missing} | response) == expected

    def test_header_bytes_counted_to_the_body_by_http2_are_taken_off_again(self) -> None:
        length = [{"name": "content-length", "value": "44300"}]
        assert self.body(response={"bodySize": 44723, "headersSize": -1, "headers": length}) == 44300

    @pytest.mark.parametrize(
        ("length", "text", "expected"),
        [("300", "", 300), ("300", "x" * 9000, 300), (None, "x" * 9000, 3000), (None, "", 9000)],
    )
    def test_the_size_of_unpacked_content_is_not_that_of_the_body(
        self, length: str | None, text: str, expected: int
    ) -> None:
        fields = [("content-encoding", "br"), *([("content-length", length)] if length else [])]
        headers = [{"name": name, "value": value} for name, value in fields]
        content = {"size": 9000, "text": text, "mimeType": "text/css"}
        assert self.body(response={"bodySize": 9000, "content": content, "headers": headers}) == expected

    def test_http2_headers_are_sized_as_http1_text_without_pseudo_headers(self) -> None:
        fields = [{"name": ":path", "value": "/"}, {"name": "accept", "value": "*/*"}]
        request = {"httpVersion": "h2", "headersSize": 31, "headers": fields}
        root = one_page(entry("https://a.test/", request=request)).page.resources[0]
        assert root.request_header_bytes == len("GET / HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\n\r\n")

    def test_joined_cookies_count_as_the_fields_they_were(self) -> None:
        response = {"headersSize": -1, "headers": [{"name": "set-cookie", "value": "a=1\nb=2"}]}
        root = one_page(entry("http://a.test/", response=response)).page.resources[0]
        expected = "HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n\r\n"
        assert root.response_header_bytes == len(expected)

    def test_headers_are_never_smaller_than_their_first_line(self) -> None:
        request = {"headersSize": 25, "headers": [{"name": "x", "value": ""}]}
        root = one_page(entry("http://a.test/", request=request)).page.resources[0]
        assert root.request_header_bytes == len("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n")

    def test_the_size_of_a_status_line_alone_is_no_header_size(self) -> None:
        root = one_page(entry("http://a.test/", response={"headersSize": 17, "headers": []})).page.resources[
            0
        ]
        assert root.response_header_bytes == 300

    def test_a_posted_body_is_counted_from_what_there_is(self) -> None:
        request = {"method": "POST", "bodySize": -1, "postData": {"text": "a=1&b=ü"}}
        posted = one_page(ROOT, entry("http://a.test/f", 100, request=request)).page.resources[1]
        assert (posted.method, posted.request_body_bytes) == ("POST", 8)


class TestBodies:
    def bodies(self, **content: Any) -> dict[int, bytes]:
        return dict(one_page(entry("http://a.test/", response={"bodySize": 4, "content": content})).bodies)

    def test_a_recorded_body_of_the_size_on_the_wire_is_handed_on(self) -> None:
        assert self.bodies(size=4, text="abcd") == {0: b"abcd"}

    def test_a_base64_body_is_decoded(self) -> None:
        coded = base64.b64encode(b"\x00\xff\x01\x02").decode()
        assert self.bodies(size=4, text=coded, encoding="base64") == {0: b"\x00\xff\x01\x02"}

    @pytest.mark.parametrize("content", [{"text": "abcde"}, {"text": "!", "encoding": "base64"}, {"text": 4}])
    def test_another_body_is_not(self, content: dict[str, Any]) -> None:
        assert self.bodies(**content) == {}

"""Malicious files: their unpacked size, and the work and memory that they cause, are limited."""

import gzip
import json
import os
import zipfile
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastopen.analysis.audit.table import read_table
from fastopen.common import json_memory
from fastopen.common.errors import InputError
from fastopen.experiments import load_experiment, trace
from fastopen.experiments.trace import read_trace
from fastopen.pages import budget, load_chosen, load_pages
from fastopen.pages.references import find_reference
from security.fuzzer import Memory

MIB = 2**20


def bomb(path: Path, start: bytes, mebibytes: int, end: bytes = b"") -> Path:
    """Write a gzip file of `start`, this number of MiB of the letter a, and `end`. Return its path."""
    with gzip.open(path, "wb", 1) as file:
        file.write(start)
        for _ in range(mebibytes):
            file.write(b"a" * MIB)
        file.write(end)
    return path


def warc_record(body: bytes, *, coding: str = "") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + coding.encode() + b"\r\n"
    fields = {
        "WARC-Type": "response",
        "WARC-Target-URI": "http://a.test/",
        "WARC-Date": "2026-01-01T00:00:00Z",
        "WARC-Record-ID": "<urn:uuid:1>",
        "Content-Type": "application/http; msgtype=response",
        "Content-Length": str(len(head) + len(body)),
    }
    written = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return b"WARC/1.0\r\n" + written.encode() + b"\r\n" + head + body + b"\r\n\r\n"


@pytest.mark.slow
def test_a_har_with_one_endless_string_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = bomb(tmp_path / "bomb.har.gz", b'{"log":{"creator":{"name":"', 80, b'"},"entries":[]}}')
    with pytest.raises(InputError, match=r"one of its values is longer than 64 MiB"):
        load_pages([path])


def test_a_compressed_text_stays_within_its_budget(tmp_path: Path) -> None:
    path = bomb(tmp_path / "list.pages", b"# ", 12)
    with pytest.raises(InputError, match=r"list.pages: unpacks to more than 8 MiB; .*--max-unpacked"):
        load_pages([path], max_unpacked=8 * MIB)


def test_an_archive_that_was_compressed_as_one_stays_within_its_budget(tmp_path: Path) -> None:
    path = tmp_path / "one.warc.gz"
    path.write_bytes(gzip.compress(warc_record(b"<p>") + warc_record(b"a" * (12 * MIB))))
    with pytest.raises(InputError, match="unpacks to more than 8 MiB"):
        load_pages([path], max_unpacked=8 * MIB)


@pytest.mark.slow
def test_a_record_that_unpacks_to_more_than_a_body_can_be_is_named(tmp_path: Path) -> None:
    path = tmp_path / "record.warc.gz"
    path.write_bytes(gzip.compress(warc_record(b"a" * (65 * MIB))))
    with pytest.raises(InputError, match=r"it holds more than 64 MiB"):
        load_pages([path])


def test_a_member_of_a_wacz_stays_within_its_budget(tmp_path: Path) -> None:
    path = tmp_path / "a.wacz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as whole:
        whole.writestr("archive/data.warc", warc_record(b"a" * (12 * MIB)))
    with pytest.raises(InputError, match="unpacks to more than 8 MiB"):
        load_pages([path], max_unpacked=8 * MIB)


def test_the_list_of_pages_of_a_wacz_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.wacz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as whole:
        whole.writestr("archive/data.warc", warc_record(b"<p>"))
        whole.writestr("pages/pages.jsonl", b" " * (17 * MIB))
    with pytest.raises(InputError, match=r"pages.jsonl: is larger than 16 MiB"):
        load_pages([path])


def test_texts_that_unpack_to_much_are_read_in_part(tmp_path: Path) -> None:
    body = gzip.compress(b"<img src=i.png>" + b"a" * (40 * MIB))
    path = tmp_path / "text.warc"
    path.write_bytes(warc_record(body, coding="Content-Encoding: gzip\r\n"))
    (imported,) = load_pages([path], max_unpacked=20 * MIB)
    assert imported.page.resources[0].body_bytes == len(body)


TOO_MUCH_WORK = {
    "tags of its bodies": b"<b></b>" * 3000,
    "references of its bodies": b"<img src=i.png>" * 1000,
    "a srcset": b'<img srcset="' + b"i.png 1x," * 4000 + b'">',
    "rules of its styles": b"<style>a{b:url(c)}" + b",;" * 10_000 + b"</style>",
}


@pytest.mark.parametrize("what", TOO_MUCH_WORK)
def test_an_archive_is_refused_after_so_much_work_as_its_budget_allows(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, done = tmp_path / "work.warc", 0
    take = budget.work

    def counted(steps: int = 1) -> None:
        nonlocal done
        take(steps)
        done += steps

    monkeypatch.setattr(budget, "work", counted)
    record = warc_record(gzip.compress(TOO_MUCH_WORK[what]), coding="Content-Encoding: gzip\r\n")
    bodies = [record.replace(b"//a.test/", b"//%c.test/" % (97 + number)) for number in range(10)]
    path.write_bytes(b"".join(bodies))
    assert load_pages([path], max_unpacked=256 * MIB)
    for mebibytes in (1, 2):
        done = 0
        with pytest.raises(InputError, match=rf"takes more work .* {mebibytes} MiB allows; .*--max-unpacked"):
            load_pages([path], max_unpacked=mebibytes * MIB)
        assert done <= mebibytes * MIB // 512


def har_of_entries(count: int) -> bytes:
    entry = (
        b'{"startedDateTime":"2026-01-01T00:00:00Z","request":{"method":"GET","url":"http://a.test/"},'
        b'"response":{"status":200}}'
    )
    return b'{"log":{"entries":[' + b",".join([entry] * count) + b"]}}"


HEADS = b"".join(b"a%d: b\r\n" % number for number in range(9000))
MANY: dict[str, tuple[str, bytes]] = {
    "entries": ("x.har", har_of_entries(100)),
    "entries that are none": (
        "x.har",
        har_of_entries(1)[:-3] + b',{"a' + b'{"b":{"c":1}}' * 9000 + b"]}}",
    ),
    "records": ("x.warc", warc_record(b"<p>") * 90),
    "lines of a head": (
        "x.warc.gz",
        gzip.compress(warc_record(b"<p>")) + gzip.compress(b"WARC/1.0\r\n" + HEADS),
    ),
    "places where a record may begin": (
        "x.warc.gz",
        gzip.compress(warc_record(b"<p>")) + b"\x1f\x8b\x08\x00" * 1000,
    ),
    "chunks": (
        "x.warc",
        warc_record(b"1\r\na\r\n" * 9000, coding="Transfer-Encoding: chunked\r\n"),
    ),
}


@pytest.mark.parametrize("what", MANY)
def test_a_file_of_very_many_things_is_refused_before_all_are_read(what: str, tmp_path: Path) -> None:
    name, data = MANY[what]
    path = tmp_path / name
    path.write_bytes(data)
    assert load_pages([path], lenient=True, max_unpacked=64 * MIB)
    with pytest.raises(InputError, match=r"takes more work to read than the limit of 1 MiB"):
        load_pages([path], lenient=True, max_unpacked=MIB)


def har_of_headers(entries: int, of_each: int) -> bytes:
    """Return a HAR whose headers all differ, so that the importer cannot store equal headers only once."""

    def entry(number: int) -> bytes:
        names = range(number * of_each, (number + 1) * of_each)
        return (
            b'{"request":{"headers":[' + b",".join(b'{"name":"n%d","value":""}' % n for n in names) + b"]}}"
        )

    return b'{"log":{"entries":[' + b",".join(map(entry, range(entries))) + b"]}}"


_ENTRY = har_of_entries(1)[:-4]
_LISTS = b"[" + b"[]," * (20 * MIB) + b"[]]"
MUCH_MEMORY: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "lists of a page": (
        "x.page.json",
        lambda: b'{"format":"fastopen-page/1","resources":' + _LISTS + b"}",
        "one of its values may take more than 160 MiB of memory",
    ),
    "lists of a HAR's creator": (
        "x.har",
        lambda: b'{"log":{"creator":' + _LISTS + b',"entries":[]}}',
        "one of its values may take more than 160 MiB of memory",
    ),
    "objects of an entry": (
        "x.har",
        lambda: _ENTRY + b',"x":[' + b'{"":0},' * (8 * MIB) + b"0]}]}}",
        "one of its values may take more than 160 MiB of memory",
    ),
    "lists in a string of an entry": (
        "x.har",
        lambda: _ENTRY + b',"_initiator":"{' + _LISTS + b'}"}]}}',
        "",
    ),
    "entries together": (
        "x.har.gz",
        lambda: gzip.compress(_ENTRY + b"}" + (b',{"x":[' + b"[]," * 2000 + b"0]}") * 4000 + b"]}}", 1),
        "takes more memory to read than the limit of 1,024 MiB",
    ),
    "headers together": (
        "x.har",
        lambda: har_of_headers(5, 100_000),
        "takes more memory to read than the limit of 1,024 MiB",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", MUCH_MEMORY)
def test_no_json_takes_half_a_gigabyte_of_memory(what: str, tmp_path: Path) -> None:
    name, made, refusal = MUCH_MEMORY[what]
    path = tmp_path / name
    path.write_bytes(made())
    memory = Memory()
    with pytest.raises(InputError, match=refusal) if refusal else nullcontext():
        load_pages([path])
    memory.check()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip
DENSE = {
    "lists in each other": "[" * 900 + "]" * 900,
    "lists of a number": "[" + "[0]," * 900 + "0]",
    "objects in each other": '{"":' * 900 + "0" + "}" * 900,
    "objects of a list": "[" + '{"":[0]},' * 900 + "0]",
    "empty lists": "[" + "[]," * 900 + "0]",
    "empty objects": "[" + "{}," * 900 + "0]",
    "texts of a wide character": '["' + '\U0001f600","' * 900 + '"]',
    "a wide text": '["\U0001f600' + "a" * 900 + '"]',
}


@pytest.mark.parametrize("what", DENSE)
def test_no_character_of_json_becomes_more_than_is_said(what: str) -> None:
    text = DENSE[what]
    assert json_memory.bytes_of(json.loads(text)) <= json_memory.A_CHARACTER * len(text)


@given(JSON)
def test_no_json_becomes_more_than_is_said_of_a_character(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # In a short text, the fixed size of a string with wide characters dominates, so it is added.
    assert json_memory.bytes_of(json.loads(text)) <= json_memory.A_CHARACTER * len(text) + 200


@given(JSON)
def test_what_json_may_take_is_no_less_than_it_takes(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    longest = 4 * len(text)
    assert json_memory.bytes_of(json.loads(text)) <= json_memory.estimated_bytes(text) + longest + 100
    assert json_memory.estimated_bytes(text) == json_memory.estimated_bytes(text.encode())


def test_brackets_in_long_strings_take_no_memory() -> None:
    text = json.dumps({"text": 'f([{}],{}); "' * MIB}) + "\n"
    assert json_memory.estimated_bytes(text) < 100 * MIB


def test_each_file_of_a_folder_may_cost_as_much_work(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.har").write_bytes(har_of_entries(15))
    assert len(load_pages([tmp_path], max_unpacked=MIB)) == 3


def test_a_head_that_unpacks_without_end_stays_within_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "head.warc.gz"
    endless = gzip.compress(b"WARC/1.0\r\nWARC-Type: " + b"a" * (12 * MIB))
    path.write_bytes(gzip.compress(warc_record(b"<p>")) + endless)
    with pytest.raises(InputError, match="unpacks to more than 8 MiB"):
        load_pages([path], max_unpacked=8 * MIB)


def test_a_mirror_serves_nothing_that_lies_outside_of_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"secret")
    host = tmp_path / "mirror" / "a.test"
    host.mkdir(parents=True)
    (host / "index.html").write_bytes(b"<img src=shadow.png><img src=own.png>")
    (host / "own.png").write_bytes(b"\x89PNG own")
    (host / "shadow.png").symlink_to(secret)
    (tmp_path / "mirror" / "b.test").symlink_to(tmp_path)
    (imported,) = load_pages([tmp_path / "mirror"])
    urls = [resource.url for resource in imported.page.resources]
    assert urls == ["http://a.test/", "http://a.test/own.png"]
    assert b"secret" not in imported.bodies.values()


def test_a_mirror_that_leads_into_itself_is_read_once(tmp_path: Path) -> None:
    host = tmp_path / "a.test"
    host.mkdir()
    (host / "index.html").write_bytes(b"<p>")
    (tmp_path / "http").symlink_to(tmp_path)
    (host / "again").symlink_to(host)
    (imported,) = load_pages([tmp_path])
    assert len(imported.page.resources) == 1


def test_a_file_of_a_mirror_that_claims_any_size_is_refused(tmp_path: Path) -> None:
    host = tmp_path / "a.test"
    host.mkdir()
    (host / "index.html").write_bytes(b"<p>")
    with (host / "sparse.bin").open("wb") as file:
        file.truncate(2**34)
    with pytest.raises(InputError, match=r"sparse.bin: is larger than 64 MiB"):
        load_pages([tmp_path])


def test_packed_texts_of_every_coding_stop_at_the_limit() -> None:
    import brotli
    import zstandard

    from fastopen.pages.importers.messages import MAX_TEXT_BYTES, unpacked

    text = b"a" * (MAX_TEXT_BYTES + MIB)
    packed = {
        "gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "br": brotli.compress(text, quality=1),
        "zstd": zstandard.compress(text),
    }
    for coding, body in packed.items():
        found = unpacked(body, coding)
        assert found is not None, coding
        assert MIB <= len(found) <= MAX_TEXT_BYTES + MIB, coding


READERS: dict[str, Callable[[Path], object]] = {
    "page": lambda path: load_pages([path]),
    "chosen pages": lambda path: load_chosen([path], None),
    "experiment": lambda path: load_experiment(str(path)),
    "trace": read_trace,
    "table": read_table,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", ["pipe", "device"])
def test_what_may_never_end_is_no_file(reader: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "input.toml"
    if what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(InputError) as refused:
        READERS[reader](path)
    assert str(refused.value) == f"{path}: is a pipe or device; save its output to a file first"


@pytest.mark.parametrize("reader", ["experiment", "trace", "table"])
def test_a_text_that_claims_any_size_is_refused(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "MAX_BYTES", 2**20)
    path = tmp_path / "input.toml"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InputError, match=r"input\.toml: is larger than (1|16) MiB"):
        READERS[reader](path)


@pytest.mark.parametrize("key", ["a." * 300 + "b = 1", "[" + " . ".join("a" * 301) + "]"])
def test_a_key_of_very_many_parts_is_refused(key: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f"name = 'x'\n{key}\n")
    with pytest.raises(InputError, match=r"x\.toml: malformed TOML: line 2: a key of more than 300 parts"):
        load_experiment(str(path))


def test_dots_in_comments_and_strings_are_no_parts_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    dots, sentences = "." * 1000, "It ends. " * 1000
    path.write_text(f"# {dots}\n# {sentences}\nname = 'x'\ndescription = \"{dots} {sentences}\"\n")
    with pytest.raises(InputError) as refused:
        load_experiment(str(path))
    assert "parts" not in str(refused.value)


def test_very_many_problems_are_told_as_one(tmp_path: Path) -> None:
    path = tmp_path / "x.page.json"
    path.write_text('{"format": "fastopen-page/1", "resources": [' + "[]," * 30_000 + "[]]}")
    with pytest.raises(InputError, match=r"x\.page\.json: invalid Page: 10,00\d problems|30,00\d problems"):
        load_pages([path])


def test_a_har_without_compression_may_be_as_large_as_it_is(tmp_path: Path) -> None:
    entry = {
        "startedDateTime": "2026-01-01T00:00:00Z",
        "request": {"method": "GET", "url": "http://a.test/"},
        "response": {"status": 200, "content": {"text": "a" * (12 * MIB), "size": 12 * MIB}},
    }
    path = tmp_path / "plain.har"
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": [entry]}}))
    assert load_pages([path], max_unpacked=MIB)[0].page.url == "http://a.test/"


def work_of(entries: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Import a HAR of scripts that do not refer to each other. Return the number of searches for URLs."""

    searched = 0

    def counted(text: bytes, url: str, base: str) -> int | None:
        nonlocal searched
        searched += 1
        return find_reference(text, url, base)

    from fastopen.pages.importers import initiators

    monkeypatch.setattr(initiators, "find_reference", counted)
    monkeypatch.setattr(initiators, "_DIRECT_SEARCHES", 0)
    made = [
        {
            "startedDateTime": f"2026-01-01T00:00:{n // 1000:02d}.{n % 1000:03d}Z",
            "time": 1,
            "request": {"method": "GET", "url": f"http://a.test/s{n}&.js" if n else "http://a.test/"},
            "response": {"status": 200, "content": {"mimeType": "text/javascript", "text": "var a=1;"}},
        }
        for n in range(entries)
    ]
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": made}}))
    load_pages([path], lenient=True)
    return searched


def test_searching_texts_for_names_grows_no_faster_than_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scripts.har"
    assert work_of(400, path, monkeypatch) <= 2 * work_of(200, path, monkeypatch) + 10

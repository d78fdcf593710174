"""Wrong inputs for every reader: files, runs and stores, all in one folder."""

import gzip
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from fastopen.engines.results_store import FORMAT, MARK
from fastopen.experiments import Plan, Shard
from fastopen.runs import RunStore
from made_up_run import ENVIRONMENT, fill, made_up_page, made_up_plan, made_up_run
from pages.hars import entry, har

HAR: Final = json.dumps(har(entry("http://a.test/"), on_load=80), indent=1)
TIMELESS: Final = har(entry("http://a.test/", timings=dict.fromkeys(("wait", "receive"), -1)))
RESPONSE: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>hi"
WARC: Final = (
    b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/\r\n"
    b"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:1>\r\n"
    b"Content-Type: application/http; msgtype=response\r\n"
    b"Content-Length: %d\r\n\r\n%s\r\n\r\n" % (len(RESPONSE), RESPONSE)
)
EXPERIMENT: Final = (
    'format = "fastopen-experiment/1"\nname = "mine"\npages = ["example"]\n[network]\nrtt = "20ms"\n'
)
COLUMNS: Final = "experiment,page,rtt_ms,plt_off,plt_tfo,unit_as_printed"

FILES: Final[Mapping[str, str | bytes]] = {
    "good.har": HAR,
    "empty.har": "",
    "cut.har": HAR[: len(HAR) // 2],
    "other.har": '{"entries": []}',
    "no-entries.har": '{"log": {"entries": []}}',
    "no-request.har": json.dumps(har(entry("http://a.test/"), {"startedDateTime": "2026-01-01T00:00:00Z"})),
    "no-url.har": HAR.replace("http://a.test/", "http://[a/"),
    "failed.har": json.dumps(har(entry("http://a.test/", response={"status": 0}))),
    "timeless.har": json.dumps(TIMELESS),
    "cut.warc": WARC[:-30],
    "cut.warc.gz": gzip.compress(WARC, mtime=0)[:-40],
    "damaged.warc": WARC.replace(b"WARC/1.0", b"WARC/x"),
    "not-a-zip.wacz": b"PK\3\4 and no more",
    "access.log": '10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"\n',
    "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "no-url.pages": "# nothing yet\n",
    "ftp.pages": "http://a.test/\nftp://a.test/\n",
    "urls.pages": "http://b.test/\n",
    "cut.json": '{"format": "fastopen-page/1", "name": ',
    "wrong.json": json.dumps(
        {
            "format": "fastopen-page/1",
            "name": "x",
            "url": "http://a.test/",
            "source": "x",
            "initiators": "declared",
            "resources": [{"url": "http://a.test/", "type": "document", "body_bytes": -1, "initiator": None}],
        }
    ),
    "words.trace": "0\nten\n",
    "backwards.trace": "0\n20\n10\n",
    "zero.trace": "0\n",
    "days.trace": "0\n86400001\n",
    "mine.toml": EXPERIMENT,
    "cut.toml": EXPERIMENT + "[client\n",
    "latin-1.toml": (EXPERIMENT + "# \xe9\n").encode("latin-1"),
    "future.toml": EXPERIMENT.replace("experiment/1", "experiment/9"),
    "no-pages.toml": EXPERIMENT.replace('["example"]', "[]"),
    "unknown-page.toml": EXPERIMENT.replace('"example"', '"exampel"'),
    "unknown-key.toml": EXPERIMENT + 'los = "1%"\n',
    "misplaced-key.toml": EXPERIMENT + 'http = "2"\n',
    "no-unit.toml": EXPERIMENT.replace('"20ms"', "20"),
    "a-table.toml": EXPERIMENT + "loss = { down = 1 }\n",
    "two-networks.toml": EXPERIMENT + 'named = "4g"\n',
    "vary.toml": 'vary = "yes"\n' + EXPERIMENT,
    "several.toml": EXPERIMENT.replace('"20ms"', '"20"') + 'loss = "x"\n[tls]\nversion = "1.1"\n',
    "conflict.toml": EXPERIMENT + '[tls]\nversion = "none"\n[origins]\nhttp = "3"\n',
    "command.toml": EXPERIMENT + '[client]\nkind = "command"\ncommand = "sh -c \'curl {url}\'"\n',
    "no-rates.toml": 'title = "mine"\n',
    "wrong-rates.toml": 'rates = ["fast"]\nduraton = "1s"\n',
    "no-columns.csv": "page,rtt_ms\nexample,20\n",
    "no-number.csv": f"{COLUMNS}\nx,p,20,fast,1.1,s\n",
    "short.csv": f"{COLUMNS}\nx,p,20\n",
    "no-rows.csv": f"{COLUMNS}\n",
    "unit.csv": f"{COLUMNS}\nx,p,20,1.2,1.1,min\n",
}


def make_wrong_inputs(folder: Path) -> None:
    """Fill `folder` with files and stores of results, and `folder/runs` with runs. Some of each are valid."""
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "nothing").mkdir()
    (folder / "notes").mkdir()
    (folder / "notes" / "todo.txt").write_text("buy milk\n")
    _make_runs(folder / "runs")
    _make_stores(folder)


def _make_runs(runs: Path) -> None:
    plan = made_up_plan([made_up_page("one", requests=3)])
    made_up_run(runs / "one", plan)
    made_up_run(runs / "elsewhere", made_up_plan([made_up_page("two", requests=3, hosts=["d.test"])]))
    for index in (1, 2):
        _shard(runs / f"shard-{index}", plan, index)
    _shard(runs / "other-seed", made_up_plan([made_up_page("one", requests=3)], seed=8), 2)
    damages: Mapping[str, Callable[[Path], None]] = {
        "damaged": lambda file: (file.write_bytes(file.read_bytes()[:8192] + b"x" * 8192), None)[1],
        "newer": lambda file: _sql(file, "PRAGMA user_version = 99"),
        "foreign": lambda file: _sql(file, "PRAGMA application_id = 1"),
        "no-record": lambda file: _sql(file, "UPDATE records SET record_zlib = x'00'"),
        "all-invalid": lambda file: _sql(file, 'UPDATE loads SET valid = 0, invalid = \'[["fault", "x"]]\''),
    }
    for name, damage in damages.items():
        shutil.copytree(runs / "one", runs / name)
        damage(runs / name / "run.sqlite")


def _shard(folder: Path, plan: Plan, index: int) -> None:
    shard = Shard(2, index)
    environment = {**ENVIRONMENT, "virtual_kernel": {"name": "7.3", "version": "7.3", "sha256": "aa" * 32}}
    with RunStore.create(folder, shard.of(plan), environment, {"shard": str(shard)}) as store:
        fill(store, shard.of(plan))


def _sql(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(statement)


def _make_stores(folder: Path) -> None:
    for name, mark in (("store", FORMAT), ("foreign-store", "fastopen-result/99")):
        (folder / name).mkdir()
        (folder / name / MARK).write_text(f"{mark}\n")
    with zipfile.ZipFile(folder / "empty.wacz", "w") as container:
        container.writestr("datapackage.json", "{}")

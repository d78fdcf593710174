"""Define `fastopen serve-bench`: load a server with transactions, and report their latency and cost."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from typer import Argument, Option

from fastopen.apps.serve_bench.bench import read_bench
from fastopen.apps.serve_bench.results import (
    BenchFigure,
    BenchResult,
    CellRow,
    is_alone,
    percentile,
    run_bench,
)
from fastopen.cli.output import errors_console, exit_if, print_grid, print_json, print_line
from fastopen.cli.progress import LiveBar
from fastopen.cli.shared_options import JsonOption, OneKernelOption, QuietOption
from fastopen.common.errors import InputError
from fastopen.common.grid import Column, Entry, Grid
from fastopen.common.phrases import NBSP
from fastopen.common.units import format_duration_us
from fastopen.contract import Origins
from fastopen.experiments import COMMAND_LINE, read_settings
from fastopen.workflows.engines import auto_engine

PANEL: Final = "Real networks and programs"


def command(
    bench: Annotated[
        str | None,
        Argument(help="A packaged benchmark (server-load, radhakrishnan2011-server), or a TOML file."),
    ] = None,
    arms: Annotated[str | None, Option(help="Arms: off, cold, warm. (default: all)")] = None,
    rates: Annotated[
        str | None, Option(help="Transactions that begin each second, even if earlier ones are not complete.")
    ] = None,
    clients: Annotated[
        str | None, Option(help="Clients that make one transaction after another, instead of --rates.")
    ] = None,
    duration: Annotated[str | None, Option(help="Time in which transactions begin. (default: 10s)")] = None,
    rtt: Annotated[str | None, Option(help="RTT of the link, without rate limit. (default: 20ms)")] = None,
    size: Annotated[str | None, Option(help="Size of an answer's body. (default: 5kB)")] = None,
    hosts: Annotated[
        int | None, Option(help="Server addresses; a warm client has a cookie for each. (default: 16)")
    ] = None,
    server: Annotated[
        str | None, Option(metavar="COMMAND", help="Command of an external server instead of the origins.")
    ] = None,
    server_listen: Annotated[
        bool,
        Option("--server-listen", help="Give the external server's listeners a TFO queue if they lack one."),
    ] = False,
    tfo_queue: Annotated[str | None, Option(help="TFO queues of the origins. (default: 4096)")] = None,
    syncookies: Annotated[
        str | None, Option(help="tcp_syncookies: 0 never, 1 when a queue is full, 2 always. (default: 0)")
    ] = None,
    flood: Annotated[
        str | None,
        Option(
            help="SYN floods: none, plain:RATE; invalid:RATE, valid:RATE with cookie, data. (default: none)"
        ),
    ] = None,
    new_key: Annotated[
        str | None, Option(help="New cookie key halfway: none, replace or add. (default: none)")
    ] = None,
    repeats: Annotated[
        int | None, Option(help="Number of rounds in real time; virtual time needs one. (default: 5)")
    ] = None,
    seed: Annotated[int | None, Option(help="Seed of the order and the keys. (default: 1)")] = None,
    engine: Annotated[
        Literal["auto", "host", "virtual"] | None,
        Option(help="virtual: exact round trips; host: processor time. (default: the bench's, else auto)"),
    ] = None,
    kernel: OneKernelOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Load a server with TFO off, cold and warm, and report latency, overflows and processor time.

    Separate several values of an option with commas; every combination of values is run.
    Exit codes: 0 done; 1 a row has no valid transactions; 2 invalid options; 3 this machine cannot run it."""
    changes = {
        "arms": arms, "rates": rates, "clients": clients, "duration": duration, "rtt": rtt, "size": size,
        "hosts": hosts, "tfo_queue": tfo_queue, "syncookies": syncookies, "flood": flood, "new_key": new_key,
        "repeats": repeats, "seed": seed, "engine": engine,
    }  # fmt: skip
    asked = read_bench(bench, changes)
    origins = Origins()
    if server is not None:
        program, *rest = read_settings({"server": server}, COMMAND_LINE).values["server"][0]
        words = [str(Path(word).absolute()) if Path(word).is_file() else word for word in rest]
        origins = Origins(server=[program, *words], server_listen=server_listen)
    elif server_listen:
        raise InputError("needs --server", "--server-listen", "add --server, or drop --server-listen")
    chosen = auto_engine(kernel) if asked.engine == "auto" else asked.engine
    with LiveBar(errors_console(), quiet or json) as bar:
        done = run_bench(asked, chosen, kernel, origins, bar.update)
    if json:
        print_json({"server": server, **done.as_json()})
    else:
        _print(done, server)
    exit_if(not done.holds)


def _print(done: BenchResult, server: str | None) -> None:
    rows = done.rows
    print_line(_head(done, server))
    varying = [name for name in rows[0].cell.factors if name == "load" or name not in _common(rows)]
    on_host = done.engine == "host"
    figures = [Column(header) for header in ("answers\n/s", "p50\nms", "p99\nms")]
    figures += [Column(header, detail=True) for header in ("SYN\ndata", "fell\nback")]
    figures += [Column("no\nanswer"), Column("segments\neach", short="seg-\nments\neach", detail=True)]
    if on_host:
        figures += [Column(header) for header in ("threads\nus each", "vs. off\n%", "core\nus each")]
    columns = (Column("arm", "key"), *(Column(name, "factor") for name in varying), *figures)
    entries = []
    for row in rows:
        values = row.cell.factors
        factors = (Entry(values[name], phrase=_phrase(name, values[name])) for name in varying)
        entries.append((Entry(row.cell.arm), *factors, *_figures(row, on_host)))
    print_grid(Grid("", columns, tuple(entries)))
    for arm, published in done.bench.published.items():
        measured = [(row.cell.count, row.per_second) for row in rows if row.cell.arm == arm]
        shown = ", ".join(f"{rate:,.1f} ({count:,})" for count, rate in measured if rate is not None)
        print_line(f"Published, {arm}: {published:,.1f} answers a second; measured: {shown or '-'}.")
    for line in (*done.bench.notes, *_sentences(done, varying)):
        print_line(line)


def _head(done: BenchResult, server: str | None) -> str:
    bench = done.bench
    common = {name: values for name, values in _common(done.rows).items() if name != "load"}
    usual = {"queue": "4096", "syncookies": "0", "flood": "none", "new key": "none"}
    said = [f"{name} {value}" for name, value in common.items() if usual.get(name) != value]
    kernel = "" if done.world is None else f", Linux {done.world.kernel}"
    rtt, duration = format_duration_us(bench.rtt), format_duration_us(bench.duration)
    parts = [
        bench.title,
        f"{server or 'built-in origin'}: answers of {bench.size:,} bytes over {rtt}, begun for {duration}",
        f"engine {done.engine}{kernel}",
        *said,
    ]
    return "; ".join(part for part in parts if part)


def _common(rows: list[CellRow]) -> dict[str, str]:
    first = rows[0].cell.factors
    return {
        name: value for name, value in first.items() if all(row.cell.factors[name] == value for row in rows)
    }


def _phrase(name: str, value: str) -> str:
    """Format a setting so that it is clear without a table header: `300/s`, `queue 4`."""
    return value if name == "load" else f"{name} {value}"


def _figures(row: CellRow, on_host: bool) -> Iterator[Entry]:
    if not row.records:
        yield from [Entry("invalid"), *[Entry("-")] * (9 if on_host else 6)]
        return
    yield Entry("-" if row.per_second is None else f"{row.per_second:,.1f}")
    latency_us = row.histogram("latency_us")
    for percent in (50, 99):
        value = percentile(latency_us, percent)
        yield Entry("-" if value is None else f"{value / 1000:,.1f}")
    for name in ("syn_data", "fallbacks"):
        yield Entry(f"{row.total(name):,}")
    yield Entry(f"{row.total('begun') - row.total('answered'):,}")
    each = row.each
    yield Entry("-" if each["segments"] is None else f"{each['segments'].median:.2f}")
    if on_host:
        yield _with_interval(each["cpu_threads_us"], ".1f")
        yield _with_interval(each["cpu_threads_change_percent"], "+.0f")
        yield _with_interval(each["cpu_core_us"], ".1f")


def _with_interval(figure: BenchFigure | None, digits: str) -> Entry:
    if figure is None:
        return Entry("-")
    aside = "" if figure.interval is None else "[{0:{2}},{3}{1:{2}}]".format(*figure.interval, digits, NBSP)
    return Entry(f"{figure.median:{digits}}", aside=aside)


def _sentences(done: BenchResult, varying: Sequence[str]) -> Iterator[str]:
    for row in done.rows:
        row_name = ", ".join([row.cell.arm, *(_phrase(name, row.cell.factors[name]) for name in varying)])
        for count, example in row.reasons.values():
            more = f" (and {count - 1} more like it)" if count > 1 else ""
            yield f"{row_name}: {count} of {row.repeats} are invalid: {example}{more}"
        if row.server_counters:
            counted = ", ".join(f"{name} {growth:,}" for name, growth in row.server_counters.items())
            yield f"{row_name}: the server's kernel counted {counted}"
    late, begun = sum(row.total("late") for row in done.rows), sum(row.total("begun") for row in done.rows)
    worst = max((us for row in done.rows for us in row.histogram("lateness_us")), default=0)
    yield (
        f"Generator: {late:,} of {begun:,} transactions began over 1 ms late, up to {worst / 1000:.1f} ms;"
        " latencies count from their due time."
    )
    if done.engine == "virtual":
        yield "Processor time: none, since virtual time does not count it; --engine host measures it."
        return
    cores = [one.core for row in done.rows for one in row.records.values() if one.core is not None]
    if any(row.records for row in done.rows) and not cores:
        yield "Processor time: none, because this machine has only one core."
    elif shared := sum(not is_alone(core) for core in cores):
        yield (
            f"Others used the server's core in {shared} of {len(cores)} measurements, which then count only"
            " the time of the server's threads."
        )

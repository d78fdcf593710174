"""Load servers with transactions, at fixed rates or from some clients, and measure the server's cost."""

from fastopen.apps.serve_bench.asked import Bench, packaged_benches, read_bench
from fastopen.apps.serve_bench.cells import ARMS, BenchCell, cells_of
from fastopen.apps.serve_bench.results import BenchResult, CellRow
from fastopen.apps.serve_bench.running import run_bench

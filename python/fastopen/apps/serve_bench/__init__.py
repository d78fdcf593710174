"""Benchmark servers: run transactions at fixed rates or from some clients; measure latency and CPU time."""

from fastopen.apps.serve_bench.bench import ARMS, Bench, BenchCell, cells_of, packaged_benches, read_bench
from fastopen.apps.serve_bench.results import BenchResult, CellRow, run_bench

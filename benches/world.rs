//! What the world costs and how true it is. Measured by `make bench`; see docs/benchmarks.md.
fn main() {}

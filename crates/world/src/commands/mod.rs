//! Implements `--check`, `--conform` and `--shell`, the program's modes that do not measure page loads.

pub mod check;
pub mod conform;
pub mod shell;

//! Implements `--check`, `--conform` and `--shell`, the program's modes that measure no page loads.

pub mod check;
pub mod conform;
pub mod shell;

//! Implements the modes of the program that do not run jobs.

pub mod check;
pub mod conform;
pub mod shell;

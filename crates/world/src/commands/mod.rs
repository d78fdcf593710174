//! Modes of the program that run no jobs.

pub mod check;
pub mod conform;
pub mod shell;

//! What the program does besides jobs.

pub mod check;
pub mod conform;
pub mod shell;

//! Runs `fastopen-world --exec` as a separate program, for the tests and the benchmark of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = fastopen_intercept::run(std::env::args_os().skip(1));
    ExitCode::from(u8::try_from(code).unwrap_or(70))
}

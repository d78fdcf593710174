//! Creates the namespaces of an emulated network (a "world"), and selects the machine's files visible there.

pub mod hosts_overlay;
pub mod memory_guard;
pub mod program;
pub mod server_core;

use std::path::PathBuf;

use fastopen_netns::sandbox::View;
use fastopen_netns::{namespace, process};

use crate::contract::Job;
use crate::failure::Failure;

/// Maximum size in bytes of the folders of clients and servers together. The folders are in memory.
const SCRATCH_BYTES: u64 = 1 << 30;

/// Returns the files of the machine that the jobs' programs may see: the system's files, recorded bodies, and
/// programs and files in command lines. Returns all files if a command or external server is not isolated.
pub fn view(jobs: &[Job]) -> View {
    let mut view = View { scratch_bytes: SCRATCH_BYTES, ..View::default() };
    for Job { client, origins, .. } in jobs {
        view.all |= (client.command.is_some() || origins.server.is_some()) && !client.isolate;
        view.files.extend(client.command.iter().filter_map(|words| words.first()).map(PathBuf::from));
        // The arguments of an external server may name files, too.
        let words = origins.server.iter().flatten().map(PathBuf::from);
        view.files.extend(words.filter(|word| word.is_absolute()));
        view.files.extend(origins.bodies_file.clone());
    }
    view
}

/// Runs `inside` in a child process, which is PID 1 of new namespaces, and returns the child's exit code. The
/// child sees only the files of `view`; if this cannot be ensured, `inside` gets an error as its argument.
pub fn run(view: &View, inside: impl FnOnce(Result<(), Failure>) -> i32) -> Result<i32, Failure> {
    namespace::enter_sandbox()?;
    Ok(process::run_in_child(|| inside(view.enter().map_err(Failure::from)))?)
}

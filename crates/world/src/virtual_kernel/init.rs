//! Runs this program as PID 1 of the virtual engine's kernel: reads the jobs from a folder of the host, runs
//! them, and appends the records to a file there.

use std::fs::{self, File};
use std::path::PathBuf;

use fastopen_intercept::write_line;
use fastopen_netns::{init, namespace, process};
use serde::Serialize;

use crate::commands::conform;
use crate::contract::Fault;
use crate::failure::{Blame, Failure};
use crate::world::Emit;

/// Name of the mount point of the folder that host and kernel share, below [`namespace::scratch`].
const CHANNEL: &str = "channel";
// Names in the shared folder: the files of jobs and records, and the folder of packetdrill's scripts.
pub const JOBS: &str = "jobs";
pub const RECORDS: &str = "records";
pub const SCRIPTS: &str = "scripts";

/// Returns the path of the folder for files exchanged with the host, as seen inside User-Mode Linux.
pub fn channel() -> PathBuf {
    namespace::scratch().join(CHANNEL)
}

/// Mounts the file systems, runs `work` with the JSON of the jobs and a writer of records, and powers off the
/// kernel. `folder` is the host's folder with the jobs.
pub fn run(folder: &str, work: impl FnOnce(&[u8], Emit) -> i32) -> ! {
    process::tune_malloc();
    match prepare(folder) {
        Ok((jobs, records)) => drop(work(&jobs, &mut |record| append(&records, record))),
        Err(error) => eprintln!("fastopen-world: {error}"),
    }
    init::power_off()
}

/// Runs the packetdrill scripts that the host put into `folder`, then powers off the User-Mode Linux kernel.
pub fn run_scripts(folder: &str) -> ! {
    let done = init::mount_devices().map_err(Failure::from).and_then(|()| {
        let (plan, records) = prepare(folder)?;
        let plan = conform::Plan { folder: channel().join(SCRIPTS), ..conform::Plan::read(&plan)? };
        conform::run_all(&plan, |record| append(&records, record))
    });
    if let Err(error) = done {
        eprintln!("fastopen-world: {error}");
    }
    init::power_off()
}

/// Mounts the system's file systems and the host's `folder`. Returns its jobs (JSON) and file for records.
pub fn prepare(folder: &str) -> Result<(Vec<u8>, File), Failure> {
    init::mount_system()?;
    init::mount_host_folder(folder, &channel())?;
    process::raise_file_limit();
    let jobs = fs::read(channel().join(JOBS)).blame(Fault::Machine, "reading the jobs")?;
    let records = File::options().append(true).open(channel().join(RECORDS));
    Ok((jobs, records.blame(Fault::Machine, "opening the file for records")?))
}

/// Appends a record to the host's file, and waits until it is written. Fails if the host's disk is full.
fn append(records: &File, record: &impl Serialize) -> Result<(), Failure> {
    write_line(records, record).blame(Fault::Machine, "writing a record")?;
    Ok(init::write_back(records)?)
}

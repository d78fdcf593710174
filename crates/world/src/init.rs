//! PID 1 of the virtual engine's kernel: reads the jobs from a folder of the host, writes the records there,
//! and powers off.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use fastopen_netns::{init, namespace, process};

use crate::contract::{Fault, Record};
use crate::failure::Failure;

/// Where the host's folder is mounted, below [`namespace::scratch`], the only writable place.
const CHANNEL: &str = "channel";
/// Name of the file that holds the jobs.
pub const JOBS: &str = "jobs";
/// Name of the file that takes the records.
pub const RECORDS: &str = "records";

/// Name of each file of recorded bodies, followed by its number.
pub const BODIES: &str = "bodies-";

/// Path of a file of recorded bodies inside the kernel.
pub fn bodies(number: usize) -> PathBuf {
    channel().join(format!("{BODIES}{number}"))
}

fn channel() -> PathBuf {
    namespace::scratch().join(CHANNEL)
}

/// Prepares the system, runs `work` on the jobs' text, and powers off.
pub fn run(folder: &str, work: impl FnOnce(&[u8], &mut Records) -> i32) -> ! {
    process::tune_malloc();
    if let Err(error) = prepare(folder).map(|(jobs, mut records)| work(&jobs, &mut records)) {
        eprintln!("fastopen-world: {error}");
    }
    init::power_off()
}

fn prepare(folder: &str) -> Result<(Vec<u8>, Records), Failure> {
    let wrong =
        |doing: &str, error: std::io::Error| Failure::new(Fault::Machine, format!("{doing}: {error}"));
    init::mount_system()?;
    init::mount_host_folder(folder, &channel())?;
    process::raise_file_limit();
    let jobs = fs::read(channel().join(JOBS)).map_err(|error| wrong("reading the jobs", error))?;
    let records = File::options()
        .append(true)
        .open(channel().join(RECORDS))
        .map_err(|error| wrong("opening the file for records", error))?;
    Ok((jobs, Records(records)))
}

/// The host's file that takes the records.
pub struct Records(File);

impl Records {
    /// Appends a record; it is in the host's file when this returns.
    ///
    /// # Errors
    /// Where the host's disk is full.
    pub fn write(&mut self, record: &Record) -> Result<(), Failure> {
        let mut line =
            serde_json::to_vec(record).map_err(|error| Failure::new(Fault::Internal, error.to_string()))?;
        line.push(b'\n');
        self.0
            .write_all(&line)
            .map_err(|error| Failure::new(Fault::Machine, format!("writing a record: {error}")))?;
        Ok(init::write_back(&self.0)?)
    }
}

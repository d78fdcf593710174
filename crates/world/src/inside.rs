//! The first process of the virtual engine's kernel: does the jobs it finds in a folder of the machine, writes the records there,
//! and powers off.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use fastopen_netns::{first_process, namespace, process};

use crate::contract::{Fault, Record};
use crate::failure::Failure;

/// Where the folder is mounted, below the only place that can be written to.
const CHANNEL: &str = "channel";
/// Name of the file that holds the jobs.
pub const JOBS: &str = "jobs";
/// Name of the file that takes the records.
pub const RECORDS: &str = "records";

/// Name of each file of recorded bodies, before its number.
pub const BODIES: &str = "bodies-";

/// Where the file of recorded bodies of this number is, inside.
pub fn bodies(number: usize) -> PathBuf {
    channel().join(format!("{BODIES}{number}"))
}

fn channel() -> PathBuf {
    namespace::scratch().join(CHANNEL)
}

/// Does everything, and ends the kernel.
pub fn run(folder: &str, work: impl FnOnce(&[u8], &mut Records) -> i32) -> ! {
    process::keep_memory();
    if let Err(error) = prepare(folder).map(|(jobs, mut records)| work(&jobs, &mut records)) {
        eprintln!("fastopen-world: {error}");
    }
    first_process::power_off()
}

fn prepare(folder: &str) -> Result<(Vec<u8>, Records), Failure> {
    let wrong =
        |doing: &str, error: std::io::Error| Failure::new(Fault::Machine, format!("{doing}: {error}"));
    first_process::mount_system()?;
    first_process::mount_host_folder(folder, &channel())?;
    process::allow_many_files();
    let jobs = fs::read(channel().join(JOBS)).map_err(|error| wrong("reading the jobs", error))?;
    let records = File::options()
        .append(true)
        .open(channel().join(RECORDS))
        .map_err(|error| wrong("opening the file for records", error))?;
    Ok((jobs, Records(records)))
}

/// The way out: a file of the machine.
pub struct Records(File);

impl Records {
    /// Writes a record; the machine has it when this returns.
    ///
    /// # Errors
    /// Where the machine's disk is full.
    pub fn write(&mut self, record: &Record) -> Result<(), Failure> {
        let mut line =
            serde_json::to_vec(record).map_err(|error| Failure::new(Fault::Internal, error.to_string()))?;
        line.push(b'\n');
        self.0
            .write_all(&line)
            .map_err(|error| Failure::new(Fault::Machine, format!("writing a record: {error}")))?;
        Ok(first_process::hand_over(&self.0)?)
    }
}

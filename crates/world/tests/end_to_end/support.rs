//! Functions that build jobs, run the program on them and read its records.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fastopen_world::contract;
use serde_json::{Value, json};

/// The path of the program under test, `fastopen-world`.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fastopen-world");

/// The time limit of a run of the program. Only a run that hangs takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(100);

/// Returns `base` with the keys of `changes` inserted or replaced.
pub(crate) fn with(mut base: Value, changes: Value) -> Value {
    let Value::Object(changes) = changes else { panic!("changes are an object") };
    base.as_object_mut().expect("what is changed is an object").extend(changes);
    base
}

/// Returns a root document, `http://a.test/`, with a body of this size.
pub(crate) fn root(body_bytes: u64) -> Value {
    json!({"url": "http://a.test/", "type": "document", "body_bytes": body_bytes, "initiator": null})
}

/// Returns an image with a body of this size, whose initiator is the root document.
pub(crate) fn image(url: &str, body_bytes: u64) -> Value {
    json!({"url": url, "type": "image", "body_bytes": body_bytes, "initiator": 0})
}

pub(crate) fn page(resources: &[Value]) -> Value {
    json!({"format": "fastopen-page/1", "name": "test", "url": resources[0]["url"], "source": "made up",
        "initiators": "declared", "resources": resources})
}

/// Returns a network with this round-trip time, whose link has no limit on its rate or queue.
pub(crate) fn network(rtt_us: u64) -> Value {
    let way = json!({"rate_bit_per_s": null, "queue_bytes": null});
    json!({"rtt_us": rtt_us, "down": way, "up": way})
}

/// Returns one direction of a link, with a fixed rate and a queue of 1 MB.
pub(crate) fn rate(bit_per_s: u64) -> Value {
    json!({"rate_bit_per_s": bit_per_s, "queue_bytes": 1_000_000})
}

/// Returns one load for each arm in `names`: `tcp`, `cold` or `warm` in cleartext, `tls`, `tls-cold` or
/// `tls-warm` over TLS.
pub(crate) fn arms(names: &[&str]) -> Value {
    let plan = |name: &&str| match *name {
        plain @ ("tcp" | "tls") => json!({"id": plain, "transport": plain}),
        "tls-cold" => json!({"id": "tls-cold", "transport": "tls+tfo", "cookies": "cold"}),
        "tls-warm" => json!({"id": "tls-warm", "transport": "tls+tfo", "cookies": "warm"}),
        cookies => json!({"id": cookies, "transport": "tfo", "cookies": cookies}),
    };
    names.iter().map(plan).collect()
}

/// Returns a job with [`forgiving`] tolerances that loads the page once for each arm in `names` ([`arms`]).
pub(crate) fn job(page: &Value, network: &Value, names: &[&str]) -> Value {
    json!({"contract": contract::VERSION, "id": "job", "seed": 7, "page": page, "network": network,
        "loads": arms(names), "load_timeout_us": 60_000_000, "tolerance": forgiving()})
}

/// Returns tolerances that are wide enough for a busy machine.
pub(crate) fn forgiving() -> Value {
    json!({"rtt_us": 50_000, "rate_fraction": 0.9, "late_us": 10_000_000})
}

/// The exit code and records of a run of the program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) records: Vec<Value>,
}

impl Run {
    /// Returns true if all worlds ran on this engine (`host` or `virtual`).
    pub(crate) fn is_of(&self, engine: &str) -> bool {
        self.of_type("world").iter().all(|world| world["engine"] == engine)
    }

    /// Waits for a child to end, and parses the records that it prints.
    pub(crate) fn of(child: Child) -> Self {
        let (code, output) = finish(child);
        let record = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in this line: {line}"))
        };
        Self { code, records: output.lines().map(record).collect() }
    }

    pub(crate) fn of_type(&self, kind: &str) -> Vec<&Value> {
        self.records.iter().filter(|record| record["type"] == kind).collect()
    }

    /// Returns the only record of the type `kind`. Panics unless there is exactly one.
    pub(crate) fn only(&self, kind: &str) -> &Value {
        let [record] = self.of_type(kind)[..] else { panic!("not one {kind} record: {self}") };
        record
    }

    pub(crate) fn load(&self, id: &str) -> &Value {
        let found = self.of_type("load").into_iter().find(|load| load["id"] == id);
        found.unwrap_or_else(|| panic!("no load {id}: {self}"))
    }

    /// Returns the record of the load `id`. Panics if the load is invalid.
    pub(crate) fn valid(&self, id: &str) -> &Value {
        let load = self.load(id);
        assert_eq!(load["valid"], true, "{id}: {:#}", load["invalid"]);
        load
    }
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "exit code {:?}", self.code)?;
        self.records.iter().try_for_each(|record| write!(formatter, "\n{record:.1000}"))
    }
}

pub(crate) fn run(job: &Value) -> Run {
    run_text(&job.to_string())
}

/// Runs the program with `input` on its standard input.
pub(crate) fn run_text(input: &str) -> Run {
    run_command(&mut Command::new(PROGRAM), input.as_bytes())
}

/// Runs the command with `input` on its standard input, and parses the records that it prints.
pub(crate) fn run_command(command: &mut Command, input: &[u8]) -> Run {
    Run::of(start(command, input))
}

/// Starts the command, and writes `input` to its standard input.
pub(crate) fn start(command: &mut Command, input: &[u8]) -> Child {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = started.expect("the program starts");
    // Writing fails with EPIPE if the program ends before it has read everything.
    let _ = child.stdin.take().expect("it is piped").write_all(input);
    child
}

/// Waits for a child, and returns its exit code and standard output. Kills it and panics after [`TIMEOUT`].
pub(crate) fn finish(mut child: Child) -> (Option<i32>, String) {
    let mut stdout = child.stdout.take().expect("it is piped");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut output = String::new();
        let _ = sender.send(stdout.read_to_string(&mut output).map(|_| output));
    });
    let output = receiver.recv_timeout(TIMEOUT);
    if output.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().expect("it can be waited for");
    (status.code(), output.expect("it does not hang").expect("it writes UTF-8"))
}

/// A temporary file or folder outside the sandbox, which every user may read; removed on drop.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("fastopen-test-{}-{number:04}", std::process::id())))
    }

    pub(crate) fn file(content: impl AsRef<[u8]>) -> Self {
        let file = Self::new();
        fs::write(&file.0, content).expect("the temporary folder is writable");
        file
    }

    pub(crate) fn folder() -> Self {
        let folder = Self::new();
        fs::create_dir(&folder.0).expect("the temporary folder is writable");
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).expect("it is ours");
        folder
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("it is text")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0).or_else(|_| fs::remove_dir_all(&self.0));
    }
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

/// Returns the value as an integer. Panics if it is not a natural number.
pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a natural number: {value}"))
}

/// Returns the growth of a kernel counter of an end (`client` or `origins`) during a load; 0 if the record
/// does not have the counter.
pub(crate) fn grown(load: &Value, end: &str, counter: &str) -> u64 {
    load["counters"][end][counter].as_u64().unwrap_or(0)
}

/// Returns the number of a load's connections whose SYN data was acknowledged, according to the sockets of
/// one end (`client` or `origin`).
pub(crate) fn with_syn_data(load: &Value, end: &str) -> usize {
    list(&load["connections"]).iter().filter(|connection| connection[end]["syn_data_acked"] == true).count()
}

pub(crate) fn request(load: &Value, resource: u64) -> &Value {
    let found = list(&load["requests"]).iter().find(|request| request["resource"] == resource);
    found.unwrap_or_else(|| panic!("no request for {resource}: {load:#}"))
}

pub(crate) fn plt_ms(load: &Value) -> f64 {
    number(&load["plt_ns"]) as f64 / 1e6
}

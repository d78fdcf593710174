//! Writes records about a command whose system calls are intercepted, and its connections, as JSON Lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;

use fastopen_netns::tcp::TcpInfo;
use serde::Serialize;

use crate::supervisor::Opened;
use crate::tally::Tally;

/// One line of the JSON report about the command that `fastopen exec` or `fastopen shell` runs.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Record {
    Started {
        pid: i32,
    },
    /// The command was stopped (Ctrl-Z), so the `fastopen` process that waits for it should stop too.
    Stopped {
        signal: i32,
    },
    /// The command could not be run.
    Failed {
        message: String,
        /// A suggested fix, such as a sysctl to set, so that the command can be run; empty if none is known.
        remedy: String,
        /// The exit code with which the `fastopen` process that waits for the command should end.
        code: i32,
    },
    /// The command's packets were written to a file.
    Captured {
        /// Number of packets that are missing from the file because the buffer was full.
        dropped: u32,
    },
    /// Servers in the command's emulated network had ended with an error before the command ended.
    ServersFailed {
        /// A message for each failed server: its host, how it ended, and the last lines of its output.
        servers: Vec<String>,
    },
    Ended(Box<Report>),
    /// The command's output and files are complete. Written only if the command runs in virtual time.
    Done,
}

/// The command's result, and the counts of its connections.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The command's exit code; null if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; null if it exited.
    pub signal: Option<i32>,
    /// Time from the command's start to its end in microseconds of the monotonic clock.
    pub elapsed_us: u64,
    /// The traffic of the command and its children.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The value of `net.ipv4.tcp_fastopen` when the command ended.
    pub tcp_fastopen: u32,
    /// Growth of the network namespace's Fast Open counters during the command. Other processes count too.
    pub counters: BTreeMap<String, i64>,
    /// True if processes that the command started still run when the command has ended.
    pub goes_on: bool,
    /// The first thousand connections in the order of the `connect` calls; omitted for `fastopen exec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Vec<Connection>>,
}

/// A connection, with its `TCP_INFO` when it ended or, if it was still open, when the command ended.
#[derive(Debug, Serialize)]
pub struct Connection {
    /// The client's port; null if it is unknown.
    pub local_port: Option<u16>,
    /// Address and port of the server's end.
    pub peer: SocketAddr,
    /// Time of `connect` in microseconds since the start of the command.
    pub opened_us: u64,
    /// True if data in the SYN was acknowledged.
    pub syn_data_acked: bool,
    /// The connection's `TCP_INFO`; null if the kernel has cleared it.
    pub tcp_info: Option<TcpInfo>,
}

impl Connection {
    pub(crate) fn new(opened: &Opened, start_ns: u64) -> Self {
        Self {
            local_port: opened.local.map(|local| local.port()),
            peer: opened.peer,
            opened_us: opened.at_ns.saturating_sub(start_ns) / 1000,
            syn_data_acked: opened.info.is_some_and(|info| info.syn_data_acked()),
            tcp_info: opened.info,
        }
    }
}

/// Counts of a command's TCP connections and listeners, and of their use of Fast Open.
#[derive(Debug, Default, Serialize)]
pub struct Traffic {
    /// The counts of all connections.
    pub total: Tally,
    /// The counts of each peer (server), in descending order of the number of connections.
    pub peers: Vec<Peer>,
    /// TCP listeners on which Fast Open was enabled. They send cookies if `net.ipv4.tcp_fastopen` allows it.
    pub listeners: u64,
    /// Connections whose SYN was sent without data, because the client did not write in time.
    pub begun_without_data: u64,
    /// Number of system calls (such as `connect`) for which Fast Open could not be enabled, keyed by reason.
    pub not_helped: BTreeMap<&'static str, u64>,
    /// True if the kernel's events of destroyed sockets were lost (ENOBUFS), so that counts are incomplete.
    pub overrun: bool,
}

/// The counts of the connections to one peer.
#[derive(Debug, Serialize)]
pub struct Peer {
    /// Address and port; `others` for all peers after the first thousand, and for unknown addresses.
    pub peer: String,
    /// The counts of the connections to this peer.
    #[serde(flatten)]
    pub tally: Tally,
}

pub(crate) struct Records(pub(crate) Option<File>);

impl Records {
    /// Writes a record to the report, if any. Ignores errors: the command continues even without a reader.
    pub(crate) fn write(&mut self, record: &Record) {
        if let Some(file) = &self.0 {
            let _ = write_line(file, record);
        }
    }
}

/// Writes a record as a line of JSON.
pub fn write_line(mut to: impl Write, record: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

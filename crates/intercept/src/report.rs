//! The records of a supervised command (JSON Lines).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;

use serde::Serialize;

use crate::supervisor::Opened;
use crate::tally::Tally;

/// One line.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The command was started.
    Started {
        /// Its process ID.
        pid: i32,
    },
    /// The command was stopped (Ctrl-Z), so the waiting front should stop, too.
    Stopped {
        /// The signal.
        signal: i32,
    },
    /// The command could not be run.
    Failed {
        /// The reason.
        message: String,
        /// The remedy, which may be empty.
        remedy: String,
        /// The exit code.
        code: i32,
    },
    /// The command has ended. The last line.
    Ended(Box<Report>),
}

/// The end of the command, and the counts of its connections.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Its exit code; null if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Time from its start to its end in microseconds of the monotonic clock.
    pub elapsed_us: u64,
    /// The traffic of the command and its children.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// `net.ipv4.tcp_fastopen` at the end.
    pub tcp_fastopen: u32,
    /// Growth of the network namespace's Fast Open counters, by all its processes.
    pub counters: BTreeMap<String, i64>,
    /// True if processes that the command started still run.
    pub goes_on: bool,
    /// The first thousand connections in order of opening; none on the machine's own network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Vec<Connection>>,
}

/// A connection with its `TCP_INFO` at its end, or at the end of the command.
#[derive(Debug, Serialize)]
pub struct Connection {
    /// The client's port.
    pub local_port: Option<u16>,
    /// Address and port of the server's end.
    pub peer: SocketAddr,
    /// Time of `connect` in microseconds since the start of the command.
    pub opened_us: u64,
    /// Null if the kernel has discarded it.
    pub tcp_info: Option<Info>,
}

/// The fields of a connection's `TCP_INFO`, as in [`TcpInfo`](fastopen_netns::tcp::TcpInfo).
#[derive(Debug, Serialize)]
pub struct Info {
    pub syn_data_acked: bool,
    pub fastopen_client_fail: u8,
    pub rtt_us: u32,
    pub min_rtt_us: u32,
    pub retransmits: u32,
    pub bytes_sent: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segments_out: u32,
    pub segments_in: u32,
    pub congestion_window: u32,
    pub send_mss: u32,
}

impl Connection {
    /// Returns a connection of a command that started at `start_ns` of the monotonic clock.
    pub(crate) fn new(opened: &Opened, start_ns: u64) -> Self {
        Self {
            local_port: opened.local.map(|local| local.port()),
            peer: opened.peer,
            opened_us: opened.at_ns.saturating_sub(start_ns) / 1000,
            tcp_info: opened.info.map(|info| Info {
                syn_data_acked: info.syn_data_acked(),
                fastopen_client_fail: info.fastopen_client_fail,
                rtt_us: info.rtt_us,
                min_rtt_us: info.min_rtt_us,
                retransmits: info.retransmits,
                bytes_sent: info.bytes_sent,
                bytes_acked: info.bytes_acked,
                bytes_received: info.bytes_received,
                segments_out: info.segments_out,
                segments_in: info.segments_in,
                congestion_window: info.congestion_window,
                send_mss: info.send_mss,
            }),
        }
    }
}

/// Counts of the command's sockets.
#[derive(Debug, Default, Serialize)]
pub struct Traffic {
    /// All connections together.
    pub total: Tally,
    /// The connections by peer, in descending order of their number.
    pub peers: Vec<Peer>,
    /// TCP listeners on which Fast Open was enabled. `net.ipv4.tcp_fastopen` decides if they give cookies.
    pub listeners: u64,
    /// Connections whose SYN was sent without data, since their client did not write in time.
    pub begun_without_data: u64,
    /// Calls on TCP sockets whose option could not be set, by reason.
    pub not_helped: BTreeMap<&'static str, u64>,
    /// True if destroy events were lost (ENOBUFS).
    pub overrun: bool,
}

/// The connections to one peer.
#[derive(Debug, Serialize)]
pub struct Peer {
    /// Address and port; `others` after the first thousand.
    pub peer: String,
    /// Its connections.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The file for the records, if any.
pub(crate) struct Records(pub(crate) Option<File>);

impl Records {
    /// Writes a record. Errors are ignored, since the command continues without a reader.
    pub(crate) fn write(&mut self, record: &Record) {
        if let Some(file) = &self.0 {
            let _ = write_line(file, record);
        }
    }
}

/// Writes a record as a line of JSON.
///
/// # Errors
/// Errors of the write.
pub fn write_line(mut to: impl Write, record: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

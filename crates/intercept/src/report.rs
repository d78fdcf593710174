//! What is said to whoever asked for the command to be run: JSON Lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;

use serde::Serialize;

use crate::tally::Tally;

/// One line.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The command runs.
    Started {
        /// Its process.
        pid: i32,
    },
    /// The command was stopped (Ctrl-Z): whoever waits should stop as well.
    Stopped {
        /// By which signal.
        signal: i32,
    },
    /// The command could not be run.
    Failed {
        /// Why.
        message: String,
        /// What to do about it; may be empty.
        remedy: String,
        /// The exit code that goes with it.
        code: i32,
    },
    /// The command has ended. The last line.
    Ended(Box<Report>),
}

/// How the command ended, and what the kernel did.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Its exit code; null where a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Of the command and all that it started.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// `net.ipv4.tcp_fastopen` at the end.
    pub tcp_fastopen: u32,
    /// How much the network namespace's Fast Open counters grew: everybody's connections, not the command's alone.
    pub counters: BTreeMap<String, i64>,
    /// Whether processes of the command go on.
    pub goes_on: bool,
}

/// What was seen of the command's sockets.
#[derive(Debug, Default, Serialize)]
pub struct Traffic {
    /// All connections together.
    pub total: Tally,
    /// By peer (address and port), most connections first.
    pub peers: Vec<Peer>,
    /// TCP listeners that hand out cookies, where the machine lets them.
    pub listeners: u64,
    /// Connections whose handshake was begun without data, since their client did not write.
    pub begun_without_data: u64,
    /// Calls on TCP sockets that could not be helped, by reason.
    pub not_helped: BTreeMap<&'static str, u64>,
    /// Whether the kernel had more to say of ended sockets than there was room for.
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

/// Where records go; nowhere if nobody asked.
pub(crate) struct Records(pub(crate) Option<File>);

impl Records {
    /// Writes one. Whoever asked may have gone: that is no concern of the command's.
    pub(crate) fn write(&mut self, record: &Record) {
        if let (Some(file), Ok(mut line)) = (&mut self.0, serde_json::to_vec(record)) {
            line.push(b'\n');
            let _ = file.write_all(&line);
        }
    }
}

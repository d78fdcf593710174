//! Reads the TCP and UDP counters of a network namespace (`/proc/net/netstat`, `/proc/net/snmp`). Linux
//! counts TCP over IPv4 and IPv6 together, but UDP over IPv6 in separate files (`/proc/net/snmp6`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::{Doing, Result};

/// Size of the buffer into which a counter file is read, in bytes. It is larger than any counter file.
const FILE_BYTES: usize = 1 << 14;

/// The counter files of one network namespace. Threads of any namespace can read them.
pub struct CounterFiles {
    /// For each group of counters: its file, the start of its lines, and a prefix for the counters' names.
    groups: [(File, &'static str, &'static str); 3],
    sockets: File,
    /// The files `snmp6` (counters) and `sockstat6` (sockets) for IPv6; `None` if the kernel has no IPv6.
    ipv6: Option<(File, File)>,
}

impl CounterFiles {
    /// Opens the files with the TCP and UDP counters of the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        // /proc/net would be /proc/self/net, which shows the namespace of the process's main thread.
        let open =
            |path, group, prefix| Ok((File::open(path).doing(|| format!("opening {path}"))?, group, prefix));
        let groups = [
            open("/proc/thread-self/net/netstat", "TcpExt:", "")?,
            open("/proc/thread-self/net/snmp", "Tcp:", "")?,
            // UDP counters get a prefix, because some have the names of TCP counters, such as InErrors.
            open("/proc/thread-self/net/snmp", "Udp:", "Udp")?,
        ];
        let (sockets, ..) = open("/proc/thread-self/net/sockstat", "UDP:", "")?;
        let ipv6 = File::open("/proc/thread-self/net/snmp6").ok();
        let ipv6 = ipv6.zip(File::open("/proc/thread-self/net/sockstat6").ok());
        Ok(Self { groups, sockets, ipv6 })
    }

    /// Reads the counters of the groups `TcpExt`, `Tcp` and `Udp`. The names of UDP counters begin with
    /// `Udp`, and their values include IPv6.
    pub fn read(&self) -> Result<Counters> {
        let mut counters = Counters::new();
        for (file, group, prefix) in &self.groups {
            let text = text(file).doing(|| format!("reading the counters {group}"))?;
            counters.extend(parse(&text, group).map(|(name, value)| (format!("{prefix}{name}"), value)));
        }
        if let Some((file, _)) = &self.ipv6 {
            let text = text(file).doing(|| "reading the counters Udp6".to_owned())?;
            for (name, value) in parse_udp6(&text) {
                *counters.entry(name).or_default() += value;
            }
        }
        Ok(counters)
    }

    /// Returns the number of UDP sockets over IPv4 and IPv6.
    pub fn udp_sockets(&self) -> Result<u64> {
        let in_use = |file, label| {
            let text = text(file)?;
            let count = text.lines().find_map(|line| line.strip_prefix(label)?.split(' ').next());
            count.and_then(|count| count.parse().ok()).ok_or(io::Error::from(io::ErrorKind::InvalidData))
        };
        let read = || -> io::Result<u64> {
            let ipv6 = self.ipv6.as_ref().map_or(Ok(0), |(_, file)| in_use(file, "UDP6: inuse "));
            Ok(in_use(&self.sockets, "UDP: inuse ")? + ipv6?)
        };
        read().doing(|| "counting UDP sockets".to_owned())
    }
}

/// Reads a whole `/proc` file, from offset 0 so that the kernel generates the current content.
fn text(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; FILE_BYTES];
    let length = file.read_at(&mut bytes, 0)?;
    if length == bytes.len() {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Counters, keyed by the kernel's names (`TCPFastOpenActive`, `RetransSegs`; for UDP with the prefix `Udp`).
pub type Counters = BTreeMap<String, i64>;

/// Reads the counters of the calling thread's namespace.
pub fn read() -> Result<Counters> {
    CounterFiles::open()?.read()
}

/// Returns the growth of each counter from `before` to `after`. Leaves out gauges and unchanged counters.
pub fn growth(before: &Counters, after: &Counters) -> Counters {
    let since = |name| before.get(name).copied().unwrap_or(0);
    let grown = after.iter().map(|(name, value)| (name.clone(), value - since(name)));
    grown.filter(|(name, growth)| *growth != 0 && !GAUGES.contains(&name.as_str())).collect()
}

/// Names in the `Tcp` group that are gauges or settings, not counters.
const GAUGES: [&str; 4] = ["CurrEstab", "MaxConn", "RtoAlgorithm", "RtoMin"];

/// Parses a group of counters: two lines that start with `group`, first the names, then the values.
fn parse<'t>(text: &'t str, group: &'t str) -> impl Iterator<Item = (String, i64)> + 't {
    let mut lines = text.lines().filter_map(move |line| line.strip_prefix(group));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let values = lines.next().unwrap_or_default().split_whitespace();
    names.zip(values).filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
}

/// Parses the counters of UDP over IPv6. Drops the 6 from names such as `Udp6InDatagrams`, to match IPv4.
fn parse_udp6(text: &str) -> impl Iterator<Item = (String, i64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("Udp6")?.split_once(char::is_whitespace)?;
        Some((format!("Udp{name}"), value.trim().parse().ok()?))
    })
}

#[cfg(test)]
#[path = "../tests/unit/counters.rs"]
mod tests;

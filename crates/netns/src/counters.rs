//! The TCP and UDP counters of a network namespace (`/proc/net/netstat`, `/proc/net/snmp`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::{Doing, Result};

/// Buffer for one of the files, larger than either.
const FILE_BYTES: usize = 1 << 14;

/// The counter files of one network namespace. Threads of any namespace can read them.
pub struct CounterFiles {
    groups: [(File, &'static str, &'static str); 3],
    sockets: File,
}

impl CounterFiles {
    /// Opens the files of the calling thread's namespace.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn open() -> Result<Self> {
        // /proc/net would be /proc/self/net, the namespace of the process's main thread.
        let open =
            |path, group, prefix| Ok((File::open(path).doing(|| format!("opening {path}"))?, group, prefix));
        let groups = [
            open("/proc/thread-self/net/netstat", "TcpExt:", "")?,
            open("/proc/thread-self/net/snmp", "Tcp:", "")?,
            // UDP uses names of TCP's group, such as InErrors, so they get a prefix.
            open("/proc/thread-self/net/snmp", "Udp:", "Udp")?,
        ];
        let (sockets, ..) = open("/proc/thread-self/net/sockstat", "UDP:", "")?;
        Ok(Self { groups, sockets })
    }

    /// Reads the groups `TcpExt`, `Tcp` and `Udp`. Names of the latter begin with `Udp`.
    ///
    /// # Errors
    /// If the files have another form.
    pub fn read(&self) -> Result<Counters> {
        let mut counters = Counters::default();
        let mut bytes = vec![0; FILE_BYTES];
        for (file, group, prefix) in &self.groups {
            let doing = || format!("reading the counters {group}");
            // A read at offset 0 makes a seq_file generate its content again.
            let length = file.read_at(&mut bytes, 0).doing(doing)?;
            let text = std::str::from_utf8(&bytes[..length]).map_err(io::Error::other).doing(doing)?;
            if length == bytes.len() {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge)).doing(doing);
            }
            counters.0.extend(parse(text, group).map(|(name, value)| (format!("{prefix}{name}"), value)));
        }
        Ok(counters)
    }

    /// Returns the number of UDP sockets.
    ///
    /// # Errors
    /// If the file is of another form.
    pub fn udp_sockets(&self) -> Result<u64> {
        let read = || {
            let mut bytes = vec![0; FILE_BYTES];
            let length = self.sockets.read_at(&mut bytes, 0)?;
            let text = std::str::from_utf8(&bytes[..length]).map_err(io::Error::other)?;
            let count = text.lines().find_map(|line| line.strip_prefix("UDP: inuse ")?.split(' ').next());
            count.and_then(|count| count.parse().ok()).ok_or(io::Error::from(io::ErrorKind::InvalidData))
        };
        read().doing(|| "counting UDP sockets".to_owned())
    }
}

/// Counters by name, as the kernel names them (`TCPFastOpenActive`, `RetransSegs`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, i64>);

impl Counters {
    /// Reads the counters of the calling thread's namespace.
    ///
    /// # Errors
    /// If /proc is not mounted or of another form.
    pub fn read() -> Result<Self> {
        CounterFiles::open()?.read()
    }

    /// Returns one counter; 0 if the kernel does not have it.
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Returns the growth of each counter since `before`, without counters that did not grow.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let grown = self.0.iter().map(|(name, value)| (name.clone(), value - before.get(name)));
        Self(grown.filter(|(name, growth)| *growth != 0 && !GAUGES.contains(&name.as_str())).collect())
    }

    /// Returns all counters, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// Names in the `Tcp` group that are gauges or settings, not counters.
const GAUGES: [&str; 4] = ["CurrEstab", "MaxConn", "RtoAlgorithm", "RtoMin"];

/// Parses a group: two lines with the same first word, names and then values.
fn parse<'t>(text: &'t str, group: &'t str) -> impl Iterator<Item = (String, i64)> + 't {
    let mut lines = text.lines().filter_map(move |line| line.strip_prefix(group));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let values = lines.next().unwrap_or_default().split_whitespace();
    names.zip(values).filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_by_name() {
        let text = "TcpExt: A TCPFastOpenActive\nTcpExt: 1 2\nIpExt: A\nIpExt: 9\n";
        let read: Vec<_> = parse(text, "TcpExt:").collect();
        assert_eq!(read, [("A".to_owned(), 1), ("TCPFastOpenActive".to_owned(), 2)]);
    }

    #[test]
    fn growth_leaves_out_what_did_not_grow() {
        let counters = |a, b| Counters([("A".to_owned(), a), ("B".to_owned(), b)].into());
        assert_eq!(counters(3, 5).since(&counters(3, 1)).iter().collect::<Vec<_>>(), [("B", 4)]);
    }
}

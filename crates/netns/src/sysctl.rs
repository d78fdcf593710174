//! Reads and sets kernel settings (sysctl) of the calling thread's network namespace.

use std::fs;

use crate::{Doing, Result};

fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// Sets the sysctl `name`, such as `net.ipv4.tcp_fastopen`, to `value`.
pub fn set(name: &str, value: &str) -> Result<()> {
    fs::write(path(name), value).doing(|| format!("setting {name} to {value}"))
}

/// Returns the value of the sysctl `name`, with single spaces between its words.
pub fn get(name: &str) -> Result<String> {
    let text = fs::read_to_string(path(name)).doing(|| format!("reading {name}"))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

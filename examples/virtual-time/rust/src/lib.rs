//! Connects with a timeout. After a failure, tries again after a pause that doubles each time.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::Duration;

/// Connects to the first address of `host:port`, in at most `attempts` attempts of ten seconds each.
///
/// # Errors
/// Returns the error of the last attempt.
pub fn connect(place: &str, attempts: u32) -> io::Result<TcpStream> {
    let address = place.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let mut last = io::ErrorKind::NotFound.into();
    for attempt in 0..attempts {
        match TcpStream::connect_timeout(&address, Duration::from_secs(10)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
        if attempt + 1 < attempts {
            thread::sleep(Duration::from_secs(1 << attempt));
        }
    }
    Err(last)
}

//! Headers of requests and responses of exactly the page's sizes.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Bytes of a header section on the wire of HTTP/1: a first line of `first_line` bytes without its CRLF, the
/// field lines and an empty line (RFC 9112 section 2.1).
pub fn header_bytes(first_line: usize, headers: &HeaderMap) -> usize {
    let lines: usize = headers.iter().map(|(name, value)| name.as_str().len() + 2 + value.len() + 2).sum();
    first_line + 2 + lines + 2
}

/// Pads the value of field `name` until the header section has `wanted` bytes. A longer header section stays
/// as it is.
///
/// # Panics
/// If the field is missing.
pub fn pad(headers: &mut HeaderMap, name: &str, first_line: usize, wanted: usize) {
    let missing = wanted.saturating_sub(header_bytes(first_line, headers));
    let value = headers.get_mut(name).expect("the field to pad is present");
    let mut padded = value.as_bytes().to_vec();
    padded.resize(padded.len() + missing, b'.');
    *value = HeaderValue::from_bytes(&padded).expect("dots are valid in a field value");
}

/// Pads a header section like [`pad`], but with field lines of 32 bytes, 64, 128 and so on; only the rest
/// goes to field `name`. So most lines of two header sections are equal, as a browser's are, and HPACK writes
/// them once a connection (RFC 7541 section 2.3.2).
///
/// # Panics
/// If the field is missing.
pub fn fill(headers: &mut HeaderMap, name: &str, first_line: usize, wanted: usize) {
    for power in FILLER_POWERS.rev() {
        let line = 1_usize << power;
        if wanted.saturating_sub(header_bytes(first_line, headers)) >= line {
            let filler = format!("x-filler-{power}");
            let value = ".".repeat(line - filler.len() - ": \r\n".len());
            let filler =
                HeaderName::try_from(filler).expect("letters, dashes and digits are valid in a field name");
            headers.insert(filler, HeaderValue::try_from(value).expect("dots are valid in a field value"));
        }
    }
    pad(headers, name, first_line, wanted);
    // Its length differs each time, so it is not worth a place in the HPACK table.
    headers.get_mut(name).expect("pad has found the field").set_sensitive(true);
}

/// Exponents of the filler lines' lengths: from a line with room for a name to the longest header section.
pub const FILLER_POWERS: std::ops::RangeInclusive<u32> = 5..=17;

//! Pads the header sections of requests and responses to exactly the sizes that the page lists.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Returns the size of a header section in HTTP/1: a first line of `first_line` bytes, the field lines and an
/// empty line, each with a CRLF (RFC 9112 section 2.1).
pub fn header_bytes(first_line: usize, headers: &HeaderMap) -> usize {
    let lines: usize = headers.iter().map(|(name, value)| name.as_str().len() + 2 + value.len() + 2).sum();
    first_line + 2 + lines + 2
}

/// Pads the value of field `name` with dots until the header section has `wanted` bytes, measured as in
/// [`header_bytes`]. A longer section stays unchanged.
///
/// # Panics
/// Panics if the field is missing.
pub fn pad(headers: &mut HeaderMap, name: &str, first_line: usize, wanted: usize) {
    let missing = wanted.saturating_sub(header_bytes(first_line, headers));
    let value = headers.get_mut(name).expect("the field to pad is present");
    let mut padded = value.as_bytes().to_vec();
    padded.resize(padded.len() + missing, b'.');
    *value = HeaderValue::from_bytes(&padded).expect("dots are valid in a field value");
}

/// Pads a header section like [`pad`], but with field lines of 32, 64, 128 bytes and so on. Only the
/// remaining bytes go to the field `name`. So header sections share most lines, as they do in browsers, and
/// HPACK sends a shared line in full only once on each connection (RFC 7541 section 2.3.2).
///
/// # Panics
/// Panics if the field is missing.
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
    // Keep this field out of the HPACK table: its length always differs.
    headers.get_mut(name).expect("pad has found the field").set_sensitive(true);
}

/// Exponents of the lengths of filler lines, which are powers of two: from the shortest line with room for
/// its name to the longest line that any header section needs.
pub const FILLER_POWERS: std::ops::RangeInclusive<u32> = 5..=17;

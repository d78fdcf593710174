//! Pads the header sections of requests and responses to exactly the sizes that the page lists.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Returns the size of a header section in HTTP/1: a first line of `first_line` bytes, the field lines and an
/// empty line, each with a CRLF (RFC 9112 section 2.1).
pub fn header_bytes(first_line: usize, headers: &HeaderMap) -> usize {
    let lines: usize = headers.iter().map(|(name, value)| name.as_str().len() + 2 + value.len() + 2).sum();
    first_line + 2 + lines + 2
}

/// Pads a header section to `wanted` bytes: appends dots to the value of the field `name`. The size includes
/// a first line of `first_line` bytes (see [`header_bytes`]). A longer section stays unchanged.
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

/// Pads a header section to `wanted` bytes, including a first line of `first_line` bytes. Adds fields whose
/// lengths are powers of two ([`FILLER_EXPONENTS`]), then lengthens the field `name` by the remaining bytes.
/// As in browsers, most fields are equal in all sections: HPACK sends each in full only once per connection.
///
/// # Panics
/// Panics if the field is missing.
pub fn fill(headers: &mut HeaderMap, name: &str, first_line: usize, wanted: usize) {
    for exponent in FILLER_EXPONENTS.rev() {
        let line = 1_usize << exponent;
        if wanted.saturating_sub(header_bytes(first_line, headers)) >= line {
            let filler = format!("x-filler-{exponent}");
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

/// Exponents of the lengths (powers of two, in bytes) of the fields that pad header sections. The shortest
/// field, 2^5 bytes, has room for its name. No header section needs a longer field than 2^17 bytes.
pub const FILLER_EXPONENTS: std::ops::RangeInclusive<u32> = 5..=17;

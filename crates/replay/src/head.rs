//! Heads of requests and responses that are exactly as long as the page says.

use hyper::header::{HeaderMap, HeaderValue};

/// Bytes of a head: its first line without the line end, then one line a header and an empty one (RFC 9112 section 2.1).
pub fn head_bytes(first_line: usize, headers: &HeaderMap) -> usize {
    let lines: usize = headers.iter().map(|(name, value)| name.as_str().len() + 2 + value.len() + 2).sum();
    first_line + 2 + lines + 2
}

/// Lengthens the value of header `name` until the head has `wanted` bytes. A head that is longer already stays as it is.
///
/// # Panics
/// If the header is missing.
pub fn pad(headers: &mut HeaderMap, name: &str, first_line: usize, wanted: usize) {
    let missing = wanted.saturating_sub(head_bytes(first_line, headers));
    let value = headers.get_mut(name).expect("the header to pad is there");
    let mut padded = value.as_bytes().to_vec();
    padded.resize(padded.len() + missing, b'.');
    *value = HeaderValue::from_bytes(&padded).expect("dots are allowed in a header");
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::SERVER;

    #[test]
    fn a_head_is_padded_to_the_byte() {
        let mut headers = HeaderMap::new();
        headers.insert(SERVER, HeaderValue::from_static("fastopen"));
        // "HTTP/1.1 200 OK" CRLF "server: fastopen" CRLF CRLF
        assert_eq!(head_bytes(15, &headers), 15 + 2 + 18 + 2);
        pad(&mut headers, "server", 15, 300);
        assert_eq!(head_bytes(15, &headers), 300);
        pad(&mut headers, "server", 15, 10);
        assert_eq!(head_bytes(15, &headers), 300);
    }
}

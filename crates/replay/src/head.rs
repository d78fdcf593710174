//! Heads of requests and responses that are exactly as long as the page says.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

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

/// Lengthens a head like [`pad`], but by lines of their own, of 32 bytes, 64, 128 and so on; only what is left goes to the header
/// `name`. So of two heads most is the same, as of a browser's, and HPACK writes it once a connection (RFC 7541 section 2.3.2).
///
/// # Panics
/// If the header is missing.
pub fn fill(headers: &mut HeaderMap, name: &str, first_line: usize, wanted: usize) {
    for power in FILLER_POWERS.rev() {
        let line = 1_usize << power;
        if wanted.saturating_sub(head_bytes(first_line, headers)) >= line {
            let filler = format!("x-filler-{power}");
            let value = ".".repeat(line - filler.len() - ": \r\n".len());
            let filler = HeaderName::try_from(filler).expect("letters, dashes and digits make a name");
            headers.insert(filler, HeaderValue::try_from(value).expect("dots are allowed in a header"));
        }
    }
    pad(headers, name, first_line, wanted);
    // It is of another length each time.
    headers.get_mut(name).expect("it was padded").set_sensitive(true);
}

/// From lines that have room for a name, up to the longest head.
const FILLER_POWERS: std::ops::RangeInclusive<u32> = 5..=17;

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::SERVER;

    #[test]
    fn a_head_is_filled_to_the_byte_by_lines_that_heads_have_in_common() {
        for wanted in [60, 100, 333, 400, 4097, 200_000, 262_144] {
            let mut headers = HeaderMap::new();
            headers.insert(SERVER, HeaderValue::from_static("fastopen"));
            fill(&mut headers, "server", 15, wanted);
            assert_eq!(head_bytes(15, &headers), wanted);
            assert!(headers["server"].len() < 8 + 32, "{headers:?}");
        }
    }

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

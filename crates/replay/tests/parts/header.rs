//! Tests header sections of exact sizes.

use fastopen_replay::header::{fill, header_bytes, pad};
use hyper::header::{HeaderMap, HeaderValue, SERVER};

#[test]
fn a_header_is_filled_to_the_byte_with_lines_that_headers_have_in_common() {
    for wanted in [60, 100, 333, 400, 4097, 200_000, 262_144] {
        let mut headers = HeaderMap::new();
        headers.insert(SERVER, HeaderValue::from_static("fastopen"));
        fill(&mut headers, "server", 15, wanted);
        assert_eq!(header_bytes(15, &headers), wanted);
        assert!(headers["server"].len() < 8 + 32, "{headers:?}");
    }
}

#[test]
fn a_header_is_padded_to_the_byte() {
    let mut headers = HeaderMap::new();
    headers.insert(SERVER, HeaderValue::from_static("fastopen"));
    // "HTTP/1.1 200 OK" CRLF "server: fastopen" CRLF CRLF
    assert_eq!(header_bytes(15, &headers), 15 + 2 + 18 + 2);
    pad(&mut headers, "server", 15, 300);
    assert_eq!(header_bytes(15, &headers), 300);
    pad(&mut headers, "server", 15, 10);
    assert_eq!(header_bytes(15, &headers), 300);
}

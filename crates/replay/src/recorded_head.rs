//! Parses the header section of a recorded response, without the fields that an emulated origin cannot send.

use hyper::header::{
    AGE, ALT_SVC, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, DATE, EXPIRES, HeaderMap, HeaderName,
    HeaderValue, LAST_MODIFIED, PRAGMA, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

/// Fields that apply only to one connection or to the framing of one body (RFC 9110 section 7.6.1), and
/// fields that name servers outside the emulated network.
const NOT_SENT: [HeaderName; 9] = [
    CONNECTION,
    CONTENT_LENGTH,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    ALT_SVC,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Fields about freshness. Most refer to the time of the recording, so loads get new values or none.
const OF_CACHING: [HeaderName; 6] = [AGE, CACHE_CONTROL, DATE, EXPIRES, LAST_MODIFIED, PRAGMA];

/// Parses the fields of an HTTP/1.1 header section. Skips the first line, stops at an empty line, and leaves
/// out fields that cannot be sent.
pub fn fields(head: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).skip(1);
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(line[..colon].trim_ascii());
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            if !NOT_SENT.contains(&name) {
                fields.append(name, value);
            }
        }
    }
    fields
}

/// Removes the fields about freshness.
pub fn remove_caching(fields: &mut HeaderMap) {
    for name in OF_CACHING {
        fields.remove(name);
    }
}

#[cfg(test)]
#[path = "../tests/unit/recorded_head.rs"]
mod tests;

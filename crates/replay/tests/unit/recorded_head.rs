use super::*;

#[test]
fn fields_of_the_connection_and_of_framing_and_what_is_no_field_are_left_out() {
    let head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nTransfer-Encoding: chunked\r\n\
        Connection: close\r\n:status: 200\r\nnonsense\r\nX-Latin: \xe9\r\n\r\nbody: no\r\n";
    let fields = fields(head);
    assert_eq!(fields.get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
    assert_eq!(fields.get("x-latin").map(HeaderValue::as_bytes), Some(&b"\xe9"[..]));
    assert_eq!(fields.len(), 3);
}

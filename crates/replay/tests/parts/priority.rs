//! Tests the `Priority` header field.

use fastopen_replay::priority::{PRIORITY_HEADER, Priority};
use hyper::header::{HeaderMap, HeaderValue};

fn of(urgency: u8, incremental: bool) -> Priority {
    Priority { urgency, incremental }
}

#[test]
fn a_header_field_is_parsed_as_it_is_written_and_invalid_parameters_have_their_default() {
    let read = |text: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(PRIORITY_HEADER, HeaderValue::from_static(text));
        Priority::of(&headers)
    };
    for written in [of(0, false), of(3, true), of(7, true)] {
        assert_eq!(read(Box::leak(written.header().into_boxed_str())), written);
    }
    assert_eq!(read("i"), of(3, true));
    assert_eq!(read("u=9, i=?0, x=1,,"), Priority::default());
    assert_eq!(Priority::of(&HeaderMap::new()), Priority::default());
}

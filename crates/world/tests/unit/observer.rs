use super::*;

#[test]
fn a_request_that_was_sent_again_is_the_one_that_came_after_the_browser_had_sent_it() {
    let came = |resource, ms: u64| RequestRecord {
        resource,
        sent_ns: Some(ms * 1_000_000),
        ..RequestRecord::default()
    };
    // Resource 7 is requested again four seconds later, on another connection.
    let mut requests = [came(7, 60), came(8, 61), came(7, 4_160)];
    let position = |requests: &[RequestRecord], ms: u64| {
        find_origins_record(requests, |one| one.resource == 7, Some(ms * 1_000_000))
    };
    assert_eq!(position(&requests, 4_110), Some(2));
    assert_eq!(position(&requests, 10), Some(0));
    // The clocks of browser and origins may differ.
    assert_eq!(position(&requests, 4_161), Some(0));
    requests[2].queued_ns = Some(0);
    assert_eq!(position(&requests, 4_110), Some(0));
    assert_eq!(find_origins_record(&requests, |one| one.resource == 9, None), None);
}

//! Tests the order in which streams send.

use std::task::{Context, Waker};

use fastopen_replay::http2::stream_scheduler::{PendingSend, StreamScheduler};
use fastopen_replay::priority::Priority;

fn priority(urgency: u8, incremental: bool) -> Priority {
    Priority { urgency, incremental }
}

fn ready(send: &PendingSend) -> bool {
    send.poll_first(&Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn the_most_urgent_stream_sends_first_and_preempts_a_ready_one() {
    let scheduler = StreamScheduler::default();
    let image = scheduler.enqueue(1, priority(3, true));
    assert!(ready(&image));
    let style = scheduler.enqueue(3, priority(0, false));
    assert!(!ready(&image) && ready(&style));
    drop(style);
    assert!(ready(&image));
}

#[test]
fn of_equal_urgency_the_first_request_sends_first_until_it_is_done() {
    let scheduler = StreamScheduler::default();
    let [later, first] = [5, 3].map(|stream| scheduler.enqueue(stream, priority(1, false)));
    assert!(ready(&first) && !ready(&later));
    drop(first);
    let again = scheduler.enqueue(3, priority(1, false));
    assert!(ready(&again) && !ready(&later));
}

#[test]
fn incremental_streams_send_round_robin() {
    let scheduler = StreamScheduler::default();
    let [one, two] = [1, 3].map(|stream| scheduler.enqueue(stream, priority(3, true)));
    assert!(ready(&one) && !ready(&two));
    drop(one);
    let again = scheduler.enqueue(1, priority(3, true));
    assert!(ready(&two) && !ready(&again));
}

use super::*;
use std::sync::Arc;
use std::thread;

#[test]
fn a_waiting_thread_sees_a_later_update() {
    let number = Arc::new(WatchCell::<u32>::default());
    let waiter = {
        let number = number.clone();
        thread::spawn(move || number.wait_until(Duration::from_secs(600), |&number| number == 2))
    };
    for _ in 0..2 {
        number.update(|number| *number += 1);
    }
    assert!(waiter.join().expect("the waiting thread does not panic"));
}

#[test]
fn waiting_ends_with_the_timeout() {
    let number = WatchCell::<u32>::default();
    assert!(!number.wait_until(Duration::from_millis(1), |&number| number == 2));
    assert!(number.wait_until(Duration::ZERO, |&number| number == 0));
}

//! Whose turn it is to send on a connection with several streams: the most urgent first (RFC 9218 section 10).

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hyper::header::HeaderMap;

/// The header in which a client says it (RFC 9218 section 5).
pub const PRIORITY: &str = "priority";

/// How much a client wants an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// Whether it is of use before it is whole; answers that are share the connection.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// As the header says; what it leaves out, or says wrong, is the default.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut priority = Self::default();
        let text = headers.get(PRIORITY).and_then(|value| value.to_str().ok()).unwrap_or_default();
        for word in text.split(',').map(str::trim) {
            match word.split_once('=').map_or((word, "?1"), |(name, value)| (name, value)) {
                ("u", value) => {
                    if let Some(urgency) = value.parse().ok().filter(|urgency| *urgency <= 7) {
                        priority.urgency = urgency;
                    }
                }
                ("i", value) => priority.incremental = value == "?1",
                _ => {}
            }
        }
        priority
    }

    /// The header's value.
    pub fn header(self) -> String {
        format!("u={}{}", self.urgency, if self.incremental { ", i" } else { "" })
    }
}

/// The streams of a connection that have something to send.
///
/// Of equal urgency, those that are of use only when they are whole go one after another, in the order of their requests; then the
/// others take turns.
#[derive(Debug, Clone, Default)]
pub struct Turns(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    waiting: BTreeMap<Place, Waker>,
    /// How many turns streams that share have asked for.
    asked: u64,
}

/// Ordered by urgency, those that share last, then by stream, or by how long they have waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    urgency: u8,
    shares: bool,
    number: u64,
}

impl Turns {
    /// A turn of a stream: ready when nothing goes before it, and kept until it is dropped.
    pub fn ask(&self, stream: u32, priority: Priority) -> Asked {
        let mut inner = self.lock();
        inner.asked += 1;
        let number = if priority.incremental { inner.asked } else { stream.into() };
        let place = Place { urgency: priority.urgency, shares: priority.incremental, number };
        inner.waiting.insert(place, Waker::noop().clone());
        drop(inner);
        Asked { turns: self.clone(), place }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that was asked for. Also while it lasts, something more urgent may come: then it waits again.
#[derive(Debug)]
pub struct Asked {
    turns: Turns,
    place: Place,
}

impl Asked {
    /// Ready while it is this one's turn.
    pub fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut inner = self.turns.lock();
        inner.waiting.insert(self.place, context.waker().clone());
        match inner.waiting.first_key_value() {
            Some((first, _)) if *first == self.place => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

impl Future for Asked {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Self::poll(&self, context)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut inner = self.turns.lock();
        inner.waiting.remove(&self.place);
        let next = inner.waiting.first_key_value().map(|(_, waker)| waker.clone());
        drop(inner);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn priority(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    fn ready(asked: &Asked) -> bool {
        asked.poll(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_most_urgent_goes_first_and_also_in_front_of_whose_turn_it_is() {
        let turns = Turns::default();
        let image = turns.ask(1, priority(3, true));
        assert!(ready(&image));
        let style = turns.ask(3, priority(0, false));
        assert!(!ready(&image) && ready(&style));
        drop(style);
        assert!(ready(&image));
    }

    #[test]
    fn of_equal_urgency_the_first_request_goes_first_until_it_is_done() {
        let turns = Turns::default();
        let [later, first] = [5, 3].map(|stream| turns.ask(stream, priority(1, false)));
        assert!(ready(&first) && !ready(&later));
        drop(first);
        let again = turns.ask(3, priority(1, false));
        assert!(ready(&again) && !ready(&later));
    }

    #[test]
    fn answers_that_are_of_use_in_parts_take_turns() {
        let turns = Turns::default();
        let [one, two] = [1, 3].map(|stream| turns.ask(stream, priority(3, true)));
        assert!(ready(&one) && !ready(&two));
        drop(one);
        let again = turns.ask(1, priority(3, true));
        assert!(ready(&two) && !ready(&again));
    }

    #[test]
    fn a_priority_is_read_as_it_is_written_and_nonsense_is_the_default() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(PRIORITY, HeaderValue::from_static(text));
            Priority::of(&headers)
        };
        for written in [priority(0, false), priority(3, true), priority(7, true)] {
            assert_eq!(read(Box::leak(written.header().into_boxed_str())), written);
        }
        assert_eq!(read("i"), priority(3, true));
        assert_eq!(read("u=9, i=?0, x=1,,"), Priority::default());
        assert_eq!(Priority::of(&HeaderMap::new()), Priority::default());
    }
}

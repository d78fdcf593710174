//! Takes pictures of a page during its load, one for each visible change (`Page.startScreencast`).

use fastopen_netns::clock::{monotonic_ns, realtime_ns};
use serde_json::json;

use super::browser::Browser;
use super::pipe::{Event, PipeError};
use crate::contract::FrameRecord;

/// Maximum width and height of a picture, in pixels.
const SIZE: u32 = 480;
const QUALITY: u32 = 70;
/// Maximum total size of a load's pictures in base64, in bytes.
const BUDGET: usize = 4 << 20;
/// A loaded page is considered drawn if it produces no new picture for this time, in nanoseconds.
const STILL_NS: u64 = 300_000_000;
const DRAWING_TIMEOUT_NS: u64 = 2_000_000_000;

/// The pictures that were taken during one load.
pub(super) struct Film {
    /// The time of each picture in nanoseconds of the monotonic clock, and its JPEG in base64.
    pictures: Vec<(u64, String)>,
    bytes: usize,
    dropped: u64,
}

impl Film {
    pub(super) fn start(browser: &mut Browser) -> Result<Self, PipeError> {
        let settings = json!({"format": "jpeg", "quality": QUALITY, "maxWidth": SIZE, "maxHeight": SIZE});
        browser.send("Page.startScreencast", &settings)?;
        Ok(Self { pictures: Vec::new(), bytes: 0, dropped: 0 })
    }

    /// Acknowledges an event with a picture, so that more follow. Stores the picture if `BUDGET` allows it.
    pub(super) fn handle(&mut self, event: &mut Event, browser: &mut Browser) -> Result<(), PipeError> {
        if event.method != "Page.screencastFrame" {
            return Ok(());
        }
        let acknowledged = json!({"sessionId": event.params["sessionId"]});
        browser.send("Page.screencastFrameAck", &acknowledged)?;
        let (now, wall) = (monotonic_ns(), realtime_ns());
        let shown = event.params["metadata"]["timestamp"].as_f64().map(|seconds| (seconds * 1e9) as u64);
        let age = shown.map_or(0, |shown| wall.saturating_sub(shown));
        let serde_json::Value::String(jpeg) = event.params["data"].take() else { return Ok(()) };
        if self.bytes + jpeg.len() > BUDGET {
            self.dropped += 1;
            return Ok(());
        }
        self.bytes += jpeg.len();
        self.pictures.push((now.saturating_sub(age), jpeg));
        Ok(())
    }

    /// Waits until the page is drawn. Returns the pictures, with times since `start_ns` on the monotonic
    /// clock, and the number of pictures that did not fit into `BUDGET`.
    pub(super) fn end(
        mut self,
        browser: &mut Browser,
        start_ns: u64,
    ) -> Result<(Vec<FrameRecord>, u64), PipeError> {
        let until = monotonic_ns() + DRAWING_TIMEOUT_NS;
        while monotonic_ns() < until {
            match browser.pipe.event(until.min(monotonic_ns() + STILL_NS)) {
                Ok(mut event) if event.session.as_ref() == Some(&browser.session) => {
                    self.handle(&mut event, browser)?;
                }
                Ok(_) => {}
                Err(PipeError::TimedOut) => break,
                Err(error) => return Err(error),
            }
        }
        browser.send("Page.stopScreencast", &json!({}))?;
        self.pictures.sort_by_key(|(shown_ns, _)| *shown_ns);
        // Keep the last picture from before the start, because the tab still shows it at the start.
        let before = self.pictures.partition_point(|(shown_ns, _)| *shown_ns <= start_ns).saturating_sub(1);
        let frame =
            |(shown_ns, jpeg): (u64, String)| FrameRecord { at_ns: shown_ns.saturating_sub(start_ns), jpeg };
        Ok((self.pictures.drain(before..).map(frame).collect(), self.dropped))
    }
}

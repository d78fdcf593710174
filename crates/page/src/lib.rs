//! Defines the page that `fastopen-world` loads, and schedules the requests of its built-in page loader.
//!
//! [`Page`] and its parts are read from JSON; [`Page::validate`] checks the rules that types cannot express.
//! [`Scheduler`] takes events with their times, and returns actions: which request to start now, and on which
//! connection. [`SyntheticPage`] contains the responses that make a browser load the page. The crate reads no
//! clock and does no I/O.

#![forbid(unsafe_code)]

mod page;
mod resource;
mod scheduler;
mod synthetic;
mod url;
mod validate;

pub use page::{Explanation, Format, Initiators, Origin, Page};
pub use resource::{Phase, RecordedHttp, Resource, ResourceType};
pub use scheduler::{
    Action, ConnectionId, Event, Limits, OriginId, Policy, Profile, ResourceState, Scheduler, site,
};
pub use synthetic::{FidelityGaps, Piece, Runtime, SyntheticBody, SyntheticPage, SyntheticResponse};
pub use url::{PageUrl, Schemes, UrlRewrite, alias_host, is_name};

/// A time or a duration in nanoseconds, on the clock of the scheduler's caller (the driver).
pub type Nanos = u64;

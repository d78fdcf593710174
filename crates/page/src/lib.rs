//! What a page is made of, and the order in which a client loads it.
//!
//! [`Page`] and its parts are the page of the job contract, as JSON has it; [`Page::validate`] checks what the
//! types cannot. [`Scheduler`] decides which request may start now and on which connection: it is told events and
//! their times, and answers with actions. Nothing here reads a clock or does I/O.

#![forbid(unsafe_code)]

mod origin;
mod page;
mod resource;
mod scheduler;
mod structure;
mod url;
mod validate;

pub use origin::Origin;
pub use page::{Format, Initiators, Page};
pub use resource::{Phase, Resource, ResourceType};
pub use scheduler::{
    Action, ConnectionId, Event, Limits, OriginId, Outcome, Policy, PolicyError, Profile, Scheduler,
};
pub use structure::{Body, Piece, Shortcomings, Structural, Structure};
pub use url::{PageUrl, Spelling, UrlError, stage_name};
pub use validate::PageError;

/// A moment or a span in whole nanoseconds, of whichever clock the driver uses.
pub type Nanos = u64;

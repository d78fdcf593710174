//! The load scheduler under a driver of its own, which has a network but no sockets and no clock.

mod browser;
mod driver;
mod failures;
mod fallback;
mod mget;
mod pages;
mod phases;
mod policies;
mod properties;
mod streams;

//! Tests the load scheduler with a driver that models a network and has neither sockets nor a clock.

mod browser;
mod driver;
mod failures;
mod fallback;
mod mget;
mod pages;
mod phases;
mod properties;
mod streams;

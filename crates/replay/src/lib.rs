//! The origin servers of a page: HTTP on hyper, with TCP Fast Open and TLS, answering with the page's own sizes, times and statuses.

mod awaited;
pub mod body;
pub mod cors;
pub mod head;
pub mod http2;
pub mod keeping;
pub mod log;
pub mod origins;
mod spread;
pub mod stream;
pub mod tls;

//! End-to-end tests: each writes jobs to the program's standard input and checks the records on its standard
//! output. The worlds run on this machine's kernel or in virtual time.

mod support;

mod aqm;
mod bodies;
mod chromium;
mod chromium_faults;
mod chromium_first_flights;
mod clients;
mod cross_traffic;
mod fastopen;
mod faults;
mod first_flight;
mod foreign_peers;
mod hosts;
mod http;
mod http2;
mod http3;
mod input;
mod ipv6;
mod jitter;
mod links;
mod loads;
mod names;
mod nothing_left;
mod ordinary_user;
mod packets;
mod paths;
mod processes;
mod profiles;
mod repeat_view;
mod sandbox;
mod servers;
mod tcp;
mod tcp_trace;
mod timing;
mod tls;
mod transactions;
mod virtual_time;

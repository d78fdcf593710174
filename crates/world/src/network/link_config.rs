//! Defines the configuration of a link: its directions, additional delays of hosts, and a middlebox.

use std::net::IpAddr;

use fastopen_link::ip::Version;
use fastopen_link::path::PathRule;
use fastopen_link::{DirectionConfig, Nanos};

use crate::network::addresses::{origin_number, resolver_address};

/// The configuration of the emulated link. The default is a link without delay, rate limit or loss.
#[derive(Debug, Clone, Default)]
pub struct LinkConfig {
    /// Configuration of the direction from the origins to the client.
    pub down: DirectionConfig,
    /// Configuration of the direction from the client to the origins.
    pub up: DirectionConfig,
    /// Additional one-way delay of each origin host, indexed by the host's number; 0 beyond the vector's end.
    pub extra_delay: Vec<Nanos>,
    /// Additional one-way delay of all origin hosts.
    pub origins_delay: Nanos,
    /// Additional one-way delay of the resolver.
    pub resolver_delay: Nanos,
    /// The behaviour of a middlebox between the link and the origins, and the origins that it affects.
    pub path: PathRule,
}

impl LinkConfig {
    /// Returns the propagation delays in nanoseconds from the client to an address, and back.
    pub fn delays_ns(&self, address: IpAddr) -> (Nanos, Nanos) {
        let extra = self.extra_delay_of(address);
        (self.up.delay + extra, self.down.delay + extra)
    }

    /// Returns the additional one-way delay of packets to and from an address, beyond the link's delay.
    pub fn extra_delay_of(&self, address: IpAddr) -> Nanos {
        if address == resolver_address(Version::of(address)) {
            return self.resolver_delay;
        }
        let own = origin_number(address).and_then(|number| self.extra_delay.get(number));
        self.origins_delay + own.copied().unwrap_or(0)
    }

    /// Returns this link with only the properties that probes can measure ([`DirectionConfig::measurable`]).
    #[must_use]
    pub fn measurable(&self) -> Self {
        let (down, up) = (self.down.measurable(), self.up.measurable());
        Self { down, up, path: PathRule::default(), ..self.clone() }
    }
}

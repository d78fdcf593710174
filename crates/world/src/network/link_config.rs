//! What a link is asked to be.

use std::net::IpAddr;

use fastopen_link::path::PathRule;
use fastopen_link::{DirectionConfig, Nanos};

use crate::network::addresses::{RESOLVER, origin_number};

/// What the link is to be, until told otherwise. The default is an unshaped one.
#[derive(Debug, Clone, Default)]
pub struct LinkConfig {
    /// From the origins to the client.
    pub down: DirectionConfig,
    /// From the client to the origins.
    pub up: DirectionConfig,
    /// One-way delay on top, by number of origin; origins beyond its end have none.
    pub extra_delay: Vec<Nanos>,
    /// One-way delay on top of all origins.
    pub origins_delay: Nanos,
    /// One-way delay on top of the resolver.
    pub resolver_delay: Nanos,
    /// What the path behind the link does to Fast Open.
    pub path: PathRule,
}

impl LinkConfig {
    /// How long a packet takes at least from the client to an address.
    pub fn uplink_delay_ns(&self, address: IpAddr) -> Nanos {
        let IpAddr::V4(address) = address else { return self.up.delay };
        self.up.delay + self.extra_delay_of(address.octets())
    }

    /// How long a packet takes at least from the client to an address, and back.
    pub fn delays_ns(&self, address: IpAddr) -> (Nanos, Nanos) {
        let up = self.uplink_delay_ns(address);
        (up, up - self.up.delay + self.down.delay)
    }

    /// One-way delay of an address beyond that of the link.
    pub fn extra_delay_of(&self, address: [u8; 4]) -> Nanos {
        if address == RESOLVER.octets() {
            return self.resolver_delay;
        }
        let own = origin_number(address).and_then(|number| self.extra_delay.get(number));
        self.origins_delay + own.copied().unwrap_or(0)
    }

    /// The link as far as a few probes can tell it ([`DirectionConfig::measurable`]).
    #[must_use]
    pub fn measurable(&self) -> Self {
        let (down, up) = (self.down.measurable(), self.up.measurable());
        Self { down, up, path: PathRule::default(), ..self.clone() }
    }
}

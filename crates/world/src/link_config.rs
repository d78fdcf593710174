//! What a link is asked to be.

use std::net::IpAddr;

use fastopen_link::path::PathRule;
use fastopen_link::{DirectionConfig, Nanos};

use crate::addresses::origin_number;

/// What the link is to be, until told otherwise. The default is an unshaped one.
#[derive(Debug, Clone, Default)]
pub struct LinkConfig {
    /// From the origins to the client.
    pub down: DirectionConfig,
    /// From the client to the origins.
    pub up: DirectionConfig,
    /// One-way delay on top, by number of origin; origins beyond its end have none.
    pub extra_delay: Vec<Nanos>,
    /// What the path behind the link does to Fast Open.
    pub path: PathRule,
}

impl LinkConfig {
    /// How long a packet takes at least from the client to an address.
    pub fn uplink_delay_ns(&self, address: IpAddr) -> Nanos {
        let IpAddr::V4(address) = address else { return self.up.delay };
        self.up.delay + self.extra_delay_of(address.octets())
    }

    /// One-way delay of an address beyond that of the link.
    pub fn extra_delay_of(&self, address: [u8; 4]) -> Nanos {
        origin_number(address).and_then(|number| self.extra_delay.get(number)).copied().unwrap_or(0)
    }

    /// The link as far as a few probes can tell it ([`DirectionConfig::measurable`]).
    #[must_use]
    pub fn measurable(&self) -> Self {
        let (down, up) = (self.down.measurable(), self.up.measurable());
        Self { down, up, extra_delay: self.extra_delay.clone(), path: PathRule::default() }
    }
}

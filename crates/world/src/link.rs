//! The link of a world: what it is asked to be, what it reports, and the two ways of making it.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fastopen_link::{DirectionConfig, Loss, Nanos, Rate, Stats};

use crate::contract::Fault;
use crate::failure::Failure;
use crate::routers::Routers;
use crate::topology::origin_number;
use crate::wire::Wire;

/// What the link is to be, until told otherwise.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// From the origins to the client.
    pub down: DirectionConfig,
    /// From the client to the origins.
    pub up: DirectionConfig,
    /// One-way delay on top, by number of origin; origins beyond its end have none.
    pub extra_delay: Vec<Nanos>,
}

impl LinkConfig {
    /// A link that holds nothing up.
    pub fn open() -> Self {
        let way = DirectionConfig {
            delay: 0,
            rate: Rate::Unlimited,
            queue_limit_bytes: None,
            loss: Loss::NONE,
            seed: 0,
        };
        Self { down: way.clone(), up: way, extra_delay: Vec::new() }
    }

    /// How long a packet takes at least from the client to an address.
    pub fn way_up_ns(&self, address: IpAddr) -> Nanos {
        let IpAddr::V4(address) = address else { return self.up.delay };
        let number = origin_number(address.octets());
        self.up.delay + number.and_then(|number| self.extra_delay.get(number)).copied().unwrap_or(0)
    }
}

/// What happened in one direction since it was configured.
#[derive(Debug, Clone, Default)]
pub struct DirectionReport {
    /// Counts.
    pub stats: Stats,
    /// Whether the counts know how full the queue was; the kernel's disciplines do not.
    pub queue_watched: bool,
    /// How much later than due packets were sent, in nanoseconds: median, 99th percentile, maximum.
    pub late_ns: [u64; 3],
    /// Packets that the kernel lost before the model saw them.
    pub overruns: u32,
}

/// Both directions' reports.
#[derive(Debug, Clone, Default)]
pub struct LinkReport {
    /// From the origins to the client.
    pub down: DirectionReport,
    /// From the client to the origins.
    pub up: DirectionReport,
}

/// A link that stands.
pub enum Link {
    /// This program moves each packet, as the link model says.
    Program(Wire),
    /// The kernel's queueing disciplines do.
    Kernel(Box<Mutex<Routers>>),
}

impl Link {
    /// As records name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Program(_) => "program",
            Self::Kernel(_) => "kernel",
        }
    }

    /// Drops what is under way, forgets the counts, and is a new link from now on.
    ///
    /// # Errors
    /// With an impossible configuration, or where the kernel lacks a discipline.
    pub fn configure(&self, config: &LinkConfig) -> Result<(), Failure> {
        match self {
            Self::Program(wire) => wire
                .configure(config.clone())
                .map_err(|error| Failure::new(Fault::Input, format!("network: {error}"))),
            Self::Kernel(routers) => Ok(lock(routers).configure(config)?),
        }
    }

    /// What happened since the last [`Link::configure`].
    ///
    /// # Errors
    /// As the kernel says.
    pub fn report(&self) -> fastopen_netns::Result<LinkReport> {
        match self {
            Self::Program(wire) => Ok(wire.report()),
            Self::Kernel(routers) => lock(routers).report(),
        }
    }
}

fn lock(routers: &Mutex<Routers>) -> MutexGuard<'_, Routers> {
    routers.lock().unwrap_or_else(PoisonError::into_inner)
}

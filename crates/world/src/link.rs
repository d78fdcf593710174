//! The link of a world: the two ways of making it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::contract::{Fault, LinkKind};
use crate::failure::Failure;
use crate::forwarder::Forwarder;
use crate::link_config::{LinkConfig, LinkReport};
use crate::routers::Routers;

/// A link that stands.
pub enum Link {
    /// This program forwards each packet, as the link model says.
    Program(Forwarder),
    /// The kernel's queueing disciplines do.
    Kernel(Box<Mutex<Routers>>),
}

impl Link {
    /// As records name it.
    pub fn kind(&self) -> LinkKind {
        match self {
            Self::Program(_) => LinkKind::Program,
            Self::Kernel(_) => LinkKind::Kernel,
        }
    }

    /// Drops what is under way, forgets the counts, and is a new link from now on.
    ///
    /// # Errors
    /// With an impossible configuration, or where the kernel lacks a discipline.
    pub fn configure(&self, config: &LinkConfig) -> Result<(), Failure> {
        match self {
            Self::Program(forwarder) => forwarder
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
            Self::Program(forwarder) => Ok(forwarder.report()),
            Self::Kernel(routers) => lock(routers).report(),
        }
    }
}

fn lock(routers: &Mutex<Routers>) -> MutexGuard<'_, Routers> {
    routers.lock().unwrap_or_else(PoisonError::into_inner)
}

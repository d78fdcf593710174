//! The link of a world: the two ways of making it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::contract::{Engine, Fault, LinkKind, LinkRecord};
use crate::engine;
use crate::failure::{Blame, Failure};
use crate::network::forwarder::Forwarder;
use crate::network::link_config::LinkConfig;
use crate::network::routers::Routers;
use crate::network::topology::Topology;

/// A link that stands.
pub enum Link {
    /// This program forwards each packet, as the link model says.
    Program(Forwarder),
    /// The kernel's queueing disciplines do.
    Kernel(Box<Mutex<Routers>>),
}

impl Link {
    /// Starts the unshaped link of a topology.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn start(topology: &Topology, engine: Engine) -> Result<Self, Failure> {
        if let Some((down, up)) = topology.routed_paths()? {
            return Ok(Self::Kernel(Box::new(Mutex::new(Routers::new(down, up, topology.mtu_bytes)?))));
        }
        let (client, origins) = topology.packet_sockets()?;
        let forwarder = Forwarder::start(client, origins, engine::spin_ns(engine));
        Ok(Self::Program(forwarder.blame(Fault::Machine, "starting the link")?))
    }

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
    /// Where the kernel lacks a discipline.
    pub fn configure(&self, config: &LinkConfig) -> fastopen_netns::Result<()> {
        match self {
            Self::Program(forwarder) => {
                forwarder.configure(config.clone());
                Ok(())
            }
            Self::Kernel(routers) => lock(routers).configure(config),
        }
    }

    /// What happened since the last [`Link::configure`].
    ///
    /// # Errors
    /// As the kernel says.
    pub fn report(&self) -> fastopen_netns::Result<LinkRecord> {
        match self {
            Self::Program(forwarder) => Ok(forwarder.report()),
            Self::Kernel(routers) => lock(routers).report(),
        }
    }
}

fn lock(routers: &Mutex<Routers>) -> MutexGuard<'_, Routers> {
    routers.lock().unwrap_or_else(PoisonError::into_inner)
}

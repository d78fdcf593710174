//! Runs the emulated access link: in this program (`program_link`) or with the kernel (`kernel_link`).

use std::cell::RefCell;

use crate::contract::{Engine, Fault, LinkRecord};
use crate::engine;
use crate::failure::{Blame, Failure};
use crate::network::kernel_link::Routers;
use crate::network::link_config::LinkConfig;
use crate::network::program_link::Forwarder;
use crate::network::topology::Topology;

/// The running access link, and how it is emulated.
pub enum Link {
    /// This program forwards each packet according to the link model.
    Program(Forwarder),
    /// The kernel's queueing disciplines emulate the link.
    Kernel(Box<RefCell<Routers>>),
}

impl Link {
    /// Starts the link of a topology. It has no delay, rate limit or loss until it is configured.
    pub fn start(topology: &Topology, engine: Engine) -> Result<Self, Failure> {
        if let Some(routers) = topology.routers()? {
            return Ok(Self::Kernel(Box::new(RefCell::new(routers))));
        }
        let (client, origins) = topology.packet_sockets()?;
        let forwarder = Forwarder::start(client, origins, engine::spin_ns(engine));
        Ok(Self::Program(forwarder.blame(Fault::Machine, "starting the link")?))
    }

    /// Applies a new configuration: discards queued and delayed packets, and resets the counts.
    pub fn configure(&self, config: &LinkConfig) -> fastopen_netns::Result<()> {
        match self {
            Self::Program(forwarder) => {
                forwarder.configure(config.clone());
                Ok(())
            }
            Self::Kernel(routers) => routers.borrow_mut().configure(config),
        }
    }

    /// Returns packet counts since the last [`Link::configure`]. If this program emulates the link, also
    /// returns the lateness of the packets since the last report (see `program_link`).
    pub fn report(&self) -> fastopen_netns::Result<LinkRecord> {
        match self {
            Self::Program(forwarder) => Ok(forwarder.report()),
            Self::Kernel(routers) => routers.borrow_mut().report(),
        }
    }
}

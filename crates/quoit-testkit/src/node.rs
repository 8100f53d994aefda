//! A node that a test starts.

use quoit_cluster::memory_network::MemoryNetwork;
use quoit_cluster::{
    Addresses, ControlPlane, Internode, InternodeSettings, JitterSeed, Limits, Network, NodeId,
    Settings, TokioNetwork,
};
use quoit_core::{CounterReserve, DotSequence, StoreSettings, VolatileCounters};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_model::props::BucketProps;
use quoit_node::{AuxiliaryData, Node, NodeEngine, NodeParts};
use quoit_seam::{Clock, Disk, FaultyDisk};
use quoit_store::engine::Engine;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use std::error::Error;
use std::sync::Arc;

/// Reason why a node did not start.
pub type StartError = Box<dyn Error>;

/// Description of a node. All fields have defaults.
pub struct TestNode {
    /// Byte that fills the 16 bytes of the node's identity. Random numbers of the node follow from it.
    pub id: u8,
    /// Name of the node's host. The node is named `HOST@test`, and other nodes reach it at `HOST:1`.
    pub host: String,
    /// Number of partitions of the cluster; 8 by default.
    pub ring_size: RingSize,
    /// The node's clock.
    pub clock: Arc<dyn Clock>,
    /// The node's network; `None` for a node that is alone.
    pub network: Option<MemoryNetwork>,
    /// Disk of the control plane; by default in memory and empty.
    pub control_disk: Arc<dyn Disk>,
    /// Storage engine; `None` for one in memory, with an actor that follows from the identity.
    pub engine: Option<NodeEngine>,
    /// Settings of the store.
    pub settings: StoreSettings,
    /// Data that is stored beside the records; in memory by default.
    pub auxiliary: AuxiliaryData,
    /// Bounds of the node's connections.
    pub limits: Limits,
    /// Properties of untyped buckets.
    pub untyped_defaults: BucketProps,
    /// Boot id. In the program it is random for each start of the process.
    pub boot_id: u64,
}

/// Returns the address at which other nodes reach the node of a host.
#[must_use]
pub fn address_of(host: &str) -> String {
    format!("{host}:1")
}

/// Creates the events of an actor. Nothing of them survives a restart.
#[must_use]
pub fn events(actor: [u8; 8]) -> DotSequence {
    DotSequence::new(Actor(actor[..].into()), Box::new(VolatileCounters))
}

/// Creates a storage engine in memory.
#[must_use]
pub fn memory_engine(ring_size: RingSize, clock: &Arc<dyn Clock>) -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new(MemorySettings::default(), ring_size, Arc::clone(clock)))
}

impl TestNode {
    /// Creates the description of a single node with eight partitions.
    ///
    /// # Panics
    ///
    /// Never: eight is a valid number of partitions.
    #[must_use]
    pub fn new(id: u8, host: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            host: host.into(),
            ring_size: RingSize::new(8).expect("a power of two in the range"),
            clock,
            network: None,
            control_disk: Arc::new(FaultyDisk::new(u64::from(id))),
            engine: None,
            settings: StoreSettings::default(),
            auxiliary: AuxiliaryData::default(),
            limits: Limits::default(),
            untyped_defaults: BucketProps::untyped(),
            boot_id: u64::from(id),
        }
    }

    /// Sets the engine. Events are those of `actor`, and `counters` survive a restart.
    #[must_use]
    pub fn with_engine(
        self,
        engine: Arc<dyn Engine>,
        actor: Actor,
        counters: impl CounterReserve + 'static,
    ) -> Self {
        let dots = DotSequence::new(actor, Box::new(counters));
        Self { engine: Some(NodeEngine { engine, dots, loss: None }), ..self }
    }

    /// Assembles the node. It neither connects nor listens.
    ///
    /// # Errors
    ///
    /// If a disk fails.
    pub fn assemble(self) -> Result<Node, StartError> {
        let Self { clock, settings, auxiliary, ring_size, .. } = self;
        let of_control = Settings {
            addresses: Addresses { node: address_of(&self.host).into(), ..Addresses::default() },
            ring_size: Some(ring_size),
            untyped_defaults: self.untyped_defaults,
            ..Settings::new(&format!("{}@test", self.host), NodeId([self.id; 16]))
        };
        let control = Arc::new(ControlPlane::open(self.control_disk, of_control)?);
        let network: Arc<dyn Network> = match &self.network {
            Some(network) => network.host(&self.host),
            None => Arc::new(TokioNetwork),
        };
        let of_internode = InternodeSettings {
            limits: self.limits,
            ..control.internode_settings(self.boot_id, JitterSeed(self.boot_id))
        };
        let internode = Internode::new(of_internode, network);
        let engine = self.engine.unwrap_or_else(|| {
            let engine = memory_engine(control.ring_size(), &clock);
            NodeEngine { engine, dots: events([self.id; 8]), loss: None }
        });
        let parts = NodeParts { engine, control, internode, clock, settings, auxiliary };
        Ok(parts.assemble()?)
    }

    /// Assembles the node, connects it and listens for other nodes.
    ///
    /// # Errors
    ///
    /// If a disk fails, or its address is in use.
    ///
    /// # Panics
    ///
    /// If the node has no network.
    pub async fn start(self) -> Result<Node, StartError> {
        let network = self.network.as_ref().expect("a node that listens has a network");
        let address = address_of(&self.host);
        let listener = network.host(&self.host).bind(&address).await?;
        let node = self.assemble()?;
        node.connect(&address);
        node.listen(listener)?;
        Ok(node)
    }
}

//! A node that a test starts.

use quoit_cluster::memory_network::MemoryNetwork;
use quoit_cluster::{
    Addresses, ControlPlane, Internode, InternodeSettings, Limits, Network, NodeId, Settings,
    TokioNetwork,
};
use quoit_core::{CounterReserve, DotSequence, StoreSettings, Unreserved};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_model::props::BucketProps;
use quoit_node::{Beside, Node, NodeEngine, NodeParts};
use quoit_seam::{Clock, Disk, FaultyDisk};
use quoit_store::engine::Engine;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use std::error::Error;
use std::sync::Arc;

/// Why a node did not start.
pub type StartError = Box<dyn Error>;

/// Description of a node. Everything that a test does not care about has a value.
pub struct TestNode {
    /// Identity of the node, repeated to 16 bytes. Random numbers of the node follow from it.
    pub id: u8,
    /// Name of its host. The node is named `HOST@test`, and others reach it at `HOST:1`.
    pub host: String,
    /// Number of partitions of the cluster: 8 unless a test says otherwise.
    pub ring_size: RingSize,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Its network. Without one it is alone.
    pub network: Option<MemoryNetwork>,
    /// Disk of the control plane: in memory and empty unless a test says otherwise.
    pub control_disk: Arc<dyn Disk>,
    /// Its engine; `None` = one in memory, with an actor that follows from the identity.
    pub engine: Option<NodeEngine>,
    /// Settings of its store.
    pub settings: StoreSettings,
    /// Data beside its records: in memory unless a test says otherwise.
    pub beside: Beside,
    /// Bounds of its connections.
    pub limits: Limits,
    /// Properties of untyped buckets.
    pub untyped_defaults: BucketProps,
    /// Random for each start of the process.
    pub boot_id: u64,
}

/// Where others reach the node of a host.
#[must_use]
pub fn address_of(host: &str) -> String {
    format!("{host}:1")
}

/// Events of an actor, of which nothing is kept over a restart.
#[must_use]
pub fn events(actor: [u8; 8]) -> DotSequence {
    DotSequence::new(Actor(actor[..].into()), Box::new(Unreserved))
}

/// An engine in memory.
#[must_use]
pub fn memory_engine(ring_size: RingSize, clock: &Arc<dyn Clock>) -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new(MemorySettings::default(), ring_size, Arc::clone(clock)))
}

impl TestNode {
    /// A node alone, of eight partitions.
    ///
    /// # Panics
    ///
    /// Never: eight is a number of partitions.
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
            beside: Beside::default(),
            limits: Limits::default(),
            untyped_defaults: BucketProps::untyped(),
            boot_id: u64::from(id),
        }
    }

    /// Its events are those of `actor`, and `counters` outlive it.
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

    /// Puts the node together. It neither connects nor listens.
    ///
    /// # Errors
    ///
    /// When one of its disks refuses.
    pub fn assemble(self) -> Result<Node, StartError> {
        let Self { clock, settings, beside, ring_size, .. } = self;
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
            ..control.internode_settings(self.boot_id, self.boot_id)
        };
        let internode = Internode::new(of_internode, network);
        let engine = self.engine.unwrap_or_else(|| {
            let engine = memory_engine(control.ring_size(), &clock);
            NodeEngine { engine, dots: events([self.id; 8]), loss: None }
        });
        let parts = NodeParts { engine, control, internode, clock, settings, beside };
        Ok(parts.assemble()?)
    }

    /// Puts the node together, connects it and listens for others.
    ///
    /// # Errors
    ///
    /// When one of its disks refuses, or its address is in use.
    ///
    /// # Panics
    ///
    /// When it has no network.
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

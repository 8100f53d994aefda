//! Several control planes in one process: a network and disks in memory, paused time, and elections from a
//! seed.

mod crashes;
mod dead_members;
mod histories;
mod joining;
mod leaving;
mod old_disks;
mod raises;
mod readiness;
mod recovery;
mod refusals;
mod reports;
mod restoring;
mod staging;
mod trust;
mod versions;
mod voters;

use super::settings;
use crate::memory_network::MemoryNetwork;
use crate::{
    Addresses, ControlPlane, Internode, InternodeSettings, JitterSeed, JoinError, LinkSecurity,
    NodeId, Settings, State, seed_elections,
};
use quoit_model::hash::Partition;
use quoit_seam::FaultyDisk;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time after which everything that should happen has happened.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running node.
struct Process {
    control: Arc<ControlPlane>,
    _internode: Arc<Internode>,
}

/// A machine with a disk, on which a node may run.
struct Node {
    number: u8,
    disk: FaultyDisk,
    process: Option<Process>,
}

/// Machines on one network.
struct TestCluster {
    network: MemoryNetwork,
    nodes: Vec<Node>,
    boots: u64,
    /// Security of the connections, for nodes that have it.
    security: BTreeMap<u8, Arc<LinkSecurity>>,
}

fn id(number: u8) -> NodeId {
    NodeId([number; 16])
}

fn name(number: u8) -> String {
    format!("n{number}@test")
}

fn address(number: u8) -> String {
    format!("n{number}:1")
}

impl TestCluster {
    /// Starts nodes 1 to `count`, each alone.
    async fn alone(count: u8) -> Self {
        Self::with(count, |_| settings()).await
    }

    async fn with(count: u8, settings: impl Fn(u8) -> Settings) -> Self {
        seed_elections(7);
        let mut cluster = Self::machines(count);
        for number in 1..=count {
            cluster.start_with(number, settings(number)).await;
        }
        cluster
    }

    /// Creates the machines of nodes 1 to `count`, without starting the nodes.
    fn machines(count: u8) -> Self {
        let machine = |number| {
            let disk = FaultyDisk::new(u64::from(number));
            Node { number, disk, process: None }
        };
        let nodes = (1..=count).map(machine).collect();
        let (network, security) = (MemoryNetwork::default(), BTreeMap::new());
        Self { network, nodes, boots: 0, security }
    }

    /// Starts nodes 1 to `count` as members of one cluster, with complete copies everywhere.
    async fn joined(count: u8) -> Self {
        let cluster = Self::alone(count).await;
        for number in 2..=count {
            cluster.join(number, 1).await.unwrap();
        }
        if count > 1 {
            cluster.commit(1).await;
            cluster.move_all().await;
        }
        cluster
    }

    fn node(&self, number: u8) -> &Node {
        &self.nodes[usize::from(number) - 1]
    }

    fn control(&self, number: u8) -> &Arc<ControlPlane> {
        &self.node(number).process.as_ref().expect("the node runs").control
    }

    fn state(&self, number: u8) -> Arc<State> {
        self.control(number).state()
    }

    fn running(&self) -> impl Iterator<Item = u8> + '_ {
        self.nodes.iter().filter(|node| node.process.is_some()).map(|node| node.number)
    }

    async fn start(&mut self, number: u8) {
        self.start_with(number, settings()).await;
    }

    async fn start_with(&mut self, number: u8, settings: Settings) {
        self.start_as(number, Settings { new_node_id: id(number), ..settings }).await;
    }

    /// Starts a node. If its disk is empty, it gets the identity in the settings.
    async fn start_as(&mut self, number: u8, settings: Settings) {
        self.boots += 1;
        let host = self.network.host(&format!("n{number}"));
        let listener = host.bind(&address(number)).await.unwrap();
        let own: Arc<str> = address(number).into();
        let settings = Settings {
            node_name: name(number),
            addresses: Addresses { node: own, ..Addresses::default() },
            ..settings
        };
        let node = &mut self.nodes[usize::from(number) - 1];
        let versions = settings.versions;
        let control = ControlPlane::open(Arc::new(node.disk.clone()), settings).unwrap();
        let control = Arc::new(control);
        let own_id = control.read().node_id();
        let settings =
            InternodeSettings::new(own_id, name(number), self.boots, JitterSeed(self.boots));
        let security = self.security.get(&number).cloned().unwrap_or_default();
        let settings = InternodeSettings { versions, security, ..settings };
        let internode = Internode::new(settings, host);
        internode.serve(listener).unwrap();
        control.connect(&internode);
        node.process = Some(Process { control, _internode: internode });
    }

    /// Cuts the power of a node's machine.
    fn crash(&mut self, number: u8) {
        let node = &mut self.nodes[usize::from(number) - 1];
        node.process = None;
        node.disk = node.disk.crash();
        self.network.kill(&format!("n{number}"));
    }

    async fn join(&self, number: u8, to: u8) -> Result<(), JoinError> {
        self.control(number).join(&address(to)).await?;
        self.until("the node has joined", || {
            self.state(number).members().get(self.state(to).node_id()).is_some()
        })
        .await;
        Ok(())
    }

    async fn commit(&self, number: u8) {
        self.control(number).plan().unwrap();
        self.control(number).commit_staged(None).await.unwrap();
    }

    /// Completes the copies of all running nodes, and waits until only the newest layout is live.
    async fn move_all(&self) {
        for number in self.running() {
            self.report_copies(number).await;
        }
        self.until("the old layouts retire", || {
            self.running().all(|number| !self.state(number).layouts().is_moving())
        })
        .await;
    }

    /// Reports the missing copies of a node as complete.
    async fn report_copies(&self, number: u8) {
        let state = self.state(number);
        let own = state.node_id();
        let missing = state.layouts().incomplete().filter(|(_, node)| *node == own);
        let missing: Vec<Partition> = missing.map(|(partition, _)| partition).collect();
        // A node without missing copies may have left already.
        if !missing.is_empty() {
            self.control(number).report_moved(&missing).await.unwrap();
        }
    }

    /// Waits for an event that must happen.
    async fn until(&self, what: &str, mut happened: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !happened() {
            assert!(Instant::now() < end, "in vain: {what}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until all running nodes have the same state.
    async fn until_equal(&self) {
        self.until("all nodes agree", || {
            let first = self.running().next().expect("a node runs");
            let version = self.state(first).version();
            self.running().all(|number| self.state(number).version() == version)
        })
        .await;
    }
}

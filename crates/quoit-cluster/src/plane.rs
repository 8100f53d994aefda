//! The control plane itself: the state in memory, the file behind it, and the log between nodes.

use crate::NodeId;
use crate::command::Command;
use crate::control::decision::Decision;
use crate::control::file::{ControlFile, Founding, lock_error};
use crate::control::group::{Agreed, Group, GroupError};
use crate::control::machine::Published;
use crate::control::network::Network;
use crate::error::{ChangeError, NoSuchType, OpenError};
use crate::members::Addresses;
use crate::state::State;
use arc_swap::Guard;
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::props::{BucketProps, PropUpdates, TypeState};
use quoit_store::seam::{Disk, DiskLock};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// Most bytes of a node's name.
const NODE_NAME_BYTES_MAX: usize = 255;
/// Time that a command may take before it is given up.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Time before a command is tried again that found no leader.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// What a node brings along when it opens its control plane.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's name. It may change between starts.
    pub node_name: String,
    /// Where the node listens. It may change between starts.
    pub addresses: Addresses,
    /// Random bytes: the node's identity when there is no control file yet.
    pub new_node_id: NodeId,
    /// Number of partitions as configured; `None` = as stored, [`RingSize::DEFAULT`] for a new
    /// file.
    pub ring_size: Option<RingSize>,
    /// Properties of untyped buckets as configured (`buckets.default.*`).
    pub untyped_defaults: BucketProps,
}

impl Settings {
    /// A node that listens nowhere, with the defaults of everything else.
    #[must_use]
    pub fn new(node_name: &str, new_node_id: NodeId) -> Self {
        Self {
            node_name: node_name.to_owned(),
            addresses: Addresses::default(),
            new_node_id,
            ring_size: None,
            untyped_defaults: BucketProps::untyped(),
        }
    }
}

/// A view of the state that does not change. Cheap to take and to drop; whoever holds many of them
/// for long, or across waiting, should rather clone what it needs.
pub type Snapshot = Guard<Arc<State>>;

/// The control plane of a node. Reading never waits; changes are made one at a time, each agreed on and
/// durable before it is answered or seen.
pub struct ControlPlane {
    group: Group,
    published: Arc<Published>,
    /// Let go after everything else.
    _lock: Box<dyn DiskLock>,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ControlPlane").field("state", &self.read()).finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Takes the directory `disk` for this process and opens the control file in it, or makes it when there
    /// is none. A new file appears whole or not at all. Reads the file, and checks all of it.
    ///
    /// # Errors
    ///
    /// A directory that is in use; a file that is foreign, damaged or of another version, or whose ring
    /// size is not the one configured.
    pub fn open(disk: Arc<dyn Disk>, settings: Settings) -> Result<Self, OpenError> {
        let name_bytes = settings.node_name.len();
        if name_bytes == 0 || name_bytes > NODE_NAME_BYTES_MAX {
            let (name, max) = (settings.node_name, NODE_NAME_BYTES_MAX);
            return Err(OpenError::NodeName { name, max });
        }
        let lock = disk.lock().map_err(|error| lock_error(&*disk, error))?;
        let founding = Founding {
            node_id: settings.new_node_id,
            ring_size: settings.ring_size.unwrap_or(RingSize::DEFAULT),
            name: settings.node_name.into(),
            addresses: settings.addresses,
        };
        let file = Arc::new(ControlFile::open(disk, &founding)?);
        let loaded = file.load()?;
        if let Some(configured) = settings.ring_size.map(RingSize::get) {
            let stored = loaded.ring_size.get();
            if configured != stored {
                let path = file.path().to_owned();
                return Err(OpenError::RingSize { path, configured, stored });
            }
        }
        let defaults = Arc::new(settings.untyped_defaults);
        let (node_id, cluster_id) = (loaded.node_id, loaded.cluster_id);
        let empty = State::new(node_id, founding.name, cluster_id, loaded.ring_size, defaults);
        let published =
            Arc::new(Published::new(State::loaded(empty, &loaded), loaded.applied_index));
        let group = Group::new(file, Arc::clone(&published), Network::default());
        Ok(Self { group, published, _lock: lock })
    }

    /// Starts the node's part in the cluster. What does not wait for it starts it at the first change.
    ///
    /// # Errors
    ///
    /// When the control file can't be read or written.
    pub async fn start(&self) -> Result<(), ChangeError> {
        self.group.raft().await?;
        Ok(())
    }

    /// Ends the node's part in the cluster in good order. Reading goes on, changes are refused.
    pub async fn stop(&self) {
        self.group.stop().await;
    }

    /// The state as it is now. No lock, no allocation, no shared counter.
    #[must_use]
    pub fn read(&self) -> Snapshot {
        self.published.state.load()
    }

    /// Tells of new states: the value is the version of the last one.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.published.version.subscribe()
    }

    /// The effective properties of a bucket, to keep. Costs what [`State::bucket_props`] costs and
    /// one atomic increment of a counter that all who use the bucket share; who only looks at a
    /// property asks [`ControlPlane::read`] for it.
    ///
    /// # Errors
    ///
    /// When the bucket's type does not exist or is not active.
    pub fn bucket_props(&self, bucket: BucketRef<'_>) -> Result<Arc<BucketProps>, NoSuchType> {
        self.read().bucket_props(bucket).map(Arc::clone)
    }

    /// Number of partitions.
    #[must_use]
    pub fn ring_size(&self) -> RingSize {
        self.read().ring_size()
    }

    /// Creates a bucket type, or creates it anew while it is not active.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn create_type(
        &self,
        name: &[u8],
        updates: &PropUpdates,
    ) -> Result<TypeState, ChangeError> {
        self.run(Command::CreateType { name, updates }).await?;
        Ok(self.read().type_state(name))
    }

    /// Makes a bucket type usable; an active one stays so.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn activate_type(&self, name: &[u8]) -> Result<(), ChangeError> {
        self.run(Command::ActivateType { name }).await
    }

    /// Changes properties of an active bucket type.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn update_type(&self, name: &[u8], updates: &PropUpdates) -> Result<(), ChangeError> {
        self.run(Command::UpdateType { name, updates }).await
    }

    /// Gives an active bucket type the defaults again, as far as they may change.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn reset_type(&self, name: &[u8]) -> Result<(), ChangeError> {
        self.run(Command::ResetType { name }).await
    }

    /// Changes properties of a bucket; all others become its own as they are.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn set_bucket_props(
        &self,
        bucket: BucketRef<'_>,
        updates: &PropUpdates,
    ) -> Result<(), ChangeError> {
        self.run(Command::SetBucketProps { bucket, updates }).await
    }

    /// Lets a bucket follow its type again.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn reset_bucket_props(&self, bucket: BucketRef<'_>) -> Result<(), ChangeError> {
        self.run(Command::ResetBucketProps { bucket }).await
    }

    /// Runs a command: decides on the newest state, has the cluster agree, and waits until this node shows
    /// what came of it. Another decision in between means deciding again.
    ///
    /// # Errors
    ///
    /// The refusal; the failure to write the change down, or that nobody can agree on it: then it may or
    /// may not be made.
    pub async fn run(&self, command: Command<'_>) -> Result<(), ChangeError> {
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        loop {
            match self.run_once(command, deadline).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Attempt::Refused(refusal)) => return Err(refusal),
                Err(Attempt::NoLeader) if Instant::now() < deadline => sleep(RETRY_INTERVAL).await,
                Err(Attempt::NoLeader) => return Err(ChangeError::NoLeader),
            }
        }
    }

    /// One attempt; whether the command was carried out, or another decision came first.
    async fn run_once(&self, command: Command<'_>, deadline: Instant) -> Result<bool, Attempt> {
        let newest = self.group.read_index().await?;
        self.wait_applied(newest, deadline).await?;
        let state = self.published.state.load_full();
        let changes = state.decide(command).map_err(Attempt::Refused)?;
        if changes.is_empty() {
            return Ok(true);
        }
        let decision = Decision { base: Some(state.revision()), changes };
        let Agreed { applied, index } = self.group.propose(decision).await?;
        self.wait_applied(index, deadline).await?;
        Ok(applied)
    }

    /// Waits until this node shows everything up to an entry of the log.
    async fn wait_applied(&self, index: u64, deadline: Instant) -> Result<(), Attempt> {
        let mut applied = self.published.applied_index.subscribe();
        match timeout_at(deadline, applied.wait_for(|applied| *applied >= index)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Attempt::NoLeader),
        }
    }
}

/// Why an attempt to run a command failed.
enum Attempt {
    /// For good.
    Refused(ChangeError),
    /// Because nobody leads just now.
    NoLeader,
}

impl From<GroupError> for Attempt {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::NotLeader => Self::NoLeader,
            GroupError::Store(error) => Self::Refused(error.into()),
        }
    }
}

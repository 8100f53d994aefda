//! The control plane itself: the state in memory and the file behind it.

use crate::NodeId;
use crate::command::Command;
use crate::error::{ChangeError, NoSuchType, OpenError};
use crate::layout::Layout;
use crate::state::State;
use crate::store::{Identity, Store, Stored};
use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::props::{BucketProps, PropUpdates, TypeState};
use std::path::Path;
use std::sync::Arc;

/// Most bytes of a node's name.
const NODE_NAME_BYTES_MAX: usize = 255;

/// What a node brings along when it opens its control plane.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's name. It may change between starts.
    pub node_name: String,
    /// Random bytes: the node's identity when there is no control file yet.
    pub new_node_id: NodeId,
    /// Number of partitions as configured; `None` = as stored, [`RingSize::DEFAULT`] for a new
    /// file.
    pub ring_size: Option<RingSize>,
    /// Properties of untyped buckets as configured (`buckets.default.*`).
    pub untyped_defaults: BucketProps,
}

/// A view of the state that does not change. Cheap to take and to drop; whoever holds many of them
/// for long, or across waiting, should rather clone what it needs.
pub type Snapshot = Guard<Arc<State>>;

/// The control plane of a node. Reading never waits; changes are made one at a time, each durable
/// before it is answered or seen.
#[derive(Debug)]
pub struct ControlPlane {
    state: ArcSwap<State>,
    store: Mutex<Store>,
}

impl ControlPlane {
    /// Opens the control file at `path`, or makes it when there is none. A new file appears whole
    /// or not at all. Reads the file, and checks all of it.
    ///
    /// # Errors
    ///
    /// A file that is in use, foreign, damaged or of another version, or whose ring size is not the
    /// one configured.
    pub fn open(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        let name_bytes = settings.node_name.len();
        if name_bytes == 0 || name_bytes > NODE_NAME_BYTES_MAX {
            let (name, max) = (settings.node_name, NODE_NAME_BYTES_MAX);
            return Err(OpenError::NodeName { name, max });
        }
        let identity = Identity {
            node_id: settings.new_node_id,
            ring_size: settings.ring_size.unwrap_or(RingSize::DEFAULT),
        };
        let store = Store::open(path, identity)?;
        Self::with_store(store, settings)
    }

    /// Opens a file by way of `opener`, which tests use to make it fail.
    #[cfg(test)]
    pub(crate) fn open_by(
        path: &Path,
        opener: crate::store::Opener,
        settings: Settings,
    ) -> Result<Self, OpenError> {
        Self::with_store(Store::open_by(path, opener)?, settings)
    }

    fn with_store(store: Store, settings: Settings) -> Result<Self, OpenError> {
        let stored = store.read()?;
        if let Some(configured) = settings.ring_size.map(RingSize::get) {
            let stored = stored.identity.ring_size.get();
            if configured != stored {
                let path = store.path().to_owned();
                return Err(OpenError::RingSize { path, configured, stored });
            }
        }
        let node_name: Arc<str> = settings.node_name.into();
        let layout = Arc::new(Layout::new(stored.identity.ring_size, Arc::clone(&node_name)));
        let defaults = Arc::new(settings.untyped_defaults);
        let empty = State::new(stored.identity.node_id, node_name, layout, defaults);
        Ok(Self { state: ArcSwap::from_pointee(loaded(empty, &stored)), store: Mutex::new(store) })
    }

    /// The state as it is now. No lock, no allocation, no shared counter.
    #[must_use]
    pub fn read(&self) -> Snapshot {
        self.state.load()
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

    /// Which node holds which partition.
    #[must_use]
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(self.read().layout())
    }

    /// Creates a bucket type, or creates it anew while it is not active. Blocks on the disk, as
    /// every change does.
    ///
    /// # Errors
    ///
    /// The refusal, or the failure to write the change down; nothing is changed in memory then.
    pub fn create_type(
        &self,
        name: &[u8],
        updates: &PropUpdates,
    ) -> Result<TypeState, ChangeError> {
        self.run(Command::CreateType { name, updates })?;
        Ok(self.read().type_state(name))
    }

    /// Makes a bucket type usable; an active one stays so. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::create_type`].
    pub fn activate_type(&self, name: &[u8]) -> Result<(), ChangeError> {
        self.run(Command::ActivateType { name })
    }

    /// Changes properties of an active bucket type. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::create_type`].
    pub fn update_type(&self, name: &[u8], updates: &PropUpdates) -> Result<(), ChangeError> {
        self.run(Command::UpdateType { name, updates })
    }

    /// Gives an active bucket type the defaults again, as far as they may change. Blocks on the
    /// disk.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::create_type`].
    pub fn reset_type(&self, name: &[u8]) -> Result<(), ChangeError> {
        self.run(Command::ResetType { name })
    }

    /// Changes properties of a bucket; all others become its own as they are. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::create_type`].
    pub fn set_bucket_props(
        &self,
        bucket: BucketRef<'_>,
        updates: &PropUpdates,
    ) -> Result<(), ChangeError> {
        self.run(Command::SetBucketProps { bucket, updates })
    }

    /// Lets a bucket follow its type again. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::create_type`].
    pub fn reset_bucket_props(&self, bucket: BucketRef<'_>) -> Result<(), ChangeError> {
        self.run(Command::ResetBucketProps { bucket })
    }

    /// Runs a command: decides, writes down, applies. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The refusal, or the failure to write the change down; nothing is changed in memory then.
    pub fn run(&self, command: Command<'_>) -> Result<(), ChangeError> {
        let mut store = self.store.lock();
        if let Some(stored) = store.recover()? {
            let now = self.state.load();
            self.state.store(Arc::new(loaded(now.emptied(), &stored)));
        }
        let now = self.state.load();
        let Some(change) = now.decide(command)? else { return Ok(()) };
        store.write(&change)?;
        self.state.store(Arc::new(now.with(&change)));
        Ok(())
    }
}

fn loaded(mut state: State, stored: &Stored) -> State {
    for change in &stored.changes {
        state.apply(change);
    }
    state
}

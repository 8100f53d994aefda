//! The control plane of a node: the state in memory, the control file, and the node's part in the log.

mod keeper;
mod renewals;
mod service;
mod trust_keeper;

pub(crate) use trust_keeper::TrustKeeper;

use crate::control::fence::Voters;
use crate::control::file::{ControlFile, Founding, lock_error};
use crate::control::group::{Group, Participation};
use crate::control::link::ControlLink;
use crate::control::machine::Published;
use crate::cut_off::{CutOff, CutOffWatch};
use crate::departure::Departure;
use crate::error::{ChangeError, NoSuchType, OpenError, StoreError};
use crate::members::{Addresses, Introduction};
use crate::outdated::{PROPERTY_NEEDS, PropertyNeed};
use crate::plan_id::PlanId;
use crate::state::State;
use crate::transport::{Internode, InternodeSettings, JitterSeed};
use crate::{ClusterId, NodeId};
use arc_swap::Guard;
use keeper::keep;
use parking_lot::Mutex;
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::props::BucketProps;
use quoit_model::store_opening::LastOpening;
use quoit_planted::planted;
use quoit_seam::{Disk, DiskLock};
use quoit_wire::internode::VersionRange;
use quoit_wire::internode::control::{
    METHOD_ENROL, METHOD_FIRST, METHOD_JOIN, METHOD_LAST, METHOD_MEMBERSHIP,
};
use service::ControlService;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Interval between two checks of whether the node is cut off.
const CUT_OFF_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of a node's name, in bytes.
const NODE_NAME_BYTES_MAX: usize = 255;

/// Settings with which a node opens its control plane.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the node. It may change between starts.
    pub node_name: String,
    /// Addresses at which the node listens. They may change between starts.
    pub addresses: Addresses,
    /// Random bytes, which become the node's identity if there is no control file yet.
    pub new_node_id: NodeId,
    /// Number of partitions as configured. `None` takes the stored number, or
    /// [`RingSize::DEFAULT`] for a new file.
    pub ring_size: Option<RingSize>,
    /// Versions of the internode protocol that the node speaks. They may change between starts.
    pub versions: VersionRange,
    /// Properties of untyped buckets as configured (`buckets.default.*`).
    pub untyped_defaults: BucketProps,
    /// Names of the storage engines that the property `backend` may choose. Empty if the node has a single
    /// engine; the property then has no effect.
    pub backends: Vec<String>,
    /// Bucket properties that nodes of older versions of the internode protocol would misunderstand. All
    /// nodes of a cluster need the same list. Tests add properties for a made-up version.
    pub property_needs: &'static [PropertyNeed],
}

impl Settings {
    /// Returns settings of a node that listens nowhere, with the defaults of everything else.
    #[must_use]
    pub fn new(node_name: &str, new_node_id: NodeId) -> Self {
        Self {
            node_name: node_name.to_owned(),
            addresses: Addresses::default(),
            new_node_id,
            ring_size: None,
            versions: VersionRange::CURRENT,
            untyped_defaults: BucketProps::untyped(),
            backends: Vec::new(),
            property_needs: PROPERTY_NEEDS,
        }
    }
}

/// A view of the state that does not change. It is cheap to take and to drop. Callers that hold many of
/// them, or hold one across an await, should clone what they need instead.
pub type Snapshot = Guard<Arc<State>>;

/// The control plane of a node. Reading the state never waits. Each change is agreed on and durable before
/// it is answered or visible.
pub struct ControlPlane {
    group: Group,
    file: Arc<ControlFile>,
    published: Arc<Published>,
    link: ControlLink,
    founding: Founding,
    backends: Vec<String>,
    /// The plan that was last shown on this node.
    shown_plan: Mutex<Option<PlanId>>,
    /// Held during an attempt to join, so that there is one at a time.
    joining: tokio::sync::Mutex<()>,
    departure: watch::Sender<Option<Departure>>,
    /// Version of the layout under which this node holds no records that belong only to other nodes.
    drained_by_layout: AtomicU64,
    cut_off: CutOffWatch,
    keeper: Mutex<Option<AbortHandle>>,
    /// Lock of the data directory. The last field, so that it is released last.
    _lock: Box<dyn DiskLock>,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ControlPlane").field("state", &self.read()).finish_non_exhaustive()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.lock().take() {
            keeper.abort();
        }
    }
}

impl ControlPlane {
    /// Locks the data directory `disk` for this process, and opens the control file, or creates it if
    /// there is none. A new file appears completely or not at all. Reads the whole file and checks it.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the directory is in use; if the file is foreign, damaged or of another version; if
    /// its ring size is not the configured one; if the node's name is empty or too long; or if the stored
    /// bucket types need a newer version of the internode protocol than the node speaks.
    pub fn open(disk: Arc<dyn Disk>, settings: Settings) -> Result<Self, OpenError> {
        let name_bytes = settings.node_name.len();
        if name_bytes == 0 || name_bytes > NODE_NAME_BYTES_MAX {
            let (name, max) = (settings.node_name, NODE_NAME_BYTES_MAX);
            return Err(OpenError::NodeName { name, max });
        }
        let lock = disk.lock().map_err(|error| lock_error(&*disk, error))?;
        let mut founding = Founding {
            node_id: settings.new_node_id,
            ring_size: settings.ring_size.unwrap_or(RingSize::DEFAULT),
            name: settings.node_name.into(),
            addresses: settings.addresses,
            versions: settings.versions,
        };
        let file = Arc::new(ControlFile::open(disk, &founding)?);
        let loaded = file.load()?;
        if let Some(configured) = settings.ring_size.map(RingSize::get) {
            let stored = loaded.whole.ring_size.get();
            if configured != stored {
                let path = file.path().to_owned();
                return Err(OpenError::RingSize { path, configured, stored });
            }
        }
        founding.node_id = loaded.node_id;
        founding.ring_size = loaded.whole.ring_size;
        let defaults = Arc::new(settings.untyped_defaults);
        let name = Arc::clone(&founding.name);
        let (cluster_id, ring_size) = (loaded.whole.cluster_id, loaded.whole.ring_size);
        let needs = settings.property_needs;
        let empty = State::new(loaded.node_id, name, cluster_id, ring_size, defaults, needs);
        let state = State::restored(&empty, loaded.whole);
        state.check_speaks(&founding.name, founding.versions)?;
        let link = ControlLink::default();
        let published = Arc::new(Published::new(state, loaded.applied_index, link.clone()));
        let is_alone = loaded.voters.nodes.iter().all(|voter| *voter == loaded.node_id)
            && published.state.load().members().count() <= 1;
        let gate = if is_alone { Participation::Open } else { Participation::Waiting };
        let group = Group::new(Arc::clone(&file), Arc::clone(&published), link.clone(), gate);
        Ok(Self {
            group,
            file,
            published,
            link,
            founding,
            backends: settings.backends,
            shown_plan: Mutex::new(None),
            joining: tokio::sync::Mutex::new(()),
            departure: watch::Sender::new(None),
            drained_by_layout: AtomicU64::new(u64::MAX),
            cut_off: CutOffWatch::default(),
            keeper: Mutex::new(None),
            _lock: lock,
        })
    }

    /// Starts the Raft instance of a node that has no connections to others. The first change would start
    /// it, too.
    ///
    /// # Errors
    ///
    /// If the control file cannot be read or written, or the node belongs to a cluster of several nodes.
    pub async fn start(&self) -> Result<(), ChangeError> {
        self.group.raft().await?;
        Ok(())
    }

    /// Connects the control plane with the transport, and starts the node's background duties, which run
    /// until the control plane is dropped. Registers the services of the control plane, decides which nodes
    /// may connect, and passes the identity of the cluster and its members to the transport. The node can
    /// serve what it knows at once. Changes become possible when enough other members answer.
    pub fn connect(self: &Arc<Self>, internode: &Arc<Internode>) {
        self.link.connect(internode, &self.read());
        let service = Arc::new(ControlService { plane: Arc::downgrade(self) });
        internode.register(METHOD_FIRST..=METHOD_LAST, Arc::clone(&service) as _);
        internode.register_for_guests(METHOD_JOIN..=METHOD_MEMBERSHIP, Arc::clone(&service) as _);
        internode.register_for_joiners(METHOD_ENROL..=METHOD_ENROL, Arc::clone(&service) as _);
        internode.set_admission(service);
        // Set the keys before the first connection is made.
        TrustKeeper::default().refresh(internode.security(), &self.state());
        let (keeping, watching) = (Arc::downgrade(self), Arc::downgrade(self));
        let keeping = keep(keeping, Arc::clone(internode));
        let keeping = tokio::spawn(async { tokio::join!(keeping, watch_cut_off(watching)) });
        if let Some(earlier) = self.keeper.lock().replace(keeping.abort_handle()) {
            earlier.abort();
        }
    }

    /// Sets the version of the layout under which this node has no records that belong only to other
    /// nodes; 0 if it may have some. A leaving node is removed when it has none under the only live
    /// layout. Until the first call, the control plane assumes that the node has no store.
    pub fn set_drained_by_layout(&self, layout_version: u64) {
        self.drained_by_layout.store(layout_version, Ordering::Release);
    }

    /// Returns true if this node has no records that belong only to other nodes.
    pub(crate) fn is_clear(&self, state: &State) -> bool {
        let layouts = state.layouts();
        let newest = layouts.newest().version();
        !layouts.is_moving() && self.drained_by_layout.load(Ordering::Acquire) >= newest
    }

    /// Ends the node's part in the cluster in an orderly way. The state can still be read; changes are
    /// refused.
    pub async fn stop(&self) {
        if let Some(keeper) = self.keeper.lock().take() {
            keeper.abort();
        }
        self.note_time();
        self.group.stop().await;
    }

    /// Returns the last recorded opening of a store of this node. Each store has a name.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the control file cannot be read.
    pub fn store_opening(&self, name: &str) -> Result<Option<LastOpening>, StoreError> {
        self.file.store_opening(name)
    }

    /// Returns the settings of the node's connections, with its identity and defaults for the rest.
    /// `boot_id` and `seed` are random numbers.
    #[must_use]
    pub fn internode_settings(&self, boot_id: u64, seed: JitterSeed) -> InternodeSettings {
        let state = self.read();
        InternodeSettings::new(state.node_id(), state.node_name(), boot_id, seed)
    }

    /// Durably records an opening of a store of this node. To be called before the node serves, so that the
    /// next start detects a store that was restored from an older copy.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the control file cannot be written.
    pub fn note_store_opening(&self, name: &str, opening: LastOpening) -> Result<(), StoreError> {
        self.file.note_store_opening(name, opening)
    }

    /// Durably records the time of the node's clock, for its next start.
    pub(crate) fn note_time(&self) {
        let now_us = self.link.internode().and_then(|internode| internode.unix_us());
        if let Some(Err(fault)) = now_us.map(|now_us| self.file.note_time(now_us)) {
            tracing::debug!(%fault, "the time could not be noted");
        }
    }

    /// Returns the current state. No lock, no allocation, no shared counter.
    #[must_use]
    pub fn read(&self) -> Snapshot {
        self.published.state.load()
    }

    /// Returns the version of the newest state. It is at least the version of each state that
    /// was read before. One load.
    #[must_use]
    pub fn newest_version(&self) -> u64 {
        self.published.newest_version.load(Ordering::Acquire)
    }

    /// Returns the current state, to keep.
    pub(crate) fn state(&self) -> Arc<State> {
        self.published.state.load_full()
    }

    /// Returns a counter that changes with the rules of security. A caller that caches a decision with
    /// the counter's value has to decide again only when the value differs. Callers keep the counter; a
    /// load is one instruction.
    #[must_use]
    pub fn security_epoch(&self) -> &Arc<AtomicU64> {
        &self.published.security_epoch
    }

    /// Returns true if the node may have missed changes that others have agreed on: it belongs to a
    /// cluster of several nodes and reaches no majority of the voters.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.read().members().count() > 1 && !self.group.reaches_majority()
    }

    /// Returns the time since when the node is cut off; `None` if it is not, or if no check has noticed it
    /// yet. The checks run once a second.
    #[must_use]
    pub fn cut_off(&self) -> Option<CutOff> {
        self.cut_off.current().filter(|_| self.is_cut_off())
    }

    /// Returns the time for which the node has been cut off; `None` as for [`ControlPlane::cut_off`].
    #[must_use]
    pub fn cut_off_for(&self) -> Option<Duration> {
        self.cut_off().map(|cut_off| cut_off.since.elapsed())
    }

    /// Returns the number of entries of the replicated log that this node keeps; 0 if it takes no part in
    /// the log. Bounded, because a snapshot every 256 entries lets the node drop the entries before it.
    #[must_use]
    pub fn log_entry_count(&self) -> u64 {
        self.group.metrics().map_or(0, |metrics| {
            let purged = metrics.purged.map_or(0, |purged| purged.index);
            metrics.last_log_index.unwrap_or_default().saturating_sub(purged)
        })
    }

    /// Returns a receiver that is notified of new states. Its value is the version of the last one.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.published.version.subscribe()
    }

    /// Returns a receiver that is notified when the node can no longer belong to its cluster and must stop
    /// serving.
    #[must_use]
    pub fn departure(&self) -> watch::Receiver<Option<Departure>> {
        self.departure.subscribe()
    }

    /// Returns the effective properties of a bucket, to keep. Costs as much as [`State::bucket_props`] and
    /// an atomic increment of a counter that all users of the bucket share. Callers that only look at a
    /// property should use [`ControlPlane::read`].
    ///
    /// # Errors
    ///
    /// [`NoSuchType`] if the bucket's type does not exist or is not active.
    pub fn bucket_props(&self, bucket: BucketRef<'_>) -> Result<Arc<BucketProps>, NoSuchType> {
        self.read().bucket_props(bucket).map(Arc::clone)
    }

    /// Returns the number of partitions.
    #[must_use]
    pub fn ring_size(&self) -> RingSize {
        self.read().ring_size()
    }

    pub(crate) fn backends(&self) -> &[String] {
        &self.backends
    }

    pub(crate) const fn group(&self) -> &Group {
        &self.group
    }

    pub(crate) const fn file(&self) -> &Arc<ControlFile> {
        &self.file
    }

    pub(crate) const fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Returns true if the node has joined another cluster of which it knows nothing yet: it has applied
    /// no entry of that cluster's log. A founder's log begins with an entry that counts as applied.
    pub(crate) fn awaits_cluster(&self) -> bool {
        *self.published.applied_index.borrow() == 0
    }

    /// Returns true if others may have agreed on members that this node does not know: it belongs to a
    /// cluster of several nodes and has no leader. A node that it does not know may be the leader that would
    /// send it those members.
    pub(crate) fn may_be_behind(&self) -> bool {
        self.read().members().count() > 1 && !self.group.has_leader()
    }

    pub(crate) const fn link(&self) -> &ControlLink {
        &self.link
    }

    pub(crate) const fn shown_plan(&self) -> &Mutex<Option<PlanId>> {
        &self.shown_plan
    }

    pub(crate) const fn joining(&self) -> &tokio::sync::Mutex<()> {
        &self.joining
    }

    /// Returns the facts that the node reports about itself in this run.
    pub(crate) fn introduction(&self) -> Introduction {
        let Founding { name, addresses, mut versions, .. } = self.founding.clone();
        if planted!(ClaimsVersions) {
            versions = VersionRange::CURRENT;
        }
        Introduction { name, addresses, versions }
    }

    /// Returns the voters as far as this node knows, and the number of its starts.
    pub(crate) fn voters_and_starts(&self) -> Result<(Voters, u64), StoreError> {
        Ok((Voters::of(&self.file.electorate()?), self.file.starts()?))
    }

    /// Ends the node's part in the cluster for good.
    pub(crate) fn depart(&self, departure: Departure) {
        match departure {
            Departure::Left => tracing::info!("{departure}"),
            _ => tracing::error!("{departure}"),
        }
        self.group.set_gate(Participation::Closed(departure.clone()));
        self.departure.send_replace(Some(departure));
    }

    /// Gives up the node's own cluster, whose state is `state`, in order to follow another one. Returns
    /// false and gives up nothing if the state has changed since.
    pub(crate) async fn follow(
        &self,
        cluster_id: ClusterId,
        state: &State,
    ) -> Result<bool, StoreError> {
        let mut is_same = false;
        let give_up = |file: &ControlFile| {
            // No instance runs while the file is changed, so the revision cannot change any more.
            is_same = self.read().revision() == state.revision();
            if is_same { file.give_up(cluster_id) } else { Ok(()) }
        };
        self.group.change_file(give_up).await?;
        Ok(is_same)
    }

    /// Makes the node a cluster of one again.
    pub(crate) async fn reset_to_single_node(&self) -> Result<(), StoreError> {
        tracing::warn!("the cluster does without this node: it is alone again");
        self.group.change_file(|file| file.reset_to_single_node(&self.founding)).await?;
        // The other members no longer count, so no confirmation of this start is needed.
        self.group.set_gate(Participation::Open);
        Ok(())
    }
}

/// Checks once a second whether the node is cut off, until the control plane is dropped.
async fn watch_cut_off(plane: Weak<ControlPlane>) {
    let mut looks = tokio::time::interval(CUT_OFF_INTERVAL);
    loop {
        looks.tick().await;
        let Some(plane) = plane.upgrade() else { return };
        plane.cut_off.update(plane.is_cut_off());
    }
}

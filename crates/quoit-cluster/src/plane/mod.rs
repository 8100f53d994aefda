//! The control plane itself: the state in memory, the file behind it, and the log between nodes.

mod keeper;
mod renewals;
mod service;
mod trust_keeper;

pub(crate) use trust_keeper::TrustKeeper;

use crate::control::fence::Voters;
use crate::control::file::{ControlFile, Founding, lock_error};
use crate::control::group::{Gate, Group};
use crate::control::link::ControlLink;
use crate::control::machine::Published;
use crate::cut_off::{CutOff, CutOffWatch};
use crate::departure::Departure;
use crate::error::{ChangeError, NoSuchType, OpenError, StoreError};
use crate::members::{Addresses, Introduction};
use crate::outdated::{PROPERTY_NEEDS, PropertyNeed};
use crate::plan_id::PlanId;
use crate::state::State;
use crate::transport::{Internode, InternodeSettings};
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
    METHOD_ENROL, METHOD_FIRST, METHOD_JOIN, METHOD_LAST, METHOD_STANDING,
};
use service::ControlService;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Time between two looks at whether the node is cut off.
const CUT_OFF_INTERVAL: Duration = Duration::from_secs(1);
/// Most bytes of a node's name.
const NODE_NAME_BYTES_MAX: usize = 255;

/// Settings with which a node opens its control plane.
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
    /// The versions of the protocol between nodes that the node speaks. May change between starts.
    pub versions: VersionRange,
    /// Properties of untyped buckets as configured (`buckets.default.*`).
    pub untyped_defaults: BucketProps,
    /// Names of the storage engines that the property `backend` may choose; empty where there is one engine,
    /// and the property has no effect.
    pub backends: Vec<String>,
    /// The bucket properties that nodes of older versions of the protocol between nodes would misunderstand.
    /// All nodes of a cluster need the same; tests have some for a version that is made up.
    pub property_needs: &'static [PropertyNeed],
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
            versions: VersionRange::CURRENT,
            untyped_defaults: BucketProps::untyped(),
            backends: Vec::new(),
            property_needs: PROPERTY_NEEDS,
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
    file: Arc<ControlFile>,
    published: Arc<Published>,
    link: ControlLink,
    founding: Founding,
    backends: Vec<String>,
    /// The plan that was shown last on this node.
    shown_plan: Mutex<Option<PlanId>>,
    /// One attempt to join at a time.
    joining: tokio::sync::Mutex<()>,
    departure: watch::Sender<Option<Departure>>,
    /// The layout by which nothing on this node belongs to others only.
    clear_by: AtomicU64,
    cut_off: CutOffWatch,
    keeper: Mutex<Option<AbortHandle>>,
    /// Let go after everything else.
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
        let gate = if is_alone { Gate::Open } else { Gate::Waiting };
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
            clear_by: AtomicU64::new(u64::MAX),
            cut_off: CutOffWatch::default(),
            keeper: Mutex::new(None),
            _lock: lock,
        })
    }

    /// Starts the part of a node that has no connections to others. A change that comes
    /// first starts it, too.
    ///
    /// # Errors
    ///
    /// When the control file can't be read or written, or the node belongs to a cluster of several.
    pub async fn start(&self) -> Result<(), ChangeError> {
        self.group.raft().await?;
        Ok(())
    }

    /// Starts the node's part in the cluster over these connections, and takes care of it until the
    /// control plane is dropped: registers the services of the control plane, decides who may connect,
    /// and tells the connections which cluster this is and who its members are. The node at once listens
    /// and reads what it knows; that it can agree on changes takes until enough others answer.
    pub fn connect(self: &Arc<Self>, internode: &Arc<Internode>) {
        self.link.connect(internode, &self.read());
        let service = Arc::new(ControlService { plane: Arc::downgrade(self) });
        internode.register(METHOD_FIRST..=METHOD_LAST, Arc::clone(&service) as _);
        internode.register_for_guests(METHOD_JOIN..=METHOD_STANDING, Arc::clone(&service) as _);
        internode.register_for_joiners(METHOD_ENROL..=METHOD_ENROL, Arc::clone(&service) as _);
        internode.set_admission(service);
        // Before the first connection.
        TrustKeeper::default().refresh(internode.security(), &self.state());
        let (keeping, watching) = (Arc::downgrade(self), Arc::downgrade(self));
        let keeping = keep(keeping, Arc::clone(internode));
        let keeping = tokio::spawn(async { tokio::join!(keeping, watch_cut_off(watching)) });
        if let Some(earlier) = self.keeper.lock().replace(keeping.abort_handle()) {
            earlier.abort();
        }
    }

    /// Says by which layout this node has no records that belong to others only; 0 = it may have some. A
    /// node that leaves goes when it has none by the only layout. Until it is told, the control plane takes
    /// it that there is no store.
    pub fn set_clear_by(&self, layout_version: u64) {
        self.clear_by.store(layout_version, Ordering::Release);
    }

    /// Whether this node has nothing any more that belongs to others only.
    pub(crate) fn is_clear(&self, state: &State) -> bool {
        let layouts = state.layouts();
        let newest = layouts.newest().version();
        !layouts.is_moving() && self.clear_by.load(Ordering::Acquire) >= newest
    }

    /// Ends the node's part in the cluster in good order. Reading goes on, changes are refused.
    pub async fn stop(&self) {
        if let Some(keeper) = self.keeper.lock().take() {
            keeper.abort();
        }
        self.note_time();
        self.group.stop().await;
    }

    /// The last opening of a store of this node that was noted. Each store has a name.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn store_opening(&self, name: &str) -> Result<Option<LastOpening>, StoreError> {
        self.file.store_opening(name)
    }

    /// Settings of the node's connections to others, with its identity; the rest is as by default. `boot_id`
    /// and `seed` are random.
    #[must_use]
    pub fn internode_settings(&self, boot_id: u64, seed: u64) -> InternodeSettings {
        let state = self.read();
        InternodeSettings::new(state.node_id(), state.node_name(), boot_id, seed)
    }

    /// Notes durably that a store of this node was opened: before the node serves, so that a store that goes
    /// back in time is found out by the next start.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn note_store_opening(&self, name: &str, opening: LastOpening) -> Result<(), StoreError> {
        self.file.note_store_opening(name, opening)
    }

    /// Notes the node's time durably, for its next start.
    pub(crate) fn note_time(&self) {
        let now_us = self.link.internode().and_then(|internode| internode.unix_us());
        if let Some(Err(fault)) = now_us.map(|now_us| self.file.note_time(now_us)) {
            tracing::debug!(%fault, "the time could not be noted");
        }
    }

    /// The state as it is now. No lock, no allocation, no shared counter.
    #[must_use]
    pub fn read(&self) -> Snapshot {
        self.published.state.load()
    }

    /// Version of the newest state, at least that of each state that was read before. One load.
    #[must_use]
    pub fn newest_version(&self) -> u64 {
        self.published.newest_version.load(Ordering::Acquire)
    }

    /// The state as it is now, to keep.
    pub(crate) fn state(&self) -> Arc<State> {
        self.published.state.load_full()
    }

    /// A number that is another one as soon as the rules of security are others: whoever has looked at them
    /// under a number needs to look again only under another. To be kept and loaded; a load is one
    /// instruction.
    #[must_use]
    pub fn security_epoch(&self) -> &Arc<AtomicU64> {
        &self.published.security_epoch
    }

    /// Whether the node may not know of changes that others have agreed on: it belongs to a cluster of
    /// several, and reaches no majority of the voters.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.read().members().count() > 1 && !self.group.reaches_majority()
    }

    /// Since when the node has been cut off; `None` = it is not, or has been for less than a second.
    #[must_use]
    pub fn cut_off(&self) -> Option<CutOff> {
        self.cut_off.current().filter(|_| self.is_cut_off())
    }

    /// How long the node has been cut off; `None` as for [`ControlPlane::cut_off`].
    #[must_use]
    pub fn cut_off_for(&self) -> Option<Duration> {
        self.cut_off().map(|cut_off| cut_off.since.elapsed())
    }

    /// Entries of the replicated log that this node keeps. A snapshot every 256 entries and the removal of
    /// those before it bound them; 0 while the node has no part in the log.
    #[must_use]
    pub fn log_entry_count(&self) -> u64 {
        self.group.metrics().map_or(0, |metrics| {
            let purged = metrics.purged.map_or(0, |purged| purged.index);
            metrics.last_log_index.unwrap_or_default().saturating_sub(purged)
        })
    }

    /// Tells of new states: the value is the version of the last one.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.published.version.subscribe()
    }

    /// Tells when the node can no longer belong to its cluster, and must not serve on.
    #[must_use]
    pub fn departure(&self) -> watch::Receiver<Option<Departure>> {
        self.departure.subscribe()
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

    /// Whether the node has given up its own cluster for another, of which it knows nothing yet: it has
    /// applied nothing of that one's log. A founder's log begins with an entry that counts as applied.
    pub(crate) fn awaits_cluster(&self) -> bool {
        *self.published.applied_index.borrow() == 0
    }

    /// Whether others may have agreed on members that this node does not know: it belongs to a cluster of
    /// several, and has no leader. One of those may be the leader that would tell.
    pub(crate) fn may_be_behind(&self) -> bool {
        self.read().members().count() > 1 && !self.group.is_led()
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

    /// The facts that the node tells of itself, as of this start.
    pub(crate) fn introduction(&self) -> Introduction {
        let Founding { name, addresses, mut versions, .. } = self.founding.clone();
        if planted!(ClaimsVersions) {
            versions = VersionRange::CURRENT;
        }
        Introduction { name, addresses, versions }
    }

    /// The voters as far as this node knows, and how often it was started.
    pub(crate) fn voters_and_starts(&self) -> Result<(Voters, u64), StoreError> {
        Ok((Voters::of(&self.file.electorate()?), self.file.starts()?))
    }

    /// Ends the node's part for good.
    pub(crate) fn depart(&self, departure: Departure) {
        match departure {
            Departure::Left => tracing::info!("{departure}"),
            _ => tracing::error!("{departure}"),
        }
        self.group.set_gate(Gate::Closed(departure.clone()));
        self.departure.send_replace(Some(departure));
    }

    /// Gives up the node's own cluster, which has come to `state`, for another. Whether it was still so;
    /// if not, nothing is given up.
    pub(crate) async fn follow(
        &self,
        cluster_id: ClusterId,
        state: &State,
    ) -> Result<bool, StoreError> {
        let mut is_same = false;
        let give_up = |file: &ControlFile| {
            // Nothing is agreed on any more while the file is changed.
            is_same = self.read().revision() == state.revision();
            if is_same { file.give_up(cluster_id) } else { Ok(()) }
        };
        self.group.change_file(give_up).await?;
        Ok(is_same)
    }

    /// Goes back to being a cluster of one.
    pub(crate) async fn found_alone(&self) -> Result<(), StoreError> {
        tracing::warn!("the cluster does without this node: it is alone again");
        self.group.change_file(|file| file.found_again(&self.founding)).await?;
        // It has nothing left that anybody else could know better.
        self.group.set_gate(Gate::Open);
        Ok(())
    }
}

/// Looks each second whether the node is cut off, until the control plane is dropped.
async fn watch_cut_off(plane: Weak<ControlPlane>) {
    let mut looks = tokio::time::interval(CUT_OFF_INTERVAL);
    loop {
        looks.tick().await;
        let Some(plane) = plane.upgrade() else { return };
        plane.cut_off.look(plane.is_cut_off());
    }
}

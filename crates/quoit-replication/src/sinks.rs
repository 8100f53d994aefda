//! Sinks: the queues of other clusters that this node consumes, and their peers.

use crate::address::{PeerAddress, PeerAddressError};
use crate::dialer::PeerDialer;
use crate::figures::{PeerFigures, SinkStatus};
use crate::full_sync::FullSyncChange;
use crate::kept_changes::{KeptChanges, KeptFile, KeptFullSync};
use crate::peer;
use crate::peer_context::PeerContext;
use crate::peer_delay::PeerDelay;
use crate::settings::SinkSettings;
use crate::sink_definition::SinkDefinition;
use crate::task_end::TaskEnd;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_core::{QueueDefinition, QueueDefinitionError, ReplicatedStore};
use quoit_store::error::StoreError;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

/// Maximum number of queues that a node consumes.
const SINK_COUNT_MAX: usize = 64;
/// Maximum number of peers of a queue, including discovered ones.
const PEER_COUNT_MAX: usize = 1_024;

/// Reason why an operator's change of sinks was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ChangeSinkError {
    /// The queue's name is invalid.
    #[error(transparent)]
    Queue(#[from] QueueDefinitionError),
    /// An address is invalid.
    #[error(transparent)]
    Peer(#[from] PeerAddressError),
    /// No peer was given.
    #[error("a sink needs a peer: HOST:PORT:pb, several separated by |")]
    NoPeer,
    /// The number of workers or connections is invalid.
    #[error("`{0}` workers: wanted 1 to 1000, and no more connections to a peer than workers")]
    Workers(usize),
    /// The node has the maximum number of sinks.
    #[error("the node consumes the maximum of {SINK_COUNT_MAX} queues; remove one first")]
    TooMany,
    /// The queue is not consumed.
    #[error("no queue `{0}` is consumed here")]
    NoSink(String),
    /// The change was made, but could not be stored.
    #[error("the change lasts until the node is restarted: keeping it failed: {0}")]
    Disk(String),
}

impl From<StoreError> for ChangeSinkError {
    fn from(fault: StoreError) -> Self {
        Self::Disk(fault.to_string())
    }
}

/// Task of a connection. It is aborted when this is dropped.
struct Task {
    handle: AbortHandle,
    end: Arc<TaskEnd>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// A peer of a queue, with the tasks of its connections.
struct PeerTasks {
    figures: Arc<PeerFigures>,
    delay: Arc<PeerDelay>,
    tasks: Vec<Task>,
}

/// A queue that is consumed.
struct Sink {
    definition: SinkDefinition,
    by_command: bool,
    discovered: Vec<PeerAddress>,
    workers: Arc<Semaphore>,
    is_suspended: watch::Sender<bool>,
    peers: BTreeMap<String, PeerTasks>,
}

struct SinksState {
    sinks: BTreeMap<String, Sink>,
    kept: KeptChanges,
    /// True if tasks run, which they do only while the node serves.
    is_running: bool,
}

/// All queues that the node consumes.
pub(crate) struct Sinks {
    store: Arc<ReplicatedStore>,
    dialer: PeerDialer,
    node_name: Bytes,
    state: Mutex<SinksState>,
    /// Tasks of peers that are no longer consumed. Each still stores an entry that its source does not
    /// have.
    leaving: Mutex<Vec<Task>>,
    file: KeptFile,
}

impl Sinks {
    /// The sinks of the configuration and of commands. They do nothing before [`Sinks::start`].
    pub(crate) fn new(
        store: Arc<ReplicatedStore>,
        settings: &SinkSettings,
        dialer: PeerDialer,
        file: KeptFile,
    ) -> Result<Self, StoreError> {
        let kept = file.load()?.unwrap_or_default();
        let mut sinks = BTreeMap::new();
        let by_command = kept.sinks.iter().cloned().map(|definition| (definition, true));
        let configured = configured(settings).into_iter().map(|definition| (definition, false));
        for (definition, by_command) in by_command.chain(configured).take(SINK_COUNT_MAX) {
            let name = definition.queue.clone();
            let is_out = !by_command && kept.removed.contains(&name);
            if !is_out && !sinks.contains_key(&name) {
                sinks.insert(name, Sink::new(definition, by_command));
            }
        }
        store.set_consumes(!sinks.is_empty());
        let state = Mutex::new(SinksState { sinks, kept, is_running: false });
        let node_name = Bytes::copy_from_slice(settings.node_name.as_bytes());
        Ok(Self { store, dialer, node_name, state, leaving: Mutex::default(), file })
    }

    /// Begins to consume. Must be called on the runtime.
    pub(crate) fn start(&self) {
        let mut state = self.state.lock();
        state.is_running = true;
        state.sinks.values_mut().for_each(|sink| self.connect(sink));
    }

    /// Ends all consumption at once, because the node stops.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_running = false;
        state.sinks.values_mut().for_each(|sink| sink.peers.clear());
        self.leaving.lock().clear();
    }

    /// Ends the connections to peers. A connection with an entry that its source does not have stores
    /// it first.
    fn dismiss(&self, peers: BTreeMap<String, PeerTasks>) {
        let mut leaving = self.leaving.lock();
        leaving.retain(|task| !task.handle.is_finished());
        let tasks = peers.into_values().flat_map(|peer| peer.tasks);
        leaving.extend(tasks.filter(|task| task.end.ask()));
    }

    /// Starts tasks for peers without any, and ends the tasks of peers that were removed.
    fn connect(&self, sink: &mut Sink) {
        let wanted = sink.wanted();
        let peer_count = wanted.len();
        let (kept, gone) = std::mem::take(&mut sink.peers)
            .into_iter()
            .partition(|(name, _)| wanted.contains_key(name));
        sink.peers = kept;
        self.dismiss(gone);
        for (name, (address, count)) in wanted {
            if sink.peers.contains_key(&name) {
                continue;
            }
            let (figures, delay) =
                (Arc::new(PeerFigures::default()), Arc::new(PeerDelay::default()));
            let context = PeerContext {
                store: Arc::clone(&self.store),
                dialer: self.dialer.clone(),
                node_name: self.node_name.clone(),
                queue: Bytes::copy_from_slice(sink.definition.queue.as_bytes()),
                address,
                figures: Arc::clone(&figures),
                delay: Arc::clone(&delay),
                workers: Arc::clone(&sink.workers),
                is_suspended: sink.is_suspended.subscribe(),
                kind: watch::Sender::new(None),
                end: Arc::default(),
            };
            let task = |number| {
                let end = Arc::<TaskEnd>::default();
                let context = PeerContext { end: Arc::clone(&end), ..context.clone() };
                Task { handle: tokio::spawn(peer::run(context, number)).abort_handle(), end }
            };
            let tasks = (0..sink.definition.peer_limit * count).map(task).collect();
            sink.peers.insert(name, PeerTasks { figures, delay, tasks });
        }
        debug_assert_eq!(
            sink.peers.len(),
            peer_count,
            "the wanted peers are consumed, and no others"
        );
    }

    /// Configured peers of each queue, which are asked for the other nodes of their clusters.
    pub(crate) fn configured_peers(&self) -> Vec<(String, Vec<PeerAddress>)> {
        let state = self.state.lock();
        let peers = |(name, sink): (&String, &Sink)| (name.clone(), sink.definition.peers.clone());
        state.sinks.iter().map(peers).collect()
    }

    /// Notes the nodes that the peers of a queue have named.
    pub(crate) fn discovered(&self, queue: &str, peers: Vec<PeerAddress>) {
        let mut state = self.state.lock();
        let is_running = state.is_running;
        if let Some(sink) = state.sinks.get_mut(queue) {
            sink.discovered = peers;
            if is_running {
                self.connect(sink);
            }
        }
    }

    /// Begins to consume a queue, or replaces the peers of a sink.
    pub(crate) fn add(&self, definition: SinkDefinition) -> Result<(), ChangeSinkError> {
        QueueDefinition::check_name(&definition.queue)?;
        if definition.peers.is_empty() {
            return Err(ChangeSinkError::NoPeer);
        }
        let SinkDefinition { worker_count, peer_limit, .. } = definition;
        WorkerLimits { worker_count, peer_limit }.check()?;
        let mut state = self.state.lock();
        let name = definition.queue.clone();
        if !state.sinks.contains_key(&name) && state.sinks.len() >= SINK_COUNT_MAX {
            return Err(ChangeSinkError::TooMany);
        }
        state.kept.removed.retain(|removed| *removed != name);
        let mut sink = Sink::new(definition, true);
        if state.is_running {
            self.connect(&mut sink);
        }
        if let Some(former) = state.sinks.insert(name, sink) {
            self.dismiss(former.peers);
        }
        self.keep(&mut state)
    }

    /// Ends the consumption of a queue.
    pub(crate) fn remove(&self, queue: &str) -> Result<(), ChangeSinkError> {
        let mut state = self.state.lock();
        let removed = state.sinks.remove(queue);
        let removed = removed.ok_or_else(|| ChangeSinkError::NoSink(queue.to_owned()))?;
        self.dismiss(removed.peers);
        state.kept.removed.push(queue.to_owned());
        self.keep(&mut state)
    }

    /// Suspends the consumption of a queue, or resumes it.
    pub(crate) fn suspend(&self, queue: &str, is_suspended: bool) -> Result<(), ChangeSinkError> {
        self.change(queue, |sink| {
            sink.definition.is_suspended = is_suspended;
            sink.is_suspended.send_replace(is_suspended);
            sink.peers.values().for_each(|peer| peer.delay.reset());
        })
    }

    /// Changes the number of entries that are stored at the same time, and the number of connections to
    /// each peer.
    pub(crate) fn set_workers(
        &self,
        queue: &str,
        limits: WorkerLimits,
    ) -> Result<(), ChangeSinkError> {
        limits.check()?;
        let WorkerLimits { worker_count, peer_limit } = limits;
        self.change(queue, |sink| {
            sink.definition.worker_count = worker_count;
            sink.definition.peer_limit = peer_limit;
            sink.workers = Arc::new(Semaphore::new(worker_count));
            self.dismiss(std::mem::take(&mut sink.peers));
        })
    }

    fn change(&self, queue: &str, change: impl FnOnce(&mut Sink)) -> Result<(), ChangeSinkError> {
        let mut state = self.state.lock();
        let is_running = state.is_running;
        let no_sink = || ChangeSinkError::NoSink(queue.to_owned());
        let sink = state.sinks.get_mut(queue).ok_or_else(no_sink)?;
        change(sink);
        sink.by_command = true;
        if is_running {
            self.connect(sink);
        }
        self.keep(&mut state)
    }

    fn keep(&self, state: &mut SinksState) -> Result<(), ChangeSinkError> {
        state.check();
        self.store.set_consumes(!state.sinks.is_empty());
        let by_command = state.sinks.values().filter(|sink| sink.by_command);
        state.kept.sinks = by_command.map(|sink| sink.definition.clone()).collect();
        Ok(self.file.store(&state.kept)?)
    }

    /// True if scheduled full-syncs are paused.
    pub(crate) fn is_full_sync_paused(&self) -> bool {
        self.state.lock().kept.is_full_sync_paused
    }

    /// Pauses scheduled full-syncs, or resumes them. True if that is a change.
    pub(crate) fn pause_full_sync(&self, is_paused: bool) -> Result<bool, ChangeSinkError> {
        let mut state = self.state.lock();
        let was_paused = std::mem::replace(&mut state.kept.is_full_sync_paused, is_paused);
        self.keep(&mut state)?;
        Ok(was_paused != is_paused)
    }

    /// Peer and queues of full-sync, if a command has set them.
    pub(crate) fn full_sync(&self) -> Option<KeptFullSync> {
        self.state.lock().kept.full_sync.clone()
    }

    /// Stores peer and queues of full-sync.
    pub(crate) fn keep_full_sync(
        &self,
        peer: PeerAddress,
        change: FullSyncChange,
    ) -> Result<(), ChangeSinkError> {
        let mut state = self.state.lock();
        let former = state.kept.full_sync.take().map(|kept| kept.change).unwrap_or_default();
        state.kept.full_sync = Some(KeptFullSync { peer, change: change.after(former) });
        self.keep(&mut state)
    }

    /// Figures of all sinks.
    pub(crate) fn status(&self) -> Vec<SinkStatus> {
        let state = self.state.lock();
        let status = |sink: &Sink| SinkStatus {
            queue: sink.definition.queue.clone(),
            is_suspended: sink.definition.is_suspended,
            worker_count: sink.definition.worker_count,
            peer_limit: sink.definition.peer_limit,
            peers: sink
                .peers
                .iter()
                .map(|(name, peer)| peer.figures.status(name.clone(), peer.delay.delay_ms()))
                .collect(),
        };
        state.sinks.values().map(status).collect()
    }
}

impl SinksState {
    /// Checks, in debug builds, what each change by command leaves.
    fn check(&self) {
        debug_assert!(self.sinks.len() <= SINK_COUNT_MAX, "the number of sinks has a limit");
        debug_assert!(
            self.sinks.iter().all(|(name, sink)| *name == sink.definition.queue),
            "a sink is found by the name of its queue"
        );
        debug_assert!(
            self.is_running || self.sinks.values().all(|sink| sink.peers.is_empty()),
            "connections are open only while the node serves"
        );
    }
}

impl Sink {
    fn new(definition: SinkDefinition, by_command: bool) -> Self {
        Self {
            workers: Arc::new(Semaphore::new(definition.worker_count)),
            is_suspended: watch::Sender::new(definition.is_suspended),
            definition,
            by_command,
            discovered: Vec::new(),
            peers: BTreeMap::new(),
        }
    }

    /// Peers by name, each with the number of times that it is configured. A peer that is configured
    /// twice gets twice as many connections.
    fn wanted(&self) -> BTreeMap<String, (PeerAddress, usize)> {
        let mut wanted = BTreeMap::new();
        let without_queue = |peer: &PeerAddress| PeerAddress { queue: None, ..peer.clone() };
        for peer in self.definition.peers.iter().map(without_queue) {
            wanted.entry(peer.to_string()).or_insert((peer, 0)).1 += 1;
        }
        for peer in self.discovered.iter().map(without_queue) {
            if wanted.len() < PEER_COUNT_MAX {
                wanted.entry(peer.to_string()).or_insert((peer, 1));
            }
        }
        wanted
    }
}

/// Limits of the concurrent work of a sink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerLimits {
    /// Number of entries that are stored at the same time.
    pub(crate) worker_count: usize,
    /// Number of connections to each peer.
    pub(crate) peer_limit: usize,
}

impl WorkerLimits {
    const fn check(self) -> Result<(), ChangeSinkError> {
        let Self { worker_count, peer_limit } = self;
        let is_good = worker_count >= 1 && worker_count <= 1_000 && peer_limit >= 1;
        if is_good && peer_limit <= worker_count {
            Ok(())
        } else {
            Err(ChangeSinkError::Workers(worker_count))
        }
    }
}

/// Sinks of the configuration: one for each queue that a peer names, and one for the default queue.
fn configured(settings: &SinkSettings) -> Vec<SinkDefinition> {
    let mut peers: BTreeMap<String, Vec<PeerAddress>> = BTreeMap::new();
    if settings.is_enabled {
        for peer in &settings.peers {
            let queue = peer.queue.clone().unwrap_or_else(|| settings.queue.clone());
            peers.entry(queue).or_default().push(peer.clone());
        }
    }
    let definition = |(queue, peers)| SinkDefinition {
        queue,
        peers,
        worker_count: settings.worker_count,
        peer_limit: settings.peer_limit_of(settings.worker_count),
        is_suspended: false,
    };
    peers.into_iter().map(definition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept_changes::kept_file;
    use crate::test_peer::{frame_of, start_peer, unknown_request};
    use bytes::BytesMut;
    use quoit_core::Counter;
    use quoit_model::clock::{Actor, Dot, VersionVector};
    use quoit_model::object::{Object, Sibling};
    use quoit_model::props::PropUpdates;
    use quoit_riak::{Fetched, Replicated, checksum};
    use quoit_seam::SystemClock;
    use quoit_testkit::{TestNode, until};
    use quoit_wire::Frame;
    use quoit_wire::messages::{RpbFetchReq, RpbFetchResp};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// An entry of a Riak's queue, in a bucket of the type `t`.
    fn entry() -> Bytes {
        let actor = Actor([9; 8].into_iter().collect());
        let dot = Dot { actor, counter: 1, time_secs: 1 };
        let value = Bytes::from_static(b"v");
        let sibling = Sibling {
            dot: Some(dot.clone()),
            last_modified_us: 1_000_000,
            value,
            ..Sibling::default()
        };
        let clock = VersionVector::from_entries([dot]);
        let object = Object { clock, siblings: [sibling].into_iter().collect() };
        let fetched = Fetched {
            bucket_type: Bytes::from_static(b"t"),
            bucket: Bytes::from_static(b"b"),
            key: Bytes::from_static(b"k"),
            content: Replicated::Object(object),
        };
        fetched.encode(false)
    }

    /// Answer of a Riak whose queue has one entry, until it is taken.
    fn riak_answer(is_taken: &AtomicBool, frame: Frame) -> BytesMut {
        let unknown = unknown_request(&frame);
        if frame.decode::<RpbFetchReq>().is_err() {
            return unknown;
        }
        let entry = (!is_taken.swap(true, Ordering::Relaxed)).then(entry);
        frame_of(&RpbFetchResp {
            queue_empty: entry.is_none(),
            deleted: None,
            crc_check: entry.as_deref().map(checksum),
            replencoded_object: entry,
            deleted_vclock: None,
            segment_id: None,
            segment_hash: None,
        })
    }

    /// A node with a sink that has taken an entry of a Riak and can't store it.
    async fn sinks_with_an_entry_in_hand() -> (Arc<ReplicatedStore>, Sinks) {
        let node = TestNode::new(1, "a", Arc::<SystemClock>::default());
        let store = node.assemble().expect("a node").store;
        let (settings, dialer) = (SinkSettings::default(), PeerDialer::default());
        let sinks = Sinks::new(Arc::clone(&store), &settings, dialer, kept_file(None));
        let sinks = sinks.expect("nothing is kept");
        sinks.start();
        let is_taken = Arc::new(AtomicBool::new(false));
        let peer = start_peer(move |frame| {
            let is_taken = Arc::clone(&is_taken);
            async move { riak_answer(&is_taken, frame) }
        });
        let definition = SinkDefinition {
            queue: "q".to_owned(),
            peers: vec![peer.await],
            worker_count: 1,
            peer_limit: 1,
            is_suspended: false,
        };
        sinks.add(definition).expect("a good sink");
        let is_refused = || {
            let status = sinks.status();
            let fault = status[0].peers[0].fault.clone().unwrap_or_default();
            fault.contains("create and activate the bucket type")
        };
        until(PATIENCE, "the entry is refused, as its type is missing", is_refused).await;
        (store, sinks)
    }

    async fn create_type(store: &ReplicatedStore) {
        let control = store.control();
        control.create_type(b"t", &PropUpdates::default()).await.expect("a new type");
        control.activate_type(b"t").await.expect("a type");
    }

    #[tokio::test]
    async fn an_entry_of_a_riak_is_stored_although_its_sink_was_changed_and_removed_meanwhile() {
        let (store, sinks) = sinks_with_an_entry_in_hand().await;
        let limits = WorkerLimits { worker_count: 2, peer_limit: 2 };
        sinks.set_workers("q", limits).expect("a sink");
        sinks.remove("q").expect("a sink");
        create_type(&store).await;
        until(PATIENCE, "the entry is stored", || store.engine().stats().key_count == 1).await;
        until(PATIENCE, "its task ends", || {
            sinks.leaving.lock().iter().all(|task| task.handle.is_finished())
        })
        .await;
    }

    #[tokio::test]
    async fn a_node_that_stops_with_an_entry_of_a_riak_counts_it_as_an_error() {
        let (store, sinks) = sinks_with_an_entry_in_hand().await;
        sinks.remove("q").expect("a sink");
        let before = store.stats().snapshot().total(Counter::SinkErrors);
        sinks.stop();
        let is_counted = || store.stats().snapshot().total(Counter::SinkErrors) > before;
        until(PATIENCE, "the loss is counted", is_counted).await;
    }

    #[test]
    fn configured_peers_belong_to_the_queue_that_they_name_or_to_the_usual_one() {
        let text = "a:1:pb|q2:b:2:pb|a:1:pb";
        let settings = SinkSettings {
            is_enabled: true,
            peers: PeerAddress::read_list(text).0,
            worker_count: 8,
            ..SinkSettings::default()
        };
        let sinks = configured(&settings);
        let queues: Vec<&str> = sinks.iter().map(|sink| &*sink.queue).collect();
        assert_eq!(queues, ["q1_ttaaefs", "q2"]);
        assert_eq!((sinks[0].peer_limit, sinks[0].worker_count), (8, 8));
        let wanted = Sink::new(sinks[0].clone(), false).wanted();
        let shares: Vec<usize> = wanted.values().map(|(_, count)| *count).collect();
        assert_eq!(shares, [2], "one that is listed twice has a double share");
        assert!(configured(&SinkSettings { is_enabled: false, ..settings }).is_empty());
    }
}

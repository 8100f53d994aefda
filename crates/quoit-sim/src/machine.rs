//! Machines: what outlives the processes that run on them, and the door to the one that runs.

use crate::engine_model::EngineModel;
use crate::execution::DiskDelay;
use crate::losses::DirectoryCopy;
use crate::random::Random;
use crate::time::{SimClock, SimTime};
use crate::versions::NEWER;
use parking_lot::Mutex;
use quoit_cluster::{Internode, NodeId, VersionRange};
use quoit_core::ReplicatedStore;
use quoit_seam::{Faults, FaultyDisk};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;

/// Work of a client inside a node.
type Call =
    Box<dyn FnOnce(Arc<ReplicatedStore>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A machine of the cluster.
pub struct Machine {
    /// Its name, and that of the node on it.
    pub name: String,
    /// Its place among the machines, from 0.
    pub index: usize,
    /// Number of its cluster, from 0.
    pub cluster: usize,
    /// Its clock.
    pub clock: Arc<SimClock>,
    /// How slow its disk is.
    pub disk_delay: DiskDelay,
    boot_count: AtomicU64,
    power_loss_count: AtomicU64,
    stop_requested: Notify,
    state: Mutex<State>,
    /// Requests of clients that are in hand.
    in_hand: Mutex<JoinSet<()>>,
}

/// The directories of a node's disk.
#[derive(Clone)]
pub struct Disks {
    /// Disk of the control plane.
    pub control: FaultyDisk,
    /// Disk of the store.
    pub data: FaultyDisk,
    /// Disk of the hints.
    pub hints: FaultyDisk,
    /// Reap records.
    pub reaped: FaultyDisk,
    /// Source queues.
    pub queues: FaultyDisk,
}

impl Disks {
    /// Empty ones, whose luck follows from `random`.
    #[must_use]
    pub fn new(random: &mut Random) -> Self {
        let (control, data) = (random.number(), random.number());
        let disk = FaultyDisk::new;
        Self {
            control: disk(control),
            data: disk(data),
            hints: disk(control ^ data),
            reaped: disk(!(control ^ data)),
            queues: disk(control ^ !data.rotate_left(1)),
        }
    }

    /// Lets something go wrong with all of them from now on.
    pub fn set_faults(&self, change: impl Fn(&mut Faults)) {
        self.each().iter().for_each(|disk| disk.set_faults(&change));
    }

    /// Lets the disk get full after so many more bytes; `None` gives it all the room there is.
    pub fn set_room(&self, room_bytes: Option<u64>) {
        for disk in self.each() {
            let used_bytes = disk.used_bytes();
            let capacity_bytes = room_bytes.map(|room_bytes| used_bytes + room_bytes);
            disk.set_faults(|faults| faults.capacity_bytes = capacity_bytes);
        }
    }

    fn restarted(&self, restart: impl Fn(&FaultyDisk) -> FaultyDisk) -> Self {
        Self {
            control: restart(&self.control),
            data: restart(&self.data),
            hints: restart(&self.hints),
            reaped: restart(&self.reaped),
            queues: restart(&self.queues),
        }
    }

    const fn each(&self) -> [&FaultyDisk; 5] {
        [&self.control, &self.data, &self.hints, &self.reaped, &self.queues]
    }
}

/// Role of a machine in the operator's cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It is switched off, and there to be had.
    Spare,
    /// A node runs on it, as far as nothing is wrong with it.
    InService,
    /// Its node was removed or lost, and never comes back.
    Retired,
}

struct State {
    used: Use,
    versions: VersionRange,
    disks: Disks,
    door: Option<Door>,
    /// The store of the process. It answers other nodes before it serves clients, and while it stops.
    running_store: Option<Arc<ReplicatedStore>>,
    is_stalled: bool,
    is_stopping: bool,
    /// Whether the process has ended in good order, with all that it had to remember on its disks.
    is_closed: bool,
    /// A copy of what clients had stored at some time.
    data_copy: Option<DirectoryCopy>,
    /// The records that the engine has to hold.
    engine_model: Arc<Mutex<EngineModel>>,
}

/// How often clients look whether a stalled machine goes on.
const STALL_LOOK: Duration = Duration::from_millis(10);

/// How to get at a running node.
struct Door {
    calls: mpsc::UnboundedSender<Call>,
    store: Arc<ReplicatedStore>,
    internode: Arc<Internode>,
}

/// Outcome of a request to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<T> {
    /// No node ran.
    NobodyThere,
    /// The node died with the question.
    Lost,
    /// The answer.
    Answer(T),
}

impl Machine {
    /// A machine that was never switched on.
    #[must_use]
    pub fn new(index: usize, cluster: usize, used: Use, disks: Disks, time: &SimTime) -> Self {
        let versions = NEWER;
        Self {
            name: format!("n{}", index + 1),
            index,
            cluster,
            clock: Arc::new(SimClock::new(time.clone())),
            disk_delay: DiskDelay::default(),
            boot_count: AtomicU64::new(0),
            power_loss_count: AtomicU64::new(0),
            stop_requested: Notify::new(),
            in_hand: Mutex::default(),
            state: Mutex::new(State {
                used,
                versions,
                disks,
                door: None,
                running_store: None,
                is_stalled: false,
                is_stopping: false,
                is_closed: false,
                data_copy: None,
                engine_model: Arc::default(),
            }),
        }
    }

    /// The identity of the node on the machine at a place.
    #[must_use]
    pub const fn node_id_at(place: usize) -> NodeId {
        NodeId([place as u8 + 1; 16])
    }

    /// The machine's role.
    #[must_use]
    pub fn used(&self) -> Use {
        self.state.lock().used
    }

    /// Takes it into service, or out of it for good.
    pub fn set_used(&self, used: Use) {
        self.state.lock().used = used;
    }

    /// Versions of the protocol between nodes that its program speaks.
    #[must_use]
    pub fn versions(&self) -> VersionRange {
        self.state.lock().versions
    }

    /// Puts another program on it, which runs from the next start on.
    pub fn set_versions(&self, versions: VersionRange) {
        self.state.lock().versions = versions;
    }

    /// Counts a start of a process; the number of it, from 1.
    pub fn begin_boot(&self) -> u64 {
        self.state.lock().is_closed = false;
        *self.in_hand.lock() = JoinSet::new();
        self.boot_count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How often a process was started.
    #[must_use]
    pub fn boot_count(&self) -> u64 {
        self.boot_count.load(Ordering::Relaxed)
    }

    /// A number that is another one after each loss of power.
    #[must_use]
    pub fn power_loss_count(&self) -> u64 {
        self.power_loss_count.load(Ordering::Relaxed)
    }

    /// The disks, as the running process has them.
    #[must_use]
    pub fn disks(&self) -> Disks {
        self.state.lock().disks.clone()
    }

    /// The model of the running process's engine.
    #[must_use]
    pub fn engine_model(&self) -> Arc<Mutex<EngineModel>> {
        Arc::clone(&self.state.lock().engine_model)
    }

    /// The store of the running node, for those who may look inside.
    #[must_use]
    pub fn store(&self) -> Option<Arc<ReplicatedStore>> {
        self.state.lock().door.as_ref().map(|door| Arc::clone(&door.store))
    }

    /// The connections of the running node.
    #[must_use]
    pub fn internode(&self) -> Option<Arc<Internode>> {
        self.state.lock().door.as_ref().map(|door| Arc::clone(&door.internode))
    }

    /// Lets clients in to a node that has started, until the machine stops: serves them as long as it is
    /// polled.
    pub async fn serve(&self, store: Arc<ReplicatedStore>, internode: Arc<Internode>) {
        let (calls, mut called) = mpsc::unbounded_channel::<Call>();
        self.state.lock().door = Some(Door { calls, store: Arc::clone(&store), internode });
        while let Some(call) = called.recv().await {
            let mut in_hand = self.in_hand.lock();
            in_hand.spawn(call(Arc::clone(&store)));
            while in_hand.try_join_next().is_some() {}
        }
    }

    /// Gives requests in hand so much time, and then ends them; whether all ended by themselves.
    pub async fn drain(&self, limit: Duration) -> bool {
        let mut in_hand = std::mem::take(&mut *self.in_hand.lock());
        let all = async { while in_hand.join_next().await.is_some() {} };
        // A request that takes longer ends with the process, and its client never learns the outcome.
        tokio::time::timeout(limit, all).await.is_ok()
    }

    /// Notes that the process has ended in good order.
    pub fn note_closed(&self) {
        let mut state = self.state.lock();
        state.running_store = None;
        state.is_closed = true;
    }

    /// Whether the last process has ended in good order.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Lets no more clients in.
    pub fn close_door(&self) {
        self.state.lock().door = None;
    }

    /// Notes that a process has started.
    pub fn note_running(&self, store: Arc<ReplicatedStore>) {
        self.state.lock().running_store = Some(store);
    }

    /// The store of the process, for those who may look inside: also while it does not serve clients yet, or
    /// any more.
    #[must_use]
    pub fn running_store(&self) -> Option<Arc<ReplicatedStore>> {
        self.state.lock().running_store.clone()
    }

    /// Notes that the process stops by itself, until an operator starts it again.
    pub fn note_stopping(&self) {
        self.state.lock().is_stopping = true;
    }

    /// Tells the process to stop in good order.
    pub fn request_stop(&self) {
        let mut state = self.state.lock();
        if state.door.is_some() {
            state.is_stopping = true;
            self.stop_requested.notify_one();
        }
    }

    /// Copies what clients have stored.
    pub fn copy_data(&self) {
        let copy = DirectoryCopy::of(&self.disks().data);
        self.state.lock().data_copy = Some(copy);
    }

    /// Puts the last copy in the place of what clients have stored; whether there is one.
    pub fn restore_data(&self) -> bool {
        let copy = self.state.lock().data_copy.clone();
        copy.iter().for_each(|copy| copy.restore(&self.disks().data));
        copy.is_some()
    }

    /// Whether the process was told to stop, whether it has done so or not.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.state.lock().is_stopping
    }

    /// Waits until the process is told to stop.
    pub async fn stopping(&self) {
        while !self.is_stopping() {
            self.stop_requested.notified().await;
        }
    }

    /// Ends the process, before its runtime is dropped: from now on it reaches neither disk nor clients.
    /// `keeps_power` is false when the machine goes down with it, and what was not synced is lost.
    pub fn stop(&self, keeps_power: bool) {
        let mut state = self.state.lock();
        (state.door, state.running_store) = (None, None);
        state.is_stalled = false;
        state.is_stopping = false;
        self.power_loss_count.fetch_add(u64::from(!keeps_power), Ordering::Relaxed);
        let restart = if keeps_power { FaultyDisk::kill } else { FaultyDisk::crash };
        state.disks = state.disks.restarted(restart);
        // The engine of the process that ends may still be called while its tasks are dropped.
        let model = std::mem::take(&mut *state.engine_model.lock());
        state.engine_model = Arc::new(Mutex::new(model));
    }

    /// Lets nothing in or out any more, as of a process that does not get to run; or lets it go on.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.state.lock().is_stalled = is_stalled;
    }

    async fn going(&self) {
        while self.state.lock().is_stalled {
            tokio::time::sleep(STALL_LOOK).await;
        }
    }

    /// Lets a client's work run inside the node.
    pub async fn ask<T, W, F>(&self, work: W) -> Asked<T>
    where
        T: Send + 'static,
        W: FnOnce(Arc<ReplicatedStore>) -> F + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.going().await;
        let calls = self.state.lock().door.as_ref().map(|door| door.calls.clone());
        let (answer, answered) = oneshot::channel();
        let call: Call = Box::new(move |store| {
            Box::pin(async move {
                // The client may have given up.
                let _ = answer.send(work(store).await);
            })
        });
        match calls {
            Some(calls) if calls.send(call).is_ok() => {
                drop(calls);
                let asked = answered.await.map_or(Asked::Lost, Asked::Answer);
                self.going().await;
                asked
            }
            _ => Asked::NobodyThere,
        }
    }
}

/// Places of the machines whose copies a node does not count on: it can't reach them, those in live layouts
/// that were removed by force included, or they have lost records. To be asked on the node's own machine.
pub fn missing_at(store: &ReplicatedStore, internode: &Internode) -> BTreeSet<usize> {
    let state = store.control().read();
    let is_up =
        |id: NodeId| id == state.node_id() || internode.peer(id).is_some_and(|peer| peer.is_up());
    let members = state.members().iter().map(|member| member.id);
    let placed = state.layouts().live().iter().flat_map(|layout| layout.nodes().iter().copied());
    let away = members.chain(placed).filter(|id| !is_up(*id));
    let lost = state.layouts().lost_copies().map(|(_, node)| node);
    away.chain(lost).map(|id| usize::from(id.0[0]) - 1).collect()
}

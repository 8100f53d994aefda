//! Machines: the disks, clock and state that outlive processes, and the access of clients to the node
//! that runs.
//!
//! Clients are tasks outside of the machine's simulated host. They send closures through a channel into
//! the host ([`Machine::ask`]). If the process dies, the answer is lost, as with a broken connection.

use crate::disks::Disks;
use crate::engine_model::EngineModel;
use crate::execution::DiskDelay;
use crate::losses::DirectoryCopy;
use crate::time::{SimClock, SimTime};
use crate::versions::NEWER;
use parking_lot::Mutex;
use quoit_cluster::{Internode, NodeId, VersionRange};
use quoit_core::ReplicatedStore;
use quoit_seam::FaultyDisk;
use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;

/// A client's work to be done inside a node.
type Call =
    Box<dyn FnOnce(Arc<ReplicatedStore>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A machine of the simulated world.
pub struct Machine {
    /// Name of the machine and of its node.
    pub name: String,
    /// Index of the machine, from 0.
    pub index: usize,
    /// Number of the machine's cluster, from 0.
    pub cluster: usize,
    /// Clock of the machine.
    pub clock: Arc<SimClock>,
    /// Delay of the disk's background work.
    pub disk_delay: DiskDelay,
    boot_count: AtomicU64,
    power_loss_count: AtomicU64,
    stop_requested: Notify,
    state: Mutex<State>,
    /// Requests of clients that the process is working on.
    requests_in_progress: Mutex<JoinSet<()>>,
}

/// Role of a machine in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineUse {
    /// The machine is switched off and can be taken into service.
    Spare,
    /// A node runs on the machine, or should.
    InService,
    /// The node was removed or lost and never comes back.
    Retired,
}

struct State {
    machine_use: MachineUse,
    versions: VersionRange,
    disks: Disks,
    node_access: Option<NodeAccess>,
    /// Access of operators to the running process, also before it serves clients.
    operators: Option<mpsc::UnboundedSender<Call>>,
    /// Store of the running process. It answers other nodes before it serves clients, and while it stops.
    running_store: Option<Arc<ReplicatedStore>>,
    is_stalled: bool,
    is_stopping: bool,
    /// True if the process shut down cleanly, with everything that it had to remember on its disks.
    is_closed: bool,
    /// True if the machine has lost its directory: its node is a cluster of its own.
    is_wiped: bool,
    /// A copy of the data directory from some earlier time.
    data_copy: Option<DirectoryCopy>,
    /// Model of the records that the engine has to hold.
    engine_model: Arc<Mutex<EngineModel>>,
}

/// Interval at which clients check whether a stalled machine runs again.
const STALL_LOOK: Duration = Duration::from_millis(10);

/// Access to the running node.
struct NodeAccess {
    calls: mpsc::UnboundedSender<Call>,
    store: Arc<ReplicatedStore>,
    internode: Arc<Internode>,
}

/// Cluster of a machine, and its use at the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineRole {
    /// Number of the cluster.
    pub cluster: usize,
    /// Role at the start.
    pub machine_use: MachineUse,
}

/// Outcome of a client's request to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome<T> {
    /// No node was running.
    NoNode,
    /// The node ended before it answered.
    Lost,
    /// The node's answer.
    Answer(T),
}

impl Machine {
    /// Creates a machine on which no process has run.
    #[must_use]
    pub fn new(index: usize, role: MachineRole, disks: Disks, time: &SimTime) -> Self {
        let MachineRole { cluster, machine_use } = role;
        let versions = NEWER;
        Self {
            name: Self::name_at(index),
            index,
            cluster,
            clock: Arc::new(SimClock::new(time.clone())),
            disk_delay: DiskDelay::default(),
            boot_count: AtomicU64::new(0),
            power_loss_count: AtomicU64::new(0),
            stop_requested: Notify::new(),
            requests_in_progress: Mutex::default(),
            state: Mutex::new(State {
                machine_use,
                versions,
                disks,
                node_access: None,
                operators: None,
                running_store: None,
                is_stalled: false,
                is_stopping: false,
                is_closed: false,
                is_wiped: false,
                data_copy: None,
                engine_model: Arc::default(),
            }),
        }
    }

    /// Returns the name of the machine with an index.
    #[must_use]
    pub fn name_at(place: usize) -> String {
        format!("n{}", place + 1)
    }

    /// Returns the identity of the node on the machine with an index.
    ///
    /// # Panics
    ///
    /// If the run has more than 255 machines: two nodes would have the same identity.
    #[must_use]
    pub const fn node_id_at(place: usize) -> NodeId {
        assert!(place < 255, "a run has at most 255 machines");
        NodeId([quoit_number::low_u8(place as u64) + 1; 16])
    }

    /// Returns the identity that the machine's node takes if its directory is empty: another one after the
    /// loss of the directory, with the same first byte.
    #[must_use]
    pub fn new_node_id(&self) -> NodeId {
        let mut id = Self::node_id_at(self.index);
        if self.is_wiped() {
            id.0[1..].fill(u8::MAX);
        }
        id
    }

    /// Returns the role of the machine.
    #[must_use]
    pub fn machine_use(&self) -> MachineUse {
        self.state.lock().machine_use
    }

    /// Sets the role of the machine.
    pub fn set_machine_use(&self, machine_use: MachineUse) {
        self.state.lock().machine_use = machine_use;
    }

    /// Returns the versions of the internode protocol that the machine's program speaks.
    #[must_use]
    pub fn versions(&self) -> VersionRange {
        self.state.lock().versions
    }

    /// Installs a program of other versions, which runs from the next start on.
    pub fn set_versions(&self, versions: VersionRange) {
        self.state.lock().versions = versions;
    }

    /// Counts a start of a process and returns its number, from 1.
    pub fn begin_boot(&self) -> u64 {
        self.state.lock().is_closed = false;
        *self.requests_in_progress.lock() = JoinSet::new();
        self.boot_count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the number of starts so far.
    #[must_use]
    pub fn boot_count(&self) -> u64 {
        self.boot_count.load(Ordering::Relaxed)
    }

    /// Returns the number of losses of power so far.
    #[must_use]
    pub fn power_loss_count(&self) -> u64 {
        self.power_loss_count.load(Ordering::Relaxed)
    }

    /// Returns the disks of the running process.
    #[must_use]
    pub fn disks(&self) -> Disks {
        self.state.lock().disks.clone()
    }

    /// Returns the model of the running process's engine.
    #[must_use]
    pub fn engine_model(&self) -> Arc<Mutex<EngineModel>> {
        Arc::clone(&self.state.lock().engine_model)
    }

    /// Returns the store of the running node for the checks; `None` while it serves no clients, and
    /// after a loss of its directory, since it then belongs to no cluster that is checked.
    #[must_use]
    pub fn store(&self) -> Option<Arc<ReplicatedStore>> {
        let state = self.state.lock();
        let node_access = state.node_access.as_ref().filter(|_| !state.is_wiped);
        node_access.map(|node_access| Arc::clone(&node_access.store))
    }

    /// Returns the internode connections of the running node.
    #[must_use]
    pub fn internode(&self) -> Option<Arc<Internode>> {
        self.state.lock().node_access.as_ref().map(|node_access| Arc::clone(&node_access.internode))
    }

    /// Serves operators for as long as it is polled, and clients from the moment at which `ready` completes.
    pub async fn serve(
        &self,
        store: Arc<ReplicatedStore>,
        internode: Arc<Internode>,
        ready: impl Future<Output = ()>,
    ) {
        let (calls, mut called) = mpsc::unbounded_channel::<Call>();
        self.state.lock().operators = Some(calls.clone());
        let mut access = Some(NodeAccess { calls, store: Arc::clone(&store), internode });
        let mut ready = pin!(ready);
        loop {
            tokio::select! {
                biased;
                () = &mut ready, if access.is_some() => self.state.lock().node_access = access.take(),
                call = called.recv() => {
                    let Some(call) = call else { return };
                    let mut requests_in_progress = self.requests_in_progress.lock();
                    requests_in_progress.spawn(call(Arc::clone(&store)));
                    while requests_in_progress.try_join_next().is_some() {}
                }
            }
        }
    }

    /// Waits for the requests in progress, for at most `limit`, and then ends the others. True if all ended
    /// by themselves.
    pub async fn drain(&self, limit: Duration) -> bool {
        let mut requests_in_progress = std::mem::take(&mut *self.requests_in_progress.lock());
        let all = async { while requests_in_progress.join_next().await.is_some() {} };
        // The client of a request that is ended never learns the outcome.
        tokio::time::timeout(limit, all).await.is_ok()
    }

    /// Records that the process has shut down cleanly.
    pub fn note_closed(&self) {
        let mut state = self.state.lock();
        state.running_store = None;
        state.is_closed = true;
    }

    /// True if the last process has shut down cleanly.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Ends the access of clients and operators.
    pub fn end_client_access(&self) {
        let mut state = self.state.lock();
        (state.node_access, state.operators) = (None, None);
    }

    /// Records that a process has started.
    pub fn note_running(&self, store: Arc<ReplicatedStore>) {
        self.state.lock().running_store = Some(store);
    }

    /// Returns the store of the process for the checks, even before or after the time in which it
    /// serves clients; `None` after a loss of its directory.
    #[must_use]
    pub fn running_store(&self) -> Option<Arc<ReplicatedStore>> {
        let state = self.state.lock();
        state.running_store.as_ref().filter(|_| !state.is_wiped).cloned()
    }

    /// Records that the process stops by itself and waits for an operator to start it again.
    pub fn note_stopping(&self) {
        self.state.lock().is_stopping = true;
    }

    /// Tells the process to shut down, if it serves clients.
    pub fn request_stop(&self) {
        let mut state = self.state.lock();
        if state.node_access.is_some() {
            state.is_stopping = true;
            self.stop_requested.notify_one();
        }
    }

    /// Takes a copy of the data directory.
    pub fn copy_data(&self) {
        let copy = DirectoryCopy::of(&self.disks().data);
        self.state.lock().data_copy = Some(copy);
    }

    /// Replaces the data directory with the last copy. True if there is a copy.
    pub fn restore_data(&self) -> bool {
        let copy = self.state.lock().data_copy.clone();
        copy.iter().for_each(|copy| copy.restore(&self.disks().data));
        copy.is_some()
    }

    /// Removes all files of the machine's directory. No process may run.
    pub fn wipe(&self) {
        let mut state = self.state.lock();
        assert!(state.running_store.is_none(), "a running process would miss its files");
        state.disks.wipe();
        state.is_wiped = true;
        state.engine_model.lock().void();
    }

    /// True if the machine has lost its directory.
    #[must_use]
    pub fn is_wiped(&self) -> bool {
        self.state.lock().is_wiped
    }

    /// True if the process was told to stop, even if it has not done so yet.
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

    /// Ends the process before its runtime is dropped: from now on it reaches neither its disks nor
    /// clients. If `keeps_power` is false the machine goes down as well, and everything that was not
    /// synced is lost.
    pub fn stop(&self, keeps_power: bool) {
        let mut state = self.state.lock();
        (state.node_access, state.operators, state.running_store) = (None, None, None);
        state.is_stalled = false;
        state.is_stopping = false;
        self.power_loss_count.fetch_add(u64::from(!keeps_power), Ordering::Relaxed);
        let restart = if keeps_power { FaultyDisk::kill } else { FaultyDisk::crash };
        state.disks = state.disks.restarted(restart);
        // Tasks of the old process may still call its engine while they are dropped. They must not change
        // the model of the next process.
        let model = std::mem::take(&mut *state.engine_model.lock());
        state.engine_model = Arc::new(Mutex::new(model));
    }

    /// Stalls the process, or lets it run again. No request gets into a stalled process and no answer out
    /// of it.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.state.lock().is_stalled = is_stalled;
    }

    async fn going(&self) {
        while self.state.lock().is_stalled {
            tokio::time::sleep(STALL_LOOK).await;
        }
    }

    /// Runs a client's work inside the node and returns its outcome.
    pub async fn ask<T, W, F>(&self, work: W) -> RequestOutcome<T>
    where
        T: Send + 'static,
        W: FnOnce(Arc<ReplicatedStore>) -> F + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.ask_connected(|store, _| work(store)).await
    }

    /// As [`Machine::ask`]. The work also gets the connections of the process that runs it: a stalled machine
    /// may have another process when the request arrives than when the client sent it, or may not have
    /// served clients yet.
    pub async fn ask_connected<T, W, F>(&self, work: W) -> RequestOutcome<T>
    where
        T: Send + 'static,
        W: FnOnce(Arc<ReplicatedStore>, Arc<Internode>) -> F + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.going().await;
        let access = self
            .state
            .lock()
            .node_access
            .as_ref()
            .map(|node_access| (node_access.calls.clone(), Arc::clone(&node_access.internode)));
        let Some((calls, internode)) = access else { return RequestOutcome::NoNode };
        self.ask_through(Some(calls), move |store| work(store, internode)).await
    }

    /// As [`Machine::ask`], for an operator: the node need not serve clients.
    pub async fn ask_as_operator<T, W, F>(&self, work: W) -> RequestOutcome<T>
    where
        T: Send + 'static,
        W: FnOnce(Arc<ReplicatedStore>) -> F + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.going().await;
        let calls = self.state.lock().operators.clone();
        self.ask_through(calls, work).await
    }

    async fn ask_through<T, W, F>(
        &self,
        calls: Option<mpsc::UnboundedSender<Call>>,
        work: W,
    ) -> RequestOutcome<T>
    where
        T: Send + 'static,
        W: FnOnce(Arc<ReplicatedStore>) -> F + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
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
                let asked = answered.await.map_or(RequestOutcome::Lost, RequestOutcome::Answer);
                self.going().await;
                asked
            }
            _ => RequestOutcome::NoNode,
        }
    }
}

/// Returns the indexes of the machines on whose copies a node can't count: machines that it can't reach,
/// including those that were removed by force and are still in live layouts, and machines that have lost
/// records. It must be called on the node's own machine, because only that machine's clock tells which
/// peers are up.
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

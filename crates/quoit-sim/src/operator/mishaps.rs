//! Changes of members beside which something goes wrong: machines die, lose their directories, or are cut
//! off.

use super::change::{MemberChange, step};
use super::{Operator, PRIMARY_COUNT, RETRY_PAUSE};
use crate::machine::{Machine, MachineUse};
use crate::orders::Order;
use quoit_cluster::{CAPACITY_DEFAULT, ControlPlane, MemberStatus, State};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Percentage of machines without their directories that no message reaches.
const ISOLATED_PERCENT: u64 = 50;
/// Ranges in microseconds: for how long a process is down when its directory is taken, and how long it then
/// runs before the operator switches it off.
const WIPED_OFF_US: Range<u64> = 10_000..2_000_000;
const WIPED_ON_US: Range<u64> = 2_000_000..8_000_000;
/// Longest time for which the operator waits for a layout before it goes on.
const LAYOUT_PATIENCE: Duration = Duration::from_secs(10);
/// Ranges in microseconds, of the times for which the messages of another member are held back: before a
/// member's positions come back, and at most afterwards.
const WALK_US: Range<u64> = 100_000..400_000;
const RETURN_PAUSES_US: Range<u64> = 1_000_000..10_000_000;
/// Pause between two checks whether a machine has lost files.
const LOSS_LOOK: Duration = Duration::from_millis(4);
/// Pause between two checks whether a leaving node has handed over everything.
const EXIT_LOOK: Duration = Duration::from_millis(4);

/// True if the only live layout is newer than the one of this version.
fn is_only_newer(state: &State, version: u64) -> bool {
    let layouts = state.layouts();
    layouts.newest().version() > version && !layouts.is_moving()
}

impl Operator {
    /// Cuts a member off from all others, marks it as down, and lets all spare machines join. When the others
    /// have retired all layouts that the member knows, it can reach them again. When the clients are done, it
    /// can reach them in any case.
    pub(super) async fn grow_without_one(&mut self, are_clients_working: impl Fn() -> bool) {
        let members: Vec<usize> = self.members.iter().copied().collect();
        let spares: Vec<usize> = {
            let spares =
                self.run_context.machines.iter().filter(|of| of.machine_use() == MachineUse::Spare);
            spares.map(|machine| machine.index).collect()
        };
        if members.len() < PRIMARY_COUNT || spares.is_empty() {
            return;
        }
        let place = *self.random.pick(&members);
        self.note(&format!("n{} is cut off, and {} machines join", place + 1, spares.len()));
        self.run_context.orders.give(Order::Isolate { place, is_isolated: true });
        self.away = Some(place);
        let id = Machine::node_id_at(place);
        let is_marked = move |control: Arc<ControlPlane>| async move {
            let marked = control.mark_down(id).await.map(|()| true);
            marked.map_err(|fault| fault.to_string())
        };
        while !self.says("mark", is_marked).await {
            sleep(RETRY_PAUSE).await;
            if !are_clients_working() {
                self.away = None;
                return;
            }
        }
        for new in spares {
            self.make(MemberChange::Join { new }).await;
        }
        self.settle().await;
        self.until_moved(|machine| machine != place).await;
        self.run_context.orders.give(Order::Isolate { place, is_isolated: false });
        self.away = None;
    }

    /// Takes positions in the layouts away from a member, and gives them back as soon as the member hands
    /// over records that are not its own any more. Meanwhile the messages of another member to it are held
    /// back, in most cases until the others have handed over what the member needs for its positions.
    pub(super) async fn take_away_and_return(&mut self) {
        let members: Vec<usize> = self.members.iter().copied().collect();
        let of = *self.random.pick(&members);
        let known = self.newest_layout_of(of);
        self.make(MemberChange::Capacity { of, capacity: CAPACITY_DEFAULT / 4 }).await;
        let is_taken = self.until(of, |state| is_only_newer(state, known)).await;
        self.note(if is_taken { "positions are taken" } else { "positions are not taken yet" });
        // What the member is about to hand over it hands to all primaries, and it waits for their answers.
        let others: Vec<usize> = members.into_iter().filter(|member| *member != of).collect();
        let from = *self.random.pick(&others);
        self.run_context.orders.give(Order::Cut { from, to: of, is_cut: true });
        let walk_us = self.random.within(WALK_US);
        sleep(Duration::from_micros(walk_us)).await;
        self.make(MemberChange::Capacity { of, capacity: CAPACITY_DEFAULT * 4 }).await;
        let pause_us = self.random.within(RETURN_PAUSES_US);
        let handed = self.until_handed(of, from);
        let is_handed = timeout(Duration::from_micros(pause_us), handed).await.is_ok();
        self.note(if is_handed { "positions are back" } else { "positions come back" });
        self.run_context.orders.give(Order::Cut { from, to: of, is_cut: false });
    }

    /// Waits until a machine's node knows of a new layout, and all members except one have handed over what
    /// the node needs of them.
    async fn until_handed(&self, to: usize, besides: usize) {
        let id = Machine::node_id_at(to);
        let is_handed = |machine: &Arc<Machine>| {
            let waiting = machine.store().map(|store| store.transfers().stats().waiting);
            waiting.is_some_and(|waiting| !waiting.contains_key(&id))
        };
        let moves = |state: &State| state.layouts().is_moving();
        while !self.knows(to, moves) {
            sleep(EXIT_LOOK).await;
        }
        let machines = self.run_context.in_service();
        let sources = machines.iter().filter(|of| of.index != to && of.index != besides);
        while !sources.clone().all(is_handed) {
            sleep(EXIT_LOOK).await;
        }
    }

    /// Returns the version of the newest layout that a machine's node knows; 0 while it is down.
    fn newest_layout_of(&self, place: usize) -> u64 {
        let store = self.run_context.machines[place].store();
        store.map_or(0, |store| store.control().read().layouts().newest().version())
    }

    /// True if the state that a machine's node knows meets a condition. False while the node is down.
    fn knows(&self, place: usize, meets: impl Fn(&State) -> bool) -> bool {
        let store = self.run_context.machines[place].store();
        store.is_some_and(|store| meets(&store.control().read()))
    }

    /// Waits until the state that a machine's node knows meets a condition. Returns false if that takes too
    /// long.
    async fn until(&self, place: usize, meets: impl Fn(&State) -> bool) -> bool {
        let met = async {
            while !self.knows(place, &meets) {
                sleep(EXIT_LOOK).await;
            }
        };
        timeout(LAYOUT_PATIENCE, met).await.is_ok()
    }

    /// Waits until a machine has lost files while it was off, beyond those of `known_count` losses, and
    /// returns the first member that is off: that machine, unless another one is off as well. `None` when
    /// the clients are done.
    pub(super) async fn until_loss(
        &self,
        known_count: &mut usize,
        are_clients_working: impl Fn() -> bool,
    ) -> Option<usize> {
        while are_clients_working() {
            let count = self.run_context.history.lock().hardships.files_lost_us.len();
            if count > *known_count {
                *known_count = count;
                let machines = &self.run_context.machines;
                let is_off = |place: &&usize| machines[**place].running_store().is_none();
                return self.members.iter().find(is_off).copied();
            }
            sleep(LOSS_LOOK).await;
        }
        None
    }

    /// Draws a change that takes positions from a member which has lost files; `None` in some cases.
    pub(super) fn draw_change_against(&mut self, lossy: usize) -> Option<MemberChange> {
        let capacity = CAPACITY_DEFAULT / 4;
        let mut possible = vec![None, Some(MemberChange::Capacity { of: lossy, capacity })];
        if self.members.len() > PRIMARY_COUNT {
            possible.push(Some(MemberChange::Leave { old: lossy }));
        }
        if let Some(new) = self.spare() {
            possible.extend([Some(MemberChange::Replace { old: lossy, new }); 2]);
        }
        *self.random.pick(&possible)
    }

    /// Waits until no partition moves, as the nodes on some machines in service know it.
    async fn until_moved(&self, is_meant: impl Fn(usize) -> bool) {
        let moves = |machine: &Arc<Machine>| {
            let store = machine.store();
            store.is_none_or(|store| store.control().read().layouts().is_moving())
        };
        let waits = || {
            let machines = self.run_context.in_service();
            machines.iter().any(|machine| is_meant(machine.index) && moves(machine))
        };
        while waits() {
            sleep(EXIT_LOOK).await;
        }
    }

    /// Takes a machine's directory, starts its node again under its old name, and switches the machine off
    /// some time later, as the node's log asks operators to do before they replace it.
    pub(super) async fn wipe(&mut self, place: usize) {
        self.members.remove(&place);
        let is_isolated = self.random.percent(ISOLATED_PERCENT);
        self.run_context.orders.give(Order::Wipe { place, is_isolated });
        sleep(Duration::from_micros(self.random.within_by_magnitude(WIPED_OFF_US))).await;
        self.run_context.orders.give(Order::Start(place));
        sleep(Duration::from_micros(self.random.within(WIPED_ON_US))).await;
        self.run_context.orders.give(Order::SwitchOff(place));
    }

    /// Switches a leaving machine off when some member shows that its node has handed over everything,
    /// unless the node is removed sooner. Then marks the member as down and removes it by force.
    pub(super) async fn kill_when_exiting(&mut self, old: usize) {
        let id = Machine::node_id_at(old);
        let machine = Arc::clone(&self.run_context.machines[old]);
        let status = |machine: &Machine| {
            let store = machine.store()?;
            store.control().read().members().get(id).map(|member| member.status)
        };
        while machine.machine_use() == MachineUse::InService {
            let machines = self.run_context.in_service();
            let knows = |machine: &Arc<Machine>| status(machine) == Some(MemberStatus::Exiting);
            if machines.iter().any(knows) {
                self.note(&format!("{} dies before it has taken its leave", machine.name));
                self.run_context.orders.give(Order::SwitchOff(old));
                break;
            }
            sleep(EXIT_LOOK).await;
        }
        self.members.remove(&old);
        // This follows the instruction to operators for a member that has died on its way out: mark it as
        // down, and remove it.
        let is_marked = move |control: Arc<ControlPlane>| async move {
            if control.read().members().get(id).is_none() {
                return Ok(true);
            }
            control.mark_down(id).await.map(|()| true).map_err(|fault| fault.to_string())
        };
        while !self.says(&format!("mark of {}", machine.name), is_marked).await {
            sleep(RETRY_PAUSE).await;
        }
        let removed = MemberChange::RemoveLost { old };
        let is_gone = move |control: Arc<ControlPlane>| async move {
            match control.read().members().get(id) {
                None => Ok(true),
                Some(_) => step(control, removed).await,
            }
        };
        while !self.says(&format!("end of {}", machine.name), is_gone).await {
            sleep(RETRY_PAUSE).await;
        }
    }
}

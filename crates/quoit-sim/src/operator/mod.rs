//! The operator: changes the members of the cluster while clients work.
//!
//! Like an operator at a keyboard, it sends each request to some member, and repeats it, perhaps at
//! another member, until it sees that the change is made. It destroys a machine only when no change is in
//! progress: a second loss before the first one is repaired takes data with it in any store with three
//! copies.

mod change;
mod mishaps;

use crate::boot::NODE_PORT;
use crate::family::Family;
use crate::finish::answer;
use crate::machine::{Machine, MachineUse};
use crate::orders::Order;
use crate::random::Random;
use crate::run_context::RunContext;
use crate::settings::Settings;
use crate::versions::NEWER;
use change::{MemberChange, step};
use quoit_cluster::{CAPACITY_DEFAULT, ControlPlane, JoinError, MemberStatus, NodeId};
use quoit_core::ReplicatedStore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Maximum pause between two changes, in microseconds.
const PAUSE_US_MAX: u64 = 5_000_000;
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Percentage of runs of the family `general`, of those with an operator, in which leaving nodes die.
const LEAVERS_DIE_PERCENT: u64 = 30;
/// Number of primaries of a key. With fewer nodes, one of them has several votes.
const PRIMARY_COUNT: usize = 3;

/// Returns true if a machine's node knows that another one speaks the newer version; `None` while it is
/// down.
fn knows_newer(machine: &Machine, other: usize) -> Option<bool> {
    let store = machine.store()?;
    let state = store.control().read();
    let member = state.members().get(Machine::node_id_at(other));
    Some(member.is_some_and(|member| member.versions.max >= NEWER.max))
}

/// The operator of the members of a run.
pub struct Operator {
    run_context: RunContext,
    random: Random,
    /// Indexes of the machines that should be members.
    members: BTreeSet<usize>,
    /// True if machines may be destroyed.
    has_losses: bool,
    /// True if leaving nodes die after they have handed over everything and before they are removed.
    leavers_die: bool,
    /// True if machines lose their directories.
    has_wipes: bool,
    /// True if a member is cut off and marked as down while other machines join.
    marks_members: bool,
    /// True if positions in layouts go away from a member and come back at once.
    has_returns: bool,
    /// True if the operator changes the members when a machine has lost files, before its node starts again.
    follows_losses: bool,
    /// The member that is cut off. It is not asked.
    away: Option<usize>,
}

impl Operator {
    /// Creates the operator of a cluster of all machines in service.
    #[must_use]
    pub fn new(seed: u64, run_context: RunContext, settings: &Settings) -> Self {
        let family = settings.family;
        let members = run_context.in_service().iter().map(|machine| machine.index).collect();
        let random = Random::new(seed, "operator", 0);
        let is_drawn = || Random::new(seed, "leavers die", 0).percent(LEAVERS_DIE_PERCENT);
        let leavers_die = match family {
            Some(Family::General) => is_drawn(),
            family => family == Some(Family::LeaverDies),
        };
        let has_losses = !matches!(
            family,
            Some(
                Family::RotAndMembers
                    | Family::LostFilesAndMembers
                    | Family::WithoutExchanges
                    | Family::Members
                    | Family::WipedDirectories
                    | Family::MarkedDown
            )
        );
        Self {
            run_context,
            random,
            members,
            has_losses,
            leavers_die,
            has_wipes: family == Some(Family::WipedDirectories),
            marks_members: family == Some(Family::MarkedDown),
            follows_losses: family == Some(Family::LostFilesAndMembers),
            has_returns: settings.returns_positions(seed),
            away: None,
        }
    }

    /// Makes some changes, each of which begins while `are_clients_working` returns true. Then waits
    /// until the cluster has settled and all nodes that are not members have stopped.
    pub async fn run(mut self, are_clients_working: impl Fn() -> bool) {
        let (mut is_settled, mut known_loss_count) = (true, 0);
        for _ in 0..self.random.within(1..5) {
            let pause_us = self.random.below(PAUSE_US_MAX);
            let lossy = match self.follows_losses {
                true => self.until_loss(&mut known_loss_count, &are_clients_working).await,
                false => {
                    sleep(Duration::from_micros(pause_us)).await;
                    None
                }
            };
            if !are_clients_working() {
                break;
            }
            if self.marks_members && is_settled {
                self.grow_without_one(&are_clients_working).await;
            } else if self.has_returns && self.members.len() > PRIMARY_COUNT + 1 {
                self.take_away_and_return().await;
            } else {
                let change = lossy.and_then(|lossy| self.draw_change_against(lossy));
                let change = change.unwrap_or_else(|| self.draw(is_settled));
                self.make(change).await;
            }
            is_settled = self.random.percent(70);
            if is_settled {
                self.settle().await;
            }
        }
        self.settle().await;
        while self.run_context.in_service().len() > self.members.len() {
            self.switch_off_isolated_removed_nodes();
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Switches off removed machines whose nodes were away when they were removed, and know no member
    /// that could tell them.
    fn switch_off_isolated_removed_nodes(&self) {
        for machine in self.run_context.in_service() {
            let Some(store) = machine.store() else { continue };
            let state = store.control().read();
            let mut known = state.members().iter().map(|member| member.id);
            let is_member = |id| self.members.iter().any(|of| Machine::node_id_at(*of) == id);
            if !self.members.contains(&machine.index) && !known.any(is_member) {
                self.note(&format!("{} was removed, and knows nobody any more", machine.name));
                machine.set_machine_use(MachineUse::Retired);
            }
        }
    }

    /// Returns a machine that can be taken into service.
    fn spare(&self) -> Option<usize> {
        let spare = self.run_context.machines.iter().find(|machine| {
            machine.machine_use() == MachineUse::Spare && self.run_context.has(machine)
        });
        spare.map(|machine| machine.index)
    }

    /// Draws one of the possible changes.
    fn draw(&mut self, is_settled: bool) -> MemberChange {
        let machines = Arc::clone(&self.run_context.machines);
        let new = self.spare();
        let members: Vec<usize> = self.members.iter().copied().collect();
        let old = *self.random.pick(&members);
        if let Some(new) = new
            && self.has_wipes
            && is_settled
            && members.len() >= PRIMARY_COUNT
        {
            return MemberChange::ReplaceWiped { old, new };
        }
        let capacity = CAPACITY_DEFAULT * self.random.within_narrow(1_u32..4);
        let mut possible = vec![MemberChange::Capacity { of: old, capacity }];
        if members.len() > 1 {
            possible.push(MemberChange::Leave { old });
        }
        if is_settled && self.has_losses && members.len() > PRIMARY_COUNT {
            possible.push(MemberChange::RemoveLost { old });
        }
        if let Some(new) = new {
            possible.extend([MemberChange::Join { new }, MemberChange::Join { new }]);
            possible.push(MemberChange::Replace { old, new });
            // A lost machine is never upgraded. If its replacement brings properties that the lost
            // member's version does not know, it can only be removed. So a replacement needs members that
            // know the machine as upgraded.
            let others = members.iter().filter(|of| **of != old);
            let known = others.filter_map(|of| knows_newer(&machines[*of], old));
            let is_upgraded = || known.reduce(|one, other| one && other) == Some(true);
            if is_settled && self.has_losses && members.len() >= PRIMARY_COUNT && is_upgraded() {
                possible.push(MemberChange::ReplaceLost { old, new });
            }
        }
        *self.random.pick(&possible)
    }

    async fn make(&mut self, change: MemberChange) {
        self.note(&format!("{change:?}"));
        self.run_context.history.lock().hardships.has_layout_changed = true;
        if let MemberChange::ReplaceWiped { old, .. } = change {
            self.wipe(old).await;
        } else if let Some(lost) = change.lost() {
            self.run_context.orders.give(Order::Destroy(lost));
            self.members.remove(&lost);
        }
        if let Some(new) = change.newcomer() {
            self.run_context.orders.give(Order::SwitchOn(new));
        }
        if let Some(new) = change.newcomer() {
            self.join(new).await;
        }
        // A node that has stopped by itself shows that its removal is made.
        let old = change.old().map(|old| Arc::clone(&self.run_context.machines[old]));
        let is_gone = || old.as_ref().is_some_and(|old| old.machine_use() == MachineUse::Retired);
        let is_made = move |control| step(control, change);
        while !self.says(&format!("{change:?}"), is_made).await
            && (change.lost().is_some() || !is_gone())
        {
            sleep(RETRY_PAUSE).await;
        }
        if let MemberChange::Leave { old } | MemberChange::Replace { old, .. } = change
            && self.leavers_die
        {
            self.members.extend(change.newcomer());
            self.kill_when_exiting(old).await;
        }
        if let Some(old) = change.old() {
            self.members.remove(&old);
        }
        self.members.extend(change.newcomer());
    }

    /// Lets a node join. If the node knows that it is a member, so do the others.
    async fn join(&mut self, new: usize) {
        let machine = Arc::clone(&self.run_context.machines[new]);
        loop {
            let address = format!("{}:{NODE_PORT}", self.member().name);
            let join = |store: Arc<ReplicatedStore>| async move {
                match store.control().join(&address).await {
                    Ok(()) | Err(JoinError::AlreadyMember { .. }) => Ok(()),
                    Err(failure) => Err(failure),
                }
            };
            let Err(failure) = answer(machine.ask_as_operator(join).await) else { return };
            self.note(&format!("join of {} -> {failure}", machine.name));
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Waits until all changes are complete: no partition moves, and exactly the wanted nodes are
    /// members.
    async fn settle(&mut self) {
        let wanted: BTreeSet<NodeId> =
            self.members.iter().map(|place| Machine::node_id_at(*place)).collect();
        let is_settled = |control: Arc<ControlPlane>| async move {
            let state = control.read();
            let members = state.members();
            let is_whole = members.iter().all(|member| member.status == MemberStatus::Valid)
                && members.iter().map(|member| member.id).collect::<BTreeSet<_>>() == wanted;
            Ok(is_whole && !state.layouts().is_moving())
        };
        while !self.says("settling", is_settled.clone()).await {
            sleep(RETRY_PAUSE).await;
        }
        self.note("settled");
    }

    /// Asks some member a question. Returns false if the member does not answer.
    async fn says<A, F>(&mut self, what: &str, ask: A) -> bool
    where
        A: FnOnce(Arc<ControlPlane>) -> F + Send + 'static,
        F: Future<Output = Result<bool, String>> + Send + 'static,
    {
        let machine = self.member();
        let asked = answer(machine.ask(|store| ask(Arc::clone(store.control()))).await);
        asked.unwrap_or_else(|failure| {
            self.note(&format!("{what} at {} -> {failure}", machine.name));
            false
        })
    }

    fn member(&mut self) -> Arc<Machine> {
        let members = self.members.iter().copied().filter(|place| Some(*place) != self.away);
        let members: Vec<usize> = members.collect();
        Arc::clone(&self.run_context.machines[*self.random.pick(&members)])
    }

    fn note(&self, text: &str) {
        self.run_context.trace.note("operator", text);
    }
}

//! Background duties of a node.
//!
//! In every round the node gives its transport the list of its peers, reports its start to the other members
//! until enough of them have recorded it, and keeps its own entry among the members up to date. If it leads,
//! it also adjusts the voters. A round runs after each new state, and twice a second otherwise.

mod leading;

use super::ControlPlane;
use super::TrustKeeper;
use crate::control::codec::decode_member;
use crate::control::fence::{Fence, FenceVerdict, Voters};
use crate::control::group::Participation;
use crate::control::raft_codec::decode_stored_membership;
use crate::control::types::RaftId;
use crate::departure::Departure;
use crate::members::MemberStatus;
use crate::state::{MembershipCommand, State};
use crate::transport::{ConnectionProblem, Internode};
use crate::{ClusterId, NodeId};
use leading::leads;
use prost::Message as _;
use quoit_wire::internode::VersionRange;
use quoit_wire::internode::control::{
    METHOD_MEMBERSHIP, METHOD_STARTED, MembershipAnswer, MembershipQuery, StartNoted, Started,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Interval after which a node reports its facts again if the cluster still has different ones: a leader of
/// an older version drops the fields that it does not know.
const INTRODUCTION_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between two rounds when no new state arrives.
const ROUND_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time for one step of a round.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time for an answer of another node.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time without a leader after which a node asks whether it was removed.
const LEADERLESS_PATIENCE: Duration = Duration::from_secs(5);
/// Time for which other nodes must refuse this node before it stops. They refuse it if another process has
/// its identity, or because of its clock. Longer than the time after which others consider a crashed process
/// dead.
const TURNED_AWAY_PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the node's time is recorded.
const TIME_INTERVAL: Duration = Duration::from_secs(60);
/// State that is kept between rounds.
struct Keeper {
    internode: Arc<Internode>,
    boot_id: u64,
    /// The cluster that the node belonged to in the last round.
    cluster: Option<ClusterId>,
    /// The answers to the report of this start, and the number of this start.
    fence: Option<(Fence, u64)>,
    /// Time of the first report.
    fenced_since: Instant,
    /// Times since which nodes are unreachable. Updated in every round, whether the node leads or not, so
    /// that a node that becomes leader again does not act on outdated observations.
    away: BTreeMap<NodeId, Instant>,
    /// Times since which removed nodes have the entry that removes them.
    informed: BTreeMap<NodeId, Instant>,
    leaderless_since: Option<Instant>,
    /// Reason why the node's own entry could not be updated. Logged once.
    complaint: Option<String>,
    /// Last time at which the node reported its facts.
    introduced_at: Option<Instant>,
    /// Last time at which the node's clock was recorded, or the start of the node.
    time_noted_at: Instant,
    /// Keeps the node's certificate.
    trust: TrustKeeper,
    /// Departure to announce if the node finds that it was removed.
    last_words: Departure,
}

/// Runs the duties until the control plane is dropped.
pub(crate) async fn keep(plane: Weak<ControlPlane>, internode: Arc<Internode>) {
    let boot_id = internode.boot_id();
    let mut keeper = Keeper {
        internode,
        boot_id,
        cluster: None,
        fence: None,
        fenced_since: Instant::now(),
        away: BTreeMap::new(),
        informed: BTreeMap::new(),
        leaderless_since: None,
        complaint: None,
        introduced_at: None,
        time_noted_at: Instant::now(),
        trust: TrustKeeper::default(),
        last_words: Departure::Removed,
    };
    loop {
        let mut news = {
            let Some(plane) = plane.upgrade() else { return };
            // Subscribe before the round, so that a change during the round leads to another one.
            let news = plane.watch();
            keeper.round(&plane).await;
            news
        };
        tokio::select! {
            biased;
            _ = news.changed() => {}
            () = sleep(ROUND_INTERVAL) => {}
        }
    }
}

impl Keeper {
    async fn round(&mut self, plane: &ControlPlane) {
        if plane.departure().borrow().is_some() {
            return;
        }
        if self.time_noted_at.elapsed() >= TIME_INTERVAL {
            self.time_noted_at = Instant::now();
            plane.note_time();
        }
        let state = plane.state();
        self.trust.refresh(self.internode.security(), &state);
        self.trust.replace_plain_connections(&self.internode, &state);
        self.trust.end_outdated(&self.internode);
        self.maintain_connections(plane, &state);
        self.note_away(plane, &state);
        if let Some(departure) = self.departure_reason().or_else(|| outdated(plane, &state)) {
            plane.depart(departure);
            return;
        }
        if self.cluster != Some(state.cluster_id()) {
            self.cluster = Some(state.cluster_id());
            self.fence = None;
        }
        self.tell_start(plane).await;
        match plane.group().gate() {
            Participation::Open => {}
            Participation::Waiting => {
                self.watch_silence(plane, &state).await;
                return;
            }
            Participation::Closed(_) => return,
        }
        if let Err(fault) = plane.group().raft().await {
            tracing::debug!(?fault, "the node has no part in the log");
            return;
        }
        if self.check_standing(plane, &state).await {
            return;
        }
        self.keep_own_entry(plane, &state).await;
        self.note_versions(plane, &state).await;
        self.trust.tell(plane, self.internode.security(), &state).await;
        let led = plane.group().metrics();
        if let Some(metrics) = led.filter(leads) {
            let state = plane.state();
            if timeout(STEP_TIMEOUT, self.lead(plane, &state, &metrics)).await.is_err() {
                tracing::debug!("the electorate could not be changed in time");
            }
        }
    }

    /// Keeps connections to all members, and to former members that have not learned of their removal yet.
    fn maintain_connections(&self, plane: &ControlPlane, state: &State) {
        let mut kept: BTreeSet<_> = state.members().iter().map(|member| member.id).collect();
        if let Some(metrics) = plane.group().metrics() {
            let electorate = metrics.membership_config.membership();
            kept.extend(electorate.nodes().map(|(id, ())| id.0));
        }
        if let Some((fence, _)) = &self.fence {
            let is_there = |voter: &&NodeId| !state.members().is_removed(**voter);
            kept.extend(fence.voters().iter().filter(is_there));
        }
        plane.link().keep_only(&kept);
    }

    /// Returns the reason why this node must stop, if others have refused it for long enough. One node that
    /// knows another live process with this identity is enough. For a wrong clock, more than half of the
    /// members must have refused it.
    fn departure_reason(&self) -> Option<Departure> {
        let peers = self.internode.peers();
        let told = |problem| {
            let told = peers.iter();
            told.filter_map(move |peer| peer.lasting_problem(problem, TURNED_AWAY_PATIENCE))
        };
        if let Some(words) = told(ConnectionProblem::DuplicateIdentity).next() {
            return Some(Departure::DuplicateIdentity { words });
        }
        // One node is enough, because all members follow the same log.
        if let Some(words) = told(ConnectionProblem::Outdated).next() {
            return Some(Departure::Outdated { words });
        }
        let is_majority = told(ConnectionProblem::Clock).count() * 2 > peers.len() + 1;
        let words = told(ConnectionProblem::Clock).next().filter(|_| is_majority)?;
        Some(Departure::Clock { words })
    }

    /// Reports this start to the other members until all of them have recorded it. When enough of them
    /// have, the node may take part in the log.
    async fn tell_start(&mut self, plane: &ControlPlane) {
        let own = self.internode.node_id();
        let others = plane.link().others();
        if let Some((fence, _)) = &self.fence
            && fence.unasked(&others).is_empty()
            && plane.group().gate() == Participation::Open
        {
            return;
        }
        if self.fence.is_none() {
            let Ok((voters, starts)) = plane.voters_and_starts() else { return };
            let has_others = plane.state().members().count() > 1;
            self.fence = Some((Fence::new(own, voters, has_others), starts));
            self.fenced_since = Instant::now();
        }
        let Some((fence, starts)) = &mut self.fence else { return };
        let starts = *starts;
        let started = Started { starts, boot_id: self.boot_id };
        let mut asked = JoinSet::new();
        for node in fence.unasked(&others) {
            let link = plane.link().clone();
            asked.spawn(async move {
                let to = RaftId(node);
                let answer = link.call(to, METHOD_STARTED, &started, &[], ANSWER_TIMEOUT);
                answer.await.map(|answer: StartNoted| (node, answer))
            });
        }
        while let Some(answer) = asked.join_next().await {
            let Ok(Ok((node, answer))) = answer else { continue };
            let electorate = decode_stored_membership(answer.electorate.as_ref());
            let voters = electorate.map(|electorate| Voters::of(&electorate)).unwrap_or_default();
            fence.answered(node, answer.is_latest, answer.known_starts, voters);
            // Nodes may have become voters while this node was down. They are asked next.
            let told = answer.voters.iter().filter_map(|voter| decode_member(voter).ok());
            let told: Vec<_> = told.filter(|voter| fence.voters().contains(&voter.id)).collect();
            plane.link().introduce(told.iter().filter(|voter| voter.id != own));
        }
        match fence.verdict(self.fenced_since.elapsed()) {
            FenceVerdict::Open if plane.group().gate() == Participation::Waiting => {
                plane.group().set_gate(Participation::Open);
            }
            FenceVerdict::Open | FenceVerdict::Waiting => {}
            FenceVerdict::Stale { known_starts } => {
                plane.depart(Departure::Stale { starts, known_starts });
            }
        }
    }

    /// Checks whether the node still is a member. If it was removed, it departs; if its join was dropped,
    /// it becomes a cluster of one again. Returns true in both cases.
    async fn check_standing(&mut self, plane: &ControlPlane, state: &State) -> bool {
        let own = state.node_id();
        if state.members().is_removed(own) {
            plane.depart(self.last_words.clone());
            return true;
        }
        if state.members().get(own).is_none() {
            become_single_node(plane).await;
            return true;
        }
        if plane.group().has_leader() {
            self.leaderless_since = None;
            return false;
        }
        self.watch_silence(plane, state).await
    }

    /// Asks other members, after some time without a leader, whether this node was removed.
    /// Returns true if it was.
    async fn watch_silence(&mut self, plane: &ControlPlane, state: &State) -> bool {
        let since = *self.leaderless_since.get_or_insert_with(Instant::now);
        if since.elapsed() > LEADERLESS_PATIENCE {
            self.leaderless_since = None;
            return self.ask_standing(plane, state).await;
        }
        false
    }

    fn is_up(&self, node: NodeId) -> bool {
        node == self.internode.node_id()
            || self.internode.peer(node).is_some_and(|peer| peer.is_up())
    }

    /// Asks the other members whether this node was removed while it was away, or its join was dropped. They
    /// do not report it unless asked. Acts on the answer, and returns true if so.
    async fn ask_standing(&self, plane: &ControlPlane, state: &State) -> bool {
        let own = state.members().get(state.node_id());
        let waits = own.is_some_and(|own| own.status == MemberStatus::Joining);
        let mut denial_count = 0;
        let question = MembershipQuery { name: state.node_name().to_owned() };
        let others = state.members().iter().filter(|member| member.id != state.node_id());
        for other in others {
            let address = &other.addresses.node;
            let asked = self.internode.call_address(
                address,
                METHOD_MEMBERSHIP,
                &question,
                b"".as_slice(),
                ANSWER_TIMEOUT,
            );
            let Ok((_, reply)) = asked.await else { continue };
            let Ok(answer) = MembershipAnswer::decode(reply.header) else { continue };
            if answer.is_removed {
                plane.depart(Departure::Removed);
                return true;
            }
            denial_count += usize::from(!answer.is_member);
        }
        // A single member may lag and not know yet that this node was admitted, so at least half of the
        // members must deny it.
        if waits && denial_count * 2 >= state.members().count() {
            become_single_node(plane).await;
            return true;
        }
        false
    }

    /// Reports members that speak an older version than they have reported. They run an older program that
    /// does not report versions.
    async fn note_versions(&self, plane: &ControlPlane, state: &State) {
        for member in state.members().iter() {
            let peer = self.internode.peer(member.id).filter(|peer| peer.is_up());
            let Some(max) = peer.and_then(|peer| peer.version_max()) else { continue };
            if max < member.versions.max {
                let versions = VersionRange { min: member.versions.min.min(max), max };
                let command = MembershipCommand::Speaks { id: member.id, versions };
                if let Err(fault) = plane.run_membership(command).await {
                    tracing::debug!(%fault, "a member's version could not be noted");
                }
            }
        }
    }

    /// Updates the node's own entry: name, addresses, versions, presence, and the layouts that it serves
    /// with.
    async fn keep_own_entry(&mut self, plane: &ControlPlane, state: &State) {
        let own = state.node_id();
        let Some(member) = state.members().get(own) else { return };
        if member.status == MemberStatus::Exiting {
            self.last_words = Departure::Left;
        }
        let told = plane.introduction();
        let mut wanted = Vec::new();
        let is_due = self.introduced_at.is_none_or(|at| at.elapsed() >= INTRODUCTION_INTERVAL);
        if member.introduction() == told {
            self.introduced_at = None;
        } else if is_due {
            self.introduced_at = Some(Instant::now());
            wanted.push(MembershipCommand::Introduce { id: own, told: &told });
        }
        if member.is_down {
            wanted.push(MembershipCommand::Up(own));
        }
        // As long as this node is a voter, the others might reach no majority without it.
        let goes = member.status == MemberStatus::Exiting && !votes(plane, own);
        if goes && plane.is_clear(state) {
            wanted.push(MembershipCommand::RemoveDrained(own));
        }
        let mut complaint = None;
        for command in wanted {
            if let Err(fault) = plane.run_membership(command).await {
                complaint = Some(fault.to_string());
                self.introduced_at = None;
            }
        }
        if let Some(reason) = complaint.as_ref().filter(|_| complaint != self.complaint) {
            tracing::warn!(reason, "the cluster does not know this node's name and addresses");
        }
        self.complaint = complaint;
        if state.is_behind(own)
            && let Err(fault) = plane.acknowledge(state.serves()).await
        {
            tracing::debug!(%fault, "the layout could not be acknowledged");
        }
    }

    fn note_away(&mut self, plane: &ControlPlane, state: &State) {
        let known: BTreeSet<_> =
            state.members().iter().map(|member| member.id).chain(plane.link().others()).collect();
        for node in &known {
            if self.is_up(*node) {
                self.away.remove(node);
            } else {
                self.away.entry(*node).or_insert_with(Instant::now);
            }
        }
        self.away.retain(|node, _| known.contains(node));
        self.informed.retain(|node, _| known.contains(node));
    }

    fn is_away_for(&self, node: NodeId, patience: Duration) -> bool {
        self.away.get(&node).is_some_and(|since| since.elapsed() >= patience)
    }
}

/// Returns true if a node is a voter, or would be one once the entries in this node's log are committed.
/// True if this node does not know.
fn votes(plane: &ControlPlane, node: NodeId) -> bool {
    let metrics = plane.group().metrics();
    metrics.is_none_or(|metrics| {
        let electorate = metrics.membership_config.membership();
        electorate.voter_ids().any(|voter| voter.0 == node)
    })
}

/// Returns the reason why this node must stop if the bucket types need a newer version than it speaks.
fn outdated(plane: &ControlPlane, state: &State) -> Option<Departure> {
    let told = plane.introduction();
    let outdated = state.check_speaks(&told.name, told.versions).err()?;
    Some(Departure::Outdated { words: outdated.to_string().into() })
}

async fn become_single_node(plane: &ControlPlane) {
    if let Err(fault) = plane.reset_to_single_node().await {
        tracing::warn!(%fault, "the node could not go back to being alone");
    }
}

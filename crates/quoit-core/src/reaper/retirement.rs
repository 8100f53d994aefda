//! Retirement of reap records: removing those whose deleted records can't come back any more.
//!
//! A node that has reap records asks all members in rounds, two minutes apart, for the partitions of
//! which they may hold records outside the primaries: strays, hints, and pages of large records that are
//! under way. Members that are down must answer, too, before anything retires. The reap records of a
//! partition that were made before round A began are removed after the next round B, if
//!
//! - every member of B answered in A from the same process,
//! - the same single layout was live in both rounds,
//! - no member reported the partition in A or B, or at any time between (answers include the partitions
//!   that were suspected since the former answer), and
//! - the queues of all members have brought all deletes made before A to the other clusters.
//!
//! Until A, the reap records keep out the strays that there were. A copy that was under way during A has
//! arrived by the time of B, or never will. If it arrived at a node that is not a primary, it became a
//! stray, and B finds the partition unsettled. If a condition fails, the reap records stay and the next
//! round tries again. `docs/design/reaping.md` has the argument.

use super::Reaper;
use crate::reap_records::ReapSequence;
use crate::refusal::refuse;
use parking_lot::Mutex;
use prost::Message;
use quoit_cluster::{IncomingRequest, Lane, NodeId, Replies, Responder, State};
use quoit_model::hash::Partition;
use quoit_planted::planted;
use quoit_wire::internode::reap::{AskUnsettled, METHOD_ASK_UNSETTLED, UnsettledPartitions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Number of checks, between two rounds, whether the next one is due.
const LOOKS_BETWEEN_ROUNDS: u32 = 24;
/// Time that members have for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Members for which the reap records of a node are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReapRecordBlockers {
    /// Names of members that did not answer, or answered by an older state of the control plane.
    pub unanswered_members: Vec<Arc<str>>,
    /// Names of members that may hold an older copy of a record of which this node has a reap record.
    pub unsettled: Vec<Arc<str>>,
}

/// The answers of all members in one round.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Round {
    /// The last reap record that was made before the round began.
    up_to: ReapSequence,
    /// Version of the only live layout.
    layout_version: u64,
    /// For each member, the start of the process that answered, and the number of its answer.
    members: BTreeMap<NodeId, (u64, u64)>,
    /// Partitions that any member reported.
    unsettled: BTreeSet<Partition>,
    /// Progress of each member's links to other clusters.
    links: BTreeMap<NodeId, LinkProgress>,
}

/// Progress of the sinks of a member's queues, in microseconds since 1970 by that member's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LinkProgress {
    /// The time of the answer.
    now_us: u64,
    /// The time since which some sink may lack deletes; `None` if all sinks have all of them.
    behind_since_us: Option<u64>,
}

impl Round {
    /// True if, by the answers of the next round, a sink may lack deletes that were made before this
    /// round: then another cluster may still send an older version.
    fn waits_for_links(&self, next: &Self) -> bool {
        self.links.iter().any(|(node, then)| {
            let now = next.links.get(node);
            now.and_then(|now| now.behind_since_us).is_some_and(|since_us| since_us <= then.now_us)
        })
    }

    /// Returns the partitions whose reap records may retire after the next round, with the last of those
    /// records.
    fn retires(
        &self,
        next: &Self,
        partitions: impl Iterator<Item = Partition>,
    ) -> Vec<(Partition, ReapSequence)> {
        debug_assert!(self.up_to <= next.up_to, "the next round began later");
        let is_same = |(node, (process, _)): (&NodeId, &(u64, u64))| {
            let before = self.members.get(node);
            before.is_some_and(|(before, _)| before == process || planted!(CountsRestarted))
        };
        // A member that restarted or joined after this round has not reported what it held then.
        if self.layout_version != next.layout_version || !next.members.iter().all(is_same) {
            return Vec::new();
        }
        let is_settled = |partition: &Partition| {
            let is_open = self.unsettled.contains(partition) || next.unsettled.contains(partition);
            !is_open || planted!(ReapsBesideStrays)
        };
        partitions.filter(is_settled).map(|partition| (partition, self.up_to)).collect()
    }
}

/// State of the retirement of a node's reap records.
#[derive(Default)]
pub(crate) struct Retirement {
    held_up: Mutex<ReapRecordBlockers>,
}

/// The last round, and the time at which it began. `round` is `None` if a member did not answer or
/// several layouts were live.
struct LastRound {
    round: Option<Round>,
    at: Option<Instant>,
}

impl Reaper {
    /// Returns the time between two rounds: two minutes with the default limits. A request sends what it
    /// has read or written for at most [`send_window`](crate::local_node::LocalNode::send_window). After
    /// that, a connection that stays silent for its idle timeout is closed at both ends, and the receiver
    /// has the same time again for what has arrived.
    fn rounds_apart(&self) -> Duration {
        self.local.send_window() + 2 * self.local.internode.idle_timeout()
    }

    /// Returns the members for which this node keeps reap records, as the last round found.
    #[must_use]
    pub fn reap_record_blockers(&self) -> ReapRecordBlockers {
        self.retirement.held_up.lock().clone()
    }

    pub(super) async fn run_retirement(self: &Arc<Self>) {
        let rounds_apart = self.rounds_apart();
        let mut ticks = interval(rounds_apart / LOOKS_BETWEEN_ROUNDS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = LastRound { round: None, at: None };
        loop {
            ticks.tick().await;
            if self.replica.reap_records.is_empty() {
                last = LastRound { round: None, at: None };
                *self.retirement.held_up.lock() = ReapRecordBlockers::default();
                continue;
            }
            // After an incomplete round, the next one begins at the next check.
            let is_due = |at: Instant| last.round.is_none() || at.elapsed() >= rounds_apart;
            if last.at.is_some_and(|at| !is_due(at)) {
                continue;
            }
            let at = Instant::now();
            let round = self.ask_all(last.round.as_ref()).await;
            if let (Some(before), Some(next)) = (&last.round, &round) {
                self.retire(before, next).await;
            }
            last = LastRound { round, at: Some(at) };
        }
    }

    /// Retires the reap records that two successive rounds show to be unnecessary.
    async fn retire(self: &Arc<Self>, before: &Round, next: &Round) {
        if before.waits_for_links(next) {
            tracing::debug!("reap records wait for sinks of other clusters");
            return;
        }
        let reaper = Arc::clone(self);
        let settled = before.retires(next, self.replica.reap_records.partitions().into_iter());
        let retire = move || Ok(reaper.replica.reap_records.retire(&settled)?);
        match self.local.settings.blocking.at_low_priority(retire).await {
            Ok(count) => tracing::debug!(count, "reap records have retired"),
            Err(fault) => tracing::warn!(%fault, "reap records could not be removed"),
        }
    }

    /// Asks all members, this node included. Returns `None` if several layouts are live, or if a member
    /// has not answered by a state of the control plane that is at least as new as this node's.
    async fn ask_all(&self, before: Option<&Round>) -> Option<Round> {
        let up_to = self.replica.reap_records.sequence();
        let state = self.local.state();
        let number = |node: &NodeId| {
            before.and_then(|round| round.members.get(node)).map_or(0, |(_, number)| *number)
        };
        let mut answers = BTreeMap::new();
        let mut replies = Replies::new();
        let asked: Vec<NodeId> = state.members().iter().map(|member| member.id).collect();
        for (id, tag) in asked.iter().zip(0..) {
            let ask = AskUnsettled { since: number(id) };
            if *id == state.node_id() {
                answers.insert(*id, self.unsettled_report(ask));
            } else if let Some(peer) = self.local.reachable(*id) {
                // A member to which nothing could be sent counts as one that did not answer.
                let _ = peer.send(METHOD_ASK_UNSETTLED, &ask, b"", Lane::Small, &replies, tag);
            }
        }
        let gather = async {
            while let Some((tag, answer)) = replies.next().await {
                let answer = answer.map(|reply| UnsettledPartitions::decode(reply.header));
                if let (Ok(Ok(answer)), Some(id)) = (answer, asked.get(usize::from(tag))) {
                    answers.insert(*id, answer);
                }
            }
        };
        let _ = timeout(ANSWER_TIMEOUT, gather).await;
        answers.retain(|_, answer| answer.state_version >= state.version());
        self.note_held_up(&state, &answers);
        let [live] = state.layouts().live() else { return None };
        if state.members().iter().any(|member| !answers.contains_key(&member.id)) {
            return None;
        }
        debug_assert_eq!(answers.len(), asked.len(), "all members have answered");
        let unsettled = answers.values().flat_map(|answer| &answer.partitions);
        Some(Round {
            up_to,
            layout_version: live.version(),
            unsettled: unsettled.filter_map(|number| read_partition(*number)).collect(),
            members: answers.iter().map(|(id, each)| (*id, (each.process, each.number))).collect(),
            links: answers.iter().map(link_progress).collect(),
        })
    }

    /// Notes which members delay the retirement, for operators.
    fn note_held_up(&self, state: &State, answers: &BTreeMap<NodeId, UnsettledPartitions>) {
        let reaped = self.replica.reap_records.partitions();
        let mut held_up = ReapRecordBlockers::default();
        for member in state.members().iter() {
            let name = || Arc::clone(&member.name);
            let holds = |number: &u32| read_partition(*number).is_some_and(|p| reaped.contains(&p));
            match answers.get(&member.id) {
                None => held_up.unanswered_members.push(name()),
                Some(answer) if answer.partitions.iter().any(holds) => {
                    held_up.unsettled.push(name());
                }
                Some(_) => {}
            }
        }
        let mut known = self.retirement.held_up.lock();
        if known.unanswered_members != held_up.unanswered_members
            && !held_up.unanswered_members.is_empty()
        {
            tracing::info!(away = ?held_up.unanswered_members, "reap records wait for members");
        }
        *known = held_up;
    }

    pub(crate) fn serve_ask_unsettled(&self, request: &IncomingRequest, reply: Responder) {
        match self.local.read_header(request, |_: &AskUnsettled| u64::MAX) {
            Ok(ask) => reply.send(&self.unsettled_report(ask), b""),
            Err(refusal) => refuse(reply, &refusal),
        }
    }

    /// Returns this node's answer to the question for unsettled partitions.
    fn unsettled_report(&self, ask: AskUnsettled) -> UnsettledPartitions {
        let (told, now_us) = (self.delivery.unsettled_since(ask.since), self.local.clock.unix_us());
        let partitions = told.partitions.into_iter().map(|partition| u32::from(partition.0));
        UnsettledPartitions {
            process: self.tombstones.started_us,
            number: told.number,
            state_version: told.state_version,
            partitions: partitions.collect(),
            now_us,
            links_behind_us: self.source_queues.behind_since_us(now_us),
        }
    }
}

fn link_progress((node, answer): (&NodeId, &UnsettledPartitions)) -> (NodeId, LinkProgress) {
    let UnsettledPartitions { now_us, links_behind_us: behind_since_us, .. } = *answer;
    (*node, LinkProgress { now_us, behind_since_us })
}

fn read_partition(number: u32) -> Option<Partition> {
    u16::try_from(number).ok().map(Partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(layout_version: u64, members: &[(u8, u64)], unsettled: &[u16]) -> Round {
        let members = members.iter().map(|(node, process)| (NodeId([*node; 16]), (*process, 1)));
        let unsettled = unsettled.iter().map(|number| Partition(*number)).collect();
        let up_to = ReapSequence::default();
        let (members, links) = (members.collect(), BTreeMap::new());
        Round { up_to, layout_version, members, unsettled, links }
    }

    fn retired(before: &Round, next: &Round) -> Vec<u16> {
        let partitions = (0..4).map(Partition);
        before.retires(next, partitions).into_iter().map(|(partition, _)| partition.0).collect()
    }

    const MEMBERS: &[(u8, u64)] = &[(1, 10), (2, 20)];

    #[test]
    fn reap_records_go_where_two_rounds_in_a_row_found_nothing() {
        let (before, next) = (round(1, MEMBERS, &[0, 1]), round(1, MEMBERS, &[1, 2]));
        assert_eq!(retired(&before, &next), [3]);
    }

    #[test]
    fn a_member_that_was_not_there_at_the_first_round_holds_up_all() {
        let before = round(1, MEMBERS, &[]);
        assert_eq!(
            retired(&before, &round(1, &[(1, 10), (2, 21)], &[])),
            [0; 0],
            "it was restarted"
        );
        let joined = [MEMBERS, &[(3, 30)]].concat();
        assert_eq!(retired(&before, &round(1, &joined, &[])), [0; 0]);
        assert_eq!(retired(&before, &round(1, &[(1, 10)], &[])), [0, 1, 2, 3], "one has left");
    }

    #[test]
    fn reap_records_wait_while_any_member_has_a_link_that_was_behind_before_the_first_round() {
        let with = |now_us, behind_since_us| {
            let progress = LinkProgress { now_us, behind_since_us };
            Round { links: BTreeMap::from([(NodeId([2; 16]), progress)]), ..round(1, MEMBERS, &[]) }
        };
        let before = with(100, Some(10));
        assert!(before.waits_for_links(&with(200, Some(100))));
        assert!(!before.waits_for_links(&with(200, Some(101))), "these deletes came later");
        assert!(!before.waits_for_links(&with(200, None)));
    }

    #[test]
    fn a_change_of_layouts_in_between_holds_up_all() {
        assert_eq!(retired(&round(1, MEMBERS, &[]), &round(2, MEMBERS, &[])), [0; 0]);
    }
}

//! Retirement of reap records: when nothing that they cover can arrive any more.
//!
//! A node asks all members, whether they are up or not, where they may hold something outside the
//! primaries: strays, hints, pages that are on their way. It does so in rounds. Reap records of a partition
//! that were made before one round began go when that round and the next one, two minutes later, found the
//! partition settled on every member. Until the first round they keep out what strays there were; what was
//! on its way during that round has arrived, or never will, by the second, and no stray has been made of it
//! in between. `docs/design/reaping.md` has the argument.

use super::Reaper;
use crate::reap_records::ReapSequence;
use crate::refusal::refuse;
use parking_lot::Mutex;
use prost::Message;
use quoit_cluster::{IncomingRequest, Lane, NodeId, Replies, Responder, State};
use quoit_model::hash::Partition;
use quoit_planted::planted;
use quoit_wire::internode::reap::{AskUnsettled, METHOD_ASK_UNSETTLED, Unsettled};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// A node looks so many times between two rounds whether the next one is due.
const LOOKS_BETWEEN_ROUNDS: u32 = 24;
/// Time that members have for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Members that keep the reap records of a node from being forgotten.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReapRecordsHeldUp {
    /// Names of those that could not be asked.
    pub away: Vec<Arc<str>>,
    /// Names of those that may hold something older than a reap record of this node.
    pub unsettled: Vec<Arc<str>>,
}

/// The answers of all members.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Round {
    /// Reap records that were made before it began.
    up_to: ReapSequence,
    /// The only live layout.
    layout_version: u64,
    /// The process of each member, and the number of its answer.
    members: BTreeMap<NodeId, (u64, u64)>,
    unsettled: BTreeSet<Partition>,
    /// How far the sinks of each member's queues have come.
    links: BTreeMap<NodeId, LinkProgress>,
}

/// How far the sinks of a member's queues have come, by that member's clock, microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LinkProgress {
    now_us: u64,
    behind_since_us: Option<u64>,
}

impl Round {
    /// Whether sinks may not know of deletes that were made before this round, as the next one has found:
    /// another cluster may send an older version yet.
    fn waits_for_links(&self, next: &Self) -> bool {
        self.links.iter().any(|(node, then)| {
            let now = next.links.get(node);
            now.and_then(|now| now.behind_since_us).is_some_and(|since_us| since_us <= then.now_us)
        })
    }

    /// Partitions of which the reap records that were made before this round are not needed any more after
    /// the next one.
    fn retires(
        &self,
        next: &Self,
        partitions: impl Iterator<Item = Partition>,
    ) -> Vec<(Partition, ReapSequence)> {
        let is_same = |(node, (process, _)): (&NodeId, &(u64, u64))| {
            let before = self.members.get(node);
            before.is_some_and(|(before, _)| before == process || planted!(CountsRestarted))
        };
        // A member that was started again, or has joined, has not said what it had at the first round.
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

/// Retirement of a node's reap records.
#[derive(Default)]
pub(crate) struct Retirement {
    held_up: Mutex<ReapRecordsHeldUp>,
}

/// The last round, and when it was.
struct Last {
    round: Option<Round>,
    at: Option<Instant>,
}

impl Reaper {
    /// Time between two rounds, two minutes: as long as a request sends, and twice as long as a connection
    /// may be silent. One that is silent for longer is closed at both ends, and a receiver has as long for
    /// what has arrived.
    fn rounds_apart(&self) -> Duration {
        self.local.sent_for() + 2 * self.local.internode.idle_timeout()
    }

    /// Members that keep this node's reap records from being forgotten, by the last round of questions.
    #[must_use]
    pub fn reap_records_held_up(&self) -> ReapRecordsHeldUp {
        self.retirement.held_up.lock().clone()
    }

    pub(super) async fn run_retirement(self: &Arc<Self>) {
        let rounds_apart = self.rounds_apart();
        let mut ticks = interval(rounds_apart / LOOKS_BETWEEN_ROUNDS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Last { round: None, at: None };
        loop {
            ticks.tick().await;
            if self.replica.reap_records.is_empty() {
                last = Last { round: None, at: None };
                *self.retirement.held_up.lock() = ReapRecordsHeldUp::default();
                continue;
            }
            // Of a round that nobody can go by, the next one need not wait.
            let is_due = |at: Instant| last.round.is_none() || at.elapsed() >= rounds_apart;
            if last.at.is_some_and(|at| !is_due(at)) {
                continue;
            }
            let at = Instant::now();
            let round = self.ask_all(last.round.as_ref()).await;
            if let (Some(before), Some(next)) = (&last.round, &round) {
                self.retire(before, next).await;
            }
            last = Last { round, at: Some(at) };
        }
    }

    async fn retire(self: &Arc<Self>, before: &Round, next: &Round) {
        if before.waits_for_links(next) {
            tracing::debug!("reap records wait for sinks of other clusters");
            return;
        }
        let reaper = Arc::clone(self);
        let settled = before.retires(next, self.replica.reap_records.partitions().into_iter());
        let retire = move || Ok(reaper.replica.reap_records.retire(&settled)?);
        match self.local.settings.blocking.behind(retire).await {
            Ok(count) => tracing::debug!(count, "reap records have retired"),
            Err(fault) => tracing::warn!(%fault, "reap records could not be removed"),
        }
    }

    /// Asks all members; `None` while not all of them have answered by a state that is as new as this node's.
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
                answers.insert(*id, self.tell_unsettled(ask));
            } else if let Some(peer) = self.local.reachable(*id) {
                // A member that can't be asked has not answered.
                let _ = peer.send(METHOD_ASK_UNSETTLED, &ask, b"", Lane::Small, &replies, tag);
            }
        }
        let gather = async {
            while let Some((tag, answer)) = replies.next().await {
                if let Ok(Ok(answer)) = answer.map(|reply| Unsettled::decode(reply.header)) {
                    answers.insert(asked[usize::from(tag)], answer);
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
        let unsettled = answers.values().flat_map(|answer| &answer.partitions);
        Some(Round {
            up_to,
            layout_version: live.version(),
            unsettled: unsettled.filter_map(|number| read_partition(*number)).collect(),
            members: answers.iter().map(|(id, each)| (*id, (each.process, each.number))).collect(),
            links: answers.iter().map(link_progress).collect(),
        })
    }

    fn note_held_up(&self, state: &State, answers: &BTreeMap<NodeId, Unsettled>) {
        let reaped = self.replica.reap_records.partitions();
        let mut held_up = ReapRecordsHeldUp::default();
        for member in state.members().iter() {
            let name = || Arc::clone(&member.name);
            let holds = |number: &u32| read_partition(*number).is_some_and(|p| reaped.contains(&p));
            match answers.get(&member.id) {
                None => held_up.away.push(name()),
                Some(answer) if answer.partitions.iter().any(holds) => {
                    held_up.unsettled.push(name());
                }
                Some(_) => {}
            }
        }
        let mut known = self.retirement.held_up.lock();
        if known.away != held_up.away && !held_up.away.is_empty() {
            tracing::info!(away = ?held_up.away, "reap records wait for members");
        }
        *known = held_up;
    }

    pub(crate) fn serve_ask_unsettled(&self, request: &IncomingRequest, reply: Responder) {
        match self.local.read_header(request, |_: &AskUnsettled| u64::MAX) {
            Ok(ask) => reply.send(&self.tell_unsettled(ask), b""),
            Err(refusal) => refuse(reply, &refusal),
        }
    }

    fn tell_unsettled(&self, ask: AskUnsettled) -> Unsettled {
        let (told, now_us) = (self.delivery.unsettled_since(ask.since), self.local.clock.unix_us());
        let partitions = told.partitions.into_iter().map(|partition| u32::from(partition.0));
        Unsettled {
            process: self.tombstones.started_us,
            number: told.number,
            state_version: told.state_version,
            partitions: partitions.collect(),
            now_us,
            links_behind_us: self.source_queues.behind_since_us(now_us),
        }
    }
}

fn link_progress((node, answer): (&NodeId, &Unsettled)) -> (NodeId, LinkProgress) {
    let Unsettled { now_us, links_behind_us: behind_since_us, .. } = *answer;
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

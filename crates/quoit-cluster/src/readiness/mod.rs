//! Whether a node serves clients.
//!
//! A node that is alone although it has seeds (`cluster.seeds`) may be a member that has lost its data
//! directory. Writes that it acknowledged would be seen by no other node. So it does not serve before it
//! has joined, and logs the reason and the remedies.
//!
//! A node that has just started may have a wrong clock. Where the last write wins, its writes would win
//! against all others. So it waits until it has compared its time with another member. It serves once the
//! time of a member agrees with its own, or if it has heard of no member for some seconds. The transport
//! handles clocks that become wrong later.

mod messages;

use crate::NodeId;
use crate::plane::ControlPlane;
use crate::state::State;
use crate::transport::{CallError, ClockComparison, Internode};
use messages::{
    OwnTimes, Seed, SeedAnswer, clock_behind_text, clock_disagreement_text, not_compared_text,
    unexpectedly_alone_text,
};
use prost::Message as _;
use quoit_planted::planted;
use quoit_wire::internode::code;
use quoit_wire::internode::control::{METHOD_MEMBERSHIP, MembershipAnswer, MembershipQuery};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Interval between two checks when nothing changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two checks while the node waits for the time of others.
const TIME_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for which a node waits for the time of another member, if it hears of no member.
const TIME_PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the seeds are asked.
const SEED_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time for the answer of a seed.
const SEED_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a node serves clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// The node serves.
    Serves,
    /// The node will decide within seconds; contains the reason for the wait.
    Undecided(Arc<str>),
    /// The node does not serve; contains the reason, and the remedy for the operator.
    Waits(Arc<str>),
}

impl State {
    /// Returns true if the node is alone and still has the layout that it was founded with: its data
    /// directory is new, or the node went back to being alone.
    fn has_founding_layout(&self) -> bool {
        self.members().count() == 1 && self.layouts().newest().version() == FIRST_LAYOUT
    }
}

/// Version of the layout with which a cluster begins.
const FIRST_LAYOUT: u64 = 1;

impl ControlPlane {
    /// Starts to watch whether the node serves clients. `seeds` are internode addresses of other nodes; a
    /// node with seeds does not serve while it is alone.
    pub fn readiness(self: &Arc<Self>, seeds: Vec<Arc<str>>) -> watch::Receiver<Readiness> {
        let recorded_time_us = self.file().time_us().ok().flatten();
        let watcher = Watcher { seeds, recorded_time_us, start: Instant::now(), is_in_time: false };
        let verdict = judge(&watcher.evidence(self));
        let (publish, readiness) = watch::channel(readiness_of(&verdict, self, &[]));
        tokio::spawn(watcher.run(Arc::downgrade(self), publish));
        readiness
    }
}

/// Facts from which the verdict follows.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Evidence {
    /// True if the node is alone although it has seeds.
    is_unexpectedly_alone: bool,
    has_others: bool,
    /// True if the clock of another member has agreed with this node's clock since the start.
    is_in_time: bool,
    clocks: ClockComparison,
    /// Time since the start.
    waited: Duration,
}

/// Decision that follows from the facts.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Verdict {
    Serves,
    /// The node serves although no other member has sent its time.
    ServesUnchecked,
    UnexpectedlyAlone,
    /// The clocks of all members that the node has heard of differ from its own; contains the complaint of
    /// one of them.
    Disagreed(Arc<str>),
    /// The node has heard of no member yet.
    NotCompared,
}

fn judge(evidence: &Evidence) -> Verdict {
    if evidence.is_unexpectedly_alone && !planted!(ServesAstray) {
        return Verdict::UnexpectedlyAlone;
    }
    if !evidence.has_others || evidence.is_in_time || planted!(ServesBeforeTime) {
        return Verdict::Serves;
    }
    match &evidence.clocks {
        ClockComparison::Agreed => Verdict::Serves,
        ClockComparison::Disagreed(words) => Verdict::Disagreed(Arc::clone(words)),
        ClockComparison::NotCompared if evidence.waited < TIME_PATIENCE => Verdict::NotCompared,
        ClockComparison::NotCompared => Verdict::ServesUnchecked,
    }
}

fn readiness_of(verdict: &Verdict, plane: &ControlPlane, asked: &[Seed]) -> Readiness {
    let state = plane.read();
    let name = state.node_name();
    match verdict {
        Verdict::Serves | Verdict::ServesUnchecked => Readiness::Serves,
        Verdict::UnexpectedlyAlone => Readiness::Waits(unexpectedly_alone_text(name, asked).into()),
        Verdict::Disagreed(words) => Readiness::Waits(clock_disagreement_text(name, words).into()),
        Verdict::NotCompared => Readiness::Undecided(not_compared_text(name).into()),
    }
}

/// Watches whether a node may serve.
struct Watcher {
    seeds: Vec<Arc<str>>,
    /// The last recorded time of the node's clock when it started, microseconds since 1970.
    recorded_time_us: Option<u64>,
    start: Instant,
    is_in_time: bool,
}

impl Watcher {
    fn evidence(&self, plane: &ControlPlane) -> Evidence {
        let state = plane.read();
        let internode = plane.link().internode();
        let clocks = internode.map(|internode| internode.compare_clocks());
        Evidence {
            is_unexpectedly_alone: !self.seeds.is_empty() && state.has_founding_layout(),
            has_others: state.members().count() > 1,
            is_in_time: self.is_in_time,
            clocks: clocks.unwrap_or(ClockComparison::NotCompared),
            waited: self.start.elapsed(),
        }
    }

    /// Logs a warning if no other member has confirmed the clock, or if the clock is behind
    /// its last recorded time.
    fn log_clock_verdict(&self, verdict: &Verdict, plane: &ControlPlane) {
        let state = plane.read();
        if *verdict == Verdict::ServesUnchecked {
            tracing::warn!(
                "{} serves clients although no other member has reported its time within {} s: a wrong clock \
                 would not be noticed",
                state.node_name(),
                TIME_PATIENCE.as_secs()
            );
        }
        let now_us = plane.link().internode().and_then(|internode| internode.unix_us());
        let behind = self.recorded_time_us.zip(now_us).and_then(|(recorded_us, now_us)| {
            clock_behind_text(state.node_name(), OwnTimes { now_us, recorded_us })
        });
        if let Some(words) = behind {
            tracing::warn!("{words}");
        }
    }

    async fn run(mut self, plane: Weak<ControlPlane>, publish: watch::Sender<Readiness>) {
        let (mut said, mut has_said_of_clock) = (None, false);
        loop {
            let Some(strong) = plane.upgrade() else { return };
            let mut news = strong.watch();
            let mut verdict = judge(&self.evidence(&strong));
            let mut asked = Vec::new();
            if verdict == Verdict::UnexpectedlyAlone {
                asked = self.ask_seeds(&strong).await;
                verdict = judge(&self.evidence(&strong));
                if planted!(ServesUnanswered) && asked.iter().all(Seed::is_silent) {
                    verdict = Verdict::Serves;
                }
            }
            let readiness = readiness_of(&verdict, &strong, &asked);
            if readiness == Readiness::Serves && !has_said_of_clock {
                has_said_of_clock = true;
                self.log_clock_verdict(&verdict, &strong);
            }
            let evidence = self.evidence(&strong);
            self.is_in_time |= evidence.has_others && evidence.clocks == ClockComparison::Agreed;
            // Not logged when no member was heard of yet, which is usual right after a start.
            if said.as_ref() != Some(&readiness) && verdict != Verdict::NotCompared {
                if let Readiness::Waits(words) = &readiness {
                    tracing::warn!("{words}");
                } else if said.is_some() {
                    tracing::info!("the node serves clients");
                }
                said = Some(readiness.clone());
            }
            publish.send_if_modified(|known| {
                let is_news = *known != readiness;
                *known = readiness;
                is_news
            });
            drop(strong);
            let interval = match verdict {
                Verdict::Serves | Verdict::ServesUnchecked => POLL_INTERVAL,
                Verdict::UnexpectedlyAlone => SEED_INTERVAL,
                Verdict::Disagreed(_) | Verdict::NotCompared => TIME_POLL_INTERVAL,
            };
            tokio::select! {
                biased;
                _ = news.changed() => {}
                () = sleep(interval) => {}
            }
        }
    }

    /// Asks all seeds at once what their clusters know of this node.
    async fn ask_seeds(&self, plane: &ControlPlane) -> Vec<Seed> {
        let Some(internode) = plane.link().internode() else { return Vec::new() };
        let question = MembershipQuery { name: plane.read().node_name().to_owned() };
        let mut asked = JoinSet::new();
        for (place, address) in self.seeds.iter().map(Arc::clone).enumerate() {
            let (internode, question) = (Arc::clone(&internode), question.clone());
            asked.spawn(async move {
                let answer = ask(&internode, &address, &question).await;
                (place, Seed { address, answer })
            });
        }
        let mut answers: Vec<_> = asked.join_all().await;
        answers.sort_by_key(|(place, _)| *place);
        answers.into_iter().map(|(_, seed)| seed).collect()
    }
}

async fn ask(internode: &Internode, address: &str, question: &MembershipQuery) -> SeedAnswer {
    let no_payload = b"".as_slice();
    let asked =
        internode.call_address(address, METHOD_MEMBERSHIP, question, no_payload, SEED_TIMEOUT);
    match asked.await {
        Ok((_, reply)) => match MembershipAnswer::decode(reply.header) {
            Ok(membership) => answer_of(&membership),
            Err(fault) => SeedAnswer::Silent(fault.to_string()),
        },
        Err(CallError::Refused { code: code::NOT_ME, .. }) => SeedAnswer::Itself,
        Err(fault) => SeedAnswer::Silent(fault.to_string()),
    }
}

fn answer_of(membership: &MembershipAnswer) -> SeedAnswer {
    if membership.is_member {
        return SeedAnswer::KnowsIt;
    }
    match membership.namesake[..].try_into() {
        Ok(id) => SeedAnswer::Namesake(NodeId(id)),
        Err(_) => SeedAnswer::Members(membership.member_count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(clocks: ClockComparison, waited: Duration) -> Evidence {
        Evidence {
            is_unexpectedly_alone: false,
            has_others: true,
            is_in_time: false,
            clocks,
            waited,
        }
    }

    #[test]
    fn a_member_serves_when_another_has_its_time_or_none_was_heard_of_for_a_while() {
        let apart = || ClockComparison::Disagreed("3600 s".into());
        let of = |clocks, waited| judge(&evidence(clocks, waited));
        let (soon, late) = (Duration::ZERO, TIME_PATIENCE);
        assert_eq!(of(ClockComparison::Agreed, soon), Verdict::Serves);
        assert_eq!(of(ClockComparison::NotCompared, soon), Verdict::NotCompared);
        assert_eq!(of(ClockComparison::NotCompared, late), Verdict::ServesUnchecked);
        for waited in [soon, late, late * 100] {
            assert_eq!(of(apart(), waited), Verdict::Disagreed("3600 s".into()));
        }
        let alone = Evidence { has_others: false, ..evidence(ClockComparison::NotCompared, soon) };
        assert_eq!(judge(&alone), Verdict::Serves);
        let served = Evidence { is_in_time: true, ..evidence(apart(), late) };
        assert_eq!(judge(&served), Verdict::Serves, "another member's clock is wrong");
        let unexpectedly_alone = Evidence { is_unexpectedly_alone: true, ..alone };
        assert_eq!(judge(&unexpectedly_alone), Verdict::UnexpectedlyAlone);
    }
}

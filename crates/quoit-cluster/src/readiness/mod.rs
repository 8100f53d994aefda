//! Whether a node serves clients.
//!
//! A node that is alone and should be part of a cluster (`cluster.seeds`) may be a member that has lost its
//! data directory. No other node would see what it acknowledges, so it waits until it has joined, and says
//! why.
//!
//! A node that has just started may have a wrong clock. Where the last write wins, what it acknowledges would
//! win against all others, so it waits for the time of another member. Once a member had the same time, or
//! none was heard of for a while, it serves; a clock that goes wrong later is the business of the transport.

mod words;

use crate::NodeId;
use crate::plane::ControlPlane;
use crate::state::State;
use crate::transport::{CallError, ClockStanding, Internode};
use prost::Message as _;
use quoit_planted::planted;
use quoit_wire::internode::code;
use quoit_wire::internode::control::{METHOD_STANDING, Standing, StandingAsked};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use words::{Seed, SeedAnswer, apart_words, astray_words, mark_words, unheard_words};

/// Time between two looks when nothing changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks while the node waits for the time of others.
const TIME_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A node waits so long for the time of another member, if it hears of none.
const TIME_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two questions to the seeds.
const SEED_INTERVAL: Duration = Duration::from_secs(5);
/// Time that a seed may take to answer.
const SEED_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a node serves clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// It does.
    Serves,
    /// It is decided within some seconds; why not yet.
    Undecided(Arc<str>),
    /// It does not yet; why, and what to do.
    Waits(Arc<str>),
}

impl State {
    /// Whether the node is alone and never shared a layout with another: its data directory is new, or it
    /// went back to being alone.
    fn is_unacquainted(&self) -> bool {
        self.members().count() == 1 && self.layouts().newest().version() == FIRST_LAYOUT
    }
}

/// Version of the layout that a new cluster begins with.
const FIRST_LAYOUT: u64 = 1;

impl ControlPlane {
    /// Tells from now on whether the node serves clients. `seeds` are addresses of other nodes for each
    /// other: a node that has some waits while it is alone.
    pub fn readiness(self: &Arc<Self>, seeds: Vec<Arc<str>>) -> watch::Receiver<Readiness> {
        let mark_us = self.file().time_us().ok().flatten();
        let watcher = Watcher { seeds, mark_us, start: Instant::now(), is_in_time: false };
        let verdict = judge(&watcher.evidence(self));
        let (publish, readiness) = watch::channel(readiness_of(&verdict, self, &[]));
        tokio::spawn(watcher.run(Arc::downgrade(self), publish));
        readiness
    }
}

/// Evidence for and against serving.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Evidence {
    /// Whether the node is alone and should not be.
    is_astray: bool,
    has_others: bool,
    /// Whether another member had this node's time since the start.
    is_in_time: bool,
    clocks: ClockStanding,
    /// Since the start.
    waited: Duration,
}

/// Decision that follows from the evidence.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Verdict {
    Serves,
    /// It serves, and no other member has told its time.
    ServesUnchecked,
    Astray,
    /// All members that were heard of have another time; what one of them says.
    Apart(Arc<str>),
    /// No member was heard of yet.
    Unheard,
}

fn judge(evidence: &Evidence) -> Verdict {
    if evidence.is_astray && !planted!(ServesAstray) {
        return Verdict::Astray;
    }
    if !evidence.has_others || evidence.is_in_time || planted!(ServesBeforeTime) {
        return Verdict::Serves;
    }
    match &evidence.clocks {
        ClockStanding::Agreed => Verdict::Serves,
        ClockStanding::Apart(words) => Verdict::Apart(Arc::clone(words)),
        ClockStanding::Unheard if evidence.waited < TIME_PATIENCE => Verdict::Unheard,
        ClockStanding::Unheard => Verdict::ServesUnchecked,
    }
}

fn readiness_of(verdict: &Verdict, plane: &ControlPlane, asked: &[Seed]) -> Readiness {
    let state = plane.read();
    let name = state.node_name();
    match verdict {
        Verdict::Serves | Verdict::ServesUnchecked => Readiness::Serves,
        Verdict::Astray => Readiness::Waits(astray_words(name, asked).into()),
        Verdict::Apart(words) => Readiness::Waits(apart_words(name, words).into()),
        Verdict::Unheard => Readiness::Undecided(unheard_words(name).into()),
    }
}

/// Looks whether a node may serve.
struct Watcher {
    seeds: Vec<Arc<str>>,
    /// The time of the node's clock that was durable when it started.
    mark_us: Option<u64>,
    start: Instant,
    is_in_time: bool,
}

impl Watcher {
    fn evidence(&self, plane: &ControlPlane) -> Evidence {
        let state = plane.read();
        let internode = plane.link().internode();
        let clocks = internode.map(|internode| internode.clock_standing());
        Evidence {
            is_astray: !self.seeds.is_empty() && state.is_unacquainted(),
            has_others: state.members().count() > 1,
            is_in_time: self.is_in_time,
            clocks: clocks.unwrap_or(ClockStanding::Unheard),
            waited: self.start.elapsed(),
        }
    }

    /// Says what an operator should know of a clock that no other member has confirmed.
    fn say_of_clock(&self, verdict: &Verdict, plane: &ControlPlane) {
        let state = plane.read();
        if *verdict == Verdict::ServesUnchecked {
            tracing::warn!(
                "{} serves clients though no other member has told its time within {} s: a wrong clock would \
                 not be noticed",
                state.node_name(),
                TIME_PATIENCE.as_secs()
            );
        }
        let now_us = plane.link().internode().and_then(|internode| internode.unix_us());
        let behind = self
            .mark_us
            .zip(now_us)
            .and_then(|(mark_us, now_us)| mark_words(state.node_name(), now_us, mark_us));
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
            if verdict == Verdict::Astray {
                asked = self.ask_seeds(&strong).await;
                verdict = judge(&self.evidence(&strong));
            }
            let readiness = readiness_of(&verdict, &strong, &asked);
            if readiness == Readiness::Serves && !has_said_of_clock {
                has_said_of_clock = true;
                self.say_of_clock(&verdict, &strong);
            }
            let evidence = self.evidence(&strong);
            self.is_in_time |= evidence.has_others && evidence.clocks == ClockStanding::Agreed;
            // That nobody was heard of yet is usual right after a start.
            if said.as_ref() != Some(&readiness) && verdict != Verdict::Unheard {
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
                Verdict::Astray => SEED_INTERVAL,
                Verdict::Apart(_) | Verdict::Unheard => TIME_POLL_INTERVAL,
            };
            tokio::select! {
                biased;
                _ = news.changed() => {}
                () = sleep(interval) => {}
            }
        }
    }

    /// Asks all seeds at once how this node stands with their clusters.
    async fn ask_seeds(&self, plane: &ControlPlane) -> Vec<Seed> {
        let Some(internode) = plane.link().internode() else { return Vec::new() };
        let question = StandingAsked { name: plane.read().node_name().to_owned() };
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

async fn ask(internode: &Internode, address: &str, question: &StandingAsked) -> SeedAnswer {
    let no_payload = b"".as_slice();
    let asked =
        internode.call_address(address, METHOD_STANDING, question, no_payload, SEED_TIMEOUT);
    match asked.await {
        Ok((_, reply)) => match Standing::decode(reply.header) {
            Ok(standing) => answer_of(&standing),
            Err(fault) => SeedAnswer::Silent(fault.to_string()),
        },
        Err(CallError::Refused { code: code::NOT_ME, .. }) => SeedAnswer::Itself,
        Err(fault) => SeedAnswer::Silent(fault.to_string()),
    }
}

fn answer_of(standing: &Standing) -> SeedAnswer {
    if standing.is_member {
        return SeedAnswer::KnowsIt;
    }
    match standing.namesake[..].try_into() {
        Ok(id) => SeedAnswer::Namesake(NodeId(id)),
        Err(_) => SeedAnswer::Members(standing.member_count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(clocks: ClockStanding, waited: Duration) -> Evidence {
        Evidence { is_astray: false, has_others: true, is_in_time: false, clocks, waited }
    }

    #[test]
    fn a_member_serves_when_another_has_its_time_or_none_was_heard_of_for_a_while() {
        let apart = || ClockStanding::Apart("3600 s".into());
        let of = |clocks, waited| judge(&evidence(clocks, waited));
        let (soon, late) = (Duration::ZERO, TIME_PATIENCE);
        assert_eq!(of(ClockStanding::Agreed, soon), Verdict::Serves);
        assert_eq!(of(ClockStanding::Unheard, soon), Verdict::Unheard);
        assert_eq!(of(ClockStanding::Unheard, late), Verdict::ServesUnchecked);
        for waited in [soon, late, late * 100] {
            assert_eq!(of(apart(), waited), Verdict::Apart("3600 s".into()));
        }
        let alone = Evidence { has_others: false, ..evidence(ClockStanding::Unheard, soon) };
        assert_eq!(judge(&alone), Verdict::Serves);
        let served = Evidence { is_in_time: true, ..evidence(apart(), late) };
        assert_eq!(judge(&served), Verdict::Serves, "another member's clock is wrong");
        let astray = Evidence { is_astray: true, ..alone };
        assert_eq!(judge(&astray), Verdict::Astray);
    }
}

//! The coordinator's side of grants: gathers them for a conditional write, and gives back unused ones.
//! The protocol is described in `grants`.

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::grants::GrantNumber;
use crate::grants::GrantedWrite;
use crate::grants::majority::{GrantAnswer, GrantDecision, decide};
use crate::options::ReadOptions;
use crate::placement::{object_props, record_at};
use crate::replica::{Replicated, merge_rule};
use crate::settings::TIMEOUT_MS_DEFAULT;
use crate::stored::decode;
use crate::topology::Topology;
use crate::votes::NodeIndex;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, Lane, Replies, Reply};
use quoit_model::key::KeyRef;
use quoit_model::props::ConditionalPutMode;
use quoit_planted::planted;
use quoit_store::engine::{RecordAt, RecordMeta};
use quoit_wire::internode::data::{MergeRule, REFUSED_STALE_LAYOUT};
use quoit_wire::internode::grants::{
    Grant, Granted, METHOD_GRANT, METHOD_RELEASE, REFUSED_GRANTED, Release,
};
use smallvec::SmallVec;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Time that primaries have to answer a request for a grant. A later answer is ignored.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time that a write with `prefer_token` waits for grants that other writes hold.
const PREFERRED_FOR: Duration = Duration::from_millis(500);
/// Bounds of the pause before the coordinator asks again for grants that other writes held.
const PAUSE_US_MIN: u64 = 2_000;
const PAUSE_US_MAX: u64 = 20_000;

/// Grant numbers of one write, by primary.
pub(crate) type GrantNumbers = SmallVec<[(NodeIndex, GrantNumber); 4]>;

/// Protection of a conditional write from other conditional writes.
pub(crate) enum Fence<'s> {
    /// No protection. A condition refers to what a read has returned.
    None,
    /// Grants that only keep other writes away; the write is valid without them.
    Preferred { _held: HeldGrants<'s> },
    /// Grants without which the primaries refuse the write.
    Required(HeldGrants<'s>),
}

/// Grants of one write. Dropping the value gives back the grants that the write has not used.
pub(crate) struct HeldGrants<'s> {
    coordinator: &'s Coordinator,
    /// The topology by which the grants were requested.
    pub(crate) topology: Arc<Topology>,
    record: Bytes,
    numbers: GrantNumbers,
    /// The right to change this node's own copy, if the node is a primary.
    own: Option<GrantedWrite>,
}

/// Result of asking all primaries once.
enum GrantRound<'s> {
    Held(HeldGrants<'s>),
    HeldByOther,
    StaleLayout,
}

/// The record for which grants are requested.
struct GrantTarget<'a> {
    at: RecordAt<'a>,
    n_val: u32,
    rule: MergeRule,
}

impl Coordinator {
    /// Prepares a conditional write: brings this node's copy up to date, and keeps other conditional
    /// writes away as the bucket's `conditional_put_mode` says. `read` has the options of the read that
    /// the condition refers to.
    ///
    /// # Errors
    ///
    /// The errors of the read. With [`ConditionalPutMode::RequireToken`] also an unmet `pw` quorum if no
    /// majority of the primaries answers, and a timeout if other writes hold the grants for too long.
    /// Nothing was written in these cases.
    pub(crate) async fn fence(
        &self,
        topology: &Topology,
        key: KeyRef<'_>,
        read: &ReadOptions,
    ) -> Result<Fence<'_>, RequestError> {
        let mode = self.local.props_of(key)?.conditional_put_mode();
        let limit = u64::from(read.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT));
        let deadline = Instant::now() + Duration::from_millis(limit);
        let held = match mode {
            ConditionalPutMode::ApiOnly => None,
            ConditionalPutMode::PreferToken => {
                let deadline = deadline.min(Instant::now() + PREFERRED_FOR);
                self.take_grants(key, deadline).await.ok()
            }
            ConditionalPutMode::RequireToken => {
                return Ok(Fence::Required(self.take_grants(key, deadline).await?));
            }
        };
        if !topology.is_alone() {
            self.refresh_own(key, read).await?;
        }
        Ok(held.map_or(Fence::None, |held| Fence::Preferred { _held: held }))
    }

    /// Gathers grants from a majority of the positions of every live layout, and merges the copies that
    /// the primaries have sent into this node's copy.
    async fn take_grants(
        &self,
        key: KeyRef<'_>,
        deadline: Instant,
    ) -> Result<HeldGrants<'_>, RequestError> {
        let encoded = key.encoded();
        let wanted = {
            let state = self.local.control.read();
            let props = object_props(&state, key.bucket)?;
            let at = record_at(&state, props, key, &encoded);
            GrantTarget { at, n_val: props.n_val, rule: merge_rule(props) }
        };
        loop {
            let topology = self.local.topology();
            let version = topology.version();
            match self.ask_primaries(topology, &wanted, deadline).await? {
                GrantRound::Held(held) => return Ok(held),
                GrantRound::StaleLayout => self.local.wait_for_newer(version, deadline).await?,
                GrantRound::HeldByOther => {
                    let until = Instant::now() + self.pause_before_next()?;
                    if until >= deadline {
                        return Err(RequestError::Timeout);
                    }
                    sleep_until(until).await;
                }
            }
        }
    }

    /// A pause that differs between nodes and between attempts, so that two coordinators that each hold a
    /// part of the grants do not collide again.
    fn pause_before_next(&self) -> Result<Duration, RequestError> {
        let mut hasher = DefaultHasher::new();
        (&self.local.dots.actor().0[..], self.grants.grant_number()?).hash(&mut hasher);
        let spread_us = hasher.finish() % (PAUSE_US_MAX - PAUSE_US_MIN);
        Ok(Duration::from_micros(PAUSE_US_MIN + spread_us))
    }

    /// Asks all primaries once for grants, and decides by their answers. Unless the result is
    /// [`GrantRound::Held`], the grants are given back.
    async fn ask_primaries(
        &self,
        topology: Arc<Topology>,
        wanted: &GrantTarget<'_>,
        deadline: Instant,
    ) -> Result<GrantRound<'_>, RequestError> {
        let GrantTarget { at, n_val, rule } = wanted;
        let layouts = topology.writers(at.partition, *n_val, false, &[]);
        let record = Bytes::copy_from_slice(at.encoded);
        let numbers = GrantNumbers::new();
        let mut held = HeldGrants { coordinator: self, topology, record, numbers, own: None };
        let mut answers: SmallVec<[(NodeIndex, GrantAnswer); 4]> = SmallVec::new();
        let mut nodes: SmallVec<[NodeIndex; 4]> = SmallVec::new();
        for voter in layouts.iter().flat_map(|voters| voters.iter()) {
            if !nodes.contains(&voter.node) {
                nodes.push(voter.node);
            }
        }
        if let Some(own) = held.topology.own().filter(|own| nodes.contains(own)) {
            if !held.take_own_grant(own)? {
                return Ok(GrantRound::HeldByOther);
            }
            let is_complete = {
                let replicas = self.local.replicas_by(&held.topology, at.encoded, *n_val);
                held.topology.keeps(at.partition, replicas)
            };
            answers.push((own, GrantAnswer::Granted { is_complete }));
        }
        let mut replies = Replies::new();
        let mut asked_count = 0;
        for node in nodes {
            let Some(peer) = held.topology.peer(node) else { continue };
            let header = Grant {
                key: held.record.clone(),
                partition: u32::from(at.partition.0),
                layout_version: held.topology.newest_layout(),
                n_val: *n_val,
            };
            let sent = peer.send(METHOD_GRANT, &header, b"", Lane::Small, &replies, node);
            asked_count += usize::from(sent.is_ok());
        }
        let until = deadline.min(Instant::now() + PATIENCE);
        let mut copies: SmallVec<[(u64, Bytes); 4]> = SmallVec::new();
        for _ in 0..asked_count {
            let Ok(Some((node, reply))) = timeout_at(until, replies.next()).await else { break };
            if is_stale(&reply) {
                return Ok(GrantRound::StaleLayout);
            }
            answers.push((node, held.answer_of(node, reply, &mut copies)));
        }
        let reads = held.topology.read_index(at.partition);
        match decide(*n_val, &layouts, reads, &answers) {
            GrantDecision::HeldByOther => return Ok(GrantRound::HeldByOther),
            GrantDecision::NoMajority(fault) => return Err(fault),
            GrantDecision::Granted => {}
        }
        self.merge_shown(at, *rule, *n_val, copies)?;
        // The condition is checked on this node's copy. Nothing is written yet, so another node can try.
        self.replica.healing.check_vote(at)?;
        Ok(if held.begin_own() { GrantRound::Held(held) } else { GrantRound::HeldByOther })
    }

    /// Merges the copies that primaries have sent into this node's copy.
    fn merge_shown(
        &self,
        at: &RecordAt<'_>,
        rule: MergeRule,
        n_val: u32,
        copies: impl IntoIterator<Item = (u64, Bytes)>,
    ) -> Result<(), RequestError> {
        for (digest, copy) in copies {
            let own = self.local.records.head(at)?;
            if own.is_none_or(|own| own.digest != digest) && !planted!(OverlooksShownCopies) {
                let shown = Replicated::new(&decode(&copy)?, rule, RecordMeta::class_of(n_val));
                self.replica.merge_into_own_copy(at, &shown)?;
            }
        }
        Ok(())
    }
}

impl HeldGrants<'_> {
    /// Takes the numbers for a write that is about to be sent. This node's own right ends, and no grant
    /// is given back.
    pub(crate) fn use_up(&mut self) -> GrantNumbers {
        debug_assert!(!self.numbers.is_empty(), "a write is sent under grants that it holds");
        self.own = None;
        std::mem::take(&mut self.numbers)
    }

    /// Takes a grant from this node's own table. False if another write holds one.
    fn take_own_grant(&mut self, own: NodeIndex) -> Result<bool, RequestError> {
        let number = self.coordinator.grants.grant_number()?;
        let now_us = self.coordinator.local.clock.monotonic_us();
        let is_granted = self.coordinator.grants.grant(&self.record, number, now_us);
        if is_granted {
            self.numbers.push((own, number));
        }
        Ok(is_granted)
    }

    /// Begins the change of this node's own copy, if the node is a primary. False if another write was
    /// granted in the meantime.
    fn begin_own(&mut self) -> bool {
        let own = self.topology.own();
        let Some((_, number)) = self.numbers.iter().find(|(node, _)| Some(*node) == own) else {
            return true;
        };
        self.own = self.coordinator.grants.begin(&self.record, *number);
        self.own.is_some()
    }

    /// Notes the grant and the copy in a primary's answer.
    fn answer_of(
        &mut self,
        node: NodeIndex,
        reply: Result<Reply, CallError>,
        copies: &mut SmallVec<[(u64, Bytes); 4]>,
    ) -> GrantAnswer {
        let reply = match reply {
            Ok(reply) => reply,
            Err(CallError::Refused { code: REFUSED_GRANTED, .. }) => {
                return GrantAnswer::HeldByOther;
            }
            Err(_) => return GrantAnswer::Failed,
        };
        let Ok(granted) = Granted::decode(reply.header) else { return GrantAnswer::Failed };
        self.numbers.push((node, GrantNumber(granted.number)));
        if granted.found {
            copies.push((granted.digest, reply.payload));
        }
        GrantAnswer::Granted { is_complete: granted.is_complete }
    }
}

impl Drop for HeldGrants<'_> {
    fn drop(&mut self) {
        // The right to write ends before its grant is given back.
        self.own = None;
        for (node, number) in std::mem::take(&mut self.numbers) {
            let Some(peer) = self.topology.peer(node) else {
                self.coordinator.grants.release(&self.record, number);
                continue;
            };
            let header = Release { key: self.record.clone(), number: number.0 };
            // If the message is lost, the grant's lease runs out.
            let _ = peer.send(METHOD_RELEASE, &header, b"", Lane::Small, &Replies::new(), node);
        }
    }
}

fn is_stale(reply: &Result<Reply, CallError>) -> bool {
    matches!(reply, Err(CallError::Refused { code: REFUSED_STALE_LAYOUT, .. }))
}

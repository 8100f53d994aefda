//! Runs the exchanges that this node begins. [`crate::exchange`] describes their steps.

use super::AntiEntropy;
use super::ExchangeError;
use super::expiry::first_hour;
use super::progress::ExchangeStats;
use super::repair::Repaired;
use super::roots::{self, SharedPartition, bits};
use super::walk::{RangeDifference, RangeStep, Walk};
use crate::calls::call_while_up;
use crate::error::RequestError;
use crate::stats::Counter;
use prost::Message;
use quoit_cluster::{CallError, Lane, NodeId, Peer};
use quoit_model::hash::Partition;
use quoit_store::compare::Scope;
use quoit_wire::internode::exchange::{
    Compared, Descend, Descended, METHOD_COMPARE, METHOD_DESCEND,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Interval at which the schedule is checked.
const TICK: Duration = Duration::from_secs(1);
/// Timeout for the other node's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which differences are compared again. Those that are still the same are repaired; writes
/// that were under way have arrived by then.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// Number of differences after which they are repaired before the walk continues.
const FOUND_COUNT_MAX: usize = 1024;

/// Outcome of an exchange.
#[derive(Default)]
struct ExchangeOutcome {
    /// The partitions that were compared.
    compared: Vec<SharedPartition>,
    /// True if any digests differed.
    differed: bool,
    /// Repairs in each partition.
    repaired: BTreeMap<Partition, Repaired>,
}

/// The other node of an exchange, and the values that all messages of the exchange share.
pub(super) struct ExchangeContext<'p> {
    peer: &'p Peer,
    layout_version: u64,
    /// First hour, counted from 1970, whose expiring records are compared.
    pub(super) hour_min: u32,
    /// Salt of the digests of this exchange. Messages carry digests of single records in 32 bits. Two that
    /// are equal by chance differ in the next exchange, which has another salt.
    pub(super) salt: u64,
}

impl AntiEntropy {
    /// Requests exchanges of partitions with all nodes that share them, soon and out of turn. For callers
    /// that know that some node has missed writes.
    pub fn request_exchange(&self, partitions: &[Partition]) {
        let now = Instant::now();
        let sharing = self.sharing();
        let nodes: BTreeSet<NodeId> =
            partitions.iter().filter_map(|each| sharing.get(each)).flatten().copied().collect();
        nodes.into_iter().for_each(|node| self.schedule.lock().want(node, now));
        self.wanted.notify_one();
    }

    /// Returns figures of the exchanges that this node has begun.
    #[must_use]
    pub fn stats(&self) -> ExchangeStats {
        self.progress.stats(&self.sharing(), Instant::now())
    }

    /// Returns for each partition the other nodes with which this one can compare its copy.
    pub(super) fn sharing(&self) -> BTreeMap<Partition, Vec<NodeId>> {
        let state = self.local.state();
        let own = state.node_id();
        let mut sharing: BTreeMap<Partition, Vec<NodeId>> = BTreeMap::new();
        for member in state.members().iter().filter(|member| member.id != own) {
            for shared in roots::shared(&state, own, member.id) {
                sharing.entry(shared.partition).or_default().push(member.id);
            }
        }
        sharing
    }

    /// Runs exchanges with other nodes, in turn or only those that are wanted, until the task is dropped.
    pub(crate) async fn run_exchanges(self: Arc<Self>) {
        if self.local.engine.compared().is_none() {
            return;
        }
        let mut running = JoinSet::new();
        loop {
            self.update_schedule();
            while running.len() < self.local.settings.exchanges.count_max.max(1) as usize {
                let Some(node) = self.schedule.lock().begin(Instant::now()) else {
                    break;
                };
                let anti_entropy = Arc::clone(&self);
                running.spawn(async move {
                    let compared = anti_entropy.exchange_with(node).await;
                    (node, compared.is_some())
                });
            }
            tokio::select! {
                biased;
                Some(done) = running.join_next() => match done {
                    Ok((node, done)) => self.schedule.lock().end(node, done),
                    Err(fault) => std::panic::resume_unwind(fault.into_panic()),
                },
                () = self.wanted.notified() => {}
                () = sleep(TICK) => {}
            }
        }
    }

    /// Tells the schedule which members there are, and which can be reached.
    fn update_schedule(&self) {
        let state = self.local.state();
        let others = state.members().iter().filter(|member| member.id != state.node_id());
        let nodes =
            others.map(|member| (member.id, self.local.reachable(member.id).is_some())).collect();
        self.schedule.lock().set_nodes(&nodes, Instant::now());
    }

    /// Returns the partitions that an exchange with this node asks it to compare; none if this node compares
    /// no copies.
    pub(crate) fn compared_with(&self, node: NodeId) -> BTreeSet<Partition> {
        if !self.local.settings.exchanges.active || self.local.engine.compared().is_none() {
            return BTreeSet::new();
        }
        let state = self.local.state();
        roots::shared(&state, state.node_id(), node).iter().map(|each| each.partition).collect()
    }

    /// Runs an exchange with a node. If the exchange completes, returns the partitions that both nodes have
    /// compared: all their records are equal, except those that were being written. The other node may have
    /// skipped some of the partitions that it was asked to compare.
    pub(crate) async fn exchange_with(
        self: &Arc<Self>,
        node: NodeId,
    ) -> Option<BTreeSet<Partition>> {
        let peer = self.local.reachable(node)?;
        self.local.stats.count(Counter::Exchanges);
        match self.exchange(&peer).await {
            Ok(outcome) => {
                self.note_outcome(&peer, &outcome);
                Some(outcome.compared.iter().map(|each| each.partition).collect())
            }
            Err(fault) => {
                let timed_out =
                    matches!(fault, ExchangeError::Call { fault: CallError::Timeout { .. }, .. });
                let counter =
                    if timed_out { Counter::ExchangeTimeouts } else { Counter::ExchangeErrors };
                self.local.stats.count(counter);
                tracing::debug!(with = %peer.name(), %fault, "an exchange is put off");
                None
            }
        }
    }

    fn note_outcome(&self, peer: &Peer, outcome: &ExchangeOutcome) {
        let ExchangeOutcome { compared, differed, repaired } = outcome;
        let key_count: u64 = repaired.values().map(|each| each.key_count).sum();
        let byte_count: u64 = repaired.values().map(|each| each.byte_count).sum();
        self.local.stats.count(match (differed, key_count) {
            (false, _) => Counter::ExchangesInSync,
            (true, 0) => Counter::ExchangesSettled,
            (true, _) => Counter::ExchangesRepaired,
        });
        self.local.stats.add(Counter::ExchangeKeysRepaired, key_count);
        self.local.stats.add(Counter::ExchangeBytesRepaired, byte_count);
        if key_count > 0 {
            let with = peer.name();
            tracing::info!(%with, key_count, byte_count, "anti-entropy has repaired keys");
        }
        self.progress.note(peer.node_id(), compared, repaired, Instant::now());
    }

    /// Runs the steps of an exchange. Differences are repaired whenever [`FOUND_COUNT_MAX`] were found,
    /// and at the end.
    async fn exchange(self: &Arc<Self>, peer: &Peer) -> Result<ExchangeOutcome, ExchangeError> {
        let context = self.begin_exchange(peer, first_hour(self.local.clock.unix_secs()));
        let compared = self.compare_roots(&context).await?;
        let scope = |n_val_class: u8| Scope { n_val_class, hour_min: context.hour_min };
        let steps: Vec<RangeStep> = compared
            .iter()
            .flat_map(|SharedPartition { partition, classes }| {
                bits(*classes).map(move |class| RangeStep::all(*partition, scope(class)))
            })
            .collect();
        let mut outcome =
            ExchangeOutcome { compared, differed: !steps.is_empty(), repaired: BTreeMap::new() };
        let mut walk = Walk::new(context.salt, steps);
        loop {
            let is_done = !self.descend(&context, &mut walk).await?;
            if is_done || walk.found_count() >= FOUND_COUNT_MAX {
                let still_differing = self.still_differing(&context, walk.take_found()).await?;
                self.repair_all(&context, &still_differing, &mut outcome.repaired).await?;
            }
            if is_done {
                return Ok(outcome);
            }
        }
    }

    /// Begins an exchange, with a salt of its own.
    pub(super) fn begin_exchange<'p>(&self, peer: &'p Peer, hour_min: u32) -> ExchangeContext<'p> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        ExchangeContext {
            peer,
            layout_version: self.local.state().layouts().newest().version(),
            hour_min,
            // The salt need not be secret: neither node gains by knowing it.
            salt: self.local.internode.boot_id().wrapping_add(number),
        }
    }

    /// Compares whole partitions. Returns those that could be compared, with the classes in which they
    /// differ.
    async fn compare_roots(
        self: &Arc<Self>,
        context: &ExchangeContext<'_>,
    ) -> Result<Vec<SharedPartition>, ExchangeError> {
        let state = self.local.state();
        let shared = roots::shared(&state, state.node_id(), context.peer.node_id());
        let Some(engine) = self.local.engine.compared() else { return Ok(Vec::new()) };
        if shared.is_empty() {
            return Ok(Vec::new());
        }
        let asked = roots::ask(engine, context.layout_version, context.hour_min, &shared);
        let asked = asked.map_err(RequestError::from)?;
        let answer: Compared = context.call(METHOD_COMPARE, &asked).await?;
        roots::differing(&shared, &answer).map_err(|_| context.invalid_answer())
    }

    /// Sends the next message of a walk and takes its answer. Returns false if nothing is left to
    /// compare.
    pub(super) async fn descend(
        self: &Arc<Self>,
        context: &ExchangeContext<'_>,
        walk: &mut Walk,
    ) -> Result<bool, ExchangeError> {
        let anti_entropy = Arc::clone(self);
        let mut walking = walk.take();
        let step = move || {
            let Some(engine) = anti_entropy.local.engine.compared() else {
                return Ok((None, walking));
            };
            let asked = walking.ask(engine)?;
            Ok((asked, walking))
        };
        let (asked, walked) = self.local.settings.blocking.at_low_priority(step).await?;
        *walk = walked;
        let Some((ranges, asked)) = asked else { return Ok(false) };
        let &ExchangeContext { layout_version, hour_min, salt, .. } = context;
        let descend = Descend { layout_version, hour_min, salt, ranges };
        let answer: Descended = context.call(METHOD_DESCEND, &descend).await?;
        walk.take_answer(&asked, &answer).map_err(|_| context.invalid_answer())?;
        Ok(true)
    }

    /// Compares differences again after [`SETTLE_TIME`] and returns those that are still the same.
    async fn still_differing(
        self: &Arc<Self>,
        context: &ExchangeContext<'_>,
        found: Vec<RangeDifference>,
    ) -> Result<Vec<RangeDifference>, ExchangeError> {
        if found.is_empty() {
            return Ok(found);
        }
        sleep(SETTLE_TIME).await;
        let step = |found: &RangeDifference| {
            RangeStep::tag(found.partition, found.scope, found.difference.tag)
        };
        // With the same salt: states of both walks are compared.
        let mut walk = Walk::new(context.salt, found.iter().map(step));
        while self.descend(context, &mut walk).await? {}
        let again: BTreeMap<_, _> =
            walk.take_found().into_iter().map(|found| (found.place(), found.difference)).collect();
        let is_same =
            |found: &RangeDifference| again.get(&found.place()) == Some(&found.difference);
        Ok(found.into_iter().filter(is_same).collect())
    }

    /// Repairs differences, partition by partition.
    async fn repair_all(
        self: &Arc<Self>,
        context: &ExchangeContext<'_>,
        found: &[RangeDifference],
        repaired: &mut BTreeMap<Partition, Repaired>,
    ) -> Result<(), ExchangeError> {
        let mut by_partition: BTreeMap<Partition, BTreeMap<_, _>> = BTreeMap::new();
        for found in found {
            // A record that was filed under another class on one side differs in both classes. It is
            // repaired once.
            let of_partition = by_partition.entry(found.partition).or_default();
            of_partition.entry(found.difference.tag).or_insert(found.difference);
        }
        for (partition, differences) in by_partition {
            let differences: Vec<_> = differences.into_values().collect();
            let done = self
                .repair_differences(context.peer, partition, context.layout_version, &differences)
                .await?;
            let sum = repaired.entry(partition).or_default();
            sum.key_count += done.key_count;
            sum.byte_count += done.byte_count;
        }
        Ok(())
    }
}

impl ExchangeContext<'_> {
    async fn call<A: Message + Default>(
        &self,
        method: u16,
        header: &impl Message,
    ) -> Result<A, ExchangeError> {
        let call = call_while_up(self.peer, method, header, b"", Lane::Large, ANSWER_TIMEOUT);
        let reply =
            call.await.map_err(|fault| ExchangeError::Call { to: self.peer.name(), fault })?;
        A::decode(reply.header).map_err(|_| self.invalid_answer())
    }

    fn invalid_answer(&self) -> ExchangeError {
        ExchangeError::Answer { to: self.peer.name() }
    }
}

//! Replication between several clusters: connections, full-sync, and the check at the end that all
//! clusters are equal.
//!
//! The tasks of a link ([`LinkTask`]) do what a sink's connection does. They take entries of a source node's
//! queue under a lease, let nodes of the sink cluster store them, and confirm those that were stored.
//! Messages get lost, overtake one another and come twice, and either side may die at any time. Full-sync
//! compares two clusters by the digests of all their records and queues the differences, while all other work
//! continues.

mod allowed_differences;
mod batch_delivery;
mod bootstrap;
mod losses;

use crate::machine::{Machine, RequestOutcome};
use crate::random::Random;
use crate::run_context::RunContext;
use crate::violation::{Violation, ViolationKind};
use bytes::Bytes;
use quoit_core::{
    ArcRange, ClusterDigests, ClusterQuestion, ClusterWithRecord, Difference, DifferenceDirection,
    FullSyncNumber, QueueDefinition, QueueFilter, QueuePriority, QueueStatus, ReplicatedStore,
    SourceQueueSettings, SourceQueues, differences,
};
use quoit_store::compare::{HashRange, hour_of};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

use crate::data_type_clients::finish::digest_at;
use allowed_differences::{do_primaries_differ, is_half_written};
use batch_delivery::BatchDelivery;
use losses::full_sync_after_losses;

/// Time for which a link waits for a node's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Maximum pause of a task between two batches, in microseconds.
const PAUSE_US_MAX: u64 = 100_000;
/// Maximum pause between two full-syncs of a link, in microseconds.
const FULL_SYNC_PAUSE_US_MAX: u64 = 4_000_000;
/// Number of differing records that the story names for each comparison.
const TOLD_COUNT: usize = 8;
/// Maximum pause between two decisions to suspend or resume a queue, in microseconds.
const SUSPENSION_US_MAX: u64 = 3_000_000;
/// Number of tasks that carry batches over one link, so that batches overtake one another.
const CARRIER_COUNT: u64 = 2;
/// Time within which clusters have to become equal after all faults were repaired.
const PATIENCE: Duration = Duration::from_secs(90);
/// Pause between two checks.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// A link from one cluster to another, which consumes a queue of the first. Clusters are identified by
/// their numbers, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Number of the source cluster.
    pub from: usize,
    /// Number of the sink cluster.
    pub to: usize,
}

impl Link {
    /// Returns the name of the link's queue.
    #[must_use]
    pub fn queue(self) -> String {
        format!("to-{}", self.to + 1)
    }
}

/// Plan of the replication between the clusters of a run.
#[derive(Debug, Clone)]
pub struct Replication {
    /// Links between the clusters.
    pub links: Vec<Link>,
    /// True if a full-sync runs again and again. Without it the run must not lose anything that only a
    /// comparison finds.
    pub has_full_sync: bool,
    queues_reaps: bool,
    window_count_max: usize,
    entry_count_max: u64,
    /// True if operators suspend queues. A suspended queue drops the writes that are made meanwhile.
    has_suspensions: bool,
    /// True if partitions of one cluster are also copied into another one, as a bootstrap does.
    has_bootstraps: bool,
    /// True if losses of power may take entries of queues although there is no regular full-sync. A
    /// comparison then has to follow each loss.
    pub(crate) has_losses: bool,
}

impl Replication {
    /// Draws the replication of a seed's clusters.
    #[must_use]
    pub fn draw(seed: u64, cluster_count: usize) -> Self {
        let mut random = Random::new(seed, "replication", 0);
        let link = |(from, to): &(usize, usize)| Link { from: *from, to: *to };
        let pairs: &[(usize, usize)] = match (cluster_count, random.below(3)) {
            (0 | 1, _) => &[],
            (2, _) => &[(0, 1), (1, 0)],
            // A full mesh, a chain, and a ring in one direction.
            (_, 0) => &[(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)],
            (_, 1) => &[(0, 1), (1, 0), (1, 2), (2, 1)],
            (_, _) => &[(0, 1), (1, 2), (2, 0)],
        };
        let has_full_sync = random.percent(60);
        let entry_count_max = match has_full_sync && random.percent(40) {
            true => random.within(5..40),
            false => SourceQueueSettings::default().entry_count_max,
        };
        Self {
            links: pairs.iter().map(link).collect(),
            has_full_sync,
            queues_reaps: random.percent(20),
            window_count_max: quoit_number::index(random.within(1..20)),
            entry_count_max,
            has_suspensions: has_full_sync && random.percent(40),
            has_bootstraps: has_full_sync && random.percent(40),
            has_losses: !has_full_sync && random.percent(50),
        }
    }

    /// Returns the settings of the source queues of a cluster's nodes.
    #[must_use]
    pub fn source_queues(&self, cluster: usize) -> SourceQueueSettings {
        let links = self.links.iter().filter(|link| link.from == cluster);
        let queue = |link: &Link| QueueDefinition { name: link.queue(), filter: QueueFilter::Any };
        SourceQueueSettings {
            is_enabled: true,
            queues: links.clone().map(queue).collect(),
            object_count_max: 4,
            window_count_max: self.window_count_max,
            entry_count_max: self.entry_count_max,
            queues_reaps: self.queues_reaps,
            full_sync_queue: links
                .clone()
                .next()
                .map(|link| link.queue())
                .filter(|_| self.has_losses),
            ..SourceQueueSettings::default()
        }
    }
}

/// The running tasks of all links. They end when this value is dropped.
pub struct Links {
    run_context: RunContext,
    replication: Replication,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Links {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Links {
    /// Starts the tasks of all links. Messages get lost while `loses_messages` returns true.
    pub fn start<R>(
        run_context: &RunContext,
        replication: &Replication,
        seed: u64,
        loses_messages: R,
    ) -> Self
    where
        R: Fn() -> bool + Clone + Send + 'static,
    {
        let mut tasks = Vec::new();
        for (place, link) in replication.links.iter().enumerate() {
            let way = |number: u64| LinkTask {
                link: *link,
                run_context: run_context.clone(),
                random: Random::new(seed, "way", place as u64 * 10 + number),
                reverse: replication.links.contains(&Link { from: link.to, to: link.from }),
            };
            for number in 0..CARRIER_COUNT {
                tasks.push(tokio::spawn(way(number).carry(loses_messages.clone())));
            }
            if replication.has_full_sync {
                tasks.push(tokio::spawn(way(CARRIER_COUNT).repair()));
            }
            if replication.has_bootstraps {
                tasks.push(tokio::spawn(way(CARRIER_COUNT + 2).copy()));
            }
            if replication.has_suspensions {
                tasks.push(tokio::spawn(way(CARRIER_COUNT + 1).suspend(loses_messages.clone())));
            }
        }
        if replication.has_losses {
            for cluster in 0..=replication.links.iter().map(|link| link.from).max().unwrap_or(0) {
                let links = replication.links.iter().filter(|link| link.from == cluster);
                let link_tasks = links.map(|link| LinkTask {
                    link: *link,
                    run_context: run_context.clone(),
                    random: Random::new(seed, "losses", (cluster * 10 + link.to) as u64),
                    reverse: replication.links.contains(&Link { from: link.to, to: link.from }),
                });
                tasks.push(tokio::spawn(full_sync_after_losses(
                    run_context.of_cluster(cluster),
                    link_tasks.collect(),
                )));
            }
        }
        Self { run_context: run_context.clone(), replication: replication.clone(), tasks }
    }

    /// Waits until all nodes serve, all clusters are equal and all queues are empty.
    ///
    /// Without a full-sync, clusters may differ in writes that were not answered when a process ended.
    /// Without anti-entropy, they may differ in records in which their own replicas differ.
    ///
    /// # Errors
    ///
    /// The records in which two clusters still differ after 90 s, a queue that is not empty, or a node that
    /// does not serve.
    pub async fn wait_until_converged(
        self,
        seed: u64,
        has_exchanges: bool,
    ) -> Result<(), Violation> {
        let give_up_at = Instant::now() + PATIENCE;
        let mut random = Random::new(seed, "comparison", 0);
        while let Err(violation) = self.check_converged(&mut random, has_exchanges).await {
            if Instant::now() > give_up_at {
                return Err(violation);
            }
            sleep(LOOK_PAUSE).await;
        }
        self.run_context.trace.note("run", "CLUSTERS ARE EQUAL");
        Ok(())
    }

    async fn check_converged(
        &self,
        random: &mut Random,
        has_exchanges: bool,
    ) -> Result<(), Violation> {
        check_queues(&self.run_context)?;
        for link in &self.replication.links {
            let Some((mut found, [from, to])) = compare(&self.run_context, *link, random).await
            else {
                let text = format!("{link:?} can't be compared");
                return Err(Violation::new(ViolationKind::Unanswered, text));
            };
            found.retain(|each| {
                let is_lasting = !self.replication.has_full_sync
                    && is_half_written(&self.run_context, &each.key)
                    || !has_exchanges && do_primaries_differ(&self.run_context, &each.key);
                !is_lasting
            });
            if !found.is_empty() {
                let held: String = found.iter().map(|each| self.held(&each.key)).collect();
                let text = format!("{link:?}, {} and {}: {found:?}{held}", from.name, to.name);
                return Err(Violation::new(ViolationKind::Diverged, text));
            }
        }
        Ok(())
    }
}

impl Links {
    /// Describes the copies of a record on all nodes of all clusters.
    fn held(&self, name: &[u8]) -> String {
        let copies = self.run_context.in_service().into_iter().filter_map(|machine| {
            let digest = digest_at(machine.store()?.as_ref(), name);
            Some(format!("\n  {} holds {digest:x?} of {}", machine.name, name.escape_ascii()))
        });
        copies.collect()
    }
}

/// Checks that all nodes serve, and that their queues are empty and not suspended. A node that has not
/// started yet may have entries in its queues.
fn check_queues(run_context: &RunContext) -> Result<(), Violation> {
    for machine in run_context.in_service() {
        let Some(store) = machine.store() else {
            let text = format!("{} does not serve, so its queues are unknown", machine.name);
            return Err(Violation::new(ViolationKind::Unanswered, text));
        };
        for queue in store.source_queues().status() {
            if queue.is_suspended {
                let text = format!("{}: {} is suspended", machine.name, queue.name);
                return Err(Violation::new(ViolationKind::Unanswered, text));
            }
            let (lengths, leased) = (queue.lengths, queue.unconfirmed_count);
            let waiting = lengths.real_time + lengths.full_sync + lengths.fold + leased;
            if waiting > 0 {
                let text = format!("{}: {} entries wait in {}", machine.name, waiting, queue.name);
                return Err(Violation::new(ViolationKind::Grows, text));
            }
        }
    }
    Ok(())
}

/// A task of a link.
struct LinkTask {
    link: Link,
    run_context: RunContext,
    random: Random,
    /// True if there is also a link in the other direction.
    reverse: bool,
}

impl LinkTask {
    /// Carries entries from source to sink, batch after batch.
    async fn carry(mut self, loses_messages: impl Fn() -> bool) {
        loop {
            let pause_us = self.random.below(PAUSE_US_MAX);
            sleep(Duration::from_micros(pause_us)).await;
            let sources = self.run_context.of_cluster(self.link.from).in_service();
            let source = Arc::clone(self.random.pick(&sources));
            let delivery = BatchDelivery {
                queue: self.link.queue(),
                sinks: self.run_context.of_cluster(self.link.to).in_service(),
                random: Random::new(self.random.number(), "trip", 0),
                loses_messages: loses_messages(),
                refused: None,
            };
            if let RequestOutcome::Answer(Some(text)) =
                source.ask(move |store| delivery.run(store)).await
            {
                self.run_context
                    .trace
                    .note(&format!("{}>{}", source.name, self.link.to + 1), &text);
            }
        }
    }

    /// Suspends the queue of some node and resumes it, again and again. After the faults it resumes all
    /// queues, including those of nodes that have restarted meanwhile.
    async fn suspend(mut self, loses_messages: impl Fn() -> bool) {
        let name = self.link.queue();
        loop {
            let pause_us = self.random.below(SUSPENSION_US_MAX);
            sleep(Duration::from_micros(pause_us)).await;
            let chosen = self
                .random
                .pick(&self.run_context.of_cluster(self.link.from).in_service())
                .name
                .clone();
            let is_chosen = loses_messages() && self.random.percent(50);
            for machine in self.run_context.of_cluster(self.link.from).in_service() {
                let Some(store) = machine.store() else { continue };
                let queues = store.source_queues();
                let is_suspended = |queue: &QueueStatus| queue.name == name && queue.is_suspended;
                let was_suspended = queues.status().iter().any(is_suspended);
                let becomes = is_chosen && machine.name == chosen;
                if becomes != was_suspended {
                    // If the disk refuses to store the change, it still takes effect in this process.
                    let _ = queues.suspend(&name, becomes);
                    let said = if becomes { "is suspended" } else { "goes on" };
                    self.run_context.trace.note(&machine.name, &format!("{name} {said}"));
                }
            }
        }
    }

    /// Calls a function with the queues of each source node, and its time in microseconds.
    fn on_sources(&self, tell: impl Fn(&SourceQueues, u64)) {
        for machine in self.run_context.of_cluster(self.link.from).in_service() {
            if let Some(store) = machine.store() {
                tell(store.source_queues(), store.clock().unix_us());
            }
        }
    }

    /// Compares the two clusters and queues the differences, again and again.
    async fn repair(mut self) {
        loop {
            let pause_us = self.random.below(FULL_SYNC_PAUSE_US_MAX);
            sleep(Duration::from_micros(pause_us)).await;
            self.repair_once().await;
        }
    }

    /// Compares the two clusters and queues the differences. Returns true if the sink lacked nothing, and
    /// `None` if the clusters could not be compared.
    async fn repair_once(&mut self) -> Option<bool> {
        let check = FullSyncNumber(self.random.number());
        self.on_sources(|queues, now_us| queues.begin_full_sync(check, now_us));
        let (found, [from, to]) = compare(&self.run_context, self.link, &mut self.random).await?;
        let lacks_nothing =
            found.iter().all(|each| each.direction == DifferenceDirection::FromThere);
        if lacks_nothing && let Some(other) = to.store() {
            let (name, other) = (self.link.queue(), Some(other.replication().cluster()));
            self.on_sources(|queues, _| queues.end_full_sync(check, &name, other));
        }
        if found.is_empty() {
            return Some(true);
        }
        let told: Vec<String> = found.iter().take(TOLD_COUNT).map(told).collect();
        let (count, told) = (found.len(), told.join(", "));
        let text = format!("{:?}: {count} records differ: {told}", self.link);
        self.run_context.trace.note("full-sync", &text);
        let keys = |but: DifferenceDirection| -> Vec<Bytes> {
            let some = found.iter().filter(|difference| difference.direction != but);
            some.map(|difference| difference.key.clone()).collect()
        };
        queue(&from, self.link.queue(), keys(DifferenceDirection::FromThere)).await;
        if self.reverse {
            let back = Link { from: self.link.to, to: self.link.from };
            queue(&to, back.queue(), keys(DifferenceDirection::FromHere)).await;
        }
        Some(lacks_nothing)
    }
}

/// Queues records at a node, by their names.
async fn queue(machine: &Machine, name: String, keys: Vec<Bytes>) {
    let push = move |store: Arc<ReplicatedStore>| async move {
        let now_us = store.clock().unix_us();
        store.source_queues().push_references(&name, QueuePriority::FullSync, keys, now_us);
    };
    let _ = timeout(ANSWER_LIMIT, machine.ask(push)).await;
}

/// Returns the records in which the two clusters differ, and the nodes that were asked; `None` if a node
/// did not know the digests of all records.
async fn compare(
    run_context: &RunContext,
    link: Link,
    random: &mut Random,
) -> Option<(Vec<Difference>, [Arc<Machine>; 2])> {
    let mut node = |cluster| Arc::clone(random.pick(&run_context.of_cluster(cluster).in_service()));
    let (from, to) = (node(link.from), node(link.to));
    let ring_size = |machine: &Machine| Some(machine.store()?.control().ring_size().get());
    let arc_count = ring_size(&from)?.min(ring_size(&to)?);
    let hour_min = hour_of(from.store()?.clock().unix_secs()).saturating_add(1);
    let (here, there) =
        (digests(&from, arc_count, hour_min).await?, digests(&to, arc_count, hour_min).await?);
    let is_whole = here.missing.is_empty() && there.missing.is_empty();
    is_whole.then(|| (differences(here.records, there.records), [from, to]))
}

/// Asks a node for the digests of all records of its cluster.
async fn digests(machine: &Machine, arc_count: u16, hour_min: u32) -> Option<ClusterDigests> {
    let all = (0..arc_count).map(|arc| ArcRange { arc, range: HashRange::ALL.number() });
    let all: Vec<ArcRange> = all.collect();
    let ask = move |store: Arc<ReplicatedStore>| async move {
        let question = ClusterQuestion {
            arc_count,
            hour_min,
            ranges: &all,
            wants_records: true,
            other: None,
            is_rebase: false,
        };
        store.replication().cluster_digests(question).await
    };
    match timeout(ANSWER_LIMIT, machine.ask(ask)).await {
        Ok(RequestOutcome::Answer(answer)) => answer.ok(),
        _ => None,
    }
}

/// Describes a difference for the story.
fn told(difference: &Difference) -> String {
    let only = match &difference.only_in {
        None => "",
        Some(ClusterWithRecord::Here(_)) => ", only here",
        Some(ClusterWithRecord::There(_)) => ", only there",
    };
    format!("{} {:?}{only}", difference.key.escape_ascii(), difference.direction)
}

#[cfg(test)]
mod tests {
    use super::check_queues;
    use crate::disks::Disks;
    use crate::machine::{Machine, MachineRole, MachineUse};
    use crate::orders::Orders;
    use crate::random::Random;
    use crate::run_context::RunContext;
    use crate::time::SimTime;
    use crate::trace::Trace;
    use std::sync::Arc;

    #[test]
    fn queues_of_a_node_that_does_not_serve_yet_are_not_empty() {
        let time = SimTime::default();
        let disks = || Disks::new(&mut Random::new(1, "disk", 0));
        let role = |machine_use| MachineRole { cluster: 0, machine_use };
        let run_context = |machine_use| RunContext {
            cluster: None,
            machines: Arc::new([Arc::new(Machine::new(0, role(machine_use), disks(), &time))]),
            orders: Orders::default(),
            history: Arc::default(),
            data_types: Arc::default(),
            registers: Arc::default(),
            time: time.clone(),
            trace: Trace::new(time.clone(), 0, None),
        };
        let told =
            check_queues(&run_context(MachineUse::InService)).expect_err("it may have entries");
        assert!(told.text.contains("n1 does not serve"), "{told}");
        assert_eq!(check_queues(&run_context(MachineUse::Retired)), Ok(()));
    }
}

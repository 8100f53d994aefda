//! A bootstrap: copies whole partitions of one cluster into another one while all other work continues.

use super::{ANSWER_LIMIT, LinkTask};
use crate::machine::{Machine, RequestOutcome};
use quoit_core::{CopiedPage, ReplicatedStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Maximum time between reading a page and storing it, and between two pages, in microseconds. It is
/// longer than the reaper takes.
const PAUSE_US_MAX: u64 = 5_000_000;

impl LinkTask {
    /// Copies partitions of the source, again and again. By the time a page is stored, its records may be
    /// older than those that realtime replication has brought, or may have been deleted and reaped.
    pub(super) async fn copy(mut self) {
        loop {
            self.pause().await;
            let sources = self.run_context.of_cluster(self.link.from).in_service();
            let source = Arc::clone(self.random.pick(&sources));
            let Some(store) = source.store() else { continue };
            let ring_size = store.control().ring_size().get();
            let partition = self.random.within_narrow(0..ring_size);
            let mut from = 0;
            while let Some(page) = read(&source, partition, from).await {
                self.pause().await;
                let sinks = self.run_context.of_cluster(self.link.to).in_service();
                let sink = Arc::clone(self.random.pick(&sinks));
                let (count, next) = (page.records.len(), page.next);
                let records = page.records;
                let asked = sink.ask(move |store| async move {
                    store.replication().store_copied(records).await
                });
                let is_stored =
                    matches!(timeout(ANSWER_LIMIT, asked).await, Ok(RequestOutcome::Answer(Ok(_))));
                let outcome = if is_stored { "stored" } else { "not stored" };
                let text = format!("{count} records of partition {partition} {outcome}");
                self.run_context.trace.note(&format!("{}>{}", source.name, sink.name), &text);
                let Some(next) = next.filter(|_| is_stored) else { break };
                from = next;
            }
        }
    }

    async fn pause(&mut self) {
        sleep(Duration::from_micros(self.random.below(PAUSE_US_MAX))).await;
    }
}

/// Reads a page of a partition at a node; `None` if the node does not have the partition.
async fn read(source: &Machine, partition: u16, from: u64) -> Option<CopiedPage> {
    let ask = move |store: Arc<ReplicatedStore>| async move {
        store.replication().copied_page(partition, from).await
    };
    match timeout(ANSWER_LIMIT, source.ask(ask)).await {
        Ok(RequestOutcome::Answer(Ok(page))) => page,
        _ => None,
    }
}

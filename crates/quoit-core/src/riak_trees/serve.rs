//! Answers to questions about trees, from this node's own copies.

use super::kept::KeptPart;
use super::{KEPT_SIZE, PartName, REFRESH_INTERVAL, RiakTrees};
use crate::error::RequestError;
use crate::partition_set::PartitionSet;
use crate::records::RecordOutline;
use crate::refusal::{Refusal, refuse};
use bytes::Bytes;
use quoit_cluster::{IncomingRequest, Responder};
use quoit_model::data_type::clock_in_riak;
use quoit_model::hash::Partition;
use quoit_model::riak_clock::encode_riak_clock;
use quoit_riak::Tree;
use quoit_store::engine::{Record, RecordMeta};
use quoit_store::index::Tag;
use quoit_wire::internode::trees::{ReadTree, ReadTreeClocks, TreeClocks, TreePart, TreeRecord};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of names and clocks after which an answer ends. The records of one partition may exceed it.
const CLOCKS_BYTES: usize = 1 << 20;
/// Bytes of a record in an answer besides its name and clock.
const RECORD_BYTES: usize = 16;

impl RiakTrees {
    /// Keeps parts of trees up to date while questions come, and frees the memory of others.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(REFRESH_INTERVAL).await;
            for (name, is_followed) in self.kept.due(self.local.clock.unix_secs()) {
                let trees = Arc::clone(&self);
                let refreshed = move || {
                    let Some(part) = trees.kept.part_if_kept(name) else { return Ok(()) };
                    let mut part = part.lock();
                    match is_followed {
                        true => trees.pass_over_part(&mut part, name, &mut |_, _| {}),
                        false => trees.retire_part(&mut part, name),
                    }
                };
                if let Err(fault) = self.local.settings.blocking.at_low_priority(refreshed).await {
                    let partition = name.partition.0;
                    tracing::warn!(%fault, partition, "a tree for Riak could not be brought up to date");
                }
            }
        }
    }

    /// Calls `look` with this node's parts of a tree one after the other, until it returns false.
    fn each_part(
        &self,
        n_val: u32,
        partitions: impl IntoIterator<Item = Partition>,
        mut look: impl FnMut(&mut KeptPart, PartName) -> Result<bool, RequestError>,
    ) -> Result<(), RequestError> {
        for partition in partitions {
            let name = PartName { n_val, partition };
            let part = self.kept.part(name, self.local.clock.unix_secs());
            if !look(&mut part.lock(), name)? {
                break;
            }
        }
        Ok(())
    }

    /// The tree over this node's copies of some partitions; `None` if the request's layout is not live
    /// any more.
    pub(super) async fn local_tree(
        self: &Arc<Self>,
        ask: ReadTree,
    ) -> Result<Option<TreePart>, RequestError> {
        let partitions = PartitionSet::from_bytes(&ask.partitions);
        if self.local.lacks_records_of(&partitions) {
            return Ok(None);
        }
        let (trees, layout_version) = (Arc::clone(self), ask.layout_version);
        let make = move || {
            let mut tree = Tree::empty(KEPT_SIZE);
            trees.each_part(ask.n_val, trees.here(&partitions), |part, name| {
                trees.pass_over_part(part, name, &mut |_, entry| tree.toggle(entry))?;
                Ok(true)
            })?;
            Ok(match ask.branches.is_empty() {
                true => TreePart { root: tree.root(), branches: Vec::new() },
                false => TreePart {
                    root: Bytes::new(),
                    branches: ask.branches.iter().map(|number| tree.branch(*number)).collect(),
                },
            })
        };
        let told = self.local.settings.blocking.at_low_priority(make).await?;
        Ok(self.local.if_still_live(told, layout_version))
    }

    /// Partitions of a set that exist in the ring.
    fn here(&self, partitions: &PartitionSet) -> Vec<Partition> {
        let ring = self.local.ring_size().get();
        partitions.iter().filter(|partition| partition.0 < ring).collect()
    }

    /// Clocks of the records in some segments; `None` if the request's layout is not live any more.
    pub(super) async fn local_tree_clocks(
        self: &Arc<Self>,
        ask: ReadTreeClocks,
    ) -> Result<Option<TreeClocks>, RequestError> {
        let partitions = PartitionSet::from_bytes(&ask.partitions);
        if self.local.lacks_records_of(&partitions) {
            return Ok(None);
        }
        let (trees, layout_version) = (Arc::clone(self), ask.layout_version);
        let read = move || trees.read_tree_clocks(&ask, &partitions);
        let told = self.local.settings.blocking.at_low_priority(read).await?;
        Ok(self.local.if_still_live(told, layout_version))
    }

    fn read_tree_clocks(
        &self,
        ask: &ReadTreeClocks,
        partitions: &PartitionSet,
    ) -> Result<TreeClocks, RequestError> {
        let segments: BTreeSet<u32> = ask.segments.iter().copied().collect();
        let segment_count = ask.segment_count.max(1);
        let modified = ask.modified_from..=ask.modified_to.unwrap_or(u64::MAX);
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut left = PartitionSet::from_bytes(&partitions.to_bytes());
        self.each_part(ask.n_val, self.here(partitions), |part, name| {
            let mut tags: Vec<Tag> = Vec::new();
            self.pass_over_part(part, name, &mut |tag, entry| {
                if segments.contains(&(entry.segment % segment_count)) {
                    tags.push(tag);
                }
            })?;
            tags.sort_unstable();
            tags.dedup();
            for (key, record) in self.records_of_tags(name.partition, &tags)? {
                if record.meta.n_val_class != RecordMeta::class_of(ask.n_val) {
                    continue;
                }
                let Some(told) = tree_record(key, &record) else { continue };
                if modified.contains(&told.modified_secs) {
                    bytes += told.key.len() + told.clock.len() + RECORD_BYTES;
                    records.push(told);
                }
            }
            left.remove(name.partition);
            Ok(bytes < CLOCKS_BYTES)
        })?;
        Ok(TreeClocks { records, left: left.to_bytes() })
    }

    pub(crate) fn serve_ask_tree(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let ask = match self.local.read_header(request, |ask: &ReadTree| ask.layout_version) {
            Ok(ask) => ask,
            Err(refusal) => return refuse(reply, &refusal),
        };
        tokio::spawn(async move {
            match self.local_tree(ask).await {
                Ok(Some(told)) => reply.send(&told, b""),
                Ok(None) => refuse(reply, &Refusal::StaleLayout),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    pub(crate) fn serve_ask_tree_clocks(
        self: Arc<Self>,
        request: &IncomingRequest,
        reply: Responder,
    ) {
        let ask = match self.local.read_header(request, |ask: &ReadTreeClocks| ask.layout_version) {
            Ok(ask) => ask,
            Err(refusal) => return refuse(reply, &refusal),
        };
        tokio::spawn(async move {
            match self.local_tree_clocks(ask).await {
                Ok(Some(told)) => reply.send(&told, b""),
                Ok(None) => refuse(reply, &Refusal::StaleLayout),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }
}

/// A record in the form of an answer; `None` if it is damaged.
fn tree_record(key: Bytes, record: &Record) -> Option<TreeRecord> {
    let outline = RecordOutline::of(record)?;
    let mut clock = Vec::new();
    encode_riak_clock(&clock_in_riak(&outline.clock), &mut clock);
    let modified_secs = outline.last_modified_us / 1_000_000;
    Some(TreeRecord { key, clock: clock.into(), modified_secs })
}

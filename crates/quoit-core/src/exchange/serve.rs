//! Serves the messages of exchanges that other nodes begin.
//!
//! A node keeps nothing between the messages of an exchange, so that either node may stop at any time. Each
//! message names the newest layout, and is refused if this node has another one: its primaries could be
//! others. Answering changes no record; only the class by which a record is filed may be corrected.

use super::AntiEntropy;
use super::roots;
use super::states::{MalformedMessage, read_tags};
use super::walk::{RANGE_COUNT_MAX, answer};
use crate::delivery::hand::{BATCH_BYTES, Objects};
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::records::is_sent_by_pages;
use crate::refusal::{Refusal, refuse};
use crate::replica::merge_rule;
use bytes::Bytes;
use quoit_cluster::{IncomingRequest, NodeId, Responder};
use quoit_model::context::decode_context;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_planted::planted;
use quoit_store::engine::Compare;
use quoit_store::engine::Record;
use quoit_store::index::Tag;
use quoit_wire::internode::data::MergeRule;
use quoit_wire::internode::exchange::{
    self, Compared, Descend, Descended, KnownRecord, Pull, Pulled,
};
use std::collections::BTreeMap;
use std::sync::Arc;

impl From<MalformedMessage> for Refusal {
    fn from(nonsense: MalformedMessage) -> Self {
        Self::Malformed(nonsense.to_string())
    }
}

impl AntiEntropy {
    pub(crate) fn serve_compare(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let from = request.from;
        let asked =
            match self.read_newest(request, |asked: &exchange::Compare| asked.layout_version) {
                Ok(asked) => asked,
                Err(refusal) => return refuse(reply, &refusal),
            };
        let compare = || -> Result<Compared, Refusal> {
            let state = self.local.state();
            let shared = roots::shared(&state, state.node_id(), from);
            // An engine whose copies can't be compared has no complete ones.
            let (engine, shared) = match self.local.engine.compared() {
                Some(engine) => (engine, shared),
                None => return Ok(passing_over_all(&asked)),
            };
            Ok(roots::answer(engine, &asked, &shared).map_err(RequestError::from)??)
        };
        match compare() {
            Ok(compared) => reply.send(&compared, b""),
            Err(refusal) => refuse(reply, &refusal),
        }
    }

    pub(crate) fn serve_descend(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let asked = match self.read_newest(request, |asked: &Descend| asked.layout_version) {
            Ok(asked) => asked,
            Err(refusal) => return refuse(reply, &refusal),
        };
        tokio::spawn(async move {
            let blocking = self.local.settings.blocking;
            match blocking.at_low_priority(move || Ok(self.descended(&asked))).await {
                Ok(Ok(descended)) => reply.send(&descended, b""),
                Ok(Err(refusal)) => refuse(reply, &refusal),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    fn descended(&self, asked: &Descend) -> Result<Descended, Refusal> {
        let range_count = |ranges: &exchange::Ranges| ranges.split.len() + ranges.listed.len();
        if asked.ranges.iter().map(range_count).sum::<usize>() > RANGE_COUNT_MAX {
            return Err(MalformedMessage.into());
        }
        for ranges in &asked.ranges {
            self.check_partition(ranges.partition)?;
        }
        let engine = self.comparable()?;
        let answer = answer(engine, asked.hour_min, asked.salt, &asked.ranges);
        Ok(answer.map_err(RequestError::from)??)
    }

    pub(crate) fn serve_pull(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let pull = match self.read_newest(request, |pull: &Pull| pull.layout_version) {
            Ok(pull) => pull,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let from = request.from;
        tokio::spawn(async move {
            let blocking = self.local.settings.blocking;
            match blocking.at_low_priority(move || Ok(self.pulled(&pull, from))).await {
                Ok(Ok((pulled, records))) => {
                    let records: Vec<_> = records.iter().collect();
                    reply.send(&pulled, &Objects(&records));
                }
                Ok(Err(refusal)) => refuse(reply, &refusal),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    /// Answers a `Pull`: the records that are newer here or concurrent, and the indices in `pull.known` of
    /// those that are newer on the asking node. Stops after about [`BATCH_BYTES`] of objects; `tag_count`
    /// says how many tags were processed.
    fn pulled(&self, pull: &Pull, from: NodeId) -> Result<(Pulled, Vec<(Bytes, Record)>), Refusal> {
        let partition = self.check_partition(pull.partition)?;
        let tags = read_tags(&mut &pull.tags[..], pull.tags.len())?;
        let mut known: BTreeMap<Tag, BTreeMap<&Bytes, (u32, &KnownRecord)>> = BTreeMap::new();
        for (place, each) in (0..).zip(&pull.known) {
            let at = PlacedKey::new(&each.key, partition);
            let at = at.map_err(|fault| Refusal::Malformed(fault.to_string()))?.at();
            known.entry(Tag::of(at.identity)).or_default().insert(&each.key, (place, each));
        }
        self.comparable()?;
        let mut pulled = Pulled::default();
        let mut sent: Vec<(Bytes, Record)> = Vec::new();
        let mut size_bytes = 0;
        let takes_pages = !pull.with_tombstones && self.hands_pages_to(from);
        for (tag, _) in tags {
            if size_bytes >= BATCH_BYTES {
                break;
            }
            let mut known = known.remove(&tag).unwrap_or_default();
            let is_for_pages = |key: &Bytes, record: &Record| {
                takes_pages && !known.contains_key(key) && is_sent_by_pages(record)
            };
            let records = self.pulled_records(partition, tag, from, &is_for_pages)?;
            for (key, record) in records {
                let known = known.remove(&key);
                let refiled = self.delivery.refile(partition, &key, record.meta.n_val_class);
                refiled.map_err(RequestError::from)?;
                // A record that is filed under a former n_val may be one of which the other node is not a
                // primary.
                if !pull.with_tombstones && !self.local.is_primary_of(from, partition, &key) {
                    continue;
                }
                match known.map_or(Newer::Here, |(_, known)| self.newer(&key, &record, known)) {
                    // A node that lacks a deleted record is not sent its tombstone.
                    Newer::Here
                        if known.is_none() && record.meta.tombstone && !pull.with_tombstones => {}
                    Newer::Here => {
                        size_bytes += record.value.len();
                        pulled.records.push(self.delivery.delivered(&key, &record));
                        sent.push((key, record));
                    }
                    Newer::There => pulled.wanted.extend(known.map(|(place, _)| place)),
                    Newer::Neither => {}
                }
            }
            pulled.wanted.extend(known.values().map(|(place, _)| *place));
            pulled.tag_count += 1;
        }
        debug_assert_eq!(pulled.records.len(), sent.len(), "a record is described and sent");
        Ok((pulled, sent))
    }

    /// True if a large set or map that a node lacks can be handed to it page by page.
    fn hands_pages_to(&self, to: NodeId) -> bool {
        self.delivery.throttle.check_outbound().is_ok() && self.local.reachable(to).is_some()
    }

    /// Returns the whole objects of a tag. Those that `is_for_pages` selects are left out and noted as
    /// hints: the transfers deliver them page by page.
    fn pulled_records(
        &self,
        partition: Partition,
        tag: Tag,
        to: NodeId,
        is_for_pages: &dyn Fn(&Bytes, &Record) -> bool,
    ) -> Result<Vec<(Bytes, Record)>, Refusal> {
        let tags = [tag];
        let roots = self.local.records.tagged(partition, &tags).map_err(RequestError::from)?;
        let (later, now): (Vec<_>, Vec<_>) =
            roots.into_iter().partition(|(key, record)| is_for_pages(key, record));
        for (key, _) in &later {
            let place = PlacedKey::new(key, partition);
            let identity =
                place.map_err(|fault| Refusal::Malformed(fault.to_string()))?.at().identity;
            self.hints.note(to, (partition, identity));
        }
        Ok(self.local.records.complete(partition, now).map_err(RequestError::from)?)
    }

    /// Decides which side has the newer version of a record. Concurrent versions, and versions whose order is
    /// unknown without the whole objects, count as newer here.
    fn newer(&self, key: &Bytes, ours: &Record, theirs: &KnownRecord) -> Newer {
        if ours.meta.digest == theirs.digest {
            return Newer::Neither;
        }
        let state = self.local.control.read();
        let props = KeyRef::decode(key).ok().and_then(|key| state.bucket_props(key.bucket).ok());
        let is_causal = props.is_none_or(|props| merge_rule(props) == MergeRule::Causal);
        match (Object::decode_clock(&ours.value), decode_context(&theirs.clock)) {
            (Ok(our), Ok(their)) if is_causal && their.descends(&our) && !our.descends(&their) => {
                Newer::There
            }
            (Ok(our), Ok(their))
                if is_causal && !our.descends(&their) && planted!(PassesOverConcurrent) =>
            {
                Newer::Neither
            }
            _ => Newer::Here,
        }
    }

    /// Returns the engine's digests, or a refusal if its copies can't be compared.
    fn comparable(&self) -> Result<&dyn Compare, Refusal> {
        let compared = self.local.engine.compared();
        compared.ok_or_else(|| Refusal::Malformed("copies of this engine can't be compared".into()))
    }

    fn check_partition(&self, number: u32) -> Result<Partition, Refusal> {
        let partition =
            u16::try_from(number).ok().filter(|each| *each < self.local.ring_size().get());
        let none = || Refusal::Malformed(format!("there is no partition {number}"));
        partition.map(Partition).ok_or_else(none)
    }

    /// Decodes a request's header. Refuses if the sender has another newest layout: both nodes must agree
    /// on which node is a primary of which records.
    fn read_newest<M: prost::Message + Default>(
        &self,
        request: &IncomingRequest,
        layout_version: impl Fn(&M) -> u64,
    ) -> Result<M, Refusal> {
        let header = M::decode(request.header.clone())
            .map_err(|fault| Refusal::Malformed(fault.to_string()))?;
        if layout_version(&header) != self.local.state().layouts().newest().version() {
            return Err(Refusal::StaleLayout);
        }
        Ok(header)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
/// The side that has the newer version of a record.
enum Newer {
    Here,
    There,
    Neither,
}

/// Returns the answer that no partition can be compared.
fn passing_over_all(asked: &exchange::Compare) -> Compared {
    let count = asked.partitions.len();
    Compared { differing: vec![0; count], not_comparable: (0..).take(count).collect() }
}

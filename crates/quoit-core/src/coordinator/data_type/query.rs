//! Questions about parts of data types.
//!
//! The part comes from one replica, this node if it is one; the others that the read needs answer with
//! digests. When all are equal, the part has the answer. Anything else sends the question the general way:
//! the whole is read, and repaired, and asked.

use super::datatype_of;
use crate::coordinator::Coordinator;
use crate::coordinator::get::read_need;
use crate::error::{DataTypeError, RequestError};
use crate::field_path::path_message;
use crate::options::ReadOptions;
use crate::placement::{Place, object_props, record_at};
use crate::records::PartCopy;
use crate::topology::{Topology, cost_us};
use crate::votes::{NodePlace, ReadState, ReadTally, Voters};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{Lane, Replies};
use quoit_model::data_type::pages::ItemHash;
use quoit_model::data_type::{
    Answer, ItemRange, MAP_DEPTH_MAX, QueryError, Question, State, WantedPart,
};
use quoit_model::key::KeyRef;
use quoit_model::props::ReadQuorums;
use quoit_store::engine::{Access, RecordAt};
use quoit_wire::internode::data::{Fetch, Fetched, METHOD_FETCH, Want};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time that replicas have before the question is asked the general way.
const PATIENCE: Duration = Duration::from_millis(500);

impl Coordinator {
    /// As [`ReplicatedStore::query_data_type`](crate::ReplicatedStore::query_data_type).
    pub(crate) async fn query_data_type(
        &self,
        key: KeyRef<'_>,
        question: &Question,
        options: &ReadOptions,
    ) -> Result<Option<Answer>, RequestError> {
        let entered = self.admit_get()?;
        key.check()?;
        let encoded = key.encoded();
        let topology = self.local.settled_topology(options.timeout_ms).await;
        let (at, quorums) = {
            let state = self.local.control.read();
            let props = object_props(&state, key.bucket)?;
            question.datatype_in(datatype_of(props)).map_err(DataTypeError::from)?;
            (record_at(&state, props, key, &encoded), options.resolve(props)?)
        };
        if question.path.len() > MAP_DEPTH_MAX {
            return Ok(None);
        }
        let copy = if topology.is_alone() {
            self.check_read(&topology, at.partition, &quorums, true)?;
            Some(self.own_part(&at, question).await?)
        } else {
            self.agreed_part(&topology, &at, question, &quorums, options.is_sloppy()).await?
        };
        drop(entered);
        let part = match copy {
            Some(PartCopy::Missing) => None,
            Some(PartCopy::Found { part, .. }) => part,
            None => {
                let Some(object) = self.get_stored(key, options).await? else { return Ok(None) };
                let state = object.data_type().map_err(RequestError::damaged_state)?;
                state.and_then(|state| ItemRange::whole(state, &question.path)).map(Box::new)
            }
        };
        let Some(part) = part else { return Ok(None) };
        // The record may be of another type than its bucket.
        let datatype = part.state.datatype();
        let answer = part.answer(question).ok_or(QueryError::NoSuchPart { datatype });
        Ok(Some(answer.map_err(DataTypeError::from)?))
    }

    async fn own_part(
        &self,
        at: &RecordAt<'_>,
        question: &Question,
    ) -> Result<PartCopy, RequestError> {
        let wanted = question.wanted();
        if let Some(copy) = self.local.records.part(at, &question.path, wanted, Access::NoWait)? {
            return Ok(copy);
        }
        let records = Arc::clone(&self.local.records);
        let (key, partition) = (Bytes::copy_from_slice(at.encoded), at.partition);
        let path = question.path.clone();
        let read = move || {
            let place = Place::new(&key, partition)?;
            let copy = records.part(&place.at(), &path, wanted, Access::Wait)?;
            Ok(copy.unwrap_or(PartCopy::Missing))
        };
        self.local.settings.blocking.aside(read).await
    }

    /// The part, if enough replicas have the same object; `None` when they don't, or can't say it soon.
    async fn agreed_part(
        &self,
        topology: &Topology,
        at: &RecordAt<'_>,
        question: &Question,
        quorums: &ReadQuorums,
        sloppy: bool,
    ) -> Result<Option<PartCopy>, RequestError> {
        let need = {
            let key = KeyRef::decode(at.encoded)?;
            read_need(&self.local.control.read(), key.bucket, quorums)
        };
        let voters = topology.readers(at.partition, need.replica_count(), sloppy, &[]);
        ReadTally::check(&need, &voters)?;
        // What is missing is looked for further than this way goes.
        if !need.notfound_ok {
            return Ok(None);
        }
        let own = topology.own().filter(|own| voters.of(*own).is_some());
        let mut asking = Asking { replies: Replies::new(), count: 0, copy: None };
        let mut hoped = ReadTally::new(need);
        for (place, node) in in_order(topology, &voters, own).into_iter().enumerate() {
            // The first tells the part, the others their digests.
            let question_of_node = (place == 0).then_some(question);
            if own == Some(node) {
                // Damaged copies are mended the general way.
                let Ok(part) = self.own_part(at, question).await else { return Ok(None) };
                asking.copy = Some(part);
            } else if !asking.ask(topology, node, at, question_of_node) {
                return Ok(None);
            }
            hoped.found(node);
            if hoped.state(&voters) == ReadState::Met {
                let gathered = timeout(PATIENCE, asking.gather()).await;
                return Ok(gathered.ok().flatten());
            }
        }
        Ok(None)
    }
}

/// Nodes in the order in which they are asked: this node first, then the primaries, the quickest
/// first.
fn in_order(topology: &Topology, voters: &Voters, own: Option<NodePlace>) -> Vec<NodePlace> {
    let mut nodes: Vec<(bool, u64, NodePlace)> = voters
        .iter()
        .filter_map(|voter| {
            if own == Some(voter.node) {
                return Some((false, 0, voter.node));
            }
            let cost_us = cost_us(topology.peer(voter.node)?);
            Some((voter.primary == 0, cost_us + 1, voter.node))
        })
        .collect();
    nodes.sort_unstable();
    nodes.into_iter().map(|(_, _, node)| node).collect()
}

/// A question that is under way.
struct Asking {
    replies: Replies,
    /// Answers that are to come.
    count: u32,
    /// The part, once it has come.
    copy: Option<PartCopy>,
}

impl Asking {
    /// Asks another node, without a question for its digest alone. False when it can't be reached.
    fn ask(
        &mut self,
        topology: &Topology,
        node: NodePlace,
        at: &RecordAt<'_>,
        question: Option<&Question>,
    ) -> bool {
        let Some(peer) = topology.peer(node) else { return false };
        let mut header = Fetch {
            key: Bytes::copy_from_slice(at.encoded),
            partition: u32::from(at.partition.0),
            layout_version: topology.read_layout(at.partition),
            want: Want::Digest.into(),
            ..Fetch::default()
        };
        if let Some(question) = question {
            ask_for_part(question, &mut header);
        }
        let slot = if question.is_some() { PART_SLOT } else { DIGEST_SLOT };
        self.count += 1;
        peer.send(METHOD_FETCH, &header, b"", Lane::Small, &self.replies, slot).is_ok()
    }

    /// Waits for all answers. The part, if all have the same object.
    async fn gather(mut self) -> Option<PartCopy> {
        let mut digests = Vec::new();
        while self.count > 0 {
            let (slot, reply) = self.replies.next().await?;
            let reply = reply.ok()?;
            let fetched = Fetched::decode(reply.header).ok().filter(|fetched| !fetched.has_lost)?;
            digests.push(fetched.found.then_some(fetched.digest));
            if slot == PART_SLOT {
                self.copy = Some(read_part(&fetched, &reply.payload)?);
            }
            self.count -= 1;
        }
        let digest = match self.copy.as_ref()? {
            PartCopy::Missing => None,
            PartCopy::Found { digest, .. } => Some(*digest),
        };
        let is_agreed = digests.iter().all(|other| *other == digest);
        self.copy.filter(|_| is_agreed)
    }
}

fn ask_for_part(question: &Question, header: &mut Fetch) {
    header.want = Want::Part.into();
    header.part_path = path_message(&question.path);
    match question.wanted() {
        WantedPart::Size => header.part_size_only = true,
        WantedPart::Item(item) => header.part_from = item.0,
        WantedPart::Items { from, count } => {
            header.part_from = from.0;
            header.part_count = u32::try_from(count).unwrap_or(u32::MAX);
        }
    }
}

/// Tells the answer with the part from those with digests.
const PART_SLOT: u16 = 1;
const DIGEST_SLOT: u16 = 0;

fn read_part(fetched: &Fetched, payload: &Bytes) -> Option<PartCopy> {
    if !fetched.found {
        return Some(PartCopy::Missing);
    }
    let part = match payload.is_empty() {
        true => None,
        false => Some(Box::new(ItemRange {
            state: State::decode(payload).ok()?,
            last: ItemHash(fetched.part_last),
            size: fetched.part_size,
        })),
    };
    Some(PartCopy::Found { digest: fetched.digest, part })
}

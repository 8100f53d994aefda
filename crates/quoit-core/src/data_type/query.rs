//! Questions about parts of data types.
//!
//! The part comes from one replica, this node if it is one; the others that the read needs answer with
//! digests. When all are equal, the part has the answer. Anything else sends the question the general way:
//! the whole is read, and repaired, and asked.

use super::damaged;
use crate::error::{DataTypeError, RequestError};
use crate::options::ReadOptions;
use crate::records::PartCopy;
use crate::replica::Place;
use crate::store::{ReplicatedStore, object_props, record_at};
use crate::topology::{Topology, cost_us};
use crate::votes::{NodePlace, ReadNeed, ReadState, ReadTally, Voters};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{Lane, Replies};
use quoit_model::data_type::pages::ItemHash;
use quoit_model::data_type::{Answer, Part, Query, State, WantedPart};
use quoit_model::key::KeyRef;
use quoit_model::props::ReadQuorums;
use quoit_store::engine::{Access, RecordAt};
use quoit_wire::internode::data::{Fetch, Fetched, METHOD_FETCH, Want};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time that replicas have before the question is asked the general way.
const PATIENCE: Duration = Duration::from_millis(500);

impl ReplicatedStore {
    /// Asks something about a data type that need not read all of it: its size, whether an element is in it,
    /// one field, some of its elements. `None` when there is no data type.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`], and when the query does not suit the type.
    pub async fn query_data_type(
        &self,
        key: KeyRef<'_>,
        query: &Query,
        options: &ReadOptions,
    ) -> Result<Option<Answer>, RequestError> {
        let entered = self.admit_get()?;
        key.check()?;
        let encoded = key.encoded();
        let topology = self.settled_topology(options.timeout_ms).await;
        let (at, quorums) = {
            let state = self.control.read();
            let props = object_props(&state, key.bucket)?;
            (record_at(&state, props, key, &encoded), options.resolve(props)?)
        };
        let copy = if topology.is_alone() {
            self.check_read(&topology, at.partition, &quorums, true)?;
            Some(self.own_part(&at, query.wanted()).await?)
        } else {
            self.agreed_part(&topology, &at, query.wanted(), &quorums, options.is_sloppy()).await?
        };
        drop(entered);
        let part = match copy {
            Some(PartCopy::Missing) => None,
            Some(PartCopy::Found { part, .. }) => part,
            None => {
                let Some(object) = self.get_stored(key, options).await? else { return Ok(None) };
                let live = object.data_type().map_err(damaged)?.filter(State::is_live);
                live.map(Part::from).map(Box::new)
            }
        };
        let Some(part) = part else { return Ok(None) };
        let datatype = part.state.datatype();
        let answer = part.answer(query).ok_or(DataTypeError::Query { datatype })?;
        Ok(Some(answer))
    }

    async fn own_part(
        &self,
        at: &RecordAt<'_>,
        wanted: WantedPart,
    ) -> Result<PartCopy, RequestError> {
        if let Some(copy) = self.records.part(at, wanted, Access::NoWait)? {
            return Ok(copy);
        }
        let records = Arc::clone(&self.records);
        let (key, partition) = (Bytes::copy_from_slice(at.encoded), at.partition);
        let read = move || {
            let place = Place::new(&key, partition)?;
            Ok(records.part(&place.at(), wanted, Access::Wait)?.unwrap_or(PartCopy::Missing))
        };
        self.settings.blocking.aside(read).await
    }

    /// The part, if enough replicas have the same object; `None` when they don't, or can't say it soon.
    async fn agreed_part(
        &self,
        topology: &Topology,
        at: &RecordAt<'_>,
        wanted: WantedPart,
        quorums: &ReadQuorums,
        sloppy: bool,
    ) -> Result<Option<PartCopy>, RequestError> {
        let need = ReadNeed::from(quorums);
        let voters = topology.readers(at.partition, need.n_val, sloppy, &[]);
        ReadTally::check(&need, &voters)?;
        // What is missing is looked for further than this way goes.
        if !need.notfound_ok {
            return Ok(None);
        }
        let own = topology.own().filter(|own| voters.of(*own).is_some());
        let mut asking = Asking { replies: Replies::new(), count: 0, copy: None };
        let mut has_part = false;
        let mut hoped = ReadTally::new(need);
        for node in in_order(topology, &voters, own) {
            let want = if has_part { Want::Digest } else { Want::Part };
            if own == Some(node) {
                // Damaged copies are mended the general way.
                let Ok(part) = self.own_part(at, wanted).await else { return Ok(None) };
                asking.copy = Some(part);
            } else if !asking.ask(topology, node, at, want, wanted) {
                return Ok(None);
            }
            has_part = true;
            hoped.found(node);
            if hoped.state(&voters) == ReadState::Met {
                let gathered = timeout(PATIENCE, asking.gather()).await;
                return Ok(gathered.ok().flatten());
            }
        }
        Ok(None)
    }
}

/// Who may be asked: this node first, then the primaries, the quickest first.
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
    /// Asks another node. False when it can't be reached.
    fn ask(
        &mut self,
        topology: &Topology,
        node: NodePlace,
        at: &RecordAt<'_>,
        want: Want,
        wanted: WantedPart,
    ) -> bool {
        let Some(peer) = topology.peer(node) else { return false };
        let (from, count) = match wanted {
            WantedPart::Size => (ItemHash(0), 0),
            WantedPart::Item(item) => (item, 0),
            WantedPart::Items { from, count } => (from, count),
        };
        let header = Fetch {
            key: Bytes::copy_from_slice(at.encoded),
            partition: u32::from(at.partition.0),
            layout_version: topology.layout_version(),
            want: want.into(),
            part_from: from.0,
            part_count: u32::try_from(count).unwrap_or(u32::MAX),
            part_size_only: wanted == WantedPart::Size,
        };
        let slot = if want == Want::Part { PART_SLOT } else { DIGEST_SLOT };
        self.count += 1;
        peer.send(METHOD_FETCH, &header, b"", Lane::Small, &self.replies, slot).is_ok()
    }

    /// Waits for all answers. The part, if all have the same object.
    async fn gather(mut self) -> Option<PartCopy> {
        let mut digests = Vec::new();
        while self.count > 0 {
            let (slot, reply) = self.replies.next().await?;
            let reply = reply.ok()?;
            let fetched = Fetched::decode(reply.header).ok()?;
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

/// Tells the answer with the part from those with digests.
const PART_SLOT: u16 = 1;
const DIGEST_SLOT: u16 = 0;

fn read_part(fetched: &Fetched, payload: &Bytes) -> Option<PartCopy> {
    if !fetched.found {
        return Some(PartCopy::Missing);
    }
    let part = match payload.is_empty() {
        true => None,
        false => Some(Box::new(Part {
            state: State::decode(payload).ok()?,
            last: ItemHash(fetched.part_last),
            size: fetched.part_size,
        })),
    };
    Some(PartCopy::Found { digest: fetched.digest, part })
}

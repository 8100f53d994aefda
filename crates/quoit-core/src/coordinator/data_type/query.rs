//! Questions about parts of data types.
//!
//! The part comes from one replica, this node if it has a vote; the other replicas that the read needs
//! answer with digests. If all digests are equal, the part is the answer. Otherwise the read continues
//! with these answers: it fetches the whole versions, merges and repairs them, and answers from the
//! merge.

use super::datatype_of;
use crate::coordinator::Coordinator;
use crate::coordinator::first_round::{FirstRound, FirstRoundStart};
use crate::coordinator::get::read_need;
use crate::coordinator::read_replicas::ReadRequest;
use crate::coordinator::readers::ReadRequestKind;
use crate::error::{DataTypeError, RequestError};
use crate::options::ReadOptions;
use crate::placement::{PlacedKey, object_props, record_at};
use crate::records::PartCopy;
use crate::request_log::RequestCourse;
use crate::topology::Topology;
use bytes::Bytes;
use quoit_model::data_type::pages::ItemHash;
use quoit_model::data_type::{Answer, ItemRange, MAP_DEPTH_MAX, QueryError, Question, State};
use quoit_model::key::KeyRef;
use quoit_store::engine::{IoMode, RecordAt};
use quoit_wire::internode::data::Fetched;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time that the replicas have to answer before the read continues with whole objects.
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
        let started_us = self.local.clock.monotonic_us();
        key.check()?;
        let encoded = key.encoded();
        let topology = self.local.settled_topology(options.timeout_ms).await;
        let (read, quorums) = {
            let state = self.local.control.read();
            let props = object_props(&state, key.bucket)?;
            question.datatype_in(datatype_of(props)).map_err(DataTypeError::from)?;
            let quorums = options.resolve(props)?;
            let at = record_at(&state, props, key, &encoded);
            let need = read_need(&state, key.bucket, &quorums);
            (self.read_of(at, props, need, options), quorums)
        };
        if question.path.len() > MAP_DEPTH_MAX {
            return Ok(None);
        }
        let answered = if topology.is_alone() {
            self.check_read(&topology, read.at.partition, &quorums, true)?;
            PartOutcome::Part(self.own_part(&read.at, question).await?)
        } else {
            self.ask_for_part(&topology, &read, question).await?
        };
        let whole = match answered {
            PartOutcome::Part(PartCopy::Missing) => return Ok(None),
            PartOutcome::Part(PartCopy::Found { part, .. }) => return answer_of(part, question),
            PartOutcome::Differ(first) => {
                let own_at_us = self.local.clock.monotonic_us();
                let mut course = RequestCourse { own_at_us, ..RequestCourse::default() };
                let asked = &mut course.asked;
                let found = self.continue_read(&read, *first, started_us, asked).await;
                let found = found.and_then(|found| self.with_values_of(key, found));
                self.note_read(key, started_us, &found, &course);
                found?
            }
            PartOutcome::NotAsked => {
                // This read is admitted anew, and counts as a get.
                drop(entered);
                self.get_stored(key, options).await?
            }
        };
        let Some(object) = whole else { return Ok(None) };
        let state = object.data_type().map_err(RequestError::damaged_state)?;
        let part = state.and_then(|state| ItemRange::whole(state, &question.path)).map(Box::new);
        answer_of(part, question)
    }

    /// Reads a part of this node's copy, and waits for the disk if need be.
    async fn own_part(
        &self,
        at: &RecordAt<'_>,
        question: &Question,
    ) -> Result<PartCopy, RequestError> {
        let wanted = question.wanted();
        if let Some(copy) = self.replica.part(at, &question.path, wanted, IoMode::NoWait)? {
            return Ok(copy);
        }
        let replica = Arc::clone(&self.replica);
        let (key, partition) = (Bytes::copy_from_slice(at.encoded), at.partition);
        let path = question.path.clone();
        let read = move || {
            let place = PlacedKey::new(&key, partition)?;
            let copy = replica.part(&place.at(), &path, wanted, IoMode::Wait)?;
            Ok(copy.unwrap_or(PartCopy::Missing))
        };
        self.local.settings.blocking.on_pool(read).await
    }

    /// Asks the replicas that a read needs: one for the part, this node if it has a vote, and the others
    /// for digests.
    async fn ask_for_part(
        &self,
        topology: &Topology,
        read: &ReadRequest<'_>,
        question: &Question,
    ) -> Result<PartOutcome, RequestError> {
        let elsewhere = Some(ReadRequestKind::Part(question));
        let start = FirstRound::ask(topology, &read.at, &read.need, read.sloppy, elsewhere)?;
        let mut first = match start {
            FirstRoundStart::Own => {
                let own = self.own_part(&read.at, question).await;
                return Ok(own.map_or(PartOutcome::NotAsked, PartOutcome::Part));
            }
            FirstRoundStart::Asked(first) => first,
            FirstRoundStart::NotHere => return Ok(PartOutcome::NotAsked),
        };
        let mut part = None;
        if first.has_own() {
            // A read of the whole object repairs a damaged copy.
            let Ok(own) = self.own_part(&read.at, question).await else {
                return Ok(PartOutcome::Differ(Box::new(first)));
            };
            first.answer_own(own.digest());
            part = Some(own);
        }
        let part_of = first.waiting.first().copied().filter(|_| part.is_none());
        let heard = async {
            while !first.waiting.is_empty() {
                let Some((node, fetched, payload)) = first.next_event().await else { return false };
                if part_of == Some(node) {
                    part = read_part(&fetched, &payload);
                }
            }
            true
        };
        let heard = timeout(PATIENCE, heard).await;
        first.is_late = heard.is_err();
        let all_answered = heard.unwrap_or(false);
        match part {
            Some(part) if all_answered && first.all_have(part.digest()) => {
                Ok(PartOutcome::Part(part))
            }
            Some(_) | None => Ok(PartOutcome::Differ(Box::new(first))),
        }
    }
}

/// Outcome of asking the replicas for a part of a data type.
enum PartOutcome {
    /// All have the same object, which has this part.
    Part(PartCopy),
    /// The replicas differ, failed or are late, or this node's copy is damaged. The read continues with
    /// the answers so far.
    Differ(Box<FirstRound>),
    /// The replicas can't be asked for a part: the whole object is read.
    NotAsked,
}

/// Answers a question from a part.
fn answer_of(
    part: Option<Box<ItemRange>>,
    question: &Question,
) -> Result<Option<Answer>, RequestError> {
    let Some(part) = part else { return Ok(None) };
    // The record may hold another data type than its bucket.
    let datatype = part.state.datatype();
    let answer = part.answer(question).ok_or(QueryError::NoSuchPart { datatype });
    Ok(Some(answer.map_err(DataTypeError::from)?))
}

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

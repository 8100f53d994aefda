//! Joins the delta of an operation on a data type into a record, in whichever form the record is stored.
//!
//! A delta carries its own events, so a record that lacks earlier ones may join it: the clock then has a gap,
//! which read repair or anti-entropy fills. Only a sender that asks for it (`needs_earlier`, for deltas from
//! other clusters) has a record with a gap refuse the delta. A record that holds anything but a data type of
//! the same type refuses it, too. The sender then sends the whole object.

use super::arrival::{ApplyOutcome, ArrivalDecision, Replicated, Verdict, take_first};
use super::{Records, Updated, WrittenPages};
use crate::error::RequestError;
use crate::stored::decode;
use bytes::Bytes;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::data_type::{Delta, StoredFormError};
use quoit_model::object::Object;
use quoit_planted::planted;
use quoit_store::engine::{
    Applied, BeforeImage, Decision, IoMode, RecordAt, RecordMeta, RecordRef,
};
use quoit_wire::internode::data::MergeRule;

/// Decides which part of an object is stored where nothing is stored yet.
type DecideArrival<'a> = dyn Fn(&Replicated) -> Result<ArrivalDecision, RequestError> + 'a;

/// Delta of an operation on a data type, encoded for replicas.
#[derive(Clone, Debug)]
pub(crate) struct SentDelta {
    /// Number of replicas of the record's bucket, capped at 15.
    pub(crate) n_val_class: u8,
    /// Time of the operation, in microseconds since 1970.
    pub(crate) last_modified_us: u64,
    /// The encoded delta.
    pub(crate) delta: Bytes,
    /// True if the operation also removed tombstones that stood beside the state. The delta does not
    /// carry that. Replicas notice it when they compare their copies; other clusters do not, so the delta
    /// is not queued for them.
    pub(crate) has_dropped_tombstones: bool,
}

/// Delta of an operation, decoded by a replica.
pub(crate) struct DecodedDelta {
    pub(crate) delta: Delta,
    pub(crate) n_val_class: u8,
    pub(crate) last_modified_us: u64,
    /// If true, only a copy that has all earlier events of the delta's actor may join it.
    pub(crate) needs_earlier: bool,
}

impl DecodedDelta {
    /// True if the delta needs earlier events that the stored object lacks.
    fn is_too_early(&self, stored: Option<&Object>) -> Result<bool, StoredFormError> {
        if !self.needs_earlier || planted!(JoinsOverGaps) {
            return Ok(false);
        }
        let Some(stored) = stored else { return Ok(true) };
        Ok(!stored.has_data_type() || !self.delta.follows(&stored.causal_clock()?))
    }
}

/// Result of joining a delta.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JoinOutcome {
    Done(ApplyOutcome),
    /// The join would have to wait for the disk.
    WouldBlock,
    /// The record holds something other than a data type of the delta's type, or lacks earlier events that
    /// the sender insists on: the replica needs the whole object.
    NeedsWhole,
}

/// Result of joining a delta with a record that is stored whole.
enum JoinVerdict {
    Put(RecordMeta),
    Kept,
    /// Nothing is stored and nothing is written.
    Nothing,
    NeedsWhole,
    WouldBlock,
}

impl Records {
    /// Joins a delta into a record. The record may be whole or in pages, whatever form the coordinator's
    /// copy has.
    pub(crate) fn join(
        &self,
        at: &RecordAt<'_>,
        joining: &DecodedDelta,
        access: IoMode,
        admitted: &DecideArrival<'_>,
    ) -> Result<JoinOutcome, RequestError> {
        let DecodedDelta { delta, n_val_class, last_modified_us, .. } = joining;
        let mut outcome = Ok(JoinVerdict::Kept);
        let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            outcome = joined(joining, stored, admitted, out);
            match outcome {
                Ok(JoinVerdict::Put(meta)) => Decision::Put(meta),
                Ok(_) | Err(_) => Decision::Keep,
            }
        };
        let applied = loop {
            match self.update(at, BeforeImage::Read, access, &mut change)? {
                Updated::Applied(applied) => break applied,
                Updated::InPages => {}
            }
            let mut is_joined = true;
            let mut in_pages = |paged: PagedObject, pages: &mut WrittenPages<'_, '_>| {
                let joined = match joining.is_too_early(Some(paged.object()))? {
                    true => None,
                    false => paged.join(delta, *last_modified_us, pages)?,
                };
                is_joined = joined.is_some();
                Ok(joined)
            };
            if let Some(applied) = self.change_pages(at, access, &mut in_pages)? {
                if !is_joined {
                    return Ok(JoinOutcome::NeedsWhole);
                }
                break applied;
            }
        };
        match (applied, outcome?) {
            (_, JoinVerdict::NeedsWhole) => Ok(JoinOutcome::NeedsWhole),
            (Applied::WouldBlock, _) | (_, JoinVerdict::WouldBlock) => Ok(JoinOutcome::WouldBlock),
            (Applied::Kept, JoinVerdict::Nothing) => Ok(JoinOutcome::Done(ApplyOutcome::Nothing)),
            (Applied::Kept, _) => Ok(JoinOutcome::Done(ApplyOutcome::Known)),
            (Applied::Written(ticket), verdict) => {
                let meta = match verdict {
                    JoinVerdict::Put(meta) => meta,
                    _ => RecordMeta { n_val_class: *n_val_class, ..RecordMeta::default() },
                };
                Ok(JoinOutcome::Done(ApplyOutcome::Written(ticket, meta)))
            }
        }
    }
}

/// Joins a delta with a record that is stored whole, and appends to `out` the object that replaces
/// it.
fn joined(
    joining: &DecodedDelta,
    stored: Option<&RecordRef<'_>>,
    admitted: &DecideArrival<'_>,
    out: &mut Vec<u8>,
) -> Result<JoinVerdict, RequestError> {
    let DecodedDelta { delta, n_val_class, last_modified_us, .. } = joining;
    let is_new = stored.is_none();
    let stored = stored.map(|record| decode(&record.to_bytes())).transpose()?;
    if joining.is_too_early(stored.as_ref()).map_err(RequestError::damaged_state)? {
        return Ok(JoinVerdict::NeedsWhole);
    }
    let joined = Object::join_data_type(stored, delta, *last_modified_us, None)
        .map_err(RequestError::damaged_state)?;
    let Some(object) = joined else { return Ok(JoinVerdict::NeedsWhole) };
    let replicated = Replicated::new(&object, MergeRule::Causal, *n_val_class);
    let admitted = match is_new {
        true => admitted(&replicated)?,
        false => ArrivalDecision::AsItCame,
    };
    Ok(match take_first(admitted, &replicated, out, None) {
        Verdict::Put(meta) => JoinVerdict::Put(meta),
        Verdict::WouldBlock => JoinVerdict::WouldBlock,
        Verdict::Nothing => JoinVerdict::Nothing,
        Verdict::Keep | Verdict::Undecided => JoinVerdict::Kept,
    })
}

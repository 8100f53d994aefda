//! The rest that a reaped tombstone leaves of an object that arrives, and how reap records are made.
//!
//! Where a node has a reap record, what it stores under that name has the tombstone's clock: what arrives
//! where nothing is stored is merged with the clock, a coordinated write begins with it, and a reap record
//! that comes where something is stored is merged into that. So reap records are looked for only where
//! nothing is stored, and what is stored keeps out what the tombstone covers by its own clock, also when
//! the reap record has gone.

use super::{ApplyOutcome, Replica, Replicated, merge, merge_rule};
use crate::error::RequestError;
use crate::placement::Place;
use crate::reap_records::{AddReapRecordsError, ReapRecord, ReapedTombstone};
use crate::stored::{decode, wait_if_blocked};
use bytes::Bytes;
use quoit_cluster::NoSuchType;
use quoit_model::clock::VersionVector;
use quoit_model::hash::Partition;
use quoit_model::object::Object;
use quoit_planted::planted;
use quoit_store::engine::{Access, Applied, Before, Decision, RecordAt, RecordMeta, RecordRef};
use quoit_store::error::StoreError;
use quoit_wire::internode::data::MergeRule;

/// A reap record as something that arrives is held against it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reaped {
    /// There is none.
    Nothing,
    /// It has to come from the disk, which the caller may not wait for.
    WouldBlock,
    /// The tombstone.
    Tombstone(Box<Object>),
}

/// The fate of an object that arrives where nothing is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Admitted {
    /// It is stored as it came.
    AsItCame,
    /// Nothing of it is stored.
    Nothing,
    /// This is stored of it.
    Rest(Box<Object>),
    /// The disk has to be waited for.
    WouldBlock,
}

/// A tombstone's clock as an object that shows nothing.
pub(crate) fn clock_of(tombstone: &Object) -> Object {
    // A state that is not there has a part of the clock in its note.
    let states = tombstone.siblings.iter().filter(|sibling| sibling.is_data_type());
    Object { clock: tombstone.clock.clone(), siblings: states.cloned().collect() }
}

/// A reaped tombstone together with an object that arrives, as a replica would store it that has not reaped
/// the tombstone; `None` when the tombstone has seen all of the object.
///
/// So the tombstone stands beside what it has not seen: copies of nodes and of clusters that have reaped it
/// are equal to those that have not. A client that writes here gets its clock alone ([`clock_of`]).
pub(crate) fn rest_of(tombstone: &Object, object: &Object, rule: MergeRule) -> Option<Object> {
    // It was written where the tombstone or its reap record was, by a node whose clock may be behind. That
    // node keeps it, so the other replicas must not keep it out. Clocks that do not know of each other say
    // nothing: the tombstone is a value as any other then.
    if rule == MergeRule::LastWriteWins
        && object.clock != tombstone.clock
        && object.clock.descends(&tombstone.clock)
    {
        return Some(object.clone());
    }
    let merged = merge(tombstone, object, rule);
    (merged.digest() != tombstone.digest()).then_some(merged)
}

/// As [`rest_of`], of an object that this node writes for a client: of the tombstone only its clock stays, as
/// under any value that is written here.
pub(crate) fn written_over(tombstone: &Object, object: &Object, rule: MergeRule) -> Option<Object> {
    let mut rest = rest_of(tombstone, object, rule)?;
    if !rest.is_tombstone() {
        let is_its = |dot| tombstone.siblings.iter().any(|sibling| sibling.dot == dot);
        rest.siblings.retain(|sibling| !sibling.deleted || !is_its(sibling.dot.clone()));
    }
    Some(rest)
}

impl Replica {
    /// The tombstone that was reaped under a name. One load while nothing was; called under the record's
    /// lock.
    pub(crate) fn reaped_at(
        &self,
        at: &RecordAt<'_>,
        access: Access,
    ) -> Result<Reaped, RequestError> {
        if self.reap_records.is_empty() || !self.may_be_reaped(at) {
            return Ok(Reaped::Nothing);
        }
        match self.reap_records.get(at, access) {
            Ok(ReapedTombstone::Missing) => Ok(Reaped::Nothing),
            Ok(ReapedTombstone::WouldBlock) => Ok(Reaped::WouldBlock),
            Ok(ReapedTombstone::Found(tombstone)) => {
                decode(&tombstone).map(|tombstone| Reaped::Tombstone(Box::new(tombstone)))
            }
            // It counts as lost, and its partition with it: refusing all writes would help nobody.
            Err(fault @ StoreError::Corrupt { .. }) => {
                tracing::error!(%fault, "a reap record is lost");
                Ok(Reaped::Nothing)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Clock of the tombstone that was reaped under a name, as far as this node remembers it. A record that
    /// it stores under that name has seen the tombstone, except where the last write wins.
    ///
    /// # Errors
    ///
    /// Names that are none, and faults of the disk.
    pub(crate) fn reaped_clock(
        &self,
        encoded: &[u8],
        partition: Partition,
    ) -> Result<Option<VersionVector>, RequestError> {
        let place = Place::new(encoded, partition)?;
        Ok(match self.reaped_at(&place.at(), Access::Wait)? {
            Reaped::Tombstone(tombstone) => Some(tombstone.clock),
            Reaped::Nothing | Reaped::WouldBlock => None,
        })
    }

    /// Whether there may be a reap record of a name. No disk is asked.
    pub(crate) fn may_be_reaped(&self, at: &RecordAt<'_>) -> bool {
        self.reap_records.may_have(at.partition, at.identity)
    }

    /// The part that is stored of an object that arrives where nothing is stored.
    pub(crate) fn admitted(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
        access: Access,
    ) -> Result<Admitted, RequestError> {
        Ok(match self.reaped_at(at, access)? {
            Reaped::Nothing => Admitted::AsItCame,
            Reaped::WouldBlock => Admitted::WouldBlock,
            Reaped::Tombstone(tombstone) => {
                match rest_of(&tombstone, &decode(&incoming.object)?, incoming.rule) {
                    Some(rest) if rest.digest() == incoming.meta.digest => Admitted::AsItCame,
                    Some(rest) => Admitted::Rest(Box::new(rest)),
                    None => Admitted::Nothing,
                }
            }
        })
    }

    /// The reap record that has kept all of an arrived object out; `None` where nothing or something else
    /// did.
    ///
    /// # Errors
    ///
    /// When the reap record can't be read.
    pub(crate) fn kept_out_by(
        &self,
        at: &RecordAt<'_>,
        taken: Option<ApplyOutcome>,
    ) -> Result<Option<ReapRecord>, RequestError> {
        if taken != Some(ApplyOutcome::Nothing) || planted!(KeepsOutSilently) {
            return Ok(None);
        }
        Ok(self.reap_record_at(at, Access::Wait)?.flatten())
    }

    /// The reap record of a name, if there is one; the outer `None` when the disk has to be waited for.
    fn reap_record_at(
        &self,
        at: &RecordAt<'_>,
        access: Access,
    ) -> Result<Option<Option<ReapRecord>>, RequestError> {
        let RecordAt { partition, identity, .. } = *at;
        Ok(match self.reap_records.get(at, access) {
            Ok(ReapedTombstone::WouldBlock) => None,
            // A damaged one counts as lost.
            Ok(ReapedTombstone::Missing) | Err(StoreError::Corrupt { .. }) => Some(None),
            Ok(ReapedTombstone::Found(tombstone)) => {
                let name = Bytes::copy_from_slice(at.encoded);
                Some(Some(ReapRecord { partition, identity, name, tombstone }))
            }
            Err(fault) => return Err(fault.into()),
        })
    }

    /// The reaped tombstone that has kept all of an object of another cluster out, to be sent to the clusters
    /// that this one replicates to: the other one has missed the delete. `None` where nothing or something
    /// else did, and of a tombstone, which hides nothing.
    ///
    /// # Errors
    ///
    /// When the reap record can't be read.
    pub(crate) fn delete_missed_elsewhere(
        &self,
        at: &RecordAt<'_>,
        arrived: &Replicated,
        taken: ApplyOutcome,
    ) -> Result<Option<Replicated>, RequestError> {
        let is_kept_out = taken == ApplyOutcome::Nothing && !arrived.meta.tombstone;
        if !is_kept_out || planted!(KeepsOutSilently) {
            return Ok(None);
        }
        let record = wait_if_blocked(self.local.settings.blocking, |access| {
            self.reap_record_at(at, access)
        })?;
        let tombstone = record.map(|record| decode(&record.tombstone)).transpose()?;
        let (rule, class) = (arrived.rule, arrived.meta.n_val_class);
        Ok(tombstone.map(|tombstone| Replicated::new(&tombstone, rule, class)))
    }

    /// Makes reap records, on the disk when this returns, and removes what they cover of what is stored.
    pub(crate) fn make_reap_records(&self, records: Vec<ReapRecord>) -> Result<(), RequestError> {
        if records.is_empty() {
            return Ok(());
        }
        self.add_reap_records(records.clone())?;
        let mut is_changed = false;
        for record in &records {
            is_changed |= self.remove_covered(record)?;
        }
        if is_changed {
            self.local.engine.sync()?;
        }
        Ok(())
    }

    /// Makes reap records, on the disk when this returns. The caller decides
    /// about records that are stored under their names.
    pub(crate) fn add_reap_records(&self, records: Vec<ReapRecord>) -> Result<(), RequestError> {
        let merged = |former: &Bytes, new: &Bytes| match (decode(former), decode(new)) {
            (Ok(_), Ok(_)) if planted!(KeepsFirstReap) => former.clone(),
            (Ok(former), Ok(new)) => {
                let mut merged = Vec::new();
                merge(&former, &new, MergeRule::Causal).encode_into(&mut merged);
                Bytes::from(merged)
            }
            (Ok(_), Err(_)) => former.clone(),
            (Err(_), _) => new.clone(),
        };
        self.reap_records.add(records, &merged).map_err(|fault| match fault {
            AddReapRecordsError::Full { .. } => {
                tracing::debug!(%fault, "tombstones wait");
                RequestError::Overload
            }
            AddReapRecordsError::Store(fault) => fault.into(),
        })
    }

    /// Removes what a reap record covers of what is stored under its name, and gives the rest its clock. Says
    /// whether anything was written.
    fn remove_covered(&self, record: &ReapRecord) -> Result<bool, RequestError> {
        let place = Place::new(&record.name, record.partition)?;
        let at = place.at();
        if self.local.engine.head(&at)?.is_none() {
            return Ok(false);
        }
        let rule = match self.local.control.read().bucket_props(at.key.bucket) {
            Ok(props) => merge_rule(props),
            Err(NoSuchType) => MergeRule::Causal,
        };
        let tombstone = decode(&record.tombstone)?;
        let digest = tombstone.digest();
        let mut outcome = Ok(());
        let mut rest_meta = None;
        let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            let Some(stored) = stored else { return Decision::Keep };
            // The tombstone itself goes with its reaping.
            if stored.meta.digest == digest {
                return Decision::Keep;
            }
            let object = match decode(&stored.to_bytes()) {
                Ok(object) => object,
                Err(fault) => {
                    outcome = Err(fault);
                    return Decision::Keep;
                }
            };
            match rest_of(&tombstone, &object, rule) {
                None => Decision::Remove,
                Some(rest) if rest.digest() == stored.meta.digest => Decision::Keep,
                Some(rest) => {
                    rest.encode_into(out);
                    let meta = RecordMeta::of(&rest, stored.meta.n_val_class);
                    rest_meta = Some(meta);
                    Decision::Put(meta)
                }
            }
        };
        let applied =
            self.local.records.update_whole(&at, Before::Read, Access::Wait, &mut change)?;
        outcome?;
        let is_written = matches!(applied, Applied::Written(_));
        if let Some(meta) = rest_meta.filter(|meta| meta.tombstone && is_written) {
            self.note_tombstone(&at, meta.digest);
        }
        Ok(is_written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::clock::{Actor, Dot, VersionVector};
    use quoit_model::merge::{NewValue, WritePolicy};
    use quoit_model::object::Metadata;

    fn written(stored: Option<&Object>, actor: &[u8], counter: u64, deleted: bool) -> Object {
        let new = NewValue {
            meta: Metadata::default(),
            value: Bytes::from_static(b"value"),
            deleted,
            last_modified_us: counter,
            vtag: Bytes::from(format!("{actor:?} {counter}")),
        };
        let dot = Dot { actor: Actor(actor.into()), counter, time_secs: 0 };
        let context = stored.map_or_else(VersionVector::default, |object| object.clock.clone());
        Object::write(stored, &context, new, dot, WritePolicy::Siblings)
    }

    #[test]
    fn nothing_is_left_of_what_a_reaped_tombstone_has_seen() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        for rule in [MergeRule::Causal, MergeRule::LastWriteWins] {
            assert_eq!(rest_of(&tombstone, &value, rule), None);
            assert_eq!(rest_of(&tombstone, &tombstone, rule), None);
        }
    }

    #[test]
    fn what_a_reaped_tombstone_has_not_seen_is_left_with_its_clock() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        let after = written(Some(&tombstone), b"b", 3, false);
        assert_eq!(rest_of(&tombstone, &after, MergeRule::Causal), Some(after));
        let beside = written(None, b"b", 3, false);
        let rest = rest_of(&tombstone, &beside, MergeRule::Causal).expect("it was not deleted");
        assert_eq!(rest, tombstone.merge(&beside), "as where it was not reaped");
        assert_eq!(rest.siblings.iter().filter(|sibling| !sibling.deleted).count(), 1);
        assert_eq!(rest.merge(&value), rest, "the old value comes too late");
        assert_eq!(beside.merge(&value).siblings.len(), 2, "without the clock it would not");
    }

    #[test]
    fn a_write_after_the_tombstone_is_kept_where_the_last_wins_also_with_a_clock_behind() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        let after = written(Some(&tombstone), b"b", 1, false);
        assert_eq!(rest_of(&tombstone, &after, MergeRule::LastWriteWins), Some(after));
        // One that knew nothing of the tombstone is judged by its time.
        let beside = written(None, b"b", 1, false);
        assert_eq!(rest_of(&tombstone, &beside, MergeRule::LastWriteWins), None);
    }

    #[test]
    fn of_siblings_those_are_left_that_the_tombstone_has_not_seen() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        let both = value.merge(&written(None, b"b", 3, false));
        let rest = rest_of(&tombstone, &both, MergeRule::Causal).expect("one is left");
        let live: Vec<_> = rest.siblings.iter().filter(|sibling| !sibling.deleted).collect();
        assert_eq!((live.len(), live[0].last_modified_us), (1, 3));
    }

    #[test]
    fn a_tombstone_that_stands_beside_a_value_stays_there() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        // Elsewhere, where the tombstone was not reaped, a client wrote without having read.
        let both = tombstone.merge(&written(None, b"b", 3, false));
        assert_eq!(both.siblings.len(), 2);
        assert_eq!(rest_of(&tombstone, &both, MergeRule::Causal), Some(both));
    }

    #[test]
    fn an_object_that_is_written_here_has_the_clock_of_the_tombstone_alone() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        let given = written(None, b"b", 3, false);
        let over = written_over(&tombstone, &given, MergeRule::Causal).expect("it was not deleted");
        assert_eq!(over.siblings, given.siblings);
        assert!(over.clock.descends(&tombstone.clock));
        assert_eq!(written_over(&tombstone, &value, MergeRule::Causal), None);
        assert_eq!(tombstone.merge(&over), over, "nor where the tombstone was not reaped");
    }

    #[test]
    fn another_tombstone_is_kept_with_what_both_have_seen() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        let other = written(Some(&written(None, b"b", 3, false)), b"b", 4, true);
        let rest = rest_of(&tombstone, &other, MergeRule::Causal).expect("it says more");
        assert!(rest.is_tombstone());
        assert!(rest.clock.descends(&tombstone.clock) && rest.clock.descends(&other.clock));
    }
}

//! Use of reap records: how they keep deleted records from coming back, and how they are made.
//!
//! A reap record keeps the name and the version vector of a tombstone that was removed. The invariant:
//! **if a node has a reap record, the object that it stores under that name has seen the tombstone.**
//! Three rules keep it:
//!
//! - An object that arrives where nothing is stored is merged with the tombstone ([`merge_with_reaped`]);
//!   if the tombstone has seen all of it, nothing is stored.
//! - A write that this node coordinates where nothing is stored begins with the tombstone's version
//!   vector ([`clock_of`], [`written_over`]).
//! - A reap record that arrives where an object is stored is merged into that object.
//!
//! So a node looks for a reap record only where nothing is stored. A stored object keeps out deleted
//! versions by its own version vector, even after the reap record is gone. In buckets with
//! last_write_wins the time decides, so there a stored object need not have seen the tombstone.

use super::{ApplyOutcome, Replica, Replicated, merge_rule};
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::reap_records::{AddReapRecordsError, ReapRecord, ReapedTombstone};
use crate::records::{ArrivalDecision, merge};
use crate::stored::{decode, wait_if_blocked};
use bytes::Bytes;
use quoit_cluster::NoSuchType;
use quoit_model::clock::VersionVector;
use quoit_model::hash::Partition;
use quoit_model::object::Object;
use quoit_planted::planted;
use quoit_store::engine::{
    Applied, BeforeImage, Decision, IoMode, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;
use quoit_wire::internode::data::MergeRule;

/// Result of looking for a reap record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reaped {
    /// There is no reap record.
    Nothing,
    /// The reap record has to be read from disk, and the caller must not wait.
    WouldBlock,
    /// The tombstone that was reaped.
    Tombstone(Box<Object>),
}

/// An object without values that has the causal history of a tombstone.
pub(crate) fn clock_of(tombstone: &Object) -> Object {
    // The sibling of a removed data type stays, because it holds a part of the causal history.
    let states = tombstone.siblings.iter().filter(|sibling| sibling.is_data_type());
    Object { clock: tombstone.clock.clone(), siblings: states.cloned().collect() }
}

/// Merges a reaped tombstone with an object that arrives, as a replica would that has not reaped the
/// tombstone yet. `None` if the tombstone has seen all of the object.
///
/// The tombstone stays beside values that it has not seen. So copies on nodes and clusters that have
/// reaped it equal the copies on those that have not. A value that a client writes on this node takes
/// over only the tombstone's version vector ([`clock_of`]).
pub(crate) fn merge_with_reaped(
    tombstone: &Object,
    object: &Object,
    rule: MergeRule,
) -> Option<Object> {
    // The object has seen the tombstone, but its time may be earlier because its coordinator's clock is
    // behind. That coordinator keeps the object, so the other replicas must not keep it out. If neither
    // has seen the other, the tombstone competes by its time like any value.
    if rule == MergeRule::LastWriteWins
        && object.clock != tombstone.clock
        && object.clock.descends(&tombstone.clock)
    {
        return Some(object.clone());
    }
    let merged = merge(tombstone, object, rule);
    debug_assert!(
        rule != MergeRule::Causal
            || tombstone.has_data_type()
            || object.has_data_type()
            || merged.clock.descends(&tombstone.clock),
        "an object that is merged with a reaped tombstone has seen it"
    );
    (merged.digest() != tombstone.digest()).then_some(merged)
}

/// As [`merge_with_reaped`], for an object that this node writes for a client. Of the tombstone only the
/// version vector stays, as under any value that is written here.
pub(crate) fn written_over(tombstone: &Object, object: &Object, rule: MergeRule) -> Option<Object> {
    let mut rest = merge_with_reaped(tombstone, object, rule)?;
    if !rest.is_tombstone() {
        let is_its = |dot| tombstone.siblings.iter().any(|sibling| sibling.dot == dot);
        rest.siblings.retain(|sibling| !sibling.deleted || !is_its(sibling.dot.clone()));
    }
    Some(rest)
}

impl Replica {
    /// Looks for the tombstone that was reaped under a name. Called under the record's lock. Costs one
    /// atomic load if there are no reap records at all.
    pub(crate) fn reaped_at(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
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
            // The reap record counts as lost, and so does its partition. Refusing all writes of the
            // record would not help.
            Err(fault @ StoreError::Corrupt { .. }) => {
                tracing::error!(%fault, "a reap record is lost");
                Ok(Reaped::Nothing)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Version vector of the tombstone that was reaped under a name; `None` if this node has no reap
    /// record of it. A record that the node stores under that name has seen the tombstone, except in
    /// buckets with last_write_wins.
    ///
    /// # Errors
    ///
    /// Names that can't be decoded, and failures of the disk.
    pub(crate) fn reaped_clock(
        &self,
        encoded: &[u8],
        partition: Partition,
    ) -> Result<Option<VersionVector>, RequestError> {
        let place = PlacedKey::new(encoded, partition)?;
        Ok(match self.reaped_at(&place.at(), IoMode::Wait)? {
            Reaped::Tombstone(tombstone) => Some(tombstone.clock),
            Reaped::Nothing | Reaped::WouldBlock => None,
        })
    }

    /// False if there is certainly no reap record of a name. Does not read the disk.
    pub(crate) fn may_be_reaped(&self, at: &RecordAt<'_>) -> bool {
        self.reap_records.may_have(at.partition, at.identity)
    }

    /// Decides which part of an object is stored that arrives where nothing is stored.
    pub(crate) fn admitted(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
        access: IoMode,
    ) -> Result<ArrivalDecision, RequestError> {
        Ok(match self.reaped_at(at, access)? {
            Reaped::Nothing => ArrivalDecision::AsItCame,
            Reaped::WouldBlock => ArrivalDecision::WouldBlock,
            Reaped::Tombstone(tombstone) => {
                match merge_with_reaped(&tombstone, &decode(&incoming.object)?, incoming.rule) {
                    Some(rest) if rest.digest() == incoming.meta.digest => {
                        ArrivalDecision::AsItCame
                    }
                    Some(rest) => ArrivalDecision::Rest(Box::new(rest)),
                    None => ArrivalDecision::Nothing,
                }
            }
        })
    }

    /// The reap record because of which nothing of an arriving object was stored; `None` if the object
    /// was stored or was dropped for another reason.
    ///
    /// # Errors
    ///
    /// Failures to read the reap record.
    pub(crate) fn covered_by(
        &self,
        at: &RecordAt<'_>,
        taken: Option<ApplyOutcome>,
    ) -> Result<Option<ReapRecord>, RequestError> {
        if taken != Some(ApplyOutcome::Nothing) || planted!(KeepsOutSilently) {
            return Ok(None);
        }
        Ok(self.reap_record_at(at, IoMode::Wait)?.flatten())
    }

    /// Reads the reap record of a name, if there is one. The outer `None` means that the caller would
    /// have to wait for the disk.
    fn reap_record_at(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
    ) -> Result<Option<Option<ReapRecord>>, RequestError> {
        let RecordAt { partition, identity, .. } = *at;
        Ok(match self.reap_records.get(at, access) {
            Ok(ReapedTombstone::WouldBlock) => None,
            // A damaged reap record counts as lost.
            Ok(ReapedTombstone::Missing) | Err(StoreError::Corrupt { .. }) => Some(None),
            Ok(ReapedTombstone::Found(tombstone)) => {
                let name = Bytes::copy_from_slice(at.encoded);
                Some(Some(ReapRecord { partition, identity, name, tombstone }))
            }
            Err(fault) => return Err(fault.into()),
        })
    }

    /// The reaped tombstone because of which nothing of another cluster's object was stored. That cluster
    /// has missed the delete, so the tombstone is sent to the clusters that this one replicates to.
    /// `None` if the object was stored or was dropped for another reason, and if it is itself a
    /// tombstone.
    ///
    /// # Errors
    ///
    /// Failures to read the reap record.
    pub(crate) fn tombstone_for_stale_source(
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

    /// Adds reap records, and removes from the stored objects what the reap records cover. The reap
    /// records are on disk when this returns.
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

    /// Adds reap records, which are on disk when this returns. The caller handles the objects that are
    /// stored under their names.
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

    /// Removes from the object that is stored under a reap record's name the versions that the tombstone
    /// has seen, and gives the rest the tombstone's version vector. Returns true if anything was written.
    fn remove_covered(&self, record: &ReapRecord) -> Result<bool, RequestError> {
        let place = PlacedKey::new(&record.name, record.partition)?;
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
            // The reaper removes the tombstone itself.
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
            match merge_with_reaped(&tombstone, &object, rule) {
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
            self.local.records.apply(&at, BeforeImage::Read, IoMode::Wait, &mut change)?;
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
            assert_eq!(merge_with_reaped(&tombstone, &value, rule), None);
            assert_eq!(merge_with_reaped(&tombstone, &tombstone, rule), None);
        }
    }

    #[test]
    fn what_a_reaped_tombstone_has_not_seen_is_left_with_its_clock() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        let after = written(Some(&tombstone), b"b", 3, false);
        assert_eq!(merge_with_reaped(&tombstone, &after, MergeRule::Causal), Some(after));
        let beside = written(None, b"b", 3, false);
        let rest =
            merge_with_reaped(&tombstone, &beside, MergeRule::Causal).expect("it was not deleted");
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
        assert_eq!(merge_with_reaped(&tombstone, &after, MergeRule::LastWriteWins), Some(after));
        // A value that has not seen the tombstone competes by its time.
        let beside = written(None, b"b", 1, false);
        assert_eq!(merge_with_reaped(&tombstone, &beside, MergeRule::LastWriteWins), None);
    }

    #[test]
    fn of_siblings_those_are_left_that_the_tombstone_has_not_seen() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        let both = value.merge(&written(None, b"b", 3, false));
        let rest = merge_with_reaped(&tombstone, &both, MergeRule::Causal).expect("one is left");
        let live: Vec<_> = rest.siblings.iter().filter(|sibling| !sibling.deleted).collect();
        assert_eq!((live.len(), live[0].last_modified_us), (1, 3));
    }

    #[test]
    fn a_tombstone_that_stands_beside_a_value_stays_there() {
        let value = written(None, b"a", 1, false);
        let tombstone = written(Some(&value), b"a", 2, true);
        // A client wrote without a context on a replica that still had the tombstone.
        let both = tombstone.merge(&written(None, b"b", 3, false));
        assert_eq!(both.siblings.len(), 2);
        assert_eq!(merge_with_reaped(&tombstone, &both, MergeRule::Causal), Some(both));
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
        let rest = merge_with_reaped(&tombstone, &other, MergeRule::Causal).expect("it says more");
        assert!(rest.is_tombstone());
        assert!(rest.clock.descends(&tombstone.clock) && rest.clock.descends(&other.clock));
    }
}

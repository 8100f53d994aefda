//! Decision about records that differ between two clusters.

use super::compare::ComparedRecord;
use bytes::Bytes;
use quoit_model::context::decode_context;
use quoit_planted::planted;
use std::collections::{BTreeMap, BTreeSet};

/// Direction in which a record is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DifferenceDirection {
    /// The version here has seen all of the other one.
    FromHere,
    /// The version there has seen all of this one.
    FromThere,
    /// In both directions: neither version has seen all of the other, the record is missing in one cluster,
    /// or the order can't be decided.
    Both,
}

/// The only cluster that has a record, with the record's clock there in the form that clients get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterWithRecord {
    /// This cluster.
    Here(Bytes),
    /// The other cluster.
    There(Bytes),
}

/// A record that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Encoded name.
    pub key: Bytes,
    /// Direction in which it is sent.
    pub direction: DifferenceDirection,
    /// Time of the last write of the newer version, microseconds since 1970.
    pub modified_us: u64,
    /// The only cluster that has it; `None` if both have it.
    pub only_in: Option<ClusterWithRecord>,
}

/// The records in which two clusters differ, sorted by name.
#[must_use]
pub fn differences(here: Vec<ComparedRecord>, there: Vec<ComparedRecord>) -> Vec<Difference> {
    let by_key = |records: Vec<ComparedRecord>| {
        let pairs = records.into_iter().map(|record| (record.key.clone(), record));
        pairs.collect::<BTreeMap<Bytes, ComparedRecord>>()
    };
    let (here, there) = (by_key(here), by_key(there));
    let keys: BTreeSet<&Bytes> = here.keys().chain(there.keys()).collect();
    let difference = |key: &Bytes| {
        let (ours, theirs) = (here.get(key), there.get(key));
        let direction = direction(ours, theirs)?;
        let modified = [ours, theirs].into_iter().flatten().map(|record| record.modified_us);
        let modified_us = modified.max().unwrap_or(0);
        let only_in = match (ours, theirs) {
            (Some(only), None) => Some(ClusterWithRecord::Here(only.clock.clone())),
            (None, Some(only)) => Some(ClusterWithRecord::There(only.clock.clone())),
            _ => None,
        };
        Some(Difference { key: key.clone(), direction, modified_us, only_in })
    };
    keys.into_iter().filter_map(difference).collect()
}

/// Direction in which a record is sent; `None` if nothing has to be sent.
fn direction(
    ours: Option<&ComparedRecord>,
    theirs: Option<&ComparedRecord>,
) -> Option<DifferenceDirection> {
    match (ours, theirs) {
        // If only a tombstone exists, the other cluster has nothing that is to be deleted.
        (Some(only), None) | (None, Some(only)) if only.is_tombstone => None,
        // The cluster without it may have deleted it and reaped the tombstone. In that case it sends
        // the tombstone.
        (Some(_), None) | (None, Some(_)) => Some(DifferenceDirection::Both),
        (Some(ours), Some(theirs)) if ours.digest == theirs.digest => None,
        (Some(ours), Some(theirs)) => {
            let clocks = (decode_context(&ours.clock), decode_context(&theirs.clock));
            let (Ok(our), Ok(their)) = clocks else { return Some(DifferenceDirection::Both) };
            let (our_us, their_us) = (ours.modified_us, theirs.modified_us);
            Some(match (our.descends(&their), their.descends(&our)) {
                // With last-write-wins the time decides, whatever the clocks have seen: a node whose
                // wall clock is behind may have replaced a value with a later time than its own. Both
                // clusters then have to see both versions.
                (true, false) if our_us >= their_us => DifferenceDirection::FromHere,
                (false, true) if their_us >= our_us => DifferenceDirection::FromThere,
                _ if planted!(RepairsOneWay) => DifferenceDirection::FromHere,
                // Equal clocks with different times, or concurrent versions.
                _ => DifferenceDirection::Both,
            })
        }
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::clock::{Actor, Dot, VersionVector};
    use quoit_model::context::encode_context;

    fn record(
        key: &'static str,
        digest: u64,
        clock: &[(u8, u64)],
        is_tombstone: bool,
    ) -> ComparedRecord {
        let dot = |(actor, counter): &(u8, u64)| Dot {
            actor: Actor([*actor; 8].into_iter().collect()),
            counter: *counter,
            time_secs: 0,
        };
        let clock = VersionVector::from_entries(clock.iter().map(dot));
        let clock = encode_context(&clock);
        ComparedRecord { key: key.into(), digest, is_tombstone, clock, modified_us: digest }
    }

    #[test]
    fn records_go_where_they_are_older_or_missing() {
        let here = vec![
            record("equal", 1, &[(1, 1)], false),
            record("newer", 22, &[(1, 2)], false),
            record("newer by its clock", 2, &[(1, 2)], false),
            record("older", 3, &[(1, 1)], false),
            record("concurrent", 4, &[(1, 1)], false),
            record("only here", 5, &[(1, 1)], false),
            record("deleted here", 6, &[(1, 1)], true),
            record("other time", 7, &[(1, 1)], false),
        ];
        let there = vec![
            record("equal", 1, &[(1, 1)], false),
            record("newer", 20, &[(1, 1)], false),
            record("newer by its clock", 20, &[(1, 1)], false),
            record("older", 30, &[(1, 1), (2, 1)], false),
            record("concurrent", 40, &[(2, 1)], false),
            record("deleted there", 50, &[(1, 1)], true),
            record("other time", 70, &[(1, 1)], false),
        ];
        let differ = differences(here, there);
        let lone: Vec<&Bytes> =
            differ.iter().filter(|each| each.only_in.is_some()).map(|each| &each.key).collect();
        assert_eq!(lone, ["only here"]);
        let found: Vec<(Bytes, DifferenceDirection)> =
            differ.into_iter().map(|each| (each.key, each.direction)).collect();
        let expected = [
            ("concurrent", DifferenceDirection::Both),
            ("newer", DifferenceDirection::FromHere),
            ("newer by its clock", DifferenceDirection::Both),
            ("older", DifferenceDirection::FromThere),
            ("only here", DifferenceDirection::Both),
            ("other time", DifferenceDirection::Both),
        ];
        assert_eq!(found, expected.map(|(key, direction)| (Bytes::from(key), direction)));
    }
}

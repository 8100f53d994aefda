//! The table in memory: the reap records that there are, and the place of each in the log.
//!
//! A record takes 24 bytes in the sorted list of its partition. New rows wait in an ordered map and join
//! the list together when they have grown to an eighth of it. So the cost of moving rows is bounded for
//! each record.

use super::ReapSequence;
use quoit_model::hash::{Identity, Partition, RingSize};
use std::collections::BTreeMap;

/// Number of rows that wait in any case: more are needed before they join the list.
const RECENT_COUNT: usize = 64;
/// The waiting rows join the list when they are more than one in this many of its rows.
const RECENT_SHARE: usize = 8;

/// Position of the entry of a reap record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct EntryPosition {
    /// Number of the log file.
    pub(super) file: u32,
    /// Offset in that file at which the entry begins.
    pub(super) offset: u32,
}

/// A row of the table, for one reap record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TableRow {
    pub(super) identity: Identity,
    pub(super) sequence: ReapSequence,
    pub(super) place: EntryPosition,
}

/// The rows of a partition. Different names with the same identity have a row each.
#[derive(Default)]
struct PartitionRows {
    /// Rows in the order of identities.
    sorted: Vec<TableRow>,
    /// Rows that wait to join the list.
    recent: BTreeMap<(Identity, ReapSequence), EntryPosition>,
    /// Lower bound of the sequence numbers of all rows.
    sequence_min: Option<ReapSequence>,
}

impl PartitionRows {
    fn count(&self) -> usize {
        self.sorted.len() + self.recent.len()
    }

    /// Returns the rows from an identity on, in the order of identities.
    fn from(&self, from: Identity) -> impl Iterator<Item = TableRow> {
        let start = self.sorted.partition_point(|row| row.identity < from);
        let (_, sorted) = self.sorted.split_at(start);
        let mut sorted = sorted.iter().copied().peekable();
        let recent = self.recent.range((from, ReapSequence(0))..);
        let mut recent = recent.map(recent_row).peekable();
        std::iter::from_fn(move || match (sorted.peek(), recent.peek()) {
            (Some(row), Some(newer)) if newer.identity < row.identity => recent.next(),
            (Some(_), _) => sorted.next(),
            (None, _) => recent.next(),
        })
    }

    fn insert(&mut self, row: TableRow) {
        debug_assert!(
            !self.has(row.identity, row.sequence),
            "a sequence number is given to one record of a partition"
        );
        let oldest = self.sequence_min.map_or(row.sequence, |oldest| oldest.min(row.sequence));
        self.sequence_min = Some(oldest);
        self.recent.insert((row.identity, row.sequence), row.place);
        if self.recent.len() > RECENT_COUNT.max(self.sorted.len() / RECENT_SHARE) {
            self.sort_in();
        }
    }

    fn sort_in(&mut self) {
        self.sorted.reserve_exact(self.recent.len());
        self.sorted.extend(std::mem::take(&mut self.recent).iter().map(recent_row));
        // These are two sorted runs, which the sort merges in one pass.
        self.sorted.sort_by_key(|row| row.identity);
        self.check();
    }

    /// True if there is a row with this identity and sequence number.
    fn has(&self, identity: Identity, sequence: ReapSequence) -> bool {
        let mut rows = self.from(identity).take_while(|row| row.identity == identity);
        rows.any(|row| row.sequence == sequence)
    }

    /// Checks, in debug builds, the order of the rows and the bound of their sequence numbers. Reads all
    /// rows; called where all of them were moved.
    fn check(&self) {
        debug_assert!(
            self.sorted.is_sorted_by_key(|row| row.identity),
            "rows are searched by identity, so they are in that order"
        );
        debug_assert_eq!(
            self.sequence_min.is_some(),
            self.count() > 0,
            "a partition has a lowest sequence number while it has rows"
        );
        debug_assert!(
            self.from(Identity(0)).all(|row| Some(row.sequence) >= self.sequence_min),
            "no row has a lower sequence number than the bound, below which nothing retires"
        );
    }

    /// Replaces a row by another of the same identity.
    fn replace(&mut self, identity: Identity, former: ReapSequence, row: TableRow) {
        debug_assert!(row.sequence >= former, "the bound of sequence numbers is still one");
        if self.recent.remove(&(identity, former)).is_some() {
            self.recent.insert((row.identity, row.sequence), row.place);
            return;
        }
        let start = self.sorted.partition_point(|row| row.identity < identity);
        let (_, from_identity) = self.sorted.split_at_mut(start);
        let mut of_identity = from_identity.iter_mut().take_while(|row| row.identity == identity);
        let found = of_identity.find(|row| row.sequence == former);
        debug_assert!(found.is_some(), "a row is replaced while the table has it");
        if let Some(found) = found {
            *found = row;
        }
    }

    /// Removes the rows that are not kept, and returns them.
    fn retain(&mut self, is_kept: impl Fn(&TableRow) -> bool) -> Vec<TableRow> {
        let mut removed = Vec::new();
        let mut oldest: Option<ReapSequence> = None;
        let mut keep = |row: &TableRow| {
            let kept = is_kept(row);
            if kept {
                oldest = Some(oldest.map_or(row.sequence, |oldest| oldest.min(row.sequence)));
            } else {
                removed.push(*row);
            }
            kept
        };
        self.sorted.retain(&mut keep);
        self.recent.retain(|key, place| keep(&recent_row((key, place))));
        self.sequence_min = oldest;
        if self.sorted.len() < self.sorted.capacity() / 2 {
            self.sorted.shrink_to_fit();
        }
        self.check();
        removed
    }
}

fn recent_row((key, place): (&(Identity, ReapSequence), &EntryPosition)) -> TableRow {
    TableRow { identity: key.0, sequence: key.1, place: *place }
}

/// The rows of all reap records of a node.
pub(super) struct ReapTable {
    /// Rows by partition.
    rows: Vec<PartitionRows>,
    count: usize,
}

impl ReapTable {
    pub(super) fn new(ring_size: RingSize) -> Self {
        let rows = std::iter::repeat_with(PartitionRows::default);
        Self { rows: rows.take(usize::from(ring_size.get())).collect(), count: 0 }
    }

    /// Returns the number of records.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Returns the partitions with records, and the number of records of each.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (Partition, usize)> {
        let counts = (0..).map(Partition).zip(self.rows.iter().map(PartitionRows::count));
        counts.filter(|(_, count)| *count > 0)
    }

    /// Returns all rows, in the order of partitions and identities.
    pub(super) fn all(&self) -> impl Iterator<Item = TableRow> {
        self.rows.iter().flat_map(|rows| rows.from(Identity(0)))
    }

    /// Checks, in debug builds, that the rows were counted. Called where many rows have gone.
    fn check_count(&self) {
        let count = || self.rows.iter().map(PartitionRows::count).sum::<usize>();
        debug_assert_eq!(self.count, count(), "the table counts its rows");
    }

    /// Returns the rows of an identity, which are rarely more than one.
    pub(super) fn rows(
        &self,
        partition: Partition,
        identity: Identity,
    ) -> impl Iterator<Item = TableRow> {
        let rows = self.rows.get(usize::from(partition.0)).map(|rows| rows.from(identity));
        rows.into_iter().flatten().take_while(move |row| row.identity == identity)
    }

    /// Returns the rows of a partition from an identity on, and the identity to continue with. There are
    /// `limit` rows, or more if they share an identity.
    pub(super) fn page(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
    ) -> (Vec<TableRow>, Option<Identity>) {
        let mut page: Vec<TableRow> = Vec::new();
        let Some(rows) = self.rows.get(usize::from(partition.0)) else { return (page, None) };
        for row in rows.from(from) {
            let is_next = page.last().is_some_and(|last| last.identity != row.identity);
            if is_next && page.len() >= limit {
                return (page, Some(row.identity));
            }
            page.push(row);
        }
        (page, None)
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// If the partition is not in the ring.
    pub(super) fn insert(&mut self, partition: Partition, row: TableRow) {
        self.of(partition).insert(row);
        self.count += 1;
    }

    /// Replaces a row by that of a newer record of the same name, or of a moved entry.
    ///
    /// # Panics
    ///
    /// If the partition is not in the ring.
    pub(super) fn replace(&mut self, partition: Partition, former: ReapSequence, row: TableRow) {
        self.of(partition).replace(row.identity, former, row);
    }

    #[expect(clippy::indexing_slicing, reason = "other partitions panic, as callers document")]
    fn of(&mut self, partition: Partition) -> &mut PartitionRows {
        &mut self.rows[usize::from(partition.0)]
    }

    /// Removes the rows of a log file, and returns the partitions that had some.
    pub(super) fn forget_file(&mut self, file: u32) -> Vec<Partition> {
        let mut partitions = Vec::new();
        for (partition, rows) in (0..).map(Partition).zip(&mut self.rows) {
            let removed = rows.retain(|row| row.place.file != file);
            self.count -= removed.len();
            if !removed.is_empty() {
                partitions.push(partition);
            }
        }
        self.check_count();
        partitions
    }

    /// Removes the rows of a partition up to a sequence number, and returns them.
    pub(super) fn retire(&mut self, partition: Partition, up_to: ReapSequence) -> Vec<TableRow> {
        let Some(rows) = self.rows.get_mut(usize::from(partition.0)) else { return Vec::new() };
        if rows.sequence_min.is_none_or(|oldest| oldest > up_to) {
            return Vec::new();
        }
        let removed = rows.retain(|row| row.sequence > up_to);
        self.count -= removed.len();
        self.check_count();
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(identity: u64, sequence: u64) -> TableRow {
        let place = EntryPosition { file: (sequence % 7) as u32, offset: sequence as u32 };
        TableRow { identity: Identity(identity), sequence: ReapSequence(sequence), place }
    }

    #[test]
    fn a_row_takes_24_bytes() {
        assert_eq!(size_of::<TableRow>(), 24);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Replace(u64),
        ForgetFile(u64),
        Retire(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            20 => (0..400_u64).prop_map(Step::Insert),
            4 => (0..400_u64).prop_map(Step::Replace),
            1 => (0..7_u64).prop_map(Step::ForgetFile),
            1 => (0..300_u64).prop_map(Step::Retire),
        ]
    }

    proptest! {
        /// Compares the table with an ordered map by identity and sequence number.
        #[test]
        fn rows_are_found_by_identity_and_in_pages(
            steps in prop::collection::vec(step(), 1..600),
            limit in 1..50_usize,
        ) {
            let mut table = ReapTable::new(RingSize::new(8).expect("8 is a ring size"));
            let mut model: BTreeMap<(u64, u64), TableRow> = BTreeMap::new();
            let at = Partition(3);
            for (sequence, step) in (1..).zip(steps) {
                match step {
                    Step::Insert(identity) => {
                        table.insert(at, row(identity, sequence));
                        model.insert((identity, sequence), row(identity, sequence));
                    }
                    Step::Replace(identity) => {
                        let former = model.range((identity, 0)..(identity + 1, 0)).next();
                        let Some(former) = former.map(|(key, _)| *key) else { continue };
                        table.replace(at, ReapSequence(former.1), row(identity, sequence));
                        model.remove(&former);
                        model.insert((identity, sequence), row(identity, sequence));
                    }
                    Step::ForgetFile(file) => {
                        let count = model.len();
                        model.retain(|_, row| u64::from(row.place.file) != file);
                        let partitions = table.forget_file(file as u32);
                        prop_assert_eq!(partitions, vec![at; usize::from(model.len() < count)]);
                    }
                    Step::Retire(age) => {
                        let up_to = sequence.saturating_sub(age);
                        let mut removed: Vec<_> = table.retire(at, ReapSequence(up_to));
                        removed.sort_by_key(|row| (row.identity, row.sequence));
                        let gone = model.values().filter(|row| row.sequence.0 <= up_to).copied();
                        prop_assert_eq!(removed, gone.collect::<Vec<_>>());
                        model.retain(|_, row| row.sequence.0 > up_to);
                    }
                }
                prop_assert_eq!(table.count(), model.len());
            }
            let mut from = Some(Identity(0));
            let mut rows = Vec::new();
            while let Some(identity) = from {
                let page;
                (page, from) = table.page(at, identity, limit);
                let last = page.last().map(|row| row.identity);
                let before = page.iter().filter(|row| Some(row.identity) != last).count();
                prop_assert!(before < limit && (from.is_none() || page.len() >= limit));
                rows.extend(page);
            }
            rows.sort_by_key(|row| (row.identity, row.sequence));
            prop_assert_eq!(rows, model.values().copied().collect::<Vec<_>>());
            for identity in 0..400 {
                let found = table.rows(at, Identity(identity)).count();
                prop_assert_eq!(found, model.range((identity, 0)..(identity + 1, 0)).count());
                prop_assert_eq!(table.rows(Partition(2), Identity(identity)).count(), 0);
            }
        }
    }
}

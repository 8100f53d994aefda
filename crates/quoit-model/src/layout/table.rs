//! The table of balanced positions during the computation.

use super::shares::{FairShares, Spread};
use xxhash_rust::xxh3::xxh3_64;

/// Marks a position without a node.
pub(super) const EMPTY_POSITION: u16 = u16::MAX;

/// A position in the row of a partition.
#[derive(Clone, Copy)]
pub(super) struct CellAt {
    pub(super) partition: usize,
    pub(super) position: usize,
}

impl CellAt {
    /// No position of the row.
    pub(super) const fn none(partition: usize) -> Self {
        Self { partition, position: usize::MAX }
    }
}

/// A row of positions for each partition. A position has a node or is empty; no node occurs twice
/// in a row.
pub(super) struct Table<'a> {
    pub(super) spread: Spread<'a>,
    /// Length of a row.
    pub(super) width: usize,
    cells: Vec<u16>,
    /// Number of rows that each node is in.
    held: Vec<u32>,
}

impl<'a> Table<'a> {
    /// # Panics
    ///
    /// If `cells` are no whole rows for all partitions.
    pub(super) fn new(spread: Spread<'a>, width: usize, cells: Vec<u16>) -> Self {
        assert_eq!(cells.len(), width * spread.partition_count, "one row for each partition");
        let mut held = vec![0; spread.capacities.len()];
        for node in cells.iter().filter(|node| **node != EMPTY_POSITION) {
            held[usize::from(*node)] += 1;
        }
        let table = Self { spread, width, cells, held };
        table.assert_rows();
        table
    }

    pub(super) fn row(&self, partition: usize) -> &[u16] {
        &self.cells[partition * self.width..(partition + 1) * self.width]
    }

    /// Number of rows that each node is in.
    pub(super) fn held(&self) -> &[u32] {
        &self.held
    }

    /// In debug builds, asserts that no node is twice in a row, and that the counts are those of
    /// the rows. While chains of exchanges are tried, this may not hold.
    pub(super) fn assert_rows(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert_eq!(self.held_within(self.width), self.held, "counts are those of the rows");
        for row in self.cells.chunks_exact(self.width) {
            let is_again =
                |place: usize| row[place] != EMPTY_POSITION && row[..place].contains(&row[place]);
            assert!(!(0..row.len()).any(is_again), "no node is twice in a row");
        }
    }

    pub(super) fn into_cells(self) -> Vec<u16> {
        self.cells
    }

    /// Gives a position to a node; [`EMPTY_POSITION`] empties it.
    pub(super) fn set(&mut self, at: CellAt, node: u16) {
        let cell = &mut self.cells[at.partition * self.width + at.position];
        if *cell != EMPTY_POSITION {
            self.held[usize::from(*cell)] -= 1;
        }
        if node != EMPTY_POSITION {
            self.held[usize::from(node)] += 1;
        }
        *cell = node;
    }

    /// Swaps the nodes of two positions of a row.
    pub(super) fn swap(&mut self, at: CellAt, other_position: usize) {
        let row = at.partition * self.width;
        self.cells.swap(row + at.position, row + other_position);
    }

    /// True if the first `count` positions of the row, with `node` at this position, are on enough
    /// locations, or can be when the empty ones are filled.
    pub(super) fn is_spread(&self, at: CellAt, node: u16, count: usize) -> bool {
        let distinct_min = self.spread.distinct_locations.min(count);
        if distinct_min <= 1 {
            return true;
        }
        let row = &self.row(at.partition)[..count];
        let node_at = |place: usize| if place == at.position { node } else { row[place] };
        let repeats = (0..count).filter(|place| {
            let one = node_at(*place);
            one != EMPTY_POSITION
                && (0..*place).any(|earlier| {
                    let other = node_at(earlier);
                    other != EMPTY_POSITION && self.is_together(one, other)
                })
        });
        repeats.count() <= count - distinct_min
    }

    /// True if all positions have nodes, on enough locations and in fair shares.
    pub(super) fn is_good(&self, fair: &FairShares) -> bool {
        let mut shares = fair.shares.iter().zip(&self.held);
        !self.cells.contains(&EMPTY_POSITION)
            && shares.all(|(share, held)| (share.floor()..=share.ceil()).contains(held))
            && (0..self.spread.partition_count).all(|partition| self.is_row_spread(partition))
    }

    /// True if the row is on enough locations, or can be when the empty positions are filled.
    pub(super) fn is_row_spread(&self, partition: usize) -> bool {
        self.is_spread(CellAt::none(partition), EMPTY_POSITION, self.width)
    }

    pub(super) fn is_together(&self, one: u16, other: u16) -> bool {
        self.spread.locations[usize::from(one)] == self.spread.locations[usize::from(other)]
    }

    /// Number of rows in which each node has one of the first `count` positions.
    pub(super) fn held_within(&self, count: usize) -> Vec<u32> {
        let mut held = vec![0; self.held.len()];
        for row in self.cells.chunks_exact(self.width) {
            for node in row[..count].iter().filter(|node| **node != EMPTY_POSITION) {
                held[usize::from(*node)] += 1;
            }
        }
        held
    }
}

/// A pseudo-random number for a node and a partition. It breaks ties, so that the partitions of a
/// node are shared with many other nodes.
pub(super) fn scatter(node: u16, partition: usize) -> u64 {
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&node.to_le_bytes());
    bytes[2..].copy_from_slice(&(partition as u64).to_le_bytes());
    xxh3_64(&bytes)
}

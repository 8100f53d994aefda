//! The balanced positions while they are worked on.

use super::shares::{FairShares, Spread};
use xxhash_rust::xxh3::xxh3_64;

/// A position that no node holds yet.
pub(super) const NOBODY: u16 = u16::MAX;

/// For each partition a row of positions, each held by a node or by none; no node twice in a row.
pub(super) struct Table<'a> {
    pub(super) spread: Spread<'a>,
    /// Length of a row.
    pub(super) width: usize,
    cells: Vec<u16>,
    /// How many rows each node is in.
    held: Vec<u32>,
}

impl<'a> Table<'a> {
    /// # Panics
    ///
    /// If `cells` are no whole rows for all partitions.
    pub(super) fn new(spread: Spread<'a>, width: usize, cells: Vec<u16>) -> Self {
        assert_eq!(cells.len(), width * spread.partition_count, "one row for each partition");
        let mut held = vec![0; spread.capacities.len()];
        for node in cells.iter().filter(|node| **node != NOBODY) {
            held[usize::from(*node)] += 1;
        }
        Self { spread, width, cells, held }
    }

    pub(super) fn row(&self, partition: usize) -> &[u16] {
        &self.cells[partition * self.width..(partition + 1) * self.width]
    }

    /// How many rows each node is in.
    pub(super) fn held(&self) -> &[u32] {
        &self.held
    }

    pub(super) fn into_cells(self) -> Vec<u16> {
        self.cells
    }

    /// Gives a position to a node, or to none.
    pub(super) fn set(&mut self, partition: usize, position: usize, node: u16) {
        let cell = &mut self.cells[partition * self.width + position];
        if *cell != NOBODY {
            self.held[usize::from(*cell)] -= 1;
        }
        if node != NOBODY {
            self.held[usize::from(node)] += 1;
        }
        *cell = node;
    }

    pub(super) fn swap(&mut self, partition: usize, one: usize, other: usize) {
        self.cells.swap(partition * self.width + one, partition * self.width + other);
    }

    /// Whether the first `count` positions of the row, with `node` instead of who holds `position`,
    /// are on enough locations, or can be when the empty ones are filled.
    pub(super) fn is_spread(
        &self,
        partition: usize,
        count: usize,
        position: usize,
        node: u16,
    ) -> bool {
        let distinct_min = self.spread.distinct_locations.min(count);
        if distinct_min <= 1 {
            return true;
        }
        let row = &self.row(partition)[..count];
        let at = |place: usize| if place == position { node } else { row[place] };
        let repeats = (0..count).filter(|place| {
            let one = at(*place);
            one != NOBODY
                && (0..*place).any(|earlier| {
                    let other = at(earlier);
                    other != NOBODY && self.is_together(one, other)
                })
        });
        repeats.count() <= count - distinct_min
    }

    /// Whether all positions are held, on enough locations and in fair shares.
    pub(super) fn is_good(&self, fair: &FairShares) -> bool {
        let mut shares = fair.shares.iter().zip(&self.held);
        !self.cells.contains(&NOBODY)
            && shares.all(|(share, held)| (share.floor()..=share.ceil()).contains(held))
            && (0..self.spread.partition_count)
                .all(|partition| self.is_spread(partition, self.width, self.width, NOBODY))
    }

    pub(super) fn is_together(&self, one: u16, other: u16) -> bool {
        self.spread.locations[usize::from(one)] == self.spread.locations[usize::from(other)]
    }

    /// How many rows each node is in with one of its first `count` positions.
    pub(super) fn held_within(&self, count: usize) -> Vec<u32> {
        let mut held = vec![0; self.held.len()];
        for row in self.cells.chunks_exact(self.width) {
            for node in row[..count].iter().filter(|node| **node != NOBODY) {
                held[usize::from(*node)] += 1;
            }
        }
        held
    }
}

/// A number that looks random, the same for the same node and partition: breaks ties, so that the
/// nodes that share partitions with a node are many.
pub(super) fn scatter(node: u16, partition: usize) -> u64 {
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&node.to_le_bytes());
    bytes[2..].copy_from_slice(&(partition as u64).to_le_bytes());
    xxh3_64(&bytes)
}

//! Order of the nodes within each partition, so that the first n positions are in shares by
//! capacity for every n, as far as possible.
//!
//! From the last balanced position to the second, each level decides which node of a row stands
//! last. That node holds no records of buckets with a smaller `n_val`. A node that is among the
//! first positions too often swaps with the last node, in a chain of swaps if necessary. Each swap
//! moves data of buckets with that `n_val`, so a deviation of one partition is accepted.

use super::shares::Spread;
use super::table::{CellAt, EMPTY_POSITION, Table};
use std::collections::VecDeque;

/// Number of partitions by which a node's share of the first positions may deviate from its rounded
/// share.
const ORDER_SLACK: u32 = 1;

/// Two nodes of a row swap: the holder of this position becomes the last.
#[derive(Clone, Copy)]
struct Swap(CellAt);

/// The order within the first `first + 1` positions of each row.
struct Level<'t, 's> {
    table: &'t mut Table<'s>,
    /// Number of positions before the last one.
    first: usize,
    /// Number of rows in which each node has one of those positions.
    held: Vec<u32>,
    /// The rows of each node.
    rows: &'t [Vec<u16>],
}

/// Orders full rows so that the first positions are on distinct locations. Rows that are so already
/// do not change.
pub(super) fn spread_order(table: &mut Table<'_>) {
    for first in (1..table.width).rev() {
        Level::new(table, first, &[]).spread_locations();
    }
}

/// Orders full rows so that the first positions are on distinct locations and in fair shares.
pub(super) fn balance_order(table: &mut Table<'_>) {
    let mut rows = vec![Vec::new(); table.held().len()];
    // A ring has at most 4096 partitions.
    for (partition, number) in (0..table.spread.partition_count).zip(0u16..) {
        for node in table.row(partition) {
            rows[usize::from(*node)].push(number);
        }
    }
    for first in (1..table.width).rev() {
        let mut level = Level::new(table, first, &rows);
        level.spread_locations();
        level.balance();
    }
}

impl<'t, 's> Level<'t, 's> {
    fn new(table: &'t mut Table<'s>, first: usize, rows: &'t [Vec<u16>]) -> Self {
        let held = table.held_within(first);
        Self { table, first, held, rows }
    }

    /// Where the first positions have too few locations, moves a node of a repeated location to the
    /// last position.
    fn spread_locations(&mut self) {
        for partition in 0..self.spread().partition_count {
            if self.is_spread(partition) {
                continue;
            }
            let row = self.table.row(partition);
            let goes = (0..self.first)
                .map(|position| CellAt { partition, position })
                .filter(|at| self.can_swap(*at))
                .max_by_key(|at| self.held[usize::from(row[at.position])]);
            let goes = goes.expect("a row has enough locations, so a repeated one can go last");
            self.swap(Swap(goes));
            debug_assert!(
                self.is_spread(partition),
                "after the swap the first positions are on enough locations"
            );
        }
    }

    fn balance(&mut self) {
        let fair = self.spread().fair_shares(self.first);
        let (floors, ceils): (Vec<u32>, Vec<u32>) = fair
            .shares
            .iter()
            .map(|share| (share.floor().saturating_sub(ORDER_SLACK), share.ceil() + ORDER_SLACK))
            .unzip();
        for (node, number) in (0..self.held.len()).zip(0u16..) {
            while self.held[node] > ceils[node] {
                let Some(swaps) = self.chain(number, true, |other, held| held < ceils[other])
                else {
                    break;
                };
                swaps.into_iter().for_each(|swap| self.swap(swap));
            }
        }
        for (node, number) in (0..self.held.len()).zip(0u16..) {
            while self.held[node] < floors[node] {
                let Some(swaps) = self.chain(number, false, |other, held| held > floors[other])
                else {
                    break;
                };
                swaps.into_iter().for_each(|swap| self.swap(swap));
            }
        }
    }

    fn spread(&self) -> Spread<'s> {
        self.table.spread
    }

    /// True if the first positions are on enough locations.
    fn is_spread(&self, partition: usize) -> bool {
        self.table.is_spread(CellAt::none(partition), EMPTY_POSITION, self.first)
    }

    fn can_swap(&self, at: CellAt) -> bool {
        let last = self.table.row(at.partition)[self.first];
        self.table.is_spread(at, last, self.first)
    }

    fn swap(&mut self, Swap(at): Swap) {
        debug_assert!(at.position < self.first, "a first position swaps with the last one");
        let row = self.table.row(at.partition);
        let (goes, comes) = (row[at.position], row[self.first]);
        self.held[usize::from(goes)] -= 1;
        self.held[usize::from(comes)] += 1;
        self.table.swap(at, self.first);
    }

    /// The shortest chain of swaps by which `start` is among the first positions once less (if
    /// `gives` is true) or once more. The chain ends at a node for which `ends` returns true, given
    /// the number of its rows.
    fn chain(
        &self,
        start: u16,
        gives: bool,
        ends: impl Fn(usize, u32) -> bool,
    ) -> Option<Vec<Swap>> {
        let mut reached: Vec<Option<(u16, Swap)>> = vec![None; self.held.len()];
        let mut waiting = VecDeque::from([start]);
        while let Some(node) = waiting.pop_front() {
            for partition in &self.rows[usize::from(node)] {
                let partition = usize::from(*partition);
                let row = &self.table.row(partition)[..=self.first];
                let place = row.iter().position(|other| *other == node);
                for position in 0..self.first {
                    // A node that gives up a position stands before the last one and swaps with it;
                    // a node that takes one is last.
                    let other = match place {
                        Some(place) if gives && place == position => row[self.first],
                        Some(place) if !gives && place == self.first => row[position],
                        _ => continue,
                    };
                    let is_new = other != start && reached[usize::from(other)].is_none();
                    let at = CellAt { partition, position };
                    if !is_new || !self.can_swap(at) {
                        continue;
                    }
                    reached[usize::from(other)] = Some((node, Swap(at)));
                    if ends(usize::from(other), self.held[usize::from(other)]) {
                        return Some(back(other, start, &reached));
                    }
                    waiting.push_back(other);
                }
            }
        }
        None
    }
}

/// The swaps that lead to `end`.
fn back(end: u16, start: u16, reached: &[Option<(u16, Swap)>]) -> Vec<Swap> {
    let mut swaps = Vec::new();
    let mut node = end;
    while node != start {
        let (before, swap) = reached[usize::from(node)].expect("the chain was reached");
        swaps.push(swap);
        node = before;
    }
    swaps
}

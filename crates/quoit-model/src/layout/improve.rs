//! Removal of unnecessary movement.
//!
//! Chains of exchanges are the shortest ones, not the cheapest: a node may have lost a partition
//! that it could have kept. Here such a node takes the partition back from a node that is new in
//! it. Exchanges that move no data then compensate the node that lost the position.

use super::shares::FairShares;
use super::table::{CellAt, EMPTY_POSITION, Table};
use std::collections::VecDeque;

/// Maximum number of positions that the search examines. Only large clusters with locations come near it;
/// they then move a little more than necessary.
const LOOKS_MAX: u64 = 20_000_000;

/// A node takes a position from its holder.
#[derive(Clone, Copy)]
struct ImprovementStep {
    node: u16,
    at: CellAt,
}

struct Improvement<'t, 's> {
    table: &'t mut Table<'s>,
    /// The rows before the assignment. A node that is not in the row before is new in that
    /// partition.
    before: &'t [u16],
    floors: Vec<u32>,
    ceils: Vec<u32>,
    looks_left: u64,
}

/// Removes unnecessary movement from full rows. `before` are the rows from which they were made, of
/// the same width.
pub(super) fn improve(table: &mut Table<'_>, before: &[u16], fair: &FairShares) {
    let floors = fair.shares.iter().map(|share| share.floor()).collect();
    let ceils = fair.shares.iter().map(|share| share.ceil()).collect();
    let mut improvement = Improvement { table, before, floors, ceils, looks_left: LOOKS_MAX };
    if improvement.moved() > improvement.least() {
        let moved = improvement.moved();
        while improvement.pass() {}
        debug_assert!(improvement.moved() <= moved, "an improvement moves no more than before");
    }
}

impl Improvement<'_, '_> {
    fn row_before(&self, partition: usize) -> &[u16] {
        &self.before[partition * self.table.width..][..self.table.width]
    }

    fn is_new(&self, node: u16, partition: usize) -> bool {
        !self.row_before(partition).contains(&node)
    }

    fn moved(&self) -> usize {
        let rows = 0..self.table.spread.partition_count;
        let new = |partition: usize| {
            self.table
                .row(partition)
                .iter()
                .filter(move |node| self.is_new(**node, partition))
                .count()
        };
        rows.map(new).sum()
    }

    /// Lower bound of the movement, from the shares alone.
    fn least(&self) -> usize {
        let mut held = vec![0; self.floors.len()];
        let mut empty = 0;
        for node in self.before {
            match *node {
                EMPTY_POSITION => empty += 1,
                node => held[usize::from(node)] += 1,
            }
        }
        let below = |(held, floor): (&u32, &u32)| floor.saturating_sub(*held) as usize;
        let above = |(held, ceil): (&u32, &u32)| held.saturating_sub(*ceil) as usize;
        let below: usize = held.iter().zip(&self.floors).map(below).sum();
        let above: usize = held.iter().zip(&self.ceils).map(above).sum();
        below.max(above + empty)
    }

    /// Tries to give each node that lost a partition its partition back. Returns true if another
    /// pass may find more.
    fn pass(&mut self) -> bool {
        let mut improved = false;
        for partition in 0..self.table.spread.partition_count {
            for place in 0..self.table.width {
                let node = self.row_before(partition)[place];
                if node == EMPTY_POSITION || self.table.row(partition).contains(&node) {
                    continue;
                }
                for position in 0..self.table.width {
                    if self.looks_left == 0 {
                        return false;
                    }
                    if self.take_back(ImprovementStep { node, at: CellAt { partition, position } })
                    {
                        improved = true;
                        break;
                    }
                }
            }
        }
        improved
    }

    /// Lets a node take its partition back if that can be compensated. Returns true if it was.
    fn take_back(&mut self, take: ImprovementStep) -> bool {
        let loser = self.table.row(take.at.partition)[take.at.position];
        if !self.is_new(loser, take.at.partition) || !self.is_spread(take) {
            return false;
        }
        self.apply(take);
        let Some(takes) = self.chain(loser, take) else {
            self.apply(ImprovementStep { node: loser, ..take });
            return false;
        };
        let undo: Vec<ImprovementStep> = takes.iter().map(|take| self.apply(*take)).collect();
        if takes.iter().all(|take| self.is_good(take.at.partition)) {
            return true;
        }
        for take in undo.into_iter().rev() {
            self.apply(take);
        }
        self.apply(ImprovementStep { node: loser, ..take });
        false
    }

    /// Makes an exchange; returns the exchange that undoes it.
    fn apply(&mut self, take: ImprovementStep) -> ImprovementStep {
        let holder = self.table.row(take.at.partition)[take.at.position];
        self.table.set(take.at, take.node);
        ImprovementStep { node: holder, ..take }
    }

    fn is_spread(&self, take: ImprovementStep) -> bool {
        self.table.is_spread(take.at, take.node, self.table.width)
    }

    fn is_good(&self, partition: usize) -> bool {
        let row = self.table.row(partition);
        let is_twice = |place: usize| row[..place].contains(&row[place]);
        !(0..row.len()).any(is_twice) && self.table.is_row_spread(partition)
    }

    /// Finds exchanges without movement that give `loser`, which lost its position by the exchange
    /// `taken`, another one. The position comes from the winner, which has one too many, or from any
    /// node that can spare one if the winner can keep it.
    fn chain(&mut self, loser: u16, taken: ImprovementStep) -> Option<Vec<ImprovementStep>> {
        let winner = taken.node;
        let held = |node: u16| self.table.held()[usize::from(node)];
        let keeps = held(winner) <= self.ceils[usize::from(winner)];
        // The node at the end of the chain still counts its partition; the first node does not.
        let spares = |node: u16| keeps && held(node) > self.floors[usize::from(node)];
        if keeps && held(loser) >= self.floors[usize::from(loser)] {
            return Some(Vec::new());
        }
        let mut loses: Vec<Option<ImprovementStep>> = vec![None; self.floors.len()];
        let mut waiting = VecDeque::from([loser]);
        while let Some(node) = waiting.pop_front() {
            for partition in 0..self.table.spread.partition_count {
                let row = self.table.row(partition);
                if row.contains(&node) {
                    continue;
                }
                self.looks_left = self.looks_left.saturating_sub(row.len() as u64);
                let is_new = self.is_new(node, partition);
                for (position, holder) in row.iter().enumerate() {
                    let take = ImprovementStep { node, at: CellAt { partition, position } };
                    let is_reached = *holder == loser || loses[usize::from(*holder)].is_some();
                    if is_reached
                        || self.is_new(*holder, partition) != is_new
                        || !self.is_spread(take)
                    {
                        continue;
                    }
                    loses[usize::from(*holder)] = Some(take);
                    if *holder == winner || spares(*holder) {
                        return Some(back(*holder, loser, &loses));
                    }
                    waiting.push_back(*holder);
                }
            }
            if self.looks_left == 0 {
                return None;
            }
        }
        None
    }
}

/// The chain by which `end` loses a position and `start` gets one.
fn back(end: u16, start: u16, loses: &[Option<ImprovementStep>]) -> Vec<ImprovementStep> {
    let mut takes = Vec::new();
    let mut node = end;
    while node != start {
        let take = loses[usize::from(node)].expect("every node on the chain was reached");
        takes.push(take);
        node = take.node;
    }
    takes
}

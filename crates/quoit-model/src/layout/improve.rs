//! Undoes movement that need not be.
//!
//! Chains of exchanges are the shortest ones, not the cheapest: on the way a node may have given up a
//! partition that it could have kept. Here such a node takes it back from a node that is new in that
//! partition, and whoever lacks a position then is made up for by exchanges that move nothing more.

use super::shares::FairShares;
use super::table::{NOBODY, Table};
use std::collections::VecDeque;

/// Positions looked at before the search ends. Only large clusters with locations come near it; they
/// move a little more than they need to.
const LOOKS_MAX: u64 = 20_000_000;

/// A node takes a position from who holds it.
#[derive(Clone, Copy)]
struct ImprovementStep {
    node: u16,
    partition: usize,
    position: usize,
}

struct Improvement<'t, 's> {
    table: &'t mut Table<'s>,
    /// The rows before: who is not in them is new.
    before: &'t [u16],
    floors: Vec<u32>,
    ceils: Vec<u32>,
    looks_left: u64,
}

/// Takes movement back from full rows. `before` are the rows that they were made from, of the same
/// width.
pub(super) fn improve(table: &mut Table<'_>, before: &[u16], fair: &FairShares) {
    let floors = fair.shares.iter().map(|share| share.floor()).collect();
    let ceils = fair.shares.iter().map(|share| share.ceil()).collect();
    let mut improvement = Improvement { table, before, floors, ceils, looks_left: LOOKS_MAX };
    if improvement.moved() > improvement.least() {
        while improvement.pass() {}
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

    /// Movement that shares alone ask for.
    fn least(&self) -> usize {
        let mut held = vec![0; self.floors.len()];
        let mut empty = 0;
        for node in self.before {
            match *node {
                NOBODY => empty += 1,
                node => held[usize::from(node)] += 1,
            }
        }
        let below = |(held, floor): (&u32, &u32)| floor.saturating_sub(*held) as usize;
        let above = |(held, ceil): (&u32, &u32)| held.saturating_sub(*ceil) as usize;
        let below: usize = held.iter().zip(&self.floors).map(below).sum();
        let above: usize = held.iter().zip(&self.ceils).map(above).sum();
        below.max(above + empty)
    }

    /// Looks at each node that lost a partition. Says whether another look may find more.
    fn pass(&mut self) -> bool {
        let mut improved = false;
        for partition in 0..self.table.spread.partition_count {
            for place in 0..self.table.width {
                let node = self.row_before(partition)[place];
                if node == NOBODY || self.table.row(partition).contains(&node) {
                    continue;
                }
                for position in 0..self.table.width {
                    if self.looks_left == 0 {
                        return false;
                    }
                    if self.take_back(ImprovementStep { node, partition, position }) {
                        improved = true;
                        break;
                    }
                }
            }
        }
        improved
    }

    /// Lets a node take its partition back if that can be made up for.
    fn take_back(&mut self, take: ImprovementStep) -> bool {
        let loser = self.table.row(take.partition)[take.position];
        if !self.is_new(loser, take.partition) || !self.is_spread(take) {
            return false;
        }
        self.apply(take);
        let Some(takes) = self.chain(loser, take.node) else {
            self.apply(ImprovementStep { node: loser, ..take });
            return false;
        };
        let undo: Vec<ImprovementStep> = takes.iter().map(|take| self.apply(*take)).collect();
        if takes.iter().all(|take| self.is_good(take.partition)) {
            return true;
        }
        for take in undo.into_iter().rev() {
            self.apply(take);
        }
        self.apply(ImprovementStep { node: loser, ..take });
        false
    }

    /// The take that undoes it.
    fn apply(&mut self, take: ImprovementStep) -> ImprovementStep {
        let holder = self.table.row(take.partition)[take.position];
        self.table.set(take.partition, take.position, take.node);
        ImprovementStep { node: holder, ..take }
    }

    fn is_spread(&self, take: ImprovementStep) -> bool {
        self.table.is_spread(take.partition, self.table.width, take.position, take.node)
    }

    fn is_good(&self, partition: usize) -> bool {
        let row = self.table.row(partition);
        let is_twice = |place: usize| row[..place].contains(&row[place]);
        !(0..row.len()).any(is_twice)
            && self.is_spread(ImprovementStep { node: row[0], partition, position: 0 })
    }

    /// Exchanges without movement by which `loser`, who lacks a position, gets one at the cost of
    /// `winner`, who has one more, or of anyone who can do without if `winner` can keep it.
    fn chain(&mut self, loser: u16, winner: u16) -> Option<Vec<ImprovementStep>> {
        let held = |node: u16| self.table.held()[usize::from(node)];
        let keeps = held(winner) <= self.ceils[usize::from(winner)];
        // The loser at the end of the chain still has its partition here; the first one has not.
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
                    let take = ImprovementStep { node, partition, position };
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

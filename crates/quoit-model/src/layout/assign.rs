//! Assignment of partitions to nodes: fills the rows of the table until every node holds its quota.
//!
//! Nodes and rows are the two sides of a matroid intersection: a node may be in as many rows as its quota,
//! and a row may hold any nodes that allow it to have enough locations. Missing positions are filled by
//! shortest augmenting paths, here called chains of exchanges: a node takes a position from another, which
//! takes one from a third, until a node is above its quota or a position is empty. Such a chain exists as
//! long as a node is below its quota (Lawler, "Combinatorial Optimization: Networks and Matroids", 1976,
//! chapter 8).

use super::member::node_number;
use super::table::{CellAt, EMPTY_POSITION, Table, scatter};
use quoit_number::index;
use std::collections::VecDeque;

/// Number of exchanges that are compared before one is taken.
const EXCHANGES_COMPARED: usize = 24;

/// Quotas of the nodes.
pub(super) struct NodeQuotas {
    /// For each node, the number of rows that it is to be in.
    pub(super) quotas: Vec<u32>,
    /// For each position and node, the number of rows in which the node should have that position.
    /// A preference only.
    pub(super) by_position: Vec<Vec<i64>>,
}

pub(super) struct Assignment<'t, 's> {
    table: &'t mut Table<'s>,
    wanted: NodeQuotas,
}

/// A node takes a position from its holder.
#[derive(Clone, Copy)]
struct AssignmentStep {
    node: u16,
    at: CellAt,
}

impl<'t, 's> Assignment<'t, 's> {
    /// `wanted.by_position` counts for an empty table; the positions already held are subtracted
    /// here.
    pub(super) fn new(table: &'t mut Table<'s>, mut wanted: NodeQuotas) -> Self {
        for partition in 0..table.spread.partition_count {
            for (position, node) in table.row(partition).iter().enumerate() {
                if *node != EMPTY_POSITION {
                    wanted.by_position[position][usize::from(*node)] -= 1;
                }
            }
        }
        Self { table, wanted }
    }

    /// Fills all rows so that each node is in as many rows as its quota.
    pub(super) fn run(mut self) {
        self.vacate();
        self.fill_empty();
        while let Some(node) = self.furthest_below_quota() {
            let takes = self.exchange(node).unwrap_or_else(|| self.chain(node));
            for take in takes {
                self.set(take.at, take.node);
            }
        }
        debug_assert!(
            self.nodes().all(|node| self.missing(node) == 0),
            "every node is in as many rows as its quota"
        );
        self.table.assert_rows();
    }

    /// Number of rows that the node is below its quota; negative if it is above.
    fn missing(&self, node: u16) -> i64 {
        let node = usize::from(node);
        i64::from(self.wanted.quotas[node]) - i64::from(self.table.held()[node])
    }

    fn nodes(&self) -> std::ops::Range<u16> {
        0..node_number(self.wanted.quotas.len())
    }

    fn partitions(&self) -> std::ops::Range<usize> {
        0..self.table.spread.partition_count
    }

    fn set(&mut self, at: CellAt, node: u16) {
        let before = self.table.row(at.partition)[at.position];
        let by_node = &mut self.wanted.by_position[at.position];
        if before != EMPTY_POSITION {
            by_node[usize::from(before)] += 1;
        }
        if node != EMPTY_POSITION {
            by_node[usize::from(node)] -= 1;
        }
        self.table.set(at, node);
    }

    /// Empties positions of rows that repeat locations so often that the row can't have enough
    /// locations.
    fn vacate(&mut self) {
        let width = self.table.width;
        for partition in self.partitions() {
            while !self.table.is_row_spread(partition) {
                let row = self.table.row(partition);
                let repeats = (0..width).filter(|one| {
                    row[*one] != EMPTY_POSITION
                        && (0..width).any(|other| {
                            *one != other
                                && row[other] != EMPTY_POSITION
                                && self.table.is_together(row[*one], row[other])
                        })
                });
                let given_up = repeats.min_by_key(|position| self.missing(row[*position]));
                let position = given_up.expect("a location repeats");
                self.set(CellAt { partition, position }, EMPTY_POSITION);
            }
        }
    }

    /// Gives empty positions to the nodes that are furthest below their quotas. A position that no
    /// node can take stays empty.
    fn fill_empty(&mut self) {
        for partition in self.partitions() {
            for _ in 0..self.table.width {
                let row = self.table.row(partition);
                let Some(empty) = row.iter().position(|node| *node == EMPTY_POSITION) else {
                    break;
                };
                let at = CellAt { partition, position: empty };
                let fits = |node: &u16| {
                    self.missing(*node) > 0
                        && !row.contains(node)
                        && self.table.is_spread(at, *node, self.table.width)
                };
                let chosen = self
                    .nodes()
                    .filter(fits)
                    .max_by_key(|node| (self.missing(*node), scatter(*node, partition)));
                let Some(node) = chosen else { break };
                let best = (0..self.table.width)
                    .filter(|position| row[*position] == EMPTY_POSITION)
                    .max_by_key(|position| self.wanted.by_position[*position][usize::from(node)]);
                let position = best.expect("one is empty");
                self.set(CellAt { partition, position }, node);
            }
        }
    }

    fn furthest_below_quota(&self) -> Option<u16> {
        let node = self.nodes().max_by_key(|node| self.missing(*node))?;
        (self.missing(node) > 0).then_some(node)
    }

    /// Takes a position from a node above its quota, or an empty one. Of the first ones found it
    /// takes the one that suits the order of positions best.
    fn exchange(&self, node: u16) -> Option<Vec<AssignmentStep>> {
        let count = self.table.spread.partition_count;
        let start = index(scatter(node, self.table.held()[usize::from(node)] as usize)) % count;
        let takes = (0..count).map(|offset| (start + offset) % count).flat_map(|partition| {
            let row = self.table.row(partition);
            let width = if row.contains(&node) { 0 } else { row.len() };
            let at = move |position| CellAt { partition, position };
            (0..width).map(move |position| AssignmentStep { node, at: at(position) })
        });
        let fits = |take: &AssignmentStep| {
            let holder = self.table.row(take.at.partition)[take.at.position];
            (holder == EMPTY_POSITION || self.missing(holder) < 0) && self.is_spread(*take)
        };
        let suits = |take: &AssignmentStep| {
            let by_node = &self.wanted.by_position[take.at.position];
            let holder = self.table.row(take.at.partition)[take.at.position];
            let missed = if holder == EMPTY_POSITION { 0 } else { by_node[usize::from(holder)] };
            by_node[usize::from(node)] - missed
        };
        let best = takes.filter(fits).take(EXCHANGES_COMPARED).max_by_key(suits)?;
        Some(vec![best])
    }

    fn is_spread(&self, take: AssignmentStep) -> bool {
        self.table.is_spread(take.at, take.node, self.table.width)
    }

    /// The shortest chain of exchanges that gives the node one more position (breadth-first
    /// search).
    fn chain(&self, start: u16) -> Vec<AssignmentStep> {
        // For each node reached, the exchange by which it would lose a position.
        let mut loses: Vec<Option<AssignmentStep>> = vec![None; self.wanted.quotas.len()];
        let mut waiting = VecDeque::from([start]);
        while let Some(node) = waiting.pop_front() {
            for partition in self.partitions() {
                let row = self.table.row(partition);
                if row.contains(&node) {
                    continue;
                }
                for (position, holder) in row.iter().enumerate() {
                    let is_new = *holder == EMPTY_POSITION
                        || (*holder != start && loses[usize::from(*holder)].is_none());
                    let take = AssignmentStep { node, at: CellAt { partition, position } };
                    if !is_new || !self.is_spread(take) {
                        continue;
                    }
                    if *holder == EMPTY_POSITION || self.missing(*holder) < 0 {
                        return self.back(take, start, &loses);
                    }
                    loses[usize::from(*holder)] = Some(take);
                    waiting.push_back(*holder);
                }
            }
        }
        unreachable!("fair shares can be met, so a node below its quota starts a chain")
    }

    /// The chain that ends with `last`.
    fn back(
        &self,
        last: AssignmentStep,
        start: u16,
        loses: &[Option<AssignmentStep>],
    ) -> Vec<AssignmentStep> {
        let mut takes = vec![last];
        let mut node = last.node;
        while node != start {
            let take = loses[usize::from(node)].expect("every node on the chain was reached");
            takes.push(take);
            node = take.node;
        }
        takes
    }
}

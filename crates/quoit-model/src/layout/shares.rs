//! Fair shares: the number of partitions that each node should hold, as an exact fraction.
//!
//! Shares are proportional to capacity within two limits: a node holds a partition at most once, so
//! its share is at most the number of partitions; and the copies of a partition must be on enough
//! locations. These limits form a polymatroid, so there is one max-min fair distribution, in which
//! no node's share can grow without taking from a node whose share relative to its capacity is
//! smaller or equal. It is found by filling all nodes evenly until they meet a limit.

/// Constraints on the distribution of copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread<'a> {
    /// Number of partitions.
    pub(super) partition_count: usize,
    /// Capacity of each node.
    pub(super) capacities: &'a [u32],
    /// Number of each node's location.
    pub(super) locations: &'a [u16],
    /// Number of locations.
    pub(super) location_count: usize,
    /// Number of locations that the balanced copies of a partition must be on; at most
    /// `location_count`.
    pub(super) distinct_locations: usize,
}

/// Fair number of partitions of a node, as a fraction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    numerator: u64,
    denominator: u64,
}

impl Share {
    pub(super) fn floor(self) -> u32 {
        partitions(self.numerator / self.denominator)
    }

    pub(super) fn ceil(self) -> u32 {
        partitions(self.numerator.div_ceil(self.denominator))
    }

    pub(super) fn nearest(self) -> u32 {
        partitions((2 * self.numerator + self.denominator) / (2 * self.denominator))
    }

    /// Numerator of the fractional part.
    pub(super) const fn rest(self) -> u64 {
        self.numerator % self.denominator
    }
}

/// A rounded share, which is a number of partitions.
fn partitions(rounded: u64) -> u32 {
    u32::try_from(rounded).expect("a share is at most the number of partitions")
}

/// Nodes whose shares add up to a whole number and are rounded together: sections of locations of
/// nodes. Rounding the sums of sections and of locations as well keeps every limit. All shares of a
/// block have the same denominator.
pub(super) type Block = Vec<Vec<Vec<usize>>>;

/// The fair shares of all nodes.
#[derive(Debug, Default)]
pub(super) struct FairShares {
    /// Share of each node.
    pub(super) shares: Vec<Share>,
    pub(super) blocks: Vec<Block>,
}

/// The numbers of copies that locations may have.
#[derive(Clone, Copy)]
struct LocationBounds {
    /// Number of locations that have a copy of each partition.
    distinct: usize,
    /// Number of copies of all partitions that all locations together may have beyond these.
    more_max: usize,
}

impl Spread<'_> {
    /// Computes the fair shares of the first `copies` positions of all partitions; `copies` is at
    /// most the number of nodes.
    pub(super) fn fair_shares(&self, copies: usize) -> FairShares {
        debug_assert!(copies <= self.capacities.len(), "a node has one copy of a partition");
        debug_assert_eq!(self.locations.len(), self.capacities.len(), "each node has a location");
        let distinct = self.distinct_locations.min(copies);
        let all: Vec<usize> = (0..self.capacities.len()).collect();
        let mut fair = FairShares { shares: vec![Share::default(); all.len()], blocks: Vec::new() };
        self.fill(&all, copies * self.partition_count, &mut fair.shares);
        let by_location = self.by_location(&all);
        // A location may have one copy of each partition, and all locations together this many
        // more.
        let more_max = (copies - distinct) * self.partition_count;
        let is_heavy = |nodes: &Vec<usize>, shares: &[Share]| {
            let (sum, denominator) = sum(nodes, shares);
            sum > self.partition_count as u64 * denominator
        };
        let (heavy, light): (Vec<_>, Vec<_>) =
            by_location.iter().cloned().partition(|nodes| is_heavy(nodes, &fair.shares));
        let heavy_nodes: Vec<usize> = heavy.iter().flatten().copied().collect();
        let (heavy_sum, denominator) = sum(&heavy_nodes, &fair.shares);
        let limit = (heavy.len() * self.partition_count + more_max) as u64 * denominator;
        if heavy_sum <= limit {
            fair.blocks.push(vec![heavy, light]);
        } else {
            self.fill_locations(by_location, LocationBounds { distinct, more_max }, &mut fair);
        }
        fair
    }

    /// Distributes shares if even filling would put too many copies of a partition into one
    /// location.
    fn fill_locations(
        &self,
        mut light: Vec<Vec<usize>>,
        LocationBounds { distinct, more_max }: LocationBounds,
        fair: &mut FairShares,
    ) {
        let one_each = self.partition_count;
        // Fill the locations evenly, up to one copy of each partition.
        let mut full: Vec<Vec<usize>> = Vec::new();
        loop {
            let nodes: Vec<usize> = light.iter().flatten().copied().collect();
            self.fill(&nodes, one_each * (distinct - full.len()), &mut fair.shares);
            let reaches = |nodes: &Vec<usize>| {
                let (sum, denominator) = sum(nodes, &fair.shares);
                sum >= one_each as u64 * denominator
            };
            let (reach, below): (Vec<_>, Vec<_>) = light.into_iter().partition(reaches);
            light = below;
            if reach.is_empty() {
                break;
            }
            full.extend(reach);
        }
        fair.blocks.push(vec![light]);
        // Fill the full locations evenly with the rest, down to one copy of each partition.
        let mut heavy = full;
        loop {
            let nodes: Vec<usize> = heavy.iter().flatten().copied().collect();
            self.fill(&nodes, one_each * heavy.len() + more_max, &mut fair.shares);
            let stays_below = |nodes: &Vec<usize>| {
                let (sum, denominator) = sum(nodes, &fair.shares);
                sum < one_each as u64 * denominator
            };
            let (below, rest): (Vec<_>, Vec<_>) = heavy.into_iter().partition(stays_below);
            heavy = rest;
            if below.is_empty() {
                break;
            }
            for nodes in below {
                self.fill(&nodes, one_each, &mut fair.shares);
                fair.blocks.push(vec![vec![nodes]]);
            }
        }
        fair.blocks.push(vec![heavy]);
    }

    /// Gives `nodes` shares by capacity that add up to `amount`, none above the number of
    /// partitions.
    fn fill(&self, nodes: &[usize], amount: usize, shares: &mut [Share]) {
        let node_max = self.partition_count as u64;
        let mut open: Vec<usize> = nodes.to_vec();
        let mut amount = amount as u64;
        let mut capped: Vec<usize> = Vec::new();
        loop {
            let capacity: u64 = open.iter().map(|node| u64::from(self.capacities[*node])).sum();
            let is_over =
                |node: &usize| u64::from(self.capacities[*node]) * amount >= node_max * capacity;
            let (over, rest): (Vec<usize>, Vec<usize>) = open.into_iter().partition(is_over);
            open = rest;
            if over.is_empty() || open.is_empty() {
                let denominator = capacity.max(1);
                for node in &open {
                    let numerator = u64::from(self.capacities[*node]) * amount;
                    shares[*node] = Share { numerator, denominator };
                }
                for node in capped.iter().chain(&over) {
                    shares[*node] = Share { numerator: node_max * denominator, denominator };
                }
                return;
            }
            amount -= over.len() as u64 * node_max;
            capped.extend(over);
        }
    }

    fn by_location(&self, nodes: &[usize]) -> Vec<Vec<usize>> {
        let mut by_location = vec![Vec::new(); self.location_count];
        for node in nodes {
            by_location[usize::from(self.locations[*node])].push(*node);
        }
        by_location
    }
}

/// Sum of the shares of some nodes of one block, as numerator and denominator.
pub(super) fn sum(nodes: &[usize], shares: &[Share]) -> (u64, u64) {
    let numerator = nodes.iter().map(|node| shares[*node].numerator).sum();
    (numerator, nodes.first().map_or(1, |node| shares[*node].denominator))
}

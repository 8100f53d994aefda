//! Computation of a layout from the previous one and the new members.

use super::Layout;
use super::assign::{Assignment, NodeQuotas};
use super::error::LayoutError;
use super::improve::improve;
use super::member::{LayoutMember, LayoutRules, checked, locations_of, node_number};
use super::reorder::{balance_order, spread_order};
use super::shares::{FairShares, Spread};
use super::table::{EMPTY_POSITION, Table};
use crate::hash::RingSize;
use crate::node::NodeId;

/// Replacement of a node by another, which takes all its positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replacement {
    /// A node of the previous layout that is no longer a member.
    pub old: NodeId,
    /// A member that was not in the previous layout.
    pub new: NodeId,
}

/// Input from which a new layout is computed.
#[derive(Clone, Copy, Debug)]
pub struct LayoutRequest<'a> {
    /// The previous layout; `None` for a cluster's first.
    pub previous: Option<&'a Layout>,
    /// All nodes of the new layout, in any order.
    pub members: &'a [LayoutMember],
    /// Members that take over the positions of nodes of the previous layout.
    pub replacements: &'a [Replacement],
    /// Rules of the new layout.
    pub rules: LayoutRules,
    /// Number of partitions, which must be that of the previous layout.
    pub ring_size: RingSize,
    /// Version of the new layout.
    pub version: u64,
}

impl<'a> LayoutRequest<'a> {
    /// A request for the next version, with these members and without replacements.
    #[must_use]
    pub const fn after(previous: &'a Layout, members: &'a [LayoutMember]) -> Self {
        Self {
            previous: Some(previous),
            members,
            replacements: &[],
            rules: previous.rules,
            ring_size: previous.ring_size,
            version: previous.version.saturating_add(1),
        }
    }
}

impl Layout {
    /// Computes a layout. The result depends on the request alone.
    ///
    /// # Errors
    ///
    /// Returns an error if members, rules, ring size or replacements are not valid.
    pub fn compute(request: &LayoutRequest<'_>) -> Result<Self, LayoutError> {
        let members = checked(request.members, request.rules)?;
        check_replacements(request.previous, &members, request.replacements)?;
        if let Some(previous) = request.previous {
            let (has, wanted) = (previous.ring_size.get(), request.ring_size.get());
            if has != wanted {
                return Err(LayoutError::RingSize { has, wanted });
            }
        }
        let width = request.rules.balanced_count(members.len());
        let kept = match request.previous {
            None => vec![EMPTY_POSITION; usize::from(request.ring_size.get()) * width],
            Some(previous) => kept(previous, &members, request.replacements, width),
        };
        let parts = SpreadParts::of(&members, request.rules, request.ring_size);
        let mut table = Table::new(parts.spread(), width, kept.clone());
        let fair = table.spread.fair_shares(width);
        if table.is_good(&fair) {
            spread_order(&mut table);
        } else {
            let wanted = wanted(&table, &fair);
            Assignment::new(&mut table, wanted).run();
            debug_assert!(table.is_good(&fair), "an assignment is spread and in fair shares");
            improve(&mut table, &kept, &fair);
            balance_order(&mut table);
        }
        debug_assert!(table.is_good(&fair), "a new layout is spread and in fair shares");
        table.assert_rows();
        let balanced = table.into_cells();
        let LayoutRequest { version, ring_size, rules, .. } = *request;
        Ok(Self::from_balanced(version, ring_size, rules, members, &balanced))
    }

    /// Constraints on the distribution of copies among this layout's members.
    pub(super) fn spread_parts(&self) -> SpreadParts {
        SpreadParts::of(&self.members, self.rules, self.ring_size)
    }
}

/// The data that a [`Spread`] borrows.
pub(super) struct SpreadParts {
    partition_count: usize,
    capacities: Vec<u32>,
    locations: Vec<u16>,
    location_count: usize,
    distinct_locations: usize,
}

impl SpreadParts {
    fn of(members: &[LayoutMember], rules: LayoutRules, ring_size: RingSize) -> Self {
        let (locations, location_count) = locations_of(members);
        let wanted = usize::from(rules.target_location_n_val);
        Self {
            partition_count: usize::from(ring_size.get()),
            capacities: members.iter().map(|member| member.capacity).collect(),
            locations,
            location_count,
            distinct_locations: wanted.min(location_count).min(rules.balanced_count(members.len())),
        }
    }

    pub(super) fn spread(&self) -> Spread<'_> {
        Spread {
            partition_count: self.partition_count,
            capacities: &self.capacities,
            locations: &self.locations,
            location_count: self.location_count,
            distinct_locations: self.distinct_locations,
        }
    }
}

/// The balanced positions of the previous layout, without those of nodes that are neither members
/// nor replaced.
#[expect(clippy::indexing_slicing, reason = "orders have numbers of nodes of the layout")]
fn kept(
    previous: &Layout,
    members: &[LayoutMember],
    replacements: &[Replacement],
    width: usize,
) -> Vec<u16> {
    let index_now = |node: &NodeId| {
        let replaced = replacements.iter().find(|replacement| replacement.old == *node);
        let id = replaced.map_or(*node, |replacement| replacement.new);
        members.binary_search_by_key(&id, |member| member.id).map_or(EMPTY_POSITION, node_number)
    };
    let now: Vec<u16> = previous.nodes.iter().map(index_now).collect();
    let mut cells = Vec::with_capacity(width * usize::from(previous.ring_size.get()));
    for partition in previous.partitions() {
        let held = previous.balanced(partition).iter().map(|node| now[usize::from(*node)]);
        cells.extend(held.chain(std::iter::repeat(EMPTY_POSITION)).take(width));
    }
    cells
}

/// Quotas of the nodes, in all and for each position.
fn wanted(table: &Table<'_>, fair: &FairShares) -> NodeQuotas {
    let quotas = fair.quotas(table.held());
    debug_assert_eq!(
        quotas.iter().map(|quota| *quota as usize).sum::<usize>(),
        table.width * table.spread.partition_count,
        "the quotas add up to the number of positions"
    );
    let mut within_before = vec![0; quotas.len()];
    let mut by_position = Vec::with_capacity(table.width);
    for position in 0..table.width {
        let within: Vec<u32> = if position + 1 == table.width {
            quotas.clone()
        } else {
            let fair = table.spread.fair_shares(position + 1);
            fair.shares.iter().map(|share| share.nearest()).collect()
        };
        let here =
            within.iter().zip(&within_before).map(|(to, from)| i64::from(*to) - i64::from(*from));
        by_position.push(here.collect());
        within_before = within;
    }
    NodeQuotas { quotas, by_position }
}

fn check_replacements(
    previous: Option<&Layout>,
    members: &[LayoutMember],
    replacements: &[Replacement],
) -> Result<(), LayoutError> {
    let was = |node| previous.is_some_and(|layout| layout.node_index(node).is_some());
    let is = |node| members.iter().any(|member| member.id == node);
    for (index, Replacement { old, new }) in replacements.iter().enumerate() {
        let replaced = |why| Err(LayoutError::Replaced { node: *old, why });
        let replacing = |why| Err(LayoutError::Replacing { node: *new, why });
        if !was(*old) {
            return replaced("it holds no partitions");
        }
        if is(*old) {
            return replaced("it is to stay a member");
        }
        if was(*new) {
            return replacing("it holds partitions of its own");
        }
        if !is(*new) {
            return replacing("it is to be no member");
        }
        let mut earlier = replacements.iter().take(index);
        if earlier.clone().any(|other| other.old == *old) {
            return replaced("it is replaced twice");
        }
        if earlier.any(|other| other.new == *new) {
            return replacing("it replaces two nodes");
        }
    }
    Ok(())
}

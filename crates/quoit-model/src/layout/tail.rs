//! Positions after the balanced ones, by weighted rendezvous hashing.
//!
//! Each node has a cost for the partition, and the nodes are sorted by their costs. With the hash as a
//! uniform random number h in (0, 1], the cost -log2(h) / capacity is an exponential random variable whose
//! rate is the capacity. So a node comes first with a probability proportional to its capacity. The logarithm
//! is computed by linear interpolation between powers of two, in integers, because the order must be the same
//! on every machine and must never change.
//!
//! Thaler, Ravishankar: "Using name-based mappings to increase hit rates", 1998; Schindelhauer,
//! Schomaker: "Weighted distributed hash tables", 2005.

use super::member::LayoutMember;
use quoit_number::low_u64;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Appends all other nodes to each row of `width` balanced positions.
pub(super) fn extend(balanced: &[u16], width: usize, members: &[LayoutMember]) -> Vec<u16> {
    let mut order = Vec::with_capacity(balanced.len() / width * members.len());
    let mut costs: Vec<(u64, u16)> = Vec::with_capacity(members.len());
    for (partition, row) in balanced.chunks_exact(width).enumerate() {
        order.extend_from_slice(row);
        costs.clear();
        for (member, node) in members.iter().zip(0u16..) {
            if !row.contains(&node) {
                costs.push((cost(member, partition as u64), node));
            }
        }
        debug_assert_eq!(row.len() + costs.len(), members.len(), "each node stands in one part");
        costs.sort_unstable();
        order.extend(costs.iter().map(|(_, node)| *node));
    }
    order
}

/// 2^48 times -log2 of the hash, divided by the capacity.
fn cost(member: &LayoutMember, partition: u64) -> u64 {
    // The logarithm of 0 is not defined.
    let hash = xxh3_64_with_seed(&member.id.0, partition) | 1;
    let exponent = u64::from(hash.ilog2());
    // The quotient of the hash and its power of two is less than 2.
    let fraction = low_u64(u128::from(hash) << 48 >> exponent) - (1 << 48);
    ((64 - exponent) * (1 << 48) - fraction) / u64::from(member.capacity)
}

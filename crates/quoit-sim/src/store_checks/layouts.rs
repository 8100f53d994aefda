//! Checks of the layouts that members use.

use crate::machine::Machine;
use crate::names::primaries_of;
use crate::replica_counts::N_VAL_DEFAULT;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::NodeId;
use quoit_model::hash::Partition;
use std::collections::BTreeSet;

/// Checks that no member uses only retired layouts: the others would not read where it writes. The check
/// leaves out members that are marked as down, and ends after a loss that no node notices, such as a
/// restored older copy; other mechanisms deal with such nodes.
pub(super) fn check_layouts(
    run_context: &RunContext,
    snapshot: &StoreSnapshot,
) -> Result<(), Violation> {
    let Some(newest) = snapshot.newest() else { return Ok(()) };
    if !run_context.history.lock().hardships.unnoticed_losses_us.is_empty() {
        return Ok(());
    }
    let newest = newest.control().read();
    let oldest_version = newest.layouts().oldest_version();
    for (place, store) in &snapshot.stores {
        let state = store.control().read();
        let member = newest.members().get(Machine::node_id_at(*place));
        // A joining node uses its own layout until it knows the cluster's.
        let has_joined = state.members().get(newest.node_id()).is_some();
        let counts = has_joined && member.is_some_and(|member| !member.is_down);
        let version = state.layouts().newest().version();
        if counts && version < oldest_version {
            let text = format!(
                "at {} ms, n{} goes by layout {version}, the oldest in use is {oldest_version}",
                run_context.time.now_us() / 1_000,
                place + 1
            );
            return Err(Violation::new(ViolationKind::Outdated, text));
        }
    }
    Ok(())
}

/// Checks that a partition counts as moved only when all nodes write by the new layout: by then its
/// sources have all earlier writes. The check leaves out changes with a member that is marked as down,
/// for which the others do not wait. It also leaves out partitions whose new primaries are primaries by
/// some earlier layout that is still live: these have had all writes.
pub(super) fn check_moved(
    run_context: &RunContext,
    snapshot: &StoreSnapshot,
) -> Result<(), Violation> {
    let Some(newest) = snapshot.newest() else { return Ok(()) };
    let state = newest.control().read();
    let layouts = state.layouts();
    let Some((to, earlier @ [_, ..])) = layouts.live().split_last() else { return Ok(()) };
    let was_marked = !run_context.history.lock().hardships.losses_us.is_empty();
    if was_marked || state.members().iter().any(|member| member.is_down) {
        return Ok(());
    }
    let serves = |node: &NodeId| layouts.acknowledged(*node) >= Some(to.version());
    let mut nodes = layouts.live().iter().flat_map(|layout| layout.nodes());
    let Some(late) = nodes.find(|node| !serves(node)) else { return Ok(()) };
    let primaries = |layout, partition| primaries_of(partition, layout, N_VAL_DEFAULT);
    let has_moved = |partition: &Partition| {
        let former = earlier.iter().flat_map(|layout| primaries(layout, *partition));
        let former: BTreeSet<_> = former.collect();
        layouts.moved(*partition) && !primaries(to, *partition).is_subset(&former)
    };
    match to.partitions().find(has_moved) {
        None => Ok(()),
        Some(Partition(partition)) => {
            let text = format!(
                "at {} ms, partition {partition} has moved by layout {}, which {late} does not write by",
                run_context.time.now_us() / 1_000,
                to.version()
            );
            Err(Violation::new(ViolationKind::Outdated, text))
        }
    }
}

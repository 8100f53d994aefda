//! Invariants of the order and the sizes of live layouts: checked for stored layouts, asserted for all
//! others.

use super::Layouts;
use crate::NodeId;
use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use quoit_planted::planted;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Checks what a control file or a snapshot says about live layouts.
pub(super) fn check_stored(
    live: &[Arc<Layout>],
    incomplete: &BTreeSet<(Partition, NodeId)>,
) -> Result<(), String> {
    let first = live.first().ok_or("there is no layout")?;
    let ring_size = first.ring_size();
    if u8::try_from(live.len()).is_err() {
        return Err(format!("{} layouts are live at once", live.len()));
    }
    if live.iter().any(|layout| layout.ring_size() != ring_size) {
        return Err("the layouts have different numbers of partitions".to_owned());
    }
    if !has_rising_versions(live) {
        return Err("the layouts are not in the order of their versions".to_owned());
    }
    match incomplete.last() {
        Some((partition, node)) if partition.0 >= ring_size.get() => Err(format!(
            "node {node} has a copy of partition {}, which does not exist",
            partition.0
        )),
        _ => Ok(()),
    }
}

fn has_rising_versions(live: &[Arc<Layout>]) -> bool {
    live.is_sorted_by(|one, later| one.version() < later.version())
}

impl Layouts {
    /// In debug builds, asserts that every partition has a live layout for its reads, and that newer
    /// layouts follow older ones.
    pub(super) fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let count = self.live.len();
        assert!(count > 0, "at least one layout is live");
        // Two plans that are based on the same state have layouts of the same version.
        assert!(
            has_rising_versions(&self.live) || planted!(AppliesOutdated),
            "live layouts are in the order of their versions"
        );
        let partition_count = usize::from(self.newest().ring_size().get());
        let read_count = if self.is_moving() { partition_count } else { 0 };
        assert_eq!(
            self.reads.len(),
            read_count,
            "each partition that moves is read by some layout"
        );
        assert!(
            self.reads.iter().all(|layout| usize::from(*layout) < count),
            "the layouts for reads are live"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{after, node};
    use super::*;
    use quoit_model::hash::RingSize;
    use std::collections::BTreeMap;

    fn fault(live: Vec<Arc<Layout>>, incomplete: &[(Partition, NodeId)]) -> String {
        let incomplete = incomplete.iter().copied().collect();
        let restored = Layouts::restored(live, 3, incomplete, BTreeMap::new());
        restored.err().unwrap_or_default()
    }

    #[test]
    fn stored_layouts_that_contradict_each_other_are_refused() {
        let ring_size = RingSize::new(16).unwrap();
        let first = Arc::new(Layout::single(node(1), ring_size));
        let second = after(&first, 1..=2);
        let larger = Arc::new(Layout::single(node(1), RingSize::new(32).unwrap()));
        let both = || vec![Arc::clone(&first), Arc::clone(&second)];
        assert_eq!(fault(both(), &[(Partition(15), node(2))]), "");
        assert!(fault(both(), &[(Partition(16), node(2))]).contains("partition 16"));
        let turned = vec![Arc::clone(&second), Arc::clone(&first)];
        assert!(fault(turned, &[]).contains("the order of their versions"));
        assert!(fault(vec![larger, Arc::clone(&second)], &[]).contains("numbers of partitions"));
        assert!(fault(vec![first; 256], &[]).contains("256 layouts"));
        assert!(fault(Vec::new(), &[]).contains("no layout"));
    }
}

//! Schedule of checks: the time and kind of each check of a node.
//!
//! The day is divided into as many slices as there are checks a day, and the checks are assigned to
//! slices in a random order that all nodes share. Within a slice, nodes take turns by their ordinal among
//! the names of the live nodes, and clusters by their quarter.

use super::settings::{CheckKind, FullSyncSettings};

const DAY_SECS: u64 = 86_400;
/// Number of clusters that take turns within a node's part of a slice.
const CLUSTER_COUNT: u64 = 4;

/// A scheduled check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ScheduledCheck {
    /// Time of the check, seconds since 1970.
    pub(super) at_secs: u64,
    pub(super) kind: CheckKind,
}

/// The ordinal of a node among the live nodes, in the order of their names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeOrdinal {
    /// Index of the node, counted from 0.
    pub(super) index: u64,
    /// Number of live nodes.
    pub(super) count: u64,
}

/// The next check of a node; `None` if no checks are configured.
pub(super) fn next(
    settings: &FullSyncSettings,
    now_secs: u64,
    place: NodeOrdinal,
) -> Option<ScheduledCheck> {
    let (node_index, node_count) = (place.index, place.count.max(1));
    if let Some(interval) = settings.interval {
        // Nodes take turns, so that the cluster makes one check per interval.
        let interval_secs = interval.as_secs().max(1);
        let number = now_secs / interval_secs + 1;
        let ahead = (node_index + node_count - number % node_count) % node_count;
        let at_secs = (number + ahead) * interval_secs;
        debug_assert!(at_secs > now_secs && ahead < node_count, "the next turn comes in a round");
        return Some(ScheduledCheck { at_secs, kind: CheckKind::Auto });
    }
    let today = now_secs / DAY_SECS;
    (today..today + 2).find_map(|day| {
        let kinds = shuffled(settings, day);
        let slice_secs = DAY_SECS / (kinds.len() as u64).max(1);
        let part_secs = slice_secs / node_count;
        let quarter = u64::from(settings.cluster_slice.clamp(1, 4) - 1);
        let offset = node_index * part_secs + quarter * part_secs / CLUSTER_COUNT;
        let turns = kinds.into_iter().zip(0_u64..).map(|(kind, slice)| ScheduledCheck {
            at_secs: day * DAY_SECS + slice * slice_secs + offset,
            kind: allowed(settings, kind, day * DAY_SECS + slice * slice_secs + offset),
        });
        turns.into_iter().find(|turn| turn.at_secs > now_secs)
    })
}

/// Replaces an auto check outside of the window by a check of the last day.
fn allowed(settings: &FullSyncSettings, kind: CheckKind, at_secs: u64) -> CheckKind {
    match kind {
        CheckKind::Auto if !settings.window.has(at_secs) => CheckKind::Day,
        kind => kind,
    }
}

/// The checks of a day in their order.
fn shuffled(settings: &FullSyncSettings, day: u64) -> Vec<CheckKind> {
    let each = |(kind, count): &(CheckKind, u32)| std::iter::repeat_n(*kind, *count as usize);
    let mut kinds: Vec<CheckKind> = settings.checks_a_day.iter().flat_map(each).collect();
    let mut state = day;
    for last in (1..kinds.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = (state >> 33) as usize % (last + 1);
        kinds.swap(last, place);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full_sync::CheckWindow;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn turns(settings: &FullSyncSettings, place: NodeOrdinal, from: u64) -> Vec<ScheduledCheck> {
        let mut now = from;
        let mut turns = Vec::new();
        while let Some(turn) = next(settings, now, place).filter(|t| t.at_secs < from + DAY_SECS) {
            turns.push(turn);
            now = turn.at_secs;
        }
        turns
    }

    #[test]
    fn a_day_has_each_check_as_often_as_configured_and_nodes_never_at_once() {
        let settings = FullSyncSettings {
            checks_a_day: vec![(CheckKind::All, 2), (CheckKind::Hour, 5), (CheckKind::Range, 17)],
            ..FullSyncSettings::default()
        };
        let start = 20_000 * DAY_SECS - 1;
        let mut all = Vec::new();
        for node in 0..4 {
            let turns = turns(&settings, NodeOrdinal { index: node, count: 4 }, start);
            let mut counts = BTreeMap::new();
            turns.iter().for_each(|turn| *counts.entry(turn.kind).or_insert(0) += 1);
            let expected = [(CheckKind::All, 2), (CheckKind::Hour, 5), (CheckKind::Range, 17)];
            assert_eq!(counts, BTreeMap::from(expected), "node {node}");
            all.extend(turns.iter().map(|turn| turn.at_secs));
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] >= 900), "{all:?}");
    }

    #[test]
    fn with_an_interval_nodes_take_turns() {
        let interval = Some(Duration::from_secs(60));
        let settings = FullSyncSettings { interval, ..FullSyncSettings::default() };
        let three_of = |index| -> Vec<u64> {
            let turns = turns(&settings, NodeOrdinal { index, count: 3 }, 600);
            turns.iter().map(|turn| turn.at_secs).take(3).collect()
        };
        let (first, second) = (three_of(0), three_of(1));
        assert_eq!(first.windows(2).map(|pair| pair[1] - pair[0]).max(), Some(180));
        assert!(first.iter().all(|at| !second.contains(at)), "{first:?} {second:?}");
    }

    #[test]
    fn auto_checks_outside_of_the_window_are_of_the_last_day() {
        let window = CheckWindow::Hours(22, 3);
        let settings = FullSyncSettings { window, ..FullSyncSettings::default() };
        let turns = turns(&settings, NodeOrdinal { index: 0, count: 1 }, 20_000 * DAY_SECS - 1);
        let autos = turns.iter().filter(|turn| turn.kind == CheckKind::Auto).count();
        assert_eq!((turns.len(), autos), (24, 6));
    }
}

//! Choice of the segments that are worth merging. Pure functions.

use crate::bitcask::segment::SegmentCounts;
use crate::bitcask::settings::{MergePolicy, MergeSettings};
use crate::store_file::RETIRING_COUNT_MAX;

const HOUR_SECS: u64 = 3_600;

/// The facts about a closed segment that the choice needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MergeCandidate {
    pub(super) number: u32,
    pub(super) size_bytes: u64,
    /// The lowest sequence of its records.
    pub(super) sequence_min: u64,
    pub(super) counts: SegmentCounts,
}

/// Reclaimable part of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Waste {
    /// Percentage of its records.
    frag_percent: u64,
    dead_bytes: u64,
}

impl MergeCandidate {
    /// `is_oldest` is true if no other segment has older records, so that removals need not be kept.
    fn waste(&self, is_oldest: bool, now_secs: u64) -> Waste {
        let counts = &self.counts;
        let held = if is_oldest { 0 } else { counts.held_count };
        let expired_percent = counts.expired_percent(now_secs);
        let expiring = counts.expiring_count.min(counts.live_count);
        let useful = counts.live_count - expiring * expired_percent / 100 + held;
        let expiring_bytes = (counts.live_bytes * expiring).checked_div(counts.live_count);
        let useful_bytes = counts.live_bytes - expiring_bytes.unwrap_or(0) * expired_percent / 100;
        let useless = counts.record_count.saturating_sub(useful);
        Waste {
            frag_percent: (useless * 100).checked_div(counts.record_count).unwrap_or(0),
            dead_bytes: counts.record_bytes.saturating_sub(useful_bytes),
        }
    }
}

/// True if merges may run now.
pub(super) fn is_allowed(policy: MergePolicy, now_secs: u64) -> bool {
    let hour = (now_secs / HOUR_SECS % 24) as u8;
    match policy {
        MergePolicy::Always => true,
        MergePolicy::Never => false,
        MergePolicy::Window { start, end } if start <= end => (start..=end).contains(&hour),
        MergePolicy::Window { start, end } => hour >= start || hour <= end,
    }
}

/// The segments that may be merged.
#[derive(Clone, Copy)]
pub(super) struct MergeCandidates<'c> {
    pub(super) list: &'c [MergeCandidate],
    /// The lowest sequence of any segment, including those that are no candidates.
    pub(super) oldest_sequence: u64,
}

/// The segments to merge, the one with the oldest records first; empty if a merge is not worthwhile.
pub(super) fn choose(
    candidates: MergeCandidates<'_>,
    settings: &MergeSettings,
    now_secs: u64,
) -> Vec<MergeCandidate> {
    let MergeCandidates { list: candidates, oldest_sequence } = candidates;
    let wasted = |candidate: &MergeCandidate| {
        candidate.waste(candidate.sequence_min == oldest_sequence, now_secs)
    };
    let triggers = |candidate: &MergeCandidate| {
        let waste = wasted(candidate);
        candidate.counts.record_count > 0
            && (waste.frag_percent >= u64::from(settings.frag_merge_trigger_percent)
                || waste.dead_bytes >= settings.dead_bytes_merge_trigger_bytes)
    };
    if !candidates.iter().any(triggers) {
        return Vec::new();
    }
    let takes_part = |candidate: &&MergeCandidate| {
        let waste = wasted(candidate);
        triggers(candidate)
            || waste.frag_percent >= u64::from(settings.frag_threshold_percent)
            || waste.dead_bytes >= settings.dead_bytes_threshold_bytes
            || candidate.size_bytes < settings.small_file_threshold_bytes
    };
    let mut chosen: Vec<MergeCandidate> = candidates.iter().filter(takes_part).copied().collect();
    chosen.sort_by_key(|candidate| (candidate.sequence_min, candidate.number));
    let mut size_bytes = 0;
    chosen.retain(|candidate| {
        let fits = size_bytes < settings.max_merge_size_bytes;
        size_bytes += candidate.size_bytes;
        fits
    });
    chosen.truncate(RETIRING_COUNT_MAX);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(number: u32, records: u64, live: u64, held: u64) -> MergeCandidate {
        let counts = SegmentCounts {
            record_count: records,
            record_bytes: records << 20,
            live_count: live,
            live_bytes: live << 20,
            held_count: held,
            ..SegmentCounts::default()
        };
        let size_bytes = records << 20;
        MergeCandidate { number, size_bytes, sequence_min: u64::from(number), counts }
    }

    fn chosen(candidates: &[MergeCandidate]) -> Vec<u32> {
        let oldest = candidates.iter().map(|candidate| candidate.sequence_min).min().unwrap();
        let candidates = MergeCandidates { list: candidates, oldest_sequence: oldest };
        let chosen = choose(candidates, &MergeSettings::default(), 1_000_000);
        chosen.iter().map(|candidate| candidate.number).collect()
    }

    #[test]
    fn nothing_is_merged_before_a_trigger_is_reached() {
        let half_dead = candidate(1, 200, 90, 0);
        assert!(chosen(&[half_dead, candidate(2, 5, 5, 0)]).is_empty());
        assert!(chosen(&[candidate(1, 0, 0, 0)]).is_empty());
    }

    #[test]
    fn a_trigger_takes_what_is_above_the_thresholds_or_small() {
        let candidates = [
            candidate(7, 200, 80, 0),
            candidate(2, 200, 120, 0),
            candidate(3, 200, 121, 0),
            candidate(4, 9, 9, 0),
            candidate(5, 1_000, 871, 0),
        ];
        assert_eq!(chosen(&candidates), [2, 4, 5, 7]);
    }

    #[test]
    fn dead_bytes_trigger_by_themselves() {
        assert_eq!(chosen(&[candidate(1, 2_000, 1_400, 0)]), [1]);
    }

    #[test]
    fn removals_that_had_to_be_kept_count_as_dead_in_the_oldest_segment_only() {
        let kept = candidate(2, 100, 0, 100);
        assert!(chosen(&[candidate(1, 100, 100, 0), kept]).is_empty());
        assert_eq!(chosen(&[candidate(3, 100, 100, 0), kept]), [2]);
        // The oldest segment may not be a candidate.
        let candidates = MergeCandidates { list: &[kept], oldest_sequence: 1 };
        assert!(choose(candidates, &MergeSettings::default(), 1_000_000).is_empty());
    }

    #[test]
    fn expired_records_count_as_dead_by_and_by() {
        let mut expiring = candidate(1, 100, 100, 0);
        expiring.counts.expiring_count = 100;
        expiring.counts.expires_first_secs = 1_000;
        expiring.counts.expires_last_secs = 2_000;
        let candidates = MergeCandidates { list: &[expiring], oldest_sequence: 1 };
        let at = |secs| choose(candidates, &MergeSettings::default(), secs).len();
        assert_eq!((at(900), at(1_500), at(1_700), at(9_000)), (0, 0, 1, 1));
    }

    #[test]
    fn a_merge_is_bounded() {
        let settings = MergeSettings { max_merge_size_bytes: 150 << 20, ..Default::default() };
        let candidates = [1, 2, 3].map(|number| candidate(number, 100, 0, 0));
        let chosen =
            choose(MergeCandidates { list: &candidates, oldest_sequence: 1 }, &settings, 0);
        assert_eq!(chosen, candidates[..2]);
    }

    #[test]
    fn merges_keep_to_their_window() {
        let at = |policy, hour| is_allowed(policy, hour * HOUR_SECS + 1_799);
        let day = MergePolicy::Window { start: 9, end: 17 };
        let night = MergePolicy::Window { start: 22, end: 5 };
        assert!(at(MergePolicy::Always, 3) && !at(MergePolicy::Never, 3));
        assert_eq!([8, 9, 17, 18].map(|hour| at(day, hour)), [false, true, true, false]);
        assert_eq!([21, 22, 0, 5, 6].map(|hour| at(night, hour)), [false, true, true, true, false]);
    }
}

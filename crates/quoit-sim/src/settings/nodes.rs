//! Settings of the nodes of a run.

use super::Settings;
use crate::engine::{EngineKind, EngineSizes};
use crate::execution::StepPauses;
use crate::family::Family;
use crate::policy::Policy;
use crate::random::Random;
use crate::workload::LIVES_SECS;
use quoit_cluster::Limits as InternodeLimits;
use quoit_core::{DeleteMode, PageRecordsMax};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

impl Settings {
    /// Time for which the seed's nodes keep tombstones.
    pub(crate) fn delete_mode(&self, seed: u64) -> DeleteMode {
        let mut random = Random::new(seed, "delete mode", 0);
        let is_short = matches!(
            self.family,
            Some(
                Family::LostFiles
                    | Family::OlderData
                    | Family::Blackouts
                    | Family::HungDisks
                    | Family::WithoutExchanges
                    | Family::Members
            )
        ) || self.reaps_beside_changes(seed);
        if is_short {
            return DeleteMode::AfterMs(random.within_by_magnitude(SHORT_DELETE_DELAYS_MS));
        }
        let is_usual = match self.family {
            Some(Family::DeleteModes) => false,
            Some(Family::Former) => true,
            _ => !random.percent(OTHER_DELETE_MODES_PERCENT),
        };
        if is_usual {
            return DeleteMode::default();
        }
        match random.below(5) {
            0 => DeleteMode::Keep,
            1 => DeleteMode::Immediate,
            _ => DeleteMode::AfterMs(random.within_by_magnitude(DELETE_DELAYS_MS)),
        }
    }

    /// Engine of the seed's nodes.
    pub(crate) fn engine_kind(&self, seed: u64) -> EngineKind {
        let is_innostore = match self.family {
            // Tests of real processes cover flipped bits and lost files of `innostore`.
            Some(
                Family::Former
                | Family::LostFiles
                | Family::RotAndMembers
                | Family::LostFilesAndMembers,
            ) => false,
            Some(Family::Innostore) => true,
            _ => !self.rots(seed) && Random::new(seed, "engine", 0).percent(INNOSTORE_PERCENT),
        };
        if is_innostore { EngineKind::Innostore } else { EngineKind::Bitcask }
    }

    /// Sizes of the files and buffers of the seed's engines.
    pub(crate) fn engine_sizes(&self, seed: u64) -> EngineSizes {
        match self.family {
            Some(Family::Former) => EngineSizes::default(),
            _ => {
                let sizes = EngineSizes::draw(&mut Random::new(seed, "sizes", 0));
                // In the lull before the loss a merge would remove all deleted values.
                if self.loses_files_late(seed) { sizes.without_merges() } else { sizes }
            }
        }
    }

    /// Pauses of the background work of engines. Where the engines have index entries, a request may have to
    /// sync the log itself, and would wait for a sync that pauses.
    pub(crate) fn step_pauses(&self, seed: u64) -> StepPauses {
        match self.family {
            Some(Family::Blackouts) if self.has_entries(seed) => StepPauses::LongSteps,
            Some(Family::Blackouts) => StepPauses::LongStepsAndSyncs,
            _ => StepPauses::Never,
        }
    }

    /// True if some writes make index entries. Entries are brought up to date before each snapshot, and for
    /// that the log is synced. Entries of values that expire could be there or not.
    pub(crate) fn has_entries(&self, seed: u64) -> bool {
        let is_without = || Random::new(seed, "entries", 0).percent(NO_ENTRIES_PERCENT);
        match self.family {
            Some(Family::Blackouts) => !is_without(),
            _ => self.ttls(seed).is_empty(),
        }
    }

    /// Seconds after which values of the seed's bucket types expire, for the types with such a property: none
    /// or all.
    pub(crate) fn ttls(&self, seed: u64) -> BTreeMap<Policy, u64> {
        let mut random = Random::new(seed, "ttl", 0);
        if !self.has_expiring() || !random.percent(TTL_PERCENT) {
            return BTreeMap::new();
        }
        Policy::TYPED.into_iter().map(|policy| (policy, random.within(LIVES_SECS))).collect()
    }

    /// True if a loss of power may take only a part of the last write of a file.
    pub(crate) fn tears_last_writes(&self) -> bool {
        self.family == Some(Family::Blackouts)
    }

    /// Rate limit of the transfers of the seed's nodes until the faults are repaired, in bytes per
    /// second.
    pub(crate) fn transfer_rate(&self, seed: u64) -> u64 {
        let mut random = Random::new(seed, "transfers", 0);
        let is_slow = random.percent(match self.family {
            Some(
                Family::Members
                | Family::LostFilesAndMembers
                | Family::ReplicaCounts
                | Family::Lull
                | Family::WithoutExchanges,
            ) => SLOW_TRANSFERS_OF_MEMBERS_PERCENT,
            _ => SLOW_TRANSFERS_PERCENT,
        });
        let rates = if is_slow { SLOW_RATES } else { FAST_RATES };
        random.within(rates)
    }

    /// Time after which the seed's nodes close a silent connection.
    pub(crate) fn idle_timeout(&self, seed: u64) -> Duration {
        let mut random = Random::new(seed, "idle timeout", 0);
        if self.loses_files_late(seed) {
            return Duration::from_millis(random.within(LATE_LOSS_IDLE_TIMEOUTS_MS));
        }
        let is_short = match self.family {
            Some(Family::Former) => false,
            // A call whose answer is lost fails after this time.
            Some(Family::Lull | Family::WithoutExchanges) => true,
            _ => random.percent(SHORT_IDLE_TIMEOUTS_PERCENT),
        };
        match is_short {
            true => Duration::from_millis(random.within_by_magnitude(IDLE_TIMEOUTS_MS)),
            false => InternodeLimits::default().idle_timeout,
        }
    }

    /// Number of records in a page of a transfer. It is often small, so that a walk through a partition
    /// takes several pages.
    pub(crate) fn page_records_max(&self, seed: u64) -> PageRecordsMax {
        match self.family {
            Some(Family::Former) => PageRecordsMax::default(),
            _ => PageRecordsMax(*Random::new(seed, "pages", 0).pick(&[1, 1, 2, 3, 256])),
        }
    }

    /// True if the seed's nodes run anti-entropy.
    pub(crate) fn has_exchanges(&self, seed: u64) -> bool {
        let without_percent = match self.family {
            Some(Family::WithoutExchanges) => 100,
            // Only anti-entropy repairs a copy that has gone back in time without its node's notice.
            Some(Family::OlderData) => 0,
            Some(Family::Members | Family::LostFiles | Family::LostFilesAndMembers) => {
                NO_EXCHANGES_OF_MEMBERS_PERCENT
            }
            _ => NO_EXCHANGES_PERCENT,
        };
        !Random::new(seed, "exchanges", 0).percent(without_percent)
    }
}

/// Percentage of runs of the family `expiring` whose bucket types have a `ttl`.
const TTL_PERCENT: u64 = 50;
/// Percentage of runs of the family `blackouts` without index entries.
const NO_ENTRIES_PERCENT: u64 = 40;
/// Percentage of runs whose nodes have the engine `innostore` instead of Bitcask.
const INNOSTORE_PERCENT: u64 = 15;
/// Range of the idle timeouts of runs in which files are lost after a lull, in milliseconds: they decide how
/// long reap records are kept, and so the lull.
const LATE_LOSS_IDLE_TIMEOUTS_MS: Range<u64> = 3_000..5_000;
/// Range of the idle timeouts that are shorter than the default, in milliseconds.
const IDLE_TIMEOUTS_MS: Range<u64> = 3_000..30_000;
/// Percentage of runs with an idle timeout that is shorter than the default.
const SHORT_IDLE_TIMEOUTS_PERCENT: u64 = 40;
/// Percentage of runs in which nodes keep tombstones for another time than the default.
const OTHER_DELETE_MODES_PERCENT: u64 = 30;
/// Range of the times for which nodes keep tombstones, in milliseconds: from less than the delay of a
/// message to longer than the absence of a machine.
const DELETE_DELAYS_MS: Range<u64> = 20..20_000;
/// The same range for families in which tombstones have to be reaped before a certain fault.
const SHORT_DELETE_DELAYS_MS: Range<u64> = 20..2_000;
/// Percentages of runs with slow transfers, during which much else happens: in general, and of families
/// that move partitions.
const SLOW_TRANSFERS_PERCENT: u64 = 30;
const SLOW_TRANSFERS_OF_MEMBERS_PERCENT: u64 = 60;
/// Ranges of the rate limits of slow and of other transfers, in bytes per second.
const SLOW_RATES: Range<u64> = 500..10_000;
const FAST_RATES: Range<u64> = 1_000_000..100_000_000;
/// Percentages of runs without anti-entropy, which would repair what other parts have missed: in general,
/// and of the families `members` and `lost-files`.
const NO_EXCHANGES_PERCENT: u64 = 25;
const NO_EXCHANGES_OF_MEMBERS_PERCENT: u64 = 50;

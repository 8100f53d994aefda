//! Settings of a run, and the choices that its seed makes.
//!
//! Each choice draws from a stream of its own, named after the choice, so that a new choice does not
//! change the others. Families of scenarios ([`Family`]) override many of them.

use crate::engine::{EngineKind, EngineSizes};
use crate::family::Family;
use crate::random::Random;
use crate::registers::Register;
use crate::trace::LINE_COUNT_DEFAULT;
use crate::workload::{Tempo, Workload};
use quoit_cluster::Limits as InternodeLimits;
use quoit_core::{DeleteMode, PageRecordsMax};
use std::ops::Range;
use std::time::Duration;
use tracing::Level;

/// Settings of a run. The seed decides everything that they leave open.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Number of machines of the cluster; `None` lets the seed decide.
    pub machine_count: Option<usize>,
    /// True for a large world: up to twenty machines, and minutes instead of seconds of simulated time.
    pub is_large: bool,
    /// Number of clients of plain keys; as many more work on data types in some runs.
    pub client_count: u64,
    /// Number of requests of each client; large worlds and the families `rights` and `lull` multiply it.
    pub operation_count: u64,
    /// Family of scenarios of the run; `None` lets the seed draw it.
    pub family: Option<Family>,
    /// True if a disk may rot in every run whose family allows it; otherwise the seed decides.
    pub with_rot: bool,
    /// True if every run has clients of data types, except runs with machines of an older version.
    pub with_data_types: bool,
    /// Least severe level of the nodes' log lines that are part of the story.
    pub log_level: Level,
    /// Function that is called with each line of the trace when it is written.
    pub tell: Option<fn(&str)>,
    /// Number of the last lines of the trace that are kept.
    pub line_count_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            machine_count: None,
            is_large: false,
            client_count: 4,
            operation_count: 60,
            family: None,
            with_rot: false,
            with_data_types: false,
            tell: None,
            log_level: Level::INFO,
            line_count_max: LINE_COUNT_DEFAULT,
        }
    }
}

/// Numbers of machines of large clusters, of which the seed picks one.
const LARGE_MACHINE_COUNTS: [usize; 3] = [12, 16, 20];

/// Numbers of machines of other clusters, of which the seed picks one. Three are enough for most faults,
/// and more machines take more CPU time.
const MACHINE_COUNTS: [usize; 7] = [1, 3, 3, 3, 3, 4, 5];

impl Settings {
    /// Returns these settings with the family of the seed's run. A run for which rot, data types or a
    /// large world was asked draws no family: it is of the family [`Family::General`], unless another one
    /// is named.
    pub(crate) fn with_family(self, seed: u64) -> Self {
        let is_special = self.with_rot || self.with_data_types || self.is_large;
        let drawn = || if is_special { Family::General } else { Family::draw(seed) };
        Self { family: Some(self.family.unwrap_or_else(drawn)), ..self }
    }

    /// Number of machines of a seed's cluster.
    pub(crate) fn machine_count_of(&self, seed: u64) -> usize {
        let counts: &[usize] = match self.family {
            _ if self.is_large => &LARGE_MACHINE_COUNTS,
            Some(Family::ReplicaCounts) => &[3, 4, 5, 5],
            Some(Family::Rights) => &[4, 5, 5],
            Some(Family::LostFiles | Family::OlderData) => &[3, 3, 4],
            Some(Family::RotAndMembers | Family::LeaverDies | Family::Members) => &[3, 4, 4, 5],
            Some(Family::WithoutExchanges | Family::WrongStarts | Family::Registers) => &[3, 4, 5],
            // A cluster of three has no fallbacks.
            Some(Family::Lull) => &[3, 4, 4, 5],
            _ => &MACHINE_COUNTS,
        };
        let drawn = || *Random::new(seed, "machines", 0).pick(counts);
        self.machine_count.unwrap_or_else(drawn)
    }

    /// Number of machines of each cluster in a seed's world.
    pub(crate) fn clusters_of(&self, seed: u64) -> Vec<usize> {
        if self.family != Some(Family::Clusters) {
            return vec![self.machine_count_of(seed)];
        }
        let mut random = Random::new(seed, "clusters", 0);
        let cluster_count = *random.pick(&[2, 2, 3]);
        (0..cluster_count).map(|_| *random.pick(&[1, 3, 3])).collect()
    }

    /// True if an operator adds and removes members of the seed's cluster.
    pub(crate) fn has_operator(&self, seed: u64) -> bool {
        let is_needed = matches!(
            self.family,
            Some(Family::RotAndMembers | Family::LeaverDies | Family::Members)
        );
        let is_excluded = matches!(
            self.family,
            Some(Family::LostFiles | Family::OlderData | Family::WrongStarts | Family::Lull)
        );
        if is_excluded {
            return false;
        }
        is_needed
            || self.is_large
            || !self.rots(seed) && Random::new(seed, "operator", 1).percent(OPERATOR_PERCENT)
    }

    /// True if the disk of one of the seed's machines may rot.
    pub(crate) fn rots(&self, seed: u64) -> bool {
        let is_drawn = || Random::new(seed, "rot", 0).percent(ROT_PERCENT);
        self.family == Some(Family::RotAndMembers)
            || self.family.is_none_or(Family::allows_rot)
                && (self.with_rot || !self.is_large && is_drawn())
    }

    /// True if the seed's machines run programs of two versions at first.
    pub(crate) fn mixes_versions(&self, seed: u64) -> bool {
        !matches!(
            self.family,
            Some(
                Family::Registers
                    | Family::Clusters
                    | Family::Expiring
                    | Family::Rights
                    | Family::WithoutExchanges
                    | Family::Lull
                    | Family::WrongStarts
            )
        ) && Random::new(seed, "versions", 0).percent(MIXED_PERCENT)
    }

    /// True if the seed's run has clients of data types.
    pub(crate) fn has_data_types(&self, seed: u64) -> bool {
        let percent = match self.family {
            Some(Family::Blackouts) => DATA_TYPES_OF_BLACKOUTS_PERCENT,
            _ => DATA_TYPES_PERCENT,
        };
        let is_drawn = || Random::new(seed, "data types", 0).percent(percent);
        let is_wanted = self.with_data_types || self.family != Some(Family::Former) && is_drawn();
        is_wanted && !self.mixes_versions(seed)
    }

    /// True if the seed's run has clients of registers.
    pub(crate) fn has_registers(&self, seed: u64) -> bool {
        match self.family {
            Some(Family::Registers) => true,
            Some(Family::Former | Family::Clusters) => false,
            _ => {
                !self.mixes_versions(seed)
                    && Random::new(seed, "registers", 0).percent(REGISTERS_PERCENT)
            }
        }
    }

    /// True if a node that starts serves no client before it has compared its time with another member's,
    /// as the released program does.
    pub(crate) fn waits_for_time(&self) -> bool {
        self.family != Some(Family::Former)
    }

    /// True if some values expire.
    pub(crate) fn has_expiring(&self) -> bool {
        self.family == Some(Family::Expiring)
    }

    /// True if an operator grants and revokes a permission during the run.
    pub(crate) fn has_rights(&self) -> bool {
        self.family == Some(Family::Rights)
    }

    /// True if the seed's buckets have different values of n_val, which change while clients work.
    pub(crate) fn has_replica_counts(&self, seed: u64) -> bool {
        let is_drawn =
            || Random::new(seed, "number of replicas", 0).percent(REPLICA_COUNTS_PERCENT);
        self.family == Some(Family::ReplicaCounts)
            || self.family == Some(Family::General) && is_drawn()
    }

    /// Workload of the seed's clients.
    pub(crate) fn workload(&self, seed: u64) -> Workload {
        match self.family {
            Some(Family::Former) => Workload::default(),
            _ => {
                let mut workload = Workload::draw(&mut Random::new(seed, "workload", 0));
                match self.family {
                    Some(Family::Members | Family::RotAndMembers) => workload = workload.wide(),
                    Some(
                        Family::LostFiles
                        | Family::OlderData
                        | Family::Lull
                        | Family::Blackouts
                        | Family::HungDisks,
                    ) => {
                        workload = workload.deleting();
                    }
                    Some(Family::DeleteModes) => workload = workload.recurring(),
                    Some(Family::WithoutExchanges) if self.writes_few_keys(seed) => {
                        workload.key_count = FEW_KEYS;
                    }
                    Some(Family::ReplicaCounts) if self.reaps_beside_changes(seed) => {
                        workload = workload.deleting();
                    }
                    _ => {}
                }
                // Clients have sent half of their requests when a lull begins.
                if self.family == Some(Family::Lull) {
                    workload.pause_us_max = PAUSE_OF_LULLS_US / LULL_REQUESTS_FACTOR;
                } else if self.loses_files_late(seed) {
                    workload.pause_us_max = PAUSE_OF_LULLS_US;
                }
                workload.starts_wrong = self.family == Some(Family::WrongStarts);
                if self.is_quick(seed) {
                    workload = workload.quick(&mut Random::new(seed, "quick", 0));
                }
                workload.key_count *= if self.is_large { LARGE_KEY_FACTOR } else { 1 };
                workload.expiring_percent = if self.has_expiring() { EXPIRING_PERCENT } else { 0 };
                workload
            }
        }
    }

    /// Number of partitions of a cluster: few, so that each has some keys.
    pub(crate) const fn partition_count(&self) -> u16 {
        if self.is_large { 64 } else { 8 }
    }

    /// Number of spare machines that the operator may switch on.
    pub(crate) const fn spare_count(&self) -> usize {
        if self.is_large { 4 } else { 2 }
    }

    /// True if the seed's run is quick: the faults begin sooner, and the clients pause less.
    fn is_quick(&self, seed: u64) -> bool {
        let takes_long = matches!(
            self.family,
            Some(
                Family::Former
                    | Family::HungDisks
                    | Family::Rights
                    | Family::Expiring
                    | Family::LostFiles
                    | Family::OlderData
                    | Family::Lull
            )
        );
        !self.is_large && !takes_long && Random::new(seed, "tempo", 0).percent(QUICK_PERCENT)
    }

    /// Tempo of the seed's run.
    pub(crate) fn tempo(&self, seed: u64) -> Tempo {
        let mut tempo = if self.is_quick(seed) { Tempo::quick() } else { Tempo::default() };
        tempo.faults_until_us *= if self.is_large { LARGE_TIME_FACTOR } else { 1 };
        let is_lull = self.family == Some(Family::Lull);
        if is_lull || self.loses_files_late(seed) {
            tempo.lull_us = LULL_OF_IDLE_TIMEOUTS
                * quoit_number::saturating_u64(self.idle_timeout(seed).as_micros());
            // A node that is away through the lull would keep reap records from retiring.
            let is_calm = !is_lull || Random::new(seed, "calm", 0).percent(CALM_LULLS_PERCENT);
            tempo.faults_from_us = if is_calm { tempo.middle_us() } else { 0 };
        }
        tempo
    }

    /// True if the seed's machine loses files after a lull in which reap records have retired.
    fn loses_files_late(&self, seed: u64) -> bool {
        self.family == Some(Family::LostFiles)
            && Random::new(seed, "late losses", 0).percent(LATE_LOSSES_PERCENT)
    }

    /// Number of requests of each client, multiplied for large worlds and for the families `rights` and
    /// `lull`.
    pub(crate) fn operations(&self) -> u64 {
        let factor = match self.is_large {
            true => LARGE_TIME_FACTOR,
            false if self.has_rights() => RIGHTS_TIME_FACTOR,
            false if self.family == Some(Family::Lull) => LULL_REQUESTS_FACTOR,
            false => 1,
        };
        self.operation_count * factor
    }

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

    /// True if clients delete much and nodes keep tombstones for a short time while n_val changes: copies
    /// that a raised n_val adds have to get reap records.
    fn reaps_beside_changes(&self, seed: u64) -> bool {
        self.family == Some(Family::ReplicaCounts)
            && Random::new(seed, "reaps beside changes", 0).percent(REAPS_BESIDE_CHANGES_PERCENT)
    }

    /// True if clients write few keys, again and again: also those of strays that are being handed over.
    fn writes_few_keys(&self, seed: u64) -> bool {
        Random::new(seed, "few keys", 0).percent(FEW_KEYS_PERCENT)
    }

    /// Number of the registers that clients of the seed's run work on.
    pub(crate) fn register_count(&self, seed: u64) -> u32 {
        let is_one = self.family == Some(Family::Registers)
            && Random::new(seed, "register count", 0).percent(ONE_REGISTER_PERCENT);
        if is_one { 1 } else { Register::COUNT }
    }

    /// Engine of the seed's nodes.
    pub(crate) fn engine_kind(&self, seed: u64) -> EngineKind {
        let is_innostore = match self.family {
            // Tests of real processes cover flipped bits and lost files of `innostore`.
            Some(Family::Former | Family::LostFiles | Family::RotAndMembers) => false,
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

    /// True if snapshots and merges of the engines pause now and then, and requests run in between.
    pub(crate) fn work_pauses(&self) -> bool {
        self.family == Some(Family::Blackouts)
    }

    /// True if some writes make index entries. Entries are brought up to date before each snapshot, and for
    /// that the log is synced.
    pub(crate) fn has_entries(&self, seed: u64) -> bool {
        let is_without = || Random::new(seed, "entries", 0).percent(NO_ENTRIES_PERCENT);
        self.family != Some(Family::Blackouts) || !is_without()
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
                Family::Members | Family::ReplicaCounts | Family::Lull | Family::WithoutExchanges,
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
            Some(Family::Members | Family::LostFiles) => NO_EXCHANGES_OF_MEMBERS_PERCENT,
            _ => NO_EXCHANGES_PERCENT,
        };
        !Random::new(seed, "exchanges", 0).percent(without_percent)
    }
}

/// Percentage of runs of the family `blackouts` without index entries.
const NO_ENTRIES_PERCENT: u64 = 40;
/// Factors by which a large world has more keys, more requests and a longer time of faults.
const LARGE_KEY_FACTOR: u64 = 5;
const LARGE_TIME_FACTOR: u64 = 15;
/// Factor by which clients send more requests in runs of the family `rights`: a revoked permission stays
/// in use for seconds at most, so a run needs time for several changes.
const RIGHTS_TIME_FACTOR: u64 = 3;
/// Percentage of puts that store a value which expires, in runs with such values.
const EXPIRING_PERCENT: u64 = 40;
/// Percentage of runs whose nodes have the engine `innostore` instead of Bitcask.
const INNOSTORE_PERCENT: u64 = 15;
/// Percentage of runs that are quick.
const QUICK_PERCENT: u64 = 60;
/// Length of a lull, as a multiple of the idle timeout of connections. A reap record retires after two
/// rounds of reports, which are four idle timeouts apart.
const LULL_OF_IDLE_TIMEOUTS: u64 = 10;
/// Maximum pause between requests of clients whose work a lull interrupts, in microseconds, and factor by
/// which clients of the family `lull` send more requests at shorter pauses: many keys have to be deleted
/// after a fallback has got a value, and before the lull.
const PAUSE_OF_LULLS_US: u64 = 600_000;
const LULL_REQUESTS_FACTOR: u64 = 3;
/// Percentage of lulls before which the only faults are those that the lull is for.
const CALM_LULLS_PERCENT: u64 = 60;
/// Percentage of runs of the family `lost-files` in which files are lost after a lull, and range of their
/// idle timeouts in milliseconds: they decide how long reap records are kept, and so the lull.
const LATE_LOSSES_PERCENT: u64 = 50;
const LATE_LOSS_IDLE_TIMEOUTS_MS: Range<u64> = 3_000..5_000;
/// Range of the idle timeouts that are shorter than the default, in milliseconds.
const IDLE_TIMEOUTS_MS: Range<u64> = 3_000..30_000;
/// Percentage of runs with an idle timeout that is shorter than the default.
const SHORT_IDLE_TIMEOUTS_PERCENT: u64 = 40;
/// Percentage of runs with an operator who changes the members, of the runs without rot.
const OPERATOR_PERCENT: u64 = 40;
/// Percentage of runs that may have rot among their faults; these runs have no operator.
const ROT_PERCENT: u64 = 25;
/// Percentages of runs with clients of data types: in general, and of the family `blackouts`.
const DATA_TYPES_PERCENT: u64 = 25;
const DATA_TYPES_OF_BLACKOUTS_PERCENT: u64 = 60;
/// Percentage of runs of the family `general` in which n_val of the buckets varies and changes.
const REPLICA_COUNTS_PERCENT: u64 = 20;
/// Percentage of runs of the family `replica-counts` with many deletes.
const REAPS_BESIDE_CHANGES_PERCENT: u64 = 50;
/// Percentage of runs of the family `without-exchanges` with few keys, and number of these.
const FEW_KEYS_PERCENT: u64 = 50;
const FEW_KEYS: u64 = 4;
/// Percentage of runs of the family `registers` in which all clients work on the same register.
const ONE_REGISTER_PERCENT: u64 = 50;
/// Percentage of runs with clients of registers.
const REGISTERS_PERCENT: u64 = 25;
/// Percentage of runs in which nodes keep tombstones for another time than the default.
const OTHER_DELETE_MODES_PERCENT: u64 = 30;
/// Percentage of runs that begin with programs of two versions.
const MIXED_PERCENT: u64 = 20;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rot_that_was_asked_for_is_in_all_runs_of_the_families_that_allow_it_and_in_no_others() {
        for family in Family::ALL {
            let settings = Settings { family: Some(family), with_rot: true, ..Settings::default() };
            let count = (0..100).filter(|seed| settings.rots(*seed)).count();
            assert_eq!(count, if family.allows_rot() { 100 } else { 0 }, "{family:?}");
        }
    }
}

//! Settings of a run: all that its seed decides.

use crate::engine::{EngineKind, EngineSizes};
use crate::family::Family;
use crate::random::Random;
use crate::trace::LINE_COUNT_DEFAULT;
use crate::workload::{Tempo, Workload};
use quoit_cluster::Limits as InternodeLimits;
use quoit_core::{DeleteMode, PageRecordsMax};
use std::ops::Range;
use std::time::Duration;
use tracing::Level;

/// How a run is made. The seed decides everything that is not said here.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Machines of the cluster; `None` = as many as the seed says.
    pub machine_count: Option<usize>,
    /// Whether the world is a large one: up to twenty machines, and minutes instead of seconds.
    pub is_large: bool,
    /// Clients.
    pub client_count: u64,
    /// Requests of each client.
    pub operation_count: u64,
    /// Trouble that the run has for certain; `None` = what the seed draws.
    pub family: Option<Family>,
    /// Whether disks may rot in every run, not only in some.
    pub with_rot: bool,
    /// Whether there are clients of data types too, where all machines know what that is.
    pub with_data_types: bool,
    /// Log level up to which the nodes' lines are part of the story.
    pub log_level: Level,
    /// Gets each line of the trace when it is written.
    pub tell: Option<fn(&str)>,
    /// Lines of the trace that are kept.
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

/// Machines of large clusters.
const LARGE_MACHINE_COUNTS: [usize; 3] = [12, 16, 20];

/// Machines of clusters: three are enough for most, and more is dearer.
const MACHINE_COUNTS: [usize; 7] = [1, 3, 3, 3, 3, 4, 5];

impl Settings {
    /// The same with the family of a seed's run. A run that is to have rot, data types or a large world has
    /// them beside what is drawn for runs in general.
    pub(crate) fn with_family(self, seed: u64) -> Self {
        let is_special = self.with_rot || self.with_data_types || self.is_large;
        let drawn = || if is_special { Family::General } else { Family::draw(seed) };
        Self { family: Some(self.family.unwrap_or_else(drawn)), ..self }
    }

    /// Machines of a seed's cluster.
    pub(crate) fn machine_count_of(&self, seed: u64) -> usize {
        let counts: &[usize] = match self.family {
            _ if self.is_large => &LARGE_MACHINE_COUNTS,
            Some(Family::ReplicaCounts) => &[3, 4, 5, 5],
            Some(Family::Rights) => &[4, 5, 5],
            Some(Family::LostFiles | Family::OlderData) => &[3, 3, 4],
            Some(Family::RotAndMembers | Family::LeaverDies | Family::Members) => &[3, 4, 4, 5],
            Some(Family::Lull | Family::WithoutExchanges | Family::WrongStarts) => &[3, 4, 5],
            _ => &MACHINE_COUNTS,
        };
        let drawn = || *Random::new(seed, "machines", 0).pick(counts);
        self.machine_count.unwrap_or_else(drawn)
    }

    /// Machines of each cluster of a seed's world.
    pub(crate) fn clusters_of(&self, seed: u64) -> Vec<usize> {
        if self.family != Some(Family::Clusters) {
            return vec![self.machine_count_of(seed)];
        }
        let mut random = Random::new(seed, "clusters", 0);
        let cluster_count = *random.pick(&[2, 2, 3]);
        (0..cluster_count).map(|_| *random.pick(&[1, 3, 3])).collect()
    }

    /// Whether members of a seed's cluster come and go.
    pub(crate) fn has_operator(&self, seed: u64) -> bool {
        let is_needed = matches!(
            self.family,
            Some(Family::RotAndMembers | Family::LeaverDies | Family::Members)
        );
        if matches!(self.family, Some(Family::LostFiles | Family::OlderData | Family::WrongStarts))
        {
            return false;
        }
        is_needed
            || self.is_large
            || !self.rots(seed) && Random::new(seed, "operator", 1).percent(OPERATOR_PERCENT)
    }

    /// Whether the disk of one of a seed's machines may rot.
    pub(crate) fn rots(&self, seed: u64) -> bool {
        let is_drawn = || Random::new(seed, "rot", 0).percent(ROT_PERCENT);
        match self.family {
            Some(Family::RotAndMembers) => return true,
            Some(
                Family::LostFiles
                | Family::OlderData
                | Family::LeaverDies
                | Family::Clusters
                | Family::Expiring
                | Family::WithoutExchanges
                | Family::Members
                | Family::Innostore,
            ) => return false,
            _ => {}
        }
        self.with_rot || !self.is_large && is_drawn()
    }

    /// Whether a seed's machines run programs of two versions at first.
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

    /// Whether a seed's run has clients of data types.
    pub(crate) fn has_data_types(&self, seed: u64) -> bool {
        let percent = match self.family {
            Some(Family::Blackouts) => DATA_TYPES_OF_BLACKOUTS_PERCENT,
            _ => DATA_TYPES_PERCENT,
        };
        let is_drawn = || Random::new(seed, "data types", 0).percent(percent);
        let is_wanted = self.with_data_types || self.family != Some(Family::Former) && is_drawn();
        is_wanted && !self.mixes_versions(seed)
    }

    /// Whether a seed's run has clients of registers.
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

    /// Whether nodes wait before they serve, as the program's do, until another member has their time.
    pub(crate) fn waits_for_time(&self) -> bool {
        self.family != Some(Family::Former)
    }

    /// Whether values expire.
    pub(crate) fn has_expiring(&self) -> bool {
        self.family == Some(Family::Expiring)
    }

    /// Whether an operator of a seed's run changes rights.
    pub(crate) fn has_rights(&self) -> bool {
        self.family == Some(Family::Rights)
    }

    /// Whether the records of a seed's buckets have different numbers of replicas, which change under load.
    pub(crate) fn has_replica_counts(&self, seed: u64) -> bool {
        let is_drawn =
            || Random::new(seed, "number of replicas", 0).percent(REPLICA_COUNTS_PERCENT);
        self.family == Some(Family::ReplicaCounts)
            || self.family == Some(Family::General) && is_drawn()
    }

    /// The work of a seed's clients.
    pub(crate) fn workload(&self, seed: u64) -> Workload {
        match self.family {
            Some(Family::Former) => Workload::default(),
            _ => {
                let mut workload = Workload::draw(&mut Random::new(seed, "workload", 0));
                match self.family {
                    Some(Family::Members) => workload = workload.wide(),
                    Some(
                        Family::LostFiles
                        | Family::OlderData
                        | Family::Lull
                        | Family::Blackouts
                        | Family::HungDisks,
                    ) => {
                        workload = workload.deleting();
                    }
                    _ => {}
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

    /// Partitions of the clusters: few, so that each has some keys.
    pub(crate) const fn partition_count(&self) -> u16 {
        if self.is_large { 64 } else { 8 }
    }

    /// Machines that the operator may take into service.
    pub(crate) const fn spare_count(&self) -> usize {
        if self.is_large { 4 } else { 2 }
    }

    /// Whether a seed's run has much in little time.
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
            )
        );
        !self.is_large && !takes_long && Random::new(seed, "tempo", 0).percent(QUICK_PERCENT)
    }

    /// How fast a seed's run goes.
    pub(crate) fn tempo(&self, seed: u64) -> Tempo {
        let mut tempo = if self.is_quick(seed) { Tempo::quick() } else { Tempo::default() };
        tempo.faults_until_us *= if self.is_large { LARGE_TIME_FACTOR } else { 1 };
        if self.family == Some(Family::Lull) {
            tempo.lull_us = LULL_OF_IDLE_TIMEOUTS * self.idle_timeout(seed).as_micros() as u64;
        }
        tempo
    }

    /// Requests of each client.
    pub(crate) fn operations(&self) -> u64 {
        let factor = match self.is_large {
            true => LARGE_TIME_FACTOR,
            false if self.has_rights() => RIGHTS_TIME_FACTOR,
            false => 1,
        };
        self.operation_count * factor
    }

    /// How soon a seed's nodes reap tombstones.
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
        );
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

    /// The engine of a seed's nodes.
    pub(crate) fn engine_kind(&self, seed: u64) -> EngineKind {
        let is_innostore = match self.family {
            // Of what becomes of a file whose bits flip, or which is lost, tests of real processes tell more.
            Some(Family::Former | Family::LostFiles | Family::RotAndMembers) => false,
            Some(Family::Innostore) => true,
            _ => !self.rots(seed) && Random::new(seed, "engine", 0).percent(INNOSTORE_PERCENT),
        };
        if is_innostore { EngineKind::Innostore } else { EngineKind::Bitcask }
    }

    /// Sizes of what a seed's engines keep in files and in memory.
    pub(crate) fn engine_sizes(&self, seed: u64) -> EngineSizes {
        match self.family {
            Some(Family::Former) => EngineSizes::default(),
            _ => EngineSizes::draw(&mut Random::new(seed, "sizes", 0)),
        }
    }

    /// Bytes a second that a seed's nodes hand over while things go wrong.
    pub(crate) fn transfer_rate(&self, seed: u64) -> u64 {
        let mut random = Random::new(seed, "transfers", 0);
        let is_slow = random.percent(match self.family {
            Some(Family::Members | Family::ReplicaCounts | Family::Lull) => {
                SLOW_TRANSFERS_OF_MEMBERS_PERCENT
            }
            _ => SLOW_TRANSFERS_PERCENT,
        });
        let rates = if is_slow { SLOW_RATES } else { FAST_RATES };
        random.within(rates)
    }

    /// How long connections of a seed's nodes may be silent.
    pub(crate) fn idle_timeout(&self, seed: u64) -> Duration {
        let mut random = Random::new(seed, "idle timeout", 0);
        let is_short = match self.family {
            Some(Family::Former) => false,
            Some(Family::Lull) => true,
            _ => random.percent(SHORT_IDLE_TIMEOUTS_PERCENT),
        };
        match is_short {
            true => Duration::from_millis(random.within_by_magnitude(IDLE_TIMEOUTS_MS)),
            false => InternodeLimits::default().idle_timeout,
        }
    }

    /// Records that a seed's nodes read at once when they hand them over: few often, so that the walk through
    /// a partition has several pages.
    pub(crate) fn page_records_max(&self, seed: u64) -> PageRecordsMax {
        match self.family {
            Some(Family::Former) => PageRecordsMax::default(),
            _ => PageRecordsMax(*Random::new(seed, "pages", 0).pick(&[1, 1, 2, 3, 256])),
        }
    }

    /// Whether nodes of a seed's cluster compare their copies.
    pub(crate) fn has_exchanges(&self, seed: u64) -> bool {
        let without_percent = match self.family {
            Some(Family::WithoutExchanges) => 100,
            // Nothing else mends a copy that went back in time unnoticed.
            Some(Family::OlderData) => 0,
            Some(Family::Members) => NO_EXCHANGES_OF_MEMBERS_PERCENT,
            _ => NO_EXCHANGES_PERCENT,
        };
        !Random::new(seed, "exchanges", 0).percent(without_percent)
    }
}

/// Large worlds have so many times as many keys, and last so many times as long.
const LARGE_KEY_FACTOR: u64 = 5;
const LARGE_TIME_FACTOR: u64 = 15;
/// Clients work for so many times as long where rights change: revoked rights end within seconds.
const RIGHTS_TIME_FACTOR: u64 = 3;
/// Of a hundred puts so many store a value that expires, where any does.
const EXPIRING_PERCENT: u64 = 40;
/// So many runs of a hundred have nodes with the other engine than Bitcask.
const INNOSTORE_PERCENT: u64 = 15;
/// So many runs of a hundred have much in little time.
const QUICK_PERCENT: u64 = 60;
/// How long nothing is asked for, in times of what a connection may be silent: what nodes remember of reaped
/// tombstones needs two rounds of questions that are four of these apart.
const LULL_OF_IDLE_TIMEOUTS: u64 = 10;
/// How long connections may be silent, in milliseconds, where it is not as long as by default.
const IDLE_TIMEOUTS_MS: Range<u64> = 3_000..30_000;
/// So many runs of a hundred have connections that may be silent for less long than by default.
const SHORT_IDLE_TIMEOUTS_PERCENT: u64 = 40;
/// So many runs of a hundred have an operator who changes the cluster.
const OPERATOR_PERCENT: u64 = 40;
/// In so many runs of a hundred, which have no operator then, rot may be among the kinds of trouble.
const ROT_PERCENT: u64 = 25;
/// So many runs of a hundred have clients of data types beside the others.
const DATA_TYPES_PERCENT: u64 = 25;
const DATA_TYPES_OF_BLACKOUTS_PERCENT: u64 = 60;
/// Share of the runs in which buckets have other numbers of replicas than usual, which change.
const REPLICA_COUNTS_PERCENT: u64 = 20;
/// So many runs of a hundred have clients of registers beside the others.
const REGISTERS_PERCENT: u64 = 25;
/// In so many runs of a hundred tombstones do not stay for the usual time.
const OTHER_DELETE_MODES_PERCENT: u64 = 30;
/// So many runs of a hundred begin with programs of two versions.
const MIXED_PERCENT: u64 = 20;
/// How long tombstones stay, in milliseconds: less than a message takes, and longer than a machine is away.
const DELETE_DELAYS_MS: Range<u64> = 20..20_000;
/// The same where tombstones are to be gone before something happens.
const SHORT_DELETE_DELAYS_MS: Range<u64> = 20..2_000;
/// In so many runs of a hundred transfers take long, so that much happens meanwhile.
const SLOW_TRANSFERS_PERCENT: u64 = 30;
const SLOW_TRANSFERS_OF_MEMBERS_PERCENT: u64 = 60;
/// Bytes a second of slow and of other transfers.
const SLOW_RATES: Range<u64> = 500..10_000;
const FAST_RATES: Range<u64> = 1_000_000..100_000_000;
/// So many runs of a hundred do without anti-entropy, which mends what other parts have missed.
const NO_EXCHANGES_PERCENT: u64 = 25;
const NO_EXCHANGES_OF_MEMBERS_PERCENT: u64 = 50;

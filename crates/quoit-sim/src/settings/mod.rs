//! Settings of a run, and the choices that its seed makes.
//!
//! Each choice draws from a stream of its own, named after the choice, so that a new choice does not
//! change the others. Families of scenarios ([`Family`]) override many of them.

mod clients;
mod nodes;

use crate::family::Family;
use crate::random::Random;
use crate::trace::LINE_COUNT_DEFAULT;
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
    /// Number of requests of each client; large worlds and the families `permissions` and `lull` multiply it.
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
            // No run of four nodes has been seen in which a smaller capacity moved positions.
            _ if self.returns_positions(seed) => &[5],
            Some(Family::ReplicaCounts) => &[3, 4, 5, 5],
            Some(Family::Permissions) => &[4, 5, 5],
            Some(Family::LostFiles | Family::OlderData) => &[3, 3, 4],
            Some(
                Family::RotAndMembers
                | Family::LostFilesAndMembers
                | Family::LeaverDies
                | Family::Members
                | Family::WipedDirectories
                | Family::MarkedDown,
            ) => &[3, 4, 4, 5],
            Some(Family::WithoutExchanges | Family::WrongStarts | Family::Registers) => &[3, 4, 5],
            Some(Family::ForgottenGrants) => &[3, 3, 4],
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
            Some(
                Family::RotAndMembers
                    | Family::LostFilesAndMembers
                    | Family::LeaverDies
                    | Family::Members
                    | Family::WipedDirectories
                    | Family::MarkedDown
            )
        );
        let is_excluded = matches!(
            self.family,
            Some(
                Family::LostFiles
                    | Family::OlderData
                    | Family::WrongStarts
                    | Family::Lull
                    | Family::ForgottenGrants
            )
        );
        if is_excluded {
            return false;
        }
        is_needed
            || self.is_large
            || !self.rots(seed) && Random::new(seed, "operator", 1).percent(OPERATOR_PERCENT)
    }

    /// True if the operator takes positions in the layouts away from members and gives them back at once.
    pub(crate) fn returns_positions(&self, seed: u64) -> bool {
        self.family == Some(Family::Members)
            && Random::new(seed, "returns", 0).percent(RETURNS_PERCENT)
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
                    | Family::ForgottenGrants
                    | Family::Clusters
                    | Family::Expiring
                    | Family::Permissions
                    | Family::WithoutExchanges
                    | Family::Lull
                    | Family::WrongStarts
                    | Family::WipedDirectories
                    | Family::MarkedDown
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
            Some(Family::Registers | Family::ForgottenGrants) => true,
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

    /// True if nodes are configured with seeds, and some machines lose their directories.
    pub(crate) fn has_wipes(&self) -> bool {
        self.family == Some(Family::WipedDirectories)
    }

    /// True if some values expire.
    pub(crate) fn has_expiring(&self) -> bool {
        self.family == Some(Family::Expiring)
    }

    /// True if an operator grants and revokes a permission during the run.
    pub(crate) fn has_permissions(&self) -> bool {
        self.family == Some(Family::Permissions)
    }

    /// True if the seed's buckets have different values of n_val, which change while clients work.
    pub(crate) fn has_replica_counts(&self, seed: u64) -> bool {
        let is_drawn =
            || Random::new(seed, "number of replicas", 0).percent(REPLICA_COUNTS_PERCENT);
        self.family == Some(Family::ReplicaCounts)
            || self.family == Some(Family::General) && is_drawn()
    }

    /// Number of partitions of a cluster: few, so that each has some keys.
    pub(crate) const fn partition_count(&self) -> u16 {
        if self.is_large { 64 } else { 8 }
    }

    /// Number of spare machines that the operator may switch on.
    pub(crate) const fn spare_count(&self) -> usize {
        if self.is_large { 4 } else { 2 }
    }
}

/// Percentage of runs with an operator who changes the members, of the runs without rot.
const OPERATOR_PERCENT: u64 = 40;
/// Percentage of runs of the family `members` in which positions go away and come back.
const RETURNS_PERCENT: u64 = 40;
/// Percentage of runs that may have rot among their faults; these runs have no operator.
const ROT_PERCENT: u64 = 25;
/// Percentages of runs with clients of data types: in general, and of the family `blackouts`.
const DATA_TYPES_PERCENT: u64 = 25;
const DATA_TYPES_OF_BLACKOUTS_PERCENT: u64 = 60;
/// Percentage of runs of the family `general` in which n_val of the buckets varies and changes.
const REPLICA_COUNTS_PERCENT: u64 = 20;
/// Percentage of runs with clients of registers.
const REGISTERS_PERCENT: u64 = 25;
/// Percentage of runs that begin with programs of two versions.
const MIXED_PERCENT: u64 = 20;

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

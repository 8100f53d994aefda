//! Work of the clients of a run, and its tempo.

use super::Settings;
use crate::family::Family;
use crate::random::Random;
use crate::registers::Register;
use crate::workload::{Tempo, Workload};
use std::ops::Range;

impl Settings {
    /// Workload of the seed's clients.
    pub(crate) fn workload(&self, seed: u64) -> Workload {
        match self.family {
            Some(Family::Former) => Workload::default(),
            _ => {
                let mut workload = Workload::draw(&mut Random::new(seed, "workload", 0));
                match self.family {
                    Some(
                        Family::Members
                        | Family::RotAndMembers
                        | Family::LostFilesAndMembers
                        | Family::WipedDirectories
                        | Family::MarkedDown,
                    ) => {
                        workload = workload.wide();
                    }
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
                workload.wrong_clocks_at_start = self.family == Some(Family::WrongStarts);
                if self.is_quick(seed) {
                    workload = workload.quick(&mut Random::new(seed, "quick", 0));
                }
                workload.key_count *= if self.is_large { LARGE_KEY_FACTOR } else { 1 };
                workload.expiring_percent = if self.has_expiring() { EXPIRING_PERCENT } else { 0 };
                workload
            }
        }
    }

    /// True if the seed's run is quick: the faults begin sooner, and the clients pause less.
    fn is_quick(&self, seed: u64) -> bool {
        let takes_long = matches!(
            self.family,
            Some(
                Family::Former
                    | Family::HungDisks
                    | Family::Permissions
                    | Family::Expiring
                    | Family::LostFiles
                    | Family::LostFilesAndMembers
                    | Family::OlderData
                    | Family::Lull
                    | Family::MarkedDown
                    | Family::ForgottenGrants
            )
        );
        !self.is_large && !takes_long && Random::new(seed, "tempo", 0).percent(QUICK_PERCENT)
    }

    /// Tempo of the seed's run.
    pub(crate) fn tempo(&self, seed: u64) -> Tempo {
        let mut tempo = if self.is_quick(seed) { Tempo::quick() } else { Tempo::default() };
        tempo.faults_until_us *= if self.is_large { LARGE_TIME_FACTOR } else { 1 };
        if self.family == Some(Family::ForgottenGrants) {
            tempo.faults_until_us = FORGOTTEN_GRANTS_UNTIL_US;
        }
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
    pub(super) fn loses_files_late(&self, seed: u64) -> bool {
        self.family == Some(Family::LostFiles)
            && Random::new(seed, "late losses", 0).percent(LATE_LOSSES_PERCENT)
    }

    /// Number of requests of each client, multiplied for large worlds and for the families `permissions` and
    /// `lull`.
    pub(crate) fn operations(&self) -> u64 {
        let factor = match self.is_large {
            true => LARGE_TIME_FACTOR,
            false if self.has_permissions() => RIGHTS_TIME_FACTOR,
            false if self.family == Some(Family::Lull) => LULL_REQUESTS_FACTOR,
            false => 1,
        };
        self.operation_count * factor
    }

    /// True if clients delete much and nodes keep tombstones for a short time while n_val changes: copies
    /// that a raised n_val adds have to get reap records.
    pub(super) fn reaps_beside_changes(&self, seed: u64) -> bool {
        self.family == Some(Family::ReplicaCounts)
            && Random::new(seed, "reaps beside changes", 0).percent(REAPS_BESIDE_CHANGES_PERCENT)
    }

    /// True if clients write few keys, again and again: also those of strays that are being handed over.
    fn writes_few_keys(&self, seed: u64) -> bool {
        Random::new(seed, "few keys", 0).percent(FEW_KEYS_PERCENT)
    }

    /// Longest time that messages take throughout the seed's run, in microseconds; `None` if they are slow
    /// only at times. In half of the runs of the family `registers` a grant is under way for so long that
    /// others often come in between. In the family `forgotten-grants` messages take less.
    pub(crate) fn lasting_latency_us(&self, seed: u64) -> Option<u64> {
        let mut random = Random::new(seed, "lasting latency", 0);
        if self.family == Some(Family::ForgottenGrants) {
            return Some(random.within(FORGOTTEN_GRANTS_US));
        }
        let is_slow = self.family == Some(Family::Registers) && random.percent(SLOW_GRANTS_PERCENT);
        is_slow.then(|| random.within(SLOW_GRANTS_US))
    }

    /// Range of the timeouts of requests on registers, in milliseconds. Where processes stall for as long as
    /// grants last, a request takes longer.
    pub(crate) fn register_timeouts_ms(&self) -> Range<u32> {
        let is_long = matches!(self.family, Some(Family::Registers | Family::ForgottenGrants));
        500..if is_long { 10_000 } else { 4_000 }
    }

    /// Number of clients of registers in the seed's run. Where grants are forgotten, two writes have to meet
    /// within a second.
    pub(crate) fn register_client_count(&self, seed: u64) -> u64 {
        match self.family {
            Some(Family::ForgottenGrants) => MANY_REGISTER_CLIENTS,
            _ if self.has_registers(seed) => REGISTER_CLIENTS,
            _ => 0,
        }
    }

    /// Number of requests of each client of registers.
    pub(crate) fn register_operations(&self) -> u64 {
        let is_long = self.family == Some(Family::ForgottenGrants);
        self.operations() * if is_long { FORGOTTEN_GRANTS_REQUESTS_FACTOR } else { 1 }
    }

    /// Number of the registers that clients of the seed's run work on.
    pub(crate) fn register_count(&self, seed: u64) -> u32 {
        let is_drawn = || Random::new(seed, "register count", 0).percent(ONE_REGISTER_PERCENT);
        let is_one = match self.family {
            Some(Family::Registers) => is_drawn(),
            family => family == Some(Family::ForgottenGrants),
        };
        if is_one { 1 } else { Register::COUNT }
    }
}

/// Factors by which a large world has more keys, more requests and a longer time of faults.
const LARGE_KEY_FACTOR: u64 = 5;
const LARGE_TIME_FACTOR: u64 = 15;
/// Factor by which clients send more requests in runs of the family `permissions`: a revoked permission stays
/// in use for seconds at most, so a run needs time for several changes.
const RIGHTS_TIME_FACTOR: u64 = 3;
/// Percentage of puts that store a value which expires, in runs with such values.
const EXPIRING_PERCENT: u64 = 40;
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
/// Percentage of runs of the family `lost-files` in which files are lost after a lull.
const LATE_LOSSES_PERCENT: u64 = 50;
/// Percentage of runs of the family `replica-counts` with many deletes.
const REAPS_BESIDE_CHANGES_PERCENT: u64 = 50;
/// Percentage of runs of the family `without-exchanges` with few keys, and number of these.
const FEW_KEYS_PERCENT: u64 = 50;
const FEW_KEYS: u64 = 4;
/// Percentage of runs of the family `registers` with slow messages throughout, and range of the longest times
/// that these take, in microseconds.
const SLOW_GRANTS_PERCENT: u64 = 50;
const SLOW_GRANTS_US: Range<u64> = 200_000..600_000;
/// Range of the longest times that messages take in the family `forgotten-grants`, in microseconds.
const FORGOTTEN_GRANTS_US: Range<u64> = 20_000..200_000;
/// Numbers of clients of registers: in general, and of the family `forgotten-grants`.
const REGISTER_CLIENTS: u64 = 3;
const MANY_REGISTER_CLIENTS: u64 = 6;
/// Time within which machines restart in the family `forgotten-grants`, in microseconds.
const FORGOTTEN_GRANTS_UNTIL_US: u64 = 25_000_000;
/// Factor by which clients of registers send more requests in runs of the family `forgotten-grants`, where
/// requests take little time.
const FORGOTTEN_GRANTS_REQUESTS_FACTOR: u64 = 2;
/// Percentage of runs of the family `registers` in which all clients work on the same register.
const ONE_REGISTER_PERCENT: u64 = 50;

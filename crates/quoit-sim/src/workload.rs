//! Workload of clients and tempo of runs: numbers of keys, shares of requests, and pauses.

use crate::random::Random;
use std::ops::Range;

/// Workload that the clients of a run share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Number of keys. With few keys each is overwritten again and again; with many keys most stay as
    /// they were left.
    pub key_count: u64,
    /// Percentage of requests that are puts.
    pub put_percent: u64,
    /// Percentage of requests that are deletes. Every fifth delete has no context.
    pub delete_percent: u64,
    /// Maximum pause between two requests of a client, in microseconds.
    pub pause_us_max: u64,
    /// Percentage of puts that store a value which expires.
    pub expiring_percent: u64,
    /// Percentage of writes that set `pw` as well, of those that fallbacks may accept.
    pub primaries_percent: u64,
    /// True if clocks are wrong at starts of machines and at no other time.
    pub wrong_clocks_at_start: bool,
}

/// Tempo of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tempo {
    /// Time within which faults begin, in microseconds.
    pub faults_until_us: u64,
    /// Time from which faults begin, except those that a lull is for, in microseconds.
    pub faults_from_us: u64,
    /// Range from which a run draws its maximum pause between two faults, in microseconds.
    pub fault_pauses_us: Range<u64>,
    /// Length of the lull in the middle of the run, in microseconds; 0 = no lull.
    pub lull_us: u64,
}

impl Default for Tempo {
    fn default() -> Self {
        Self {
            faults_until_us: 20_000_000,
            faults_from_us: 0,
            fault_pauses_us: 1_000_000..8_000_000,
            lull_us: 0,
        }
    }
}

impl Tempo {
    /// Tempo of quick runs.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            faults_until_us: 7_000_000,
            faults_from_us: 0,
            fault_pauses_us: 300_000..2_500_000,
            lull_us: 0,
        }
    }

    /// Time at which a lull begins: half of the time within which faults begin, in microseconds.
    #[must_use]
    pub const fn middle_us(&self) -> u64 {
        self.faults_until_us / 2
    }
}

/// Maximum pauses between requests in quick runs, in microseconds, of which the seed picks one.
const QUICK_PAUSES_US: [u64; 3] = [40_000, 120_000, 250_000];

/// Range of the seconds after which values expire: some do during the run, others after it.
pub const LIVES_SECS: Range<u64> = 1..16;

/// Percentage of requests that are listings. All requests other than puts, deletes and listings are
/// reads.
const LIST_PERCENT: u64 = 6;

/// Kind of a client's next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A read.
    Get,
    /// A put.
    Put,
    /// A delete with the context of the client's last read.
    Delete,
    /// A delete without a context.
    DeleteUnseen,
    /// A listing of keys and of buckets, and index queries.
    List,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            key_count: 12,
            put_percent: 43,
            delete_percent: 9,
            pause_us_max: 600_000,
            expiring_percent: 0,
            primaries_percent: 0,
            wrong_clocks_at_start: false,
        }
    }
}

impl Workload {
    /// Draws the workload of a seed's clients.
    pub fn draw(random: &mut Random) -> Self {
        let key_count = *random.pick(&[4, 12, 12, 24, 40]);
        let (put_percent, delete_percent) = *random.pick(&[(43, 9), (43, 9), (35, 25), (20, 3)]);
        let pause_us_max = *random.pick(&[200_000, 600_000, 600_000, 1_200_000]);
        Self {
            key_count,
            put_percent,
            delete_percent,
            pause_us_max,
            expiring_percent: 0,
            primaries_percent: 30,
            wrong_clocks_at_start: false,
        }
    }

    /// Returns this workload with so many keys that most are seldom written: no later write hides a record
    /// that a move has lost.
    #[must_use]
    pub const fn wide(self) -> Self {
        Self { key_count: 60, ..self }
    }

    /// Returns this workload with many deletes.
    #[must_use]
    pub const fn deleting(self) -> Self {
        Self { key_count: 24, put_percent: 40, delete_percent: 30, ..self }
    }

    /// Returns this workload with many deletes of few keys, so that each is deleted, reaped and written
    /// again and again.
    #[must_use]
    pub const fn recurring(self) -> Self {
        Self { key_count: 6, put_percent: 40, delete_percent: 30, ..self }
    }

    /// Returns this workload with shorter pauses.
    #[must_use]
    pub fn quick(self, random: &mut Random) -> Self {
        Self { pause_us_max: *random.pick(&QUICK_PAUSES_US), ..self }
    }

    /// Draws a client's next request.
    pub fn step(&self, random: &mut Random) -> RequestKind {
        let unseen_percent = self.delete_percent.div_ceil(5);
        let shares = [
            (RequestKind::Put, self.put_percent),
            (RequestKind::Delete, self.delete_percent - unseen_percent),
            (RequestKind::DeleteUnseen, unseen_percent),
            (RequestKind::List, LIST_PERCENT),
        ];
        let get_percent = 100 - shares.iter().map(|(_, percent)| percent).sum::<u64>();
        let mut chance = random.below(100);
        for (step, percent) in [(RequestKind::Get, get_percent)].into_iter().chain(shares) {
            if chance < percent {
                return step;
            }
            chance -= percent;
        }
        RequestKind::Get
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workload_has_all_steps_in_its_shares() {
        for seed in 0..20 {
            let mut random = Random::new(seed, "workload", 0);
            let workload = Workload::draw(&mut random);
            let steps: Vec<RequestKind> = (0..10_000).map(|_| workload.step(&mut random)).collect();
            let share = |step| steps.iter().filter(|other| **other == step).count() as u64 / 100;
            assert!(share(RequestKind::Put).abs_diff(workload.put_percent) < 3, "{workload:?}");
            let deletes = share(RequestKind::Delete) + share(RequestKind::DeleteUnseen);
            assert!(deletes.abs_diff(workload.delete_percent) < 3, "{workload:?}");
            assert!(share(RequestKind::List) >= 3 && share(RequestKind::Get) >= 20, "{workload:?}");
        }
    }
}

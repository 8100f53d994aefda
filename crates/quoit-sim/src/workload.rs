//! How clients of a run work: how many keys, how fast, how much of what.

use crate::random::Random;
use std::ops::Range;

/// The work of the clients of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Keys that they ask for: few are written again and again, many stay as they were left.
    pub key_count: u64,
    /// Of a hundred requests so many are puts.
    pub put_percent: u64,
    /// Of a hundred requests so many are deletes, of which every fifth names nothing that was read.
    pub delete_percent: u64,
    /// Longest pause between two requests of a client, in microseconds.
    pub pause_us_max: u64,
    /// Of a hundred puts so many store a value that expires.
    pub expiring_percent: u64,
    /// Of a hundred writes that stand-ins may take so many ask for copies of primaries as well.
    pub primaries_percent: u64,
    /// Whether clocks are wrong at starts of machines and never else.
    pub starts_wrong: bool,
}

/// How fast a run goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tempo {
    /// Trouble begins within so many microseconds.
    pub faults_until_us: u64,
    /// Longest pause between two troubles, in microseconds, of which a run has one.
    pub fault_pauses_us: Range<u64>,
    /// For so many microseconds nothing happens in the middle.
    pub lull_us: u64,
}

impl Default for Tempo {
    fn default() -> Self {
        Self { faults_until_us: 20_000_000, fault_pauses_us: 1_000_000..8_000_000, lull_us: 0 }
    }
}

impl Tempo {
    /// The tempo of runs that have much in little time.
    #[must_use]
    pub fn quick() -> Self {
        Self { faults_until_us: 7_000_000, fault_pauses_us: 300_000..2_500_000, lull_us: 0 }
    }

    /// The half of the time in which trouble begins, after which a lull begins.
    #[must_use]
    pub const fn middle_us(&self) -> u64 {
        self.faults_until_us / 2
    }
}

/// Longest pauses between requests in runs that have much in little time, in microseconds.
const QUICK_PAUSES_US: [u64; 3] = [40_000, 120_000, 250_000];

/// Seconds after which values expire: some during the run, some when it is over.
pub const LIVES_SECS: Range<u64> = 1..16;

/// Of a hundred requests so many are listings; what is neither this nor a put nor a delete is a read.
const LIST_PERCENT: u64 = 6;

/// The next step of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Read a key.
    Get,
    /// Write a key.
    Put,
    /// Delete what it has seen under a key.
    Delete,
    /// Delete whatever there is under a key.
    DeleteUnseen,
    /// List keys, buckets and index entries.
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
            starts_wrong: false,
        }
    }
}

impl Workload {
    /// The work of a seed's clients.
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
            starts_wrong: false,
        }
    }

    /// The same with keys that are mostly left as they are: what moves is nowhere written again.
    #[must_use]
    pub const fn wide(self) -> Self {
        Self { key_count: 60, ..self }
    }

    /// The same with many deletes.
    #[must_use]
    pub const fn deleting(self) -> Self {
        Self { key_count: 24, put_percent: 40, delete_percent: 30, ..self }
    }

    /// The same with so many requests in little time.
    #[must_use]
    pub fn quick(self, random: &mut Random) -> Self {
        Self { pause_us_max: *random.pick(&QUICK_PAUSES_US), ..self }
    }

    /// Draws the next step of a client.
    pub fn step(&self, random: &mut Random) -> Step {
        let unseen_percent = self.delete_percent.div_ceil(5);
        let shares = [
            (Step::Put, self.put_percent),
            (Step::Delete, self.delete_percent - unseen_percent),
            (Step::DeleteUnseen, unseen_percent),
            (Step::List, LIST_PERCENT),
        ];
        let get_percent = 100 - shares.iter().map(|(_, percent)| percent).sum::<u64>();
        let mut chance = random.below(100);
        for (step, percent) in [(Step::Get, get_percent)].into_iter().chain(shares) {
            if chance < percent {
                return step;
            }
            chance -= percent;
        }
        Step::Get
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
            let steps: Vec<Step> = (0..10_000).map(|_| workload.step(&mut random)).collect();
            let share = |step| steps.iter().filter(|other| **other == step).count() as u64 / 100;
            assert!(share(Step::Put).abs_diff(workload.put_percent) < 3, "{workload:?}");
            let deletes = share(Step::Delete) + share(Step::DeleteUnseen);
            assert!(deletes.abs_diff(workload.delete_percent) < 3, "{workload:?}");
            assert!(share(Step::List) >= 3 && share(Step::Get) >= 20, "{workload:?}");
        }
    }
}

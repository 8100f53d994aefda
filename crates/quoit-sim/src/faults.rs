//! What goes wrong in a run, and when: all of it is decided by the seed before the run begins.

use crate::random::Random;

/// Something that goes wrong, or is mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed; what it has written stays.
    Kill(usize),
    /// The machine loses its power; what was not synced is lost, in whole or in part.
    PowerLoss(usize),
    /// The process is started again.
    Start(usize),
    /// The wall clock jumps: from now on it shows so many microseconds too much.
    Clock(usize, i64),
    /// Each piece of the disk's background work takes up to so many microseconds from now on.
    SlowDisk(usize, u64),
    /// The disk has room for so many more bytes from now on; `None` = for all.
    DiskRoom(usize, Option<u64>),
    /// Of so many reads one has to wait for the disk from now on; 0 = none.
    ColdReads(usize, u64),
}

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When, in simulated microseconds.
    pub at_us: u64,
    /// What.
    pub fault: Fault,
}

/// Kinds of trouble that a run may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Process,
    Power,
    Clock,
    SlowDisk,
    FullDisk,
    ColdReads,
}

const TROUBLES: [Trouble; 6] = [
    Trouble::Process,
    Trouble::Power,
    Trouble::Clock,
    Trouble::SlowDisk,
    Trouble::FullDisk,
    Trouble::ColdReads,
];

/// One hour, in microseconds: the most that a clock is wrong by.
const HOUR_US: u64 = 3_600_000_000;

/// Decides what goes wrong in a run of so many machines, in its first `until_us` microseconds, in order of
/// time. A run has some kinds of trouble and not others: a bug that one kind hides shows in another run.
#[must_use]
pub fn plan(random: &mut Random, machine_count: usize, until_us: u64) -> Vec<Planned> {
    let troubles: Vec<Trouble> = TROUBLES.into_iter().filter(|_| random.percent(50)).collect();
    let mut planned = Vec::new();
    if troubles.is_empty() {
        return planned;
    }
    let pause_us_max = random.within(1_000_000..8_000_000);
    let mut at_us = random.below(pause_us_max);
    while at_us < until_us {
        let machine = random.below(machine_count as u64) as usize;
        let end_us = at_us + random.within(100_000..4_000_000);
        let trouble = *random.pick(&troubles);
        let (begin, end) = pair(random, trouble, machine);
        planned.push(Planned { at_us, fault: begin });
        planned.extend(end.map(|fault| Planned { at_us: end_us, fault }));
        at_us += random.below(pause_us_max);
    }
    planned.sort_by_key(|planned| planned.at_us);
    planned
}

/// A fault and what mends it.
fn pair(random: &mut Random, trouble: Trouble, machine: usize) -> (Fault, Option<Fault>) {
    match trouble {
        Trouble::Process => (Fault::Kill(machine), Some(Fault::Start(machine))),
        Trouble::Power => (Fault::PowerLoss(machine), Some(Fault::Start(machine))),
        Trouble::Clock => {
            let most_us = *random.pick(&[300_000, 5_000_000, HOUR_US]);
            let skew_us = random.below(2 * most_us).cast_signed() - most_us.cast_signed();
            (Fault::Clock(machine, skew_us), None)
        }
        Trouble::SlowDisk => {
            let delay_us = *random.pick(&[20_000, 300_000, 3_000_000]);
            (Fault::SlowDisk(machine, delay_us), Some(Fault::SlowDisk(machine, 0)))
        }
        Trouble::FullDisk => {
            let room_bytes = random.below(20_000);
            (Fault::DiskRoom(machine, Some(room_bytes)), Some(Fault::DiskRoom(machine, None)))
        }
        Trouble::ColdReads => {
            (Fault::ColdReads(machine, random.within(1..4)), Some(Fault::ColdReads(machine, 0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_follow_from_the_seed_and_what_stops_is_started() {
        for seed in 0..200 {
            let plan = || plan(&mut Random::new(seed, "faults", 0), 3, 30_000_000);
            let planned = plan();
            assert_eq!(planned, plan());
            assert!(planned.is_sorted_by_key(|planned| planned.at_us));
            for machine in 0..3 {
                let last = planned.iter().rev().find(|planned| {
                    let stops = [Fault::Kill(machine), Fault::PowerLoss(machine)];
                    stops.contains(&planned.fault) || planned.fault == Fault::Start(machine)
                });
                assert!(last.is_none_or(|last| last.fault == Fault::Start(machine)), "{seed}");
            }
        }
    }
}

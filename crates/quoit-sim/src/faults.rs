//! What goes wrong in a run, and when: all of it is decided by the seed before the run begins.

use crate::random::Random;

/// Something that goes wrong, or is mended. Machines are told by their places, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed; what it has written stays.
    Kill(usize),
    /// The machine falls silent without its power; what was not synced is lost, in whole or in part.
    PowerLoss(usize),
    /// The process is started again.
    Start(usize),
    /// The process does not get to run any more; or it does again.
    Stall(usize, bool),
    /// What the first machine sends the second is held back; or it goes on.
    Cut(usize, usize, bool),
    /// Messages take up to so many microseconds from now on.
    Latency(u64),
    /// The wall clock jumps: from now on it shows so many microseconds too much.
    Clock(usize, i64),
    /// Each piece of the disk's background work takes up to so many microseconds from now on.
    SlowDisk(usize, u64),
    /// The disk has room for so many more bytes from now on; `None` = for all.
    DiskRoom(usize, Option<u64>),
    /// Of so many reads one has to wait for the disk from now on; 0 = none.
    ColdReads(usize, u64),
    /// The process is ended, and started again as that of the newest program.
    Upgrade(usize),
    /// A bit of what clients have stored flips: which one, follows from the number.
    Rot(usize, u64),
}

impl Fault {
    /// The machine that it concerns, of those that concern one.
    #[must_use]
    pub const fn machine(self) -> Option<usize> {
        match self {
            Self::Kill(place)
            | Self::PowerLoss(place)
            | Self::Start(place)
            | Self::Stall(place, _)
            | Self::Clock(place, _)
            | Self::SlowDisk(place, _)
            | Self::DiskRoom(place, _)
            | Self::ColdReads(place, _)
            | Self::Upgrade(place)
            | Self::Rot(place, _) => Some(place),
            Self::Cut(..) | Self::Latency(_) => None,
        }
    }
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
    Stall,
    Partition,
    OneWay,
    SlowNetwork,
    Clock,
    SlowDisk,
    FullDisk,
    ColdReads,
    Rot,
}

impl Trouble {
    const ALL: [Self; 11] = [
        Self::Process,
        Self::Power,
        Self::Stall,
        Self::Partition,
        Self::OneWay,
        Self::SlowNetwork,
        Self::Clock,
        Self::SlowDisk,
        Self::FullDisk,
        Self::ColdReads,
        Self::Rot,
    ];

    /// Machines that it takes at least: what one machine alone has lost is nowhere else.
    const fn machines_needed(self) -> usize {
        match self {
            Self::Partition | Self::OneWay | Self::SlowNetwork => 2,
            Self::Rot => 3,
            _ => 1,
        }
    }
}

/// One hour, in microseconds: the most that a clock is wrong by.
const HOUR_US: u64 = 3_600_000_000;

/// Messages take up to so many microseconds where nothing is wrong.
pub const LATENCY_US: u64 = 10_000;

/// Decides what goes wrong in a run of so many machines, in its first `until_us` microseconds, in order
/// of time; rot of disks only if that is asked for. A run has some kinds of trouble and not others: a
/// bug that one kind hides shows in another run.
#[must_use]
pub fn plan(
    random: &mut Random,
    machine_count: usize,
    with_rot: bool,
    until_us: u64,
) -> Vec<Planned> {
    let possible = Trouble::ALL.into_iter().filter(|kind| {
        kind.machines_needed() <= machine_count && (with_rot || *kind != Trouble::Rot)
    });
    let troubles: Vec<Trouble> = possible.filter(|_| random.percent(35)).collect();
    let mut planner = Planner { random, machine_count, rotten: None, planned: Vec::new() };
    if troubles.is_empty() {
        return planner.planned;
    }
    planner.rotten = Some(planner.machine());
    let pause_us_max = planner.random.within(1_000_000..8_000_000);
    let mut at_us = planner.random.below(pause_us_max);
    while at_us < until_us {
        let end_us = at_us + planner.random.within(100_000..5_000_000);
        let trouble = *planner.random.pick(&troubles);
        planner.add(trouble, at_us, end_us);
        at_us += planner.random.below(pause_us_max);
    }
    planner.planned.sort_by_key(|planned| planned.at_us);
    planner.planned
}

struct Planner<'r> {
    random: &'r mut Random,
    machine_count: usize,
    /// The only machine whose disk rots: elsewhere its data has to be good.
    rotten: Option<usize>,
    planned: Vec<Planned>,
}

impl Planner<'_> {
    fn machine(&mut self) -> usize {
        self.random.below(self.machine_count as u64) as usize
    }

    fn other_than(&mut self, machine: usize) -> usize {
        let step = self.random.within(1..self.machine_count as u64) as usize;
        (machine + step) % self.machine_count
    }

    fn add(&mut self, trouble: Trouble, at_us: u64, end_us: u64) {
        let machine = self.machine();
        let (begin, end) = match trouble {
            Trouble::Process => (Fault::Kill(machine), Some(Fault::Start(machine))),
            Trouble::Power => (Fault::PowerLoss(machine), Some(Fault::Start(machine))),
            Trouble::Stall => (Fault::Stall(machine, true), Some(Fault::Stall(machine, false))),
            Trouble::Partition => return self.add_partition(machine, at_us, end_us),
            Trouble::OneWay => {
                let other = self.other_than(machine);
                (Fault::Cut(machine, other, true), Some(Fault::Cut(machine, other, false)))
            }
            Trouble::SlowNetwork => {
                let latency_us = *self.random.pick(&[100_000, 500_000, 2_000_000]);
                (Fault::Latency(latency_us), Some(Fault::Latency(LATENCY_US)))
            }
            Trouble::Clock => {
                let most_us = *self.random.pick(&[300_000, 5_000_000, HOUR_US]);
                let skew_us = self.random.below(2 * most_us).cast_signed();
                (Fault::Clock(machine, skew_us - most_us.cast_signed()), None)
            }
            Trouble::SlowDisk => {
                let delay_us = *self.random.pick(&[20_000, 300_000, 3_000_000]);
                (Fault::SlowDisk(machine, delay_us), Some(Fault::SlowDisk(machine, 0)))
            }
            Trouble::FullDisk => {
                let room_bytes = self.random.below(20_000);
                (Fault::DiskRoom(machine, Some(room_bytes)), Some(Fault::DiskRoom(machine, None)))
            }
            Trouble::ColdReads => {
                let one_in = self.random.within(1..4);
                (Fault::ColdReads(machine, one_in), Some(Fault::ColdReads(machine, 0)))
            }
            Trouble::Rot => {
                (Fault::Rot(self.rotten.unwrap_or(machine), self.random.number()), None)
            }
        };
        self.planned.push(Planned { at_us, fault: begin });
        self.planned.extend(end.map(|fault| Planned { at_us: end_us, fault }));
    }

    /// Cuts one machine off, or two halves of the cluster apart.
    fn add_partition(&mut self, machine: usize, at_us: u64, end_us: u64) {
        let mut is_here: Vec<bool> =
            (0..self.machine_count).map(|other| other == machine).collect();
        if self.random.percent(40) {
            is_here.iter_mut().for_each(|here| *here |= self.random.percent(40));
        }
        for from in 0..self.machine_count {
            for to in 0..self.machine_count {
                if is_here[from] != is_here[to] {
                    let cut =
                        |at_us, is_cut| Planned { at_us, fault: Fault::Cut(from, to, is_cut) };
                    self.planned.extend([cut(at_us, true), cut(end_us, false)]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_follow_from_the_seed_and_what_stops_is_started() {
        for seed in 0..200 {
            let plan = || plan(&mut Random::new(seed, "faults", 0), 3, true, 30_000_000);
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

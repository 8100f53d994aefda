//! Faults of a run, and their times: all of it is decided by the seed before the run begins.

use crate::family::Family;
use crate::random::Random;
use crate::workload::Tempo;
use std::ops::Range;

/// Something that goes wrong, or is mended. Machines are told by their places, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineFault {
    /// The process is killed; what it has written stays.
    Kill(usize),
    /// The machine falls silent without its power; what was not synced is lost, in whole or in part.
    PowerLoss(usize),
    /// The process is started again.
    Start(usize),
    /// The process does not get to run any more; or it does again.
    Stall(usize, bool),
    /// Holds back the messages of the first machine to the second; or releases them.
    Cut(usize, usize, bool),
    /// Messages take up to so many microseconds from now on.
    Latency(u64),
    /// The wall clock jumps: from now on it shows so many microseconds too much.
    Clock(usize, i64),
    /// Each piece of the disk's background work takes up to so many microseconds from now on.
    SlowDisk(usize, u64),
    /// The disk begins no more background work, syncs among it; or it goes on.
    HangDisk(usize, bool),
    /// The process is told to stop, and does so in good order; [`MachineFault::Start`] starts it again.
    Stop(usize),
    /// Segments of the log are lost while the machine is off: which ones, follows from the number.
    LoseFiles(usize, u64),
    /// The operator copies the data directory.
    CopyData(usize),
    /// The last copy is put in the place of what clients have stored, while the machine is off.
    RestoreData(usize),
    /// The disk has room for so many more bytes from now on; `None` = for all.
    DiskRoom(usize, Option<u64>),
    /// Of so many reads one has to wait for the disk from now on; 0 = none.
    ColdReads(usize, u64),
    /// The process is ended, and started again as that of the newest program.
    Upgrade(usize),
    /// A bit of what clients have stored flips: which one, follows from the number.
    Rot(usize, u64),
}

impl MachineFault {
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
            | Self::HangDisk(place, _)
            | Self::Stop(place)
            | Self::LoseFiles(place, _)
            | Self::CopyData(place)
            | Self::RestoreData(place)
            | Self::DiskRoom(place, _)
            | Self::ColdReads(place, _)
            | Self::Upgrade(place)
            | Self::Rot(place, _) => Some(place),
            Self::Cut(..) | Self::Latency(_) => None,
        }
    }

    /// Whether nodes keep what they know of each other's absence, and agree on the time.
    #[must_use]
    pub const fn keeps_what_is_known(self) -> bool {
        matches!(
            self,
            Self::Start(_)
                | Self::Stop(_)
                | Self::Stall(..)
                | Self::Cut(..)
                | Self::Latency(_)
                | Self::SlowDisk(..)
                | Self::HangDisk(..)
                | Self::ColdReads(..)
        )
    }
}

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When, in simulated microseconds.
    pub at_us: u64,
    /// The fault.
    pub fault: MachineFault,
}

/// Kinds of trouble that a run may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
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
    HungDisk,
    CleanStop,
    LongCut,
    Blackout,
    LongStop,
    WrongStart,
}

impl Trouble {
    /// Kinds that runs have had from the beginning.
    const FORMER: [Self; 11] = [
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

    /// Kinds that came later, decided by a stream of its own: seeds tell the same story without it.
    const LATER: [Self; 3] = [Self::HungDisk, Self::CleanStop, Self::Blackout];

    /// Machines that it takes at least: what one machine alone has lost is nowhere else.
    const fn machines_needed(self) -> usize {
        match self {
            Self::Partition | Self::OneWay | Self::SlowNetwork | Self::LongCut => 2,
            Self::Rot => 3,
            _ => 1,
        }
    }
}

/// One hour, in microseconds: the most that a clock is wrong by.
const HOUR_US: u64 = 3_600_000_000;

/// Messages take up to so many microseconds where nothing is wrong.
pub const LATENCY_US: u64 = 10_000;

/// How long a disk hangs, in microseconds: on both sides of the delay of reaping, of timeouts between nodes
/// and of a node's patience with others.
const HANGS_US: Range<u64> = 20_000..60_000_000;
/// How long a machine is switched off that lost its power, or was stopped, in microseconds.
const OFF_US: Range<u64> = 10_000..5_000_000;
/// How long another machine has been away when one loses files, and how long it takes longer to come back, in
/// microseconds.
const AWAY_BEFORE_US: Range<u64> = 500_000..4_000_000;
const BACK_AFTER_US: Range<u64> = 1_000..1_000_000;
/// How long the network is cut where rights change, in microseconds: longer than a change may take to count.
const LONG_CUTS_US: Range<u64> = 12_000_000..20_000_000;
/// How long a node is stopped that misses writes meanwhile, in microseconds.
const LONG_STOPS_US: Range<u64> = 1_000_000..6_000_000;
/// By then a process that was told to stop has done so, in microseconds.
const STOPPED_US: u64 = 3_500_000;
/// How old a copy of the data is when it is restored, in microseconds.
const COPY_AGES_US: Range<u64> = 1_000_000..10_000_000;
/// For so long before a blackout disks are slow, in microseconds.
const SLOW_BEFORE_US: Range<u64> = 50_000..2_000_000;
/// Of a hundred runs so many have a kind of trouble that came later.
const LATER_PERCENT: u64 = 20;

/// Decides what goes wrong in a run of so many machines, in order of time; rot of disks only if that is asked
/// for. A run has some kinds of trouble and not others: a bug that one kind hides shows in another run.
#[must_use]
pub fn plan(
    random: &mut Random,
    machine_count: usize,
    with_rot: bool,
    tempo: &Tempo,
) -> Vec<Planned> {
    let until_us = tempo.faults_until_us;
    let possible = Trouble::FORMER.into_iter().filter(|kind| {
        kind.machines_needed() <= machine_count && (with_rot || *kind != Trouble::Rot)
    });
    let troubles: Vec<Trouble> = possible.filter(|_| random.percent(35)).collect();
    let mut planner = Planner { random, machine_count, rotten: None, planned: Vec::new() };
    if troubles.is_empty() {
        return planner.planned;
    }
    planner.rotten = Some(planner.machine());
    let pause_us_max = planner.random.within(tempo.fault_pauses_us.clone());
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

/// Decides what else goes wrong, of the kinds that came later and those that a family asks for.
#[must_use]
pub fn plan_later(
    random: &mut Random,
    machine_count: usize,
    family: Option<Family>,
    tempo: &Tempo,
) -> Vec<Planned> {
    let until_us = tempo.faults_until_us;
    let wanted = family.map_or(&[][..], Family::troubles);
    let mut troubles = wanted.to_vec();
    for kind in Trouble::LATER {
        let is_drawn = random.percent(LATER_PERCENT);
        if is_drawn && !wanted.contains(&kind) && is_possible(kind, family) {
            troubles.push(kind);
        }
    }
    let mut planner = Planner { random, machine_count, rotten: None, planned: Vec::new() };
    planner.add_losses(family, until_us);
    if tempo.lull_us > 0 {
        planner.add_absence(tempo);
    }
    if troubles.is_empty() {
        planner.planned.sort_by_key(|planned| planned.at_us);
        return planner.planned;
    }
    // Two disks that forget may forget what two of three replicas had promised.
    let rotten = planner.rotten.unwrap_or_else(|| planner.machine());
    planner.rotten = Some(rotten);
    let pause_us_max = planner.random.within(tempo.fault_pauses_us.clone());
    let mut at_us = planner.random.below(pause_us_max);
    while at_us < until_us {
        match *planner.random.pick(&troubles) {
            Trouble::HungDisk => planner.add_hang(at_us),
            Trouble::CleanStop => planner.add_clean_stop(at_us),
            Trouble::LongCut => {
                let machine = planner.machine();
                let other = planner.other_than(machine);
                let end_us = at_us + planner.random.within(LONG_CUTS_US);
                planner.cut_apart(at_us, end_us, |place| place == machine || place == other);
            }
            Trouble::Blackout => planner.add_blackout(at_us),
            Trouble::LongStop => {
                let place = planner.machine();
                planner.put(at_us, MachineFault::Stop(place));
                let start_us = at_us + planner.random.within(LONG_STOPS_US);
                planner.put(start_us, MachineFault::Start(place));
            }
            Trouble::WrongStart => planner.add_wrong_start(at_us),
            trouble => {
                let end_us = at_us + planner.random.within_by_magnitude(OFF_US);
                planner.add(trouble, at_us, end_us);
            }
        }
        at_us += planner.random.below(pause_us_max);
    }
    planner.planned.sort_by_key(|planned| planned.at_us);
    planner.planned
}

/// Whether runs of a family may have a kind of trouble by chance.
fn is_possible(kind: Trouble, family: Option<Family>) -> bool {
    match family {
        // Nodes that are all away at once can't tell one another the time.
        Some(Family::WrongStarts) => false,
        // A comparison of clusters asks one replica of each, and after a blackout many replicas lack
        // something: what anti-entropy brings them later is queued for no other cluster.
        Some(Family::Clusters) => kind != Trouble::Blackout,
        _ => true,
    }
}

struct Planner<'r> {
    random: &'r mut Random,
    machine_count: usize,
    /// The only machine whose disk rots or forgets: elsewhere its data has to be good.
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
            Trouble::Process => (MachineFault::Kill(machine), Some(MachineFault::Start(machine))),
            Trouble::Power => {
                (MachineFault::PowerLoss(machine), Some(MachineFault::Start(machine)))
            }
            Trouble::Stall => {
                (MachineFault::Stall(machine, true), Some(MachineFault::Stall(machine, false)))
            }
            Trouble::Partition => return self.add_partition(machine, at_us, end_us),
            Trouble::OneWay => {
                let other = self.other_than(machine);
                (
                    MachineFault::Cut(machine, other, true),
                    Some(MachineFault::Cut(machine, other, false)),
                )
            }
            Trouble::SlowNetwork => {
                let latency_us = *self.random.pick(&[100_000, 500_000, 2_000_000]);
                (MachineFault::Latency(latency_us), Some(MachineFault::Latency(LATENCY_US)))
            }
            Trouble::Clock => {
                let most_us = *self.random.pick(&[300_000, 5_000_000, HOUR_US]);
                let skew_us = self.random.below(2 * most_us).cast_signed();
                (MachineFault::Clock(machine, skew_us - most_us.cast_signed()), None)
            }
            Trouble::SlowDisk => {
                let delay_us = *self.random.pick(&[20_000, 300_000, 3_000_000]);
                (
                    MachineFault::SlowDisk(machine, delay_us),
                    Some(MachineFault::SlowDisk(machine, 0)),
                )
            }
            Trouble::FullDisk => {
                let room_bytes = self.random.below(20_000);
                (
                    MachineFault::DiskRoom(machine, Some(room_bytes)),
                    Some(MachineFault::DiskRoom(machine, None)),
                )
            }
            Trouble::ColdReads => {
                let one_in = self.random.within(1..4);
                (
                    MachineFault::ColdReads(machine, one_in),
                    Some(MachineFault::ColdReads(machine, 0)),
                )
            }
            Trouble::Rot => {
                (MachineFault::Rot(self.rotten.unwrap_or(machine), self.random.number()), None)
            }
            Trouble::HungDisk => return self.add_hang(at_us),
            Trouble::CleanStop => return self.add_clean_stop(at_us),
            Trouble::LongCut | Trouble::Blackout | Trouble::LongStop | Trouble::WrongStart => {
                return;
            }
        };
        self.planned.push(Planned { at_us, fault: begin });
        self.planned.extend(end.map(|fault| Planned { at_us: end_us, fault }));
    }

    /// Lets a disk hang. Often the machine loses its power before the disk goes on.
    fn add_hang(&mut self, at_us: u64) {
        let machine = self.machine();
        let length_us = self.random.within_by_magnitude(HANGS_US);
        let end_us = at_us + length_us;
        self.put(at_us, MachineFault::HangDisk(machine, true));
        match self.random.below(10) {
            0..4 => self.put(end_us, MachineFault::HangDisk(machine, false)),
            ending => {
                let stop = match ending {
                    4..8 => MachineFault::PowerLoss(machine),
                    _ => MachineFault::Kill(machine),
                };
                let stop_us = at_us + self.random.below(length_us);
                self.put(stop_us, stop);
                let start_us = stop_us + self.random.within_by_magnitude(OFF_US);
                self.put(start_us, MachineFault::Start(machine));
            }
        }
    }

    /// Stops one machine in good order, or one after the other, as operators do for an upgrade.
    fn add_clean_stop(&mut self, at_us: u64) {
        let machine = self.machine();
        let count = if self.random.percent(30) { self.machine_count } else { 1 };
        let mut at_us = at_us;
        for step in 0..count {
            let place = (machine + step) % self.machine_count;
            self.put(at_us, MachineFault::Stop(place));
            at_us += self.random.within_by_magnitude(OFF_US);
            self.put(at_us, MachineFault::Start(place));
        }
    }

    /// Starts a machine with a clock that is an hour ahead, and starts it again later with the right time.
    /// It is always the same one: two such machines have the same time.
    fn add_wrong_start(&mut self, at_us: u64) {
        let place = self.rotten.unwrap_or_default();
        self.put(at_us, MachineFault::Kill(place));
        self.put(at_us + 1, MachineFault::Clock(place, HOUR_US.cast_signed()));
        let start_us = at_us + self.random.within_by_magnitude(OFF_US);
        self.put(start_us, MachineFault::Start(place));
    }

    /// Lets a node be away for as long as a lull, after it was there for writes that are deleted without it.
    fn add_absence(&mut self, tempo: &Tempo) {
        let place = self.machine();
        let at_us = tempo.middle_us().saturating_sub(self.random.within(500_000..4_000_000));
        let is_clean = self.random.percent(50);
        let stop = if is_clean { MachineFault::Stop(place) } else { MachineFault::Kill(place) };
        self.put(at_us, stop);
        let start_us = tempo.middle_us() + self.random.below(tempo.middle_us());
        self.put(start_us, MachineFault::Start(place));
    }

    /// Lets one machine lose files of its log, or an older copy of its data come back, once or twice: when
    /// clients have deleted, and nodes have reaped.
    fn add_losses(&mut self, family: Option<Family>, until_us: u64) {
        if !matches!(family, Some(Family::LostFiles | Family::OlderData)) {
            return;
        }
        self.rotten = Some(self.machine());
        let mut at_us = self.random.within(until_us / 4..until_us);
        for _ in 0..self.random.within(1..3) {
            if family == Some(Family::LostFiles) {
                let number = self.random.number();
                let lose = |place| MachineFault::LoseFiles(place, number);
                let (place, start_us) = self.add_loss(at_us, lose);
                if self.random.percent(60) {
                    self.add_absence_before(at_us, start_us, place);
                }
            } else {
                let age_us = self.random.within(COPY_AGES_US).min(at_us);
                let (place, _) = self.add_loss(at_us, MachineFault::RestoreData);
                self.put(at_us - age_us, MachineFault::CopyData(place));
            }
            at_us += self.random.within(until_us / 4..until_us / 2);
        }
    }

    /// Takes the power from all machines at once, often while their disks are slow. They come back one after
    /// the other.
    fn add_blackout(&mut self, at_us: u64) {
        let is_slow = self.random.percent(60);
        for place in 0..self.machine_count {
            if is_slow {
                let slow_us = at_us.saturating_sub(self.random.within(SLOW_BEFORE_US));
                self.put(slow_us, MachineFault::SlowDisk(place, 3_000_000));
                self.put(at_us, MachineFault::SlowDisk(place, 0));
            }
            self.put(at_us, MachineFault::PowerLoss(place));
            let start_us = at_us + self.random.within_by_magnitude(OFF_US);
            self.put(start_us, MachineFault::Start(place));
        }
    }

    /// Lets another machine miss what the one has taken that is about to forget it, and come back at about
    /// the same time: of three copies one is left.
    fn add_absence_before(&mut self, loss_us: u64, start_us: u64, forgetful: usize) {
        let place = self.other_than(forgetful);
        let away_us = loss_us.saturating_sub(self.random.within(AWAY_BEFORE_US));
        self.put(away_us, MachineFault::Kill(place));
        let back_us = start_us.max(away_us) + self.random.within_by_magnitude(BACK_AFTER_US);
        self.put(back_us, MachineFault::Start(place));
    }

    /// Takes something from the disk of the machine that may forget, while it is off. Says which one it is,
    /// and when it is started again.
    fn add_loss(&mut self, at_us: u64, loss: impl FnOnce(usize) -> MachineFault) -> (usize, u64) {
        let place = self.rotten.unwrap_or_default();
        let (stop, loss_us) = match self.random.below(3) {
            0 => (MachineFault::Kill(place), at_us + 1),
            1 => (MachineFault::PowerLoss(place), at_us + 1),
            _ => (MachineFault::Stop(place), at_us + STOPPED_US),
        };
        self.put(at_us, stop);
        self.put(loss_us, loss(place));
        let start_us = loss_us + self.random.within_by_magnitude(OFF_US);
        self.put(start_us, MachineFault::Start(place));
        (place, start_us)
    }

    fn put(&mut self, at_us: u64, fault: MachineFault) {
        self.planned.push(Planned { at_us, fault });
    }

    /// Cuts one machine off, or two halves of the cluster apart.
    fn add_partition(&mut self, machine: usize, at_us: u64, end_us: u64) {
        let mut is_here: Vec<bool> =
            (0..self.machine_count).map(|other| other == machine).collect();
        if self.random.percent(40) {
            is_here.iter_mut().for_each(|here| *here |= self.random.percent(40));
        }
        self.cut_apart(at_us, end_us, |place| is_here[place]);
    }

    /// Cuts the machines of one side off from the others.
    fn cut_apart(&mut self, at_us: u64, end_us: u64, is_here: impl Fn(usize) -> bool) {
        for from in 0..self.machine_count {
            for to in 0..self.machine_count {
                if is_here(from) != is_here(to) {
                    let cut = |at_us, is_cut| Planned {
                        at_us,
                        fault: MachineFault::Cut(from, to, is_cut),
                    };
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
            let plan = || {
                let mut random = Random::new(seed, "faults", 0);
                let mut planned = plan(&mut random, 3, true, &Tempo::default());
                let family = Family::ALL[seed as usize % Family::ALL.len()];
                planned.extend(plan_later(&mut random, 3, Some(family), &Tempo::default()));
                planned.sort_by_key(|planned| planned.at_us);
                planned
            };
            let planned = plan();
            assert_eq!(planned, plan());
            assert!(planned.is_sorted_by_key(|planned| planned.at_us));
            for machine in 0..3 {
                let last = planned.iter().rev().find(|planned| {
                    let stops = [
                        MachineFault::Kill(machine),
                        MachineFault::PowerLoss(machine),
                        MachineFault::Stop(machine),
                    ];
                    stops.contains(&planned.fault) || planned.fault == MachineFault::Start(machine)
                });
                assert!(
                    last.is_none_or(|last| last.fault == MachineFault::Start(machine)),
                    "{seed}"
                );
            }
        }
    }
}

//! Kinds of trouble, as faults of machines at their times.

use super::{LATENCY_US, MachineFault, Planned};
use crate::family::Family;
use crate::random::Random;
use crate::trouble::Trouble;
use crate::workload::Tempo;
use std::ops::Range;

/// One hour, in microseconds: the most that a clock is wrong by.
const HOUR_US: u64 = 3_600_000_000;
/// How long a disk hangs, in microseconds: on both sides of the delay of reaping, of timeouts between nodes
/// and of a node's patience with others.
const HANGS_US: Range<u64> = 20_000..60_000_000;
/// How long a machine is switched off that lost its power, or was stopped, in microseconds.
pub(super) const OFF_US: Range<u64> = 10_000..5_000_000;
/// How long another machine has been away when one loses files, and how long it takes longer to come back, in
/// microseconds.
const AWAY_BEFORE_US: Range<u64> = 500_000..4_000_000;
const BACK_AFTER_US: Range<u64> = 1_000..1_000_000;
/// How long the network is cut where rights change, in microseconds: longer than a change may take to count.
pub(super) const LONG_CUTS_US: Range<u64> = 12_000_000..20_000_000;
/// How long a node is stopped that misses writes meanwhile, in microseconds.
pub(super) const LONG_STOPS_US: Range<u64> = 1_000_000..6_000_000;
/// By then a process that was told to stop has done so, in microseconds.
const STOPPED_US: u64 = 3_500_000;
/// How old a copy of the data is when it is restored, in microseconds.
const COPY_AGES_US: Range<u64> = 1_000_000..10_000_000;
/// For so long before a blackout disks are slow, in microseconds.
const SLOW_BEFORE_US: Range<u64> = 50_000..2_000_000;
/// Plans what goes wrong, trouble after trouble.
pub(super) struct Planner<'r> {
    pub(super) random: &'r mut Random,
    pub(super) machine_count: usize,
    /// The only machine whose disk rots or forgets: elsewhere its data has to be good.
    pub(super) rotten: Option<usize>,
    pub(super) planned: Vec<Planned>,
}

impl Planner<'_> {
    pub(super) fn machine(&mut self) -> usize {
        self.random.below(self.machine_count as u64) as usize
    }

    pub(super) fn other_than(&mut self, machine: usize) -> usize {
        let step = self.random.within(1..self.machine_count as u64) as usize;
        (machine + step) % self.machine_count
    }

    pub(super) fn add(&mut self, trouble: Trouble, at_us: u64, end_us: u64) {
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
    pub(super) fn add_hang(&mut self, at_us: u64) {
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
    pub(super) fn add_clean_stop(&mut self, at_us: u64) {
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
    pub(super) fn add_wrong_start(&mut self, at_us: u64) {
        let place = self.rotten.unwrap_or_default();
        self.put(at_us, MachineFault::Kill(place));
        self.put(at_us + 1, MachineFault::Clock(place, HOUR_US.cast_signed()));
        let start_us = at_us + self.random.within_by_magnitude(OFF_US);
        self.put(start_us, MachineFault::Start(place));
    }

    /// Lets a node be away for as long as a lull, after it was there for writes that are deleted without it.
    pub(super) fn add_absence(&mut self, tempo: &Tempo) {
        let place = self.machine();
        let at_us = tempo.middle_us().saturating_sub(self.random.within(500_000..4_000_000));
        let is_clean = self.random.percent(50);
        let stop = if is_clean { MachineFault::Stop(place) } else { MachineFault::Kill(place) };
        self.put(at_us, stop);
        let start_us = tempo.middle_us() + self.random.below(tempo.middle_us());
        self.put(start_us, MachineFault::Start(place));
    }

    /// Lets a node be away for a moment, in which others take its place. In half of the runs one of these
    /// does not reach it from then on, while all else is well: what it has taken in that place stays with it
    /// as long as the lull lasts.
    pub(super) fn add_split(&mut self, tempo: &Tempo) {
        let (place, quarter_us) = (self.machine(), tempo.middle_us() / 4);
        let other = self.other_than(place);
        let at_us = self.random.within(quarter_us..2 * quarter_us);
        self.put(at_us, MachineFault::Kill(place));
        let start_us = self.random.within(2 * quarter_us..3 * quarter_us);
        self.put(start_us, MachineFault::Start(place));
        if self.random.percent(50) {
            return;
        }
        let end_us = tempo.middle_us() + self.random.below(tempo.middle_us());
        for (from, to) in [(place, other), (other, place)] {
            self.put(at_us, MachineFault::Cut(from, to, true));
            self.put(end_us, MachineFault::Cut(from, to, false));
        }
    }

    /// Lets one machine lose files of its log, or an older copy of its data come back, once or twice: when
    /// clients have deleted, and nodes have reaped.
    pub(super) fn add_losses(&mut self, family: Option<Family>, until_us: u64) {
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
    pub(super) fn add_blackout(&mut self, at_us: u64) {
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

    pub(super) fn put(&mut self, at_us: u64, fault: MachineFault) {
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
    pub(super) fn cut_apart(&mut self, at_us: u64, end_us: u64, is_here: impl Fn(usize) -> bool) {
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

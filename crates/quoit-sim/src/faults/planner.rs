//! Turns kinds of faults into single faults of machines, each at its time.

use super::{LATENCY_US, MachineFault, PlannedFault};
use crate::family::Family;
use crate::fault_kind::FaultKind;
use crate::random::Random;
use crate::workload::Tempo;
use std::ops::Range;

/// One hour, in microseconds: the largest error of a clock.
const HOUR_US: u64 = 3_600_000_000;
/// Range of the times for which a disk hangs, in microseconds: on both sides of the delay of reaping and
/// of the timeouts between nodes.
const HANGS_US: Range<u64> = 20_000..60_000_000;
/// Range of the times for which a machine is off after a kill, a loss of power or a clean shutdown, in
/// microseconds.
pub(super) const OFF_US: Range<u64> = 10_000..5_000_000;
/// Ranges in microseconds, for a second machine that is away when one loses files: how long it has been
/// away by then, and how much later it comes back.
const AWAY_BEFORE_US: Range<u64> = 500_000..4_000_000;
const BACK_AFTER_US: Range<u64> = 1_000..1_000_000;
/// Ranges in microseconds, for a second machine with a hung disk when one loses files: how long it has been
/// hung when that one goes down, and how much later it loses its power.
const HUNG_BEFORE_US: Range<u64> = 1_000_000..8_000_000;
const FORGETS_AFTER_US: Range<u64> = 1_000..500_000;
/// Range of the lengths of cuts where permissions change, in microseconds: longer than a change may take
/// to become effective.
pub(super) const LONG_CUTS_US: Range<u64> = 12_000_000..20_000_000;
/// Range of the times for which a node is shut down so that it misses writes, in microseconds.
pub(super) const LONG_STOPS_US: Range<u64> = 1_000_000..6_000_000;
/// Range of the times for which a process stalls so that its grants run out, in microseconds.
const LONG_STALLS_US: Range<u64> = 1_500_000..4_000_000;
/// Range of the times for which the messages of one machine to another one are held back so that the other
/// one takes it for down, in microseconds.
const LONG_ONE_WAY_US: Range<u64> = 4_000_000..10_000_000;
/// Ranges in microseconds, for a machine that restarts while two others can't reach each other: how long the
/// cut lasts, how long after its beginning the machine goes down, and how long it is off. A coordinator waits
/// for a primary's grant for 1 s, or until it takes the primary for down.
const CUTS_BESIDE_US: Range<u64> = 900_000..2_000_000;
const RESTARTS_AFTER_US: Range<u64> = 20_000..500_000;
const RESTARTS_US: Range<u64> = 10_000..150_000;
/// Time after which a process that was told to stop has surely ended, in microseconds.
const STOPPED_US: u64 = 3_500_000;
/// Range of the ages of a copy of the data when it is restored, in microseconds.
const COPY_AGES_US: Range<u64> = 1_000_000..10_000_000;
/// Range of the times for which disks are slow before a blackout, in microseconds.
const SLOW_BEFORE_US: Range<u64> = 50_000..2_000_000;
/// Plans the faults of a run.
pub(super) struct Planner<'r> {
    pub(super) random: &'r mut Random,
    pub(super) machine_count: usize,
    /// The only machine whose disk rots or loses data. The data of all others has to stay good.
    pub(super) rotten: Option<usize>,
    pub(super) planned: Vec<PlannedFault>,
}

impl Planner<'_> {
    pub(super) fn machine(&mut self) -> usize {
        self.random.index_below(self.machine_count)
    }

    pub(super) fn other_than(&mut self, machine: usize) -> usize {
        let step = quoit_number::index(self.random.within(1..self.machine_count as u64));
        (machine + step) % self.machine_count
    }

    /// Plans a fault of some machine that lasts from the start of `lasts_us` to its end. Clocks and bits
    /// stay wrong, and hung disks and clean shutdowns have durations of their own.
    pub(super) fn add(&mut self, fault_kind: FaultKind, lasts_us: Range<u64>) {
        let Range { start: at_us, end: end_us } = lasts_us;
        let machine = self.machine();
        let (begin, end) = match fault_kind {
            FaultKind::Process => (MachineFault::Kill(machine), Some(MachineFault::Start(machine))),
            FaultKind::Power => {
                (MachineFault::PowerLoss(machine), Some(MachineFault::Start(machine)))
            }
            FaultKind::Stall => {
                (MachineFault::Stall(machine, true), Some(MachineFault::Stall(machine, false)))
            }
            FaultKind::Partition => return self.add_partition(machine, at_us..end_us),
            FaultKind::OneWay => {
                let other = self.other_than(machine);
                let cut = |is_cut| MachineFault::Cut { from: machine, to: other, is_cut };
                (cut(true), Some(cut(false)))
            }
            FaultKind::SlowNetwork => {
                let latency_us = *self.random.pick(&[100_000, 500_000, 2_000_000]);
                (MachineFault::Latency(latency_us), Some(MachineFault::Latency(LATENCY_US)))
            }
            FaultKind::Clock => {
                let most_us = *self.random.pick(&[300_000, 5_000_000, HOUR_US]);
                let skew_us = self.random.below(2 * most_us).cast_signed();
                (MachineFault::Clock(machine, skew_us - most_us.cast_signed()), None)
            }
            FaultKind::SlowDisk => {
                let delay_us = *self.random.pick(&[20_000, 300_000, 3_000_000]);
                (
                    MachineFault::SlowDisk(machine, delay_us),
                    Some(MachineFault::SlowDisk(machine, 0)),
                )
            }
            FaultKind::FullDisk => {
                let room_bytes = self.random.below(20_000);
                (
                    MachineFault::DiskSpace(machine, Some(room_bytes)),
                    Some(MachineFault::DiskSpace(machine, None)),
                )
            }
            FaultKind::ColdReads => {
                let one_in = self.random.within(1..4);
                (
                    MachineFault::ColdReads(machine, one_in),
                    Some(MachineFault::ColdReads(machine, 0)),
                )
            }
            FaultKind::Rot => {
                (MachineFault::Rot(self.rotten.unwrap_or(machine), self.random.number()), None)
            }
            FaultKind::HungDisk => return self.add_hang(at_us),
            FaultKind::CleanStop => return self.add_clean_stop(at_us),
            FaultKind::LongStall => return self.add_long_stall(machine, at_us),
            FaultKind::LongOneWay => return self.add_long_one_way(machine, at_us),
            // The caller plans these kinds by itself.
            FaultKind::LongCut
            | FaultKind::Blackout
            | FaultKind::LongStop
            | FaultKind::WrongStart => {
                return;
            }
        };
        self.planned.push(PlannedFault { at_us, fault: begin });
        self.planned.extend(end.map(|fault| PlannedFault { at_us: end_us, fault }));
    }

    fn add_long_stall(&mut self, machine: usize, at_us: u64) {
        self.put(at_us, MachineFault::Stall(machine, true));
        let end_us = at_us + self.random.within(LONG_STALLS_US);
        self.put(end_us, MachineFault::Stall(machine, false));
    }

    /// Plans a long cut of the direction from a machine to another one.
    fn add_long_one_way(&mut self, machine: usize, at_us: u64) {
        let other = self.other_than(machine);
        let cut = |is_cut| MachineFault::Cut { from: machine, to: other, is_cut };
        self.put(at_us, cut(true));
        let end_us = at_us + self.random.within(LONG_ONE_WAY_US);
        self.put(end_us, cut(false));
    }

    /// Plans a cut between two machines and, before either takes the other for down, a restart of a third one
    /// that both can reach. What the third one has in memory only is gone while requests of both wait.
    pub(super) fn add_restart_beside_cut(&mut self, at_us: u64) {
        let place = self.machine();
        let one = self.other_than(place);
        let others: Vec<usize> =
            (0..self.machine_count).filter(|of| *of != place && *of != one).collect();
        let other = *self.random.pick(&others);
        let end_us = at_us + self.random.within(CUTS_BESIDE_US);
        for (from, to) in [(one, other), (other, one)] {
            self.put(at_us, MachineFault::Cut { from, to, is_cut: true });
            self.put(end_us, MachineFault::Cut { from, to, is_cut: false });
        }
        let kill_us = at_us + self.random.within(RESTARTS_AFTER_US);
        self.put(kill_us, MachineFault::Kill(place));
        let start_us = kill_us + self.random.within_by_magnitude(RESTARTS_US);
        self.put(start_us, MachineFault::Start(place));
    }

    /// Plans a hung disk. Often the machine loses its power, or its process is killed, before the disk
    /// works again.
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

    /// Plans a clean shutdown of one machine, or of all machines one after the other, as in a rolling
    /// upgrade.
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

    /// Plans a start with a clock that is an hour ahead. The clock stays wrong until all faults are
    /// repaired. It is always the same machine: two machines with the same wrong time would confirm each
    /// other.
    pub(super) fn add_wrong_start(&mut self, at_us: u64) {
        let place = self.rotten.unwrap_or_default();
        self.put(at_us, MachineFault::Kill(place));
        self.put(at_us + 1, MachineFault::Clock(place, HOUR_US.cast_signed()));
        let start_us = at_us + self.random.within_by_magnitude(OFF_US);
        self.put(start_us, MachineFault::Start(place));
    }

    /// Plans the absence of a node through a lull. The node is up before, so that it has values that
    /// clients may delete while it is away.
    pub(super) fn add_absence(&mut self, tempo: &Tempo) {
        let place = self.machine();
        let at_us = tempo.middle_us().saturating_sub(self.random.within(500_000..4_000_000));
        let is_clean = self.random.percent(50);
        let stop = if is_clean { MachineFault::Stop(place) } else { MachineFault::Kill(place) };
        self.put(at_us, stop);
        let start_us = tempo.middle_us() + self.random.below(tempo.middle_us());
        self.put(start_us, MachineFault::Start(place));
    }

    /// Plans a short absence of a node, during which fallbacks take its writes. In most runs one
    /// other node can't reach it from then on, although nothing else is wrong: what that node has
    /// accepted as a fallback stays with it through the lull.
    pub(super) fn add_split(&mut self, tempo: &Tempo) {
        let (place, quarter_us) = (self.machine(), tempo.middle_us() / 4);
        let other = self.other_than(place);
        let at_us = self.random.within(quarter_us..2 * quarter_us);
        self.put(at_us, MachineFault::Kill(place));
        let start_us = self.random.within(2 * quarter_us..3 * quarter_us);
        self.put(start_us, MachineFault::Start(place));
        if self.random.percent(30) {
            return;
        }
        let end_us = tempo.middle_us() + self.random.below(tempo.middle_us());
        for (from, to) in [(place, other), (other, place)] {
            self.put(at_us, MachineFault::Cut { from, to, is_cut: true });
            self.put(end_us, MachineFault::Cut { from, to, is_cut: false });
        }
    }

    /// Plans one or two losses of data on one machine: of files of its log, or by restoring an older
    /// copy. They come when clients have already deleted keys, and nodes have reaped tombstones.
    pub(super) fn add_losses(&mut self, family: Option<Family>, until_us: u64) {
        let loses = [Family::LostFiles, Family::OlderData, Family::LostFilesAndMembers];
        if !family.is_some_and(|family| loses.contains(&family)) {
            return;
        }
        self.rotten = Some(self.machine());
        let mut at_us = self.random.within(until_us / 4..until_us);
        for _ in 0..self.random.within(1..3) {
            if family == Some(Family::LostFilesAndMembers) {
                self.add_file_loss(at_us);
            } else if family == Some(Family::LostFiles) {
                let (place, start_us) = self.add_file_loss(at_us);
                match self.random.below(10) {
                    0..4 => {}
                    4..7 => self.add_absence_before(at_us..start_us, place),
                    _ => self.add_forgetting_beside(at_us..start_us, place),
                }
            } else {
                let age_us = self.random.within(COPY_AGES_US).min(at_us);
                let (place, _) = self.add_loss(at_us, MachineFault::RestoreData);
                self.put(at_us - age_us, MachineFault::CopyData(place));
            }
            at_us += self.random.within(until_us / 4..until_us / 2);
        }
    }

    /// Plans a loss of power of all machines at once, often while their disks are slow. They start again
    /// one after the other.
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

    /// Plans the absence of a second machine before the forgetful machine loses data, which is down for
    /// `off_us`. The second machine misses what the first one is about to lose, and comes back at about the
    /// same time, so that one of three copies is left.
    fn add_absence_before(&mut self, off_us: Range<u64>, forgetful: usize) {
        let Range { start: loss_us, end: start_us } = off_us;
        let place = self.other_than(forgetful);
        let away_us = loss_us.saturating_sub(self.random.within(AWAY_BEFORE_US));
        self.put(away_us, MachineFault::Kill(place));
        let back_us = start_us.max(away_us) + self.random.within_by_magnitude(BACK_AFTER_US);
        self.put(back_us, MachineFault::Start(place));
    }

    /// Plans a loss of files of the machine that may lose data. Returns the machine, and the time of its
    /// next start.
    pub(super) fn add_file_loss(&mut self, at_us: u64) -> (usize, u64) {
        let number = self.random.number();
        self.add_loss(at_us, |place| MachineFault::LoseFiles(place, number))
    }

    /// Plans a hung disk of a second machine before the forgetful machine loses data, which is down for
    /// `off_us`, and a loss of power just after the forgetful machine has gone down. The second machine has
    /// answered writes that it then forgets, and no node has noted that it missed them.
    fn add_forgetting_beside(&mut self, off_us: Range<u64>, forgetful: usize) {
        let Range { start: loss_us, end: start_us } = off_us;
        let place = self.other_than(forgetful);
        let hung_us = loss_us.saturating_sub(self.random.within(HUNG_BEFORE_US));
        self.put(hung_us, MachineFault::HangDisk(place, true));
        let outage_us = loss_us + self.random.within_by_magnitude(FORGETS_AFTER_US);
        self.put(outage_us, MachineFault::PowerLoss(place));
        let back_us = start_us.max(outage_us) + self.random.within_by_magnitude(BACK_AFTER_US);
        self.put(back_us, MachineFault::Start(place));
    }

    /// Plans a loss of data on the machine that may lose data, while it is off. Returns the machine, and
    /// the time of its next start.
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
        self.planned.push(PlannedFault { at_us, fault });
    }

    /// Plans a cut around one machine, or between two parts of the cluster.
    fn add_partition(&mut self, machine: usize, lasts_us: Range<u64>) {
        let mut is_here: Vec<bool> =
            (0..self.machine_count).map(|other| other == machine).collect();
        if self.random.percent(40) {
            is_here.iter_mut().for_each(|here| *here |= self.random.percent(40));
        }
        self.cut_apart(lasts_us, |place| is_here[place]);
    }

    /// Plans a cut between the machines for which `is_here` returns true and the others.
    pub(super) fn cut_apart(&mut self, lasts_us: Range<u64>, is_here: impl Fn(usize) -> bool) {
        for from in 0..self.machine_count {
            for to in 0..self.machine_count {
                if is_here(from) != is_here(to) {
                    let cut = |at_us, is_cut| PlannedFault {
                        at_us,
                        fault: MachineFault::Cut { from, to, is_cut },
                    };
                    self.planned.extend([cut(lasts_us.start, true), cut(lasts_us.end, false)]);
                }
            }
        }
    }
}

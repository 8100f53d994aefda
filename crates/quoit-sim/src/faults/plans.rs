//! Plans of runs: which kinds of faults happen, and when.

use super::planner::{LONG_CUTS_US, LONG_STOPS_US, OFF_US, Planner};
use super::{MachineFault, PlannedFault};
use crate::family::Family;
use crate::fault_kind::FaultKind;
use crate::random::Random;
use crate::workload::Tempo;
use std::ops::Range;

/// Percentage of runs that have each of the kinds of [`FaultKind::LATER`].
const LATER_PERCENT: u64 = 20;

/// Chances that a run has rot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RotChance {
    /// No disk rots.
    Never,
    /// Rot is drawn as any other kind of fault.
    Drawn,
    /// One disk rots, and each time bits flip in several places.
    Certain,
}

/// Number of further bits that flip each time, where rot is certain.
const MORE_FLIPS: u32 = 3;

/// Plans the faults of the kinds [`FaultKind::FORMER`] for a run of `machine_count` machines, in order of
/// time. A run has some kinds of faults and not others, so that a bug which one kind hides shows in another
/// run.
#[must_use]
pub fn plan(
    random: &mut Random,
    machine_count: usize,
    rot: RotChance,
    tempo: &Tempo,
) -> Vec<PlannedFault> {
    let until_us = tempo.faults_until_us;
    let possible = FaultKind::FORMER.into_iter().filter(|kind| {
        let may_rot = rot != RotChance::Never || *kind != FaultKind::Rot;
        kind.machines_needed() <= machine_count && may_rot
    });
    let rots = |kind: &FaultKind| rot == RotChance::Certain && *kind == FaultKind::Rot;
    let fault_kinds: Vec<FaultKind> =
        possible.filter(|kind| random.percent(35) || rots(kind)).collect();
    let mut planner = Planner { random, machine_count, rotten: None, planned: Vec::new() };
    if fault_kinds.is_empty() {
        return planner.planned;
    }
    planner.rotten = Some(planner.machine());
    let pause_us_max = planner.random.within(tempo.fault_pauses_us.clone());
    let mut at_us = tempo.faults_from_us + planner.random.below(pause_us_max);
    while at_us < until_us {
        let end_us = at_us + planner.random.within(100_000..5_000_000);
        let fault_kind = *planner.random.pick(&fault_kinds);
        planner.add(fault_kind, at_us..end_us);
        let more_count = if rots(&fault_kind) { MORE_FLIPS } else { 0 };
        (0..more_count).for_each(|_| planner.add(fault_kind, at_us..end_us));
        at_us += planner.random.below(pause_us_max);
    }
    planner.planned.sort_by_key(|planned| planned.at_us);
    planner.planned
}

/// Plans further faults: of the kinds [`FaultKind::LATER`], and of those that are certain in the family.
#[must_use]
pub fn plan_later(
    random: &mut Random,
    machine_count: usize,
    family: Option<Family>,
    tempo: &Tempo,
) -> Vec<PlannedFault> {
    let until_us = tempo.faults_until_us;
    let wanted = family.map_or(&[][..], Family::fault_kinds);
    let mut fault_kinds = wanted.to_vec();
    for kind in FaultKind::LATER {
        let is_drawn = random.percent(LATER_PERCENT);
        if is_drawn && !wanted.contains(&kind) && is_possible(kind, family) {
            fault_kinds.push(kind);
        }
    }
    let mut planner = Planner { random, machine_count, rotten: None, planned: Vec::new() };
    if tempo.lull_us == 0 {
        planner.add_losses(family, until_us);
    }
    if family == Some(Family::Lull) {
        match planner.random.percent(40) {
            true => planner.add_absence(tempo),
            false => planner.add_split(tempo),
        }
    }
    if fault_kinds.is_empty() {
        planner.planned.sort_by_key(|planned| planned.at_us);
        return planner.planned;
    }
    // If two disks lost data, they could lose what two of three replicas had promised to keep.
    let rotten = planner.rotten.unwrap_or_else(|| planner.machine());
    planner.rotten = Some(rotten);
    let pause_us_max = planner.random.within(tempo.fault_pauses_us.clone());
    let mut at_us = tempo.faults_from_us + planner.random.below(pause_us_max);
    while at_us < until_us {
        match *planner.random.pick(&fault_kinds) {
            FaultKind::HungDisk => planner.add_hang(at_us),
            FaultKind::CleanStop => planner.add_clean_stop(at_us),
            FaultKind::LongCut => {
                let machine = planner.machine();
                let other = planner.other_than(machine);
                let end_us = at_us + planner.random.within(LONG_CUTS_US);
                planner.cut_apart(at_us..end_us, |place| place == machine || place == other);
            }
            FaultKind::Blackout => planner.add_blackout(at_us),
            FaultKind::LongStop => {
                let place = planner.machine();
                planner.put(at_us, MachineFault::Stop(place));
                let start_us = at_us + planner.random.within(LONG_STOPS_US);
                planner.put(start_us, MachineFault::Start(place));
            }
            FaultKind::WrongStart => planner.add_wrong_start(at_us),
            fault_kind => {
                let end_us = at_us + planner.random.within_by_magnitude(OFF_US);
                planner.add(fault_kind, at_us..end_us);
            }
        }
        at_us += planner.random.below(pause_us_max);
    }
    planner.planned.sort_by_key(|planned| planned.at_us);
    planner.planned
}

/// Percentage of runs of the family `lull` in which a process is started again in the lull.
const RESTARTS_PERCENT: u64 = 40;

/// Plans the faults within a lull, with times that count the lull. In some runs of the family `lull` a
/// process is started again in the first two thirds, unless its machine is off then by the faults that are
/// `planned` already. In those of `lost-files` a machine loses files when the reap records of what was
/// deleted before the lull have retired.
#[must_use]
pub fn plan_in_lull(
    random: &mut Random,
    machine_count: usize,
    family: Option<Family>,
    tempo: &Tempo,
    planned: &[PlannedFault],
) -> Vec<PlannedFault> {
    let mut planner = Planner { random, machine_count, rotten: None, planned: Vec::new() };
    let begin_us = tempo.middle_us();
    if tempo.lull_us == 0 {
        return planner.planned;
    }
    if family == Some(Family::LostFiles) {
        let at_us = begin_us + planner.random.within(tempo.lull_us * 8 / 10..tempo.lull_us);
        planner.rotten = Some(planner.machine());
        planner.add_file_loss(at_us);
    } else if planner.random.percent(RESTARTS_PERCENT) {
        let place = planner.machine();
        let at_us = begin_us + planner.random.below(tempo.lull_us * 2 / 3);
        let start_us = at_us + planner.random.within_by_magnitude(OFF_US);
        // A machine that is away when the lull begins stays away until its end.
        if !is_off(planned, place, begin_us) {
            planner.put(at_us, MachineFault::Kill(place));
            planner.put(start_us, MachineFault::Start(place));
        }
    }
    planner.planned
}

/// Range of the times from a restart beside a cut to the next one, in microseconds.
const RESTART_PAUSES_US: Range<u64> = 1_500_000..3_000_000;

/// Plans restarts of machines, each just after two others have lost sight of each other
/// ([`Planner::add_restart_beside_cut`]), throughout the time of faults.
#[must_use]
pub fn plan_restarts_beside_cuts(
    random: &mut Random,
    machine_count: usize,
    tempo: &Tempo,
) -> Vec<PlannedFault> {
    let mut planner = Planner { random, machine_count, rotten: None, planned: Vec::new() };
    if machine_count < 3 {
        return planner.planned;
    }
    let mut at_us = planner.random.within(RESTART_PAUSES_US);
    while at_us < tempo.faults_until_us {
        planner.add_restart_beside_cut(at_us);
        at_us += planner.random.within(RESTART_PAUSES_US);
    }
    planner.planned
}

/// True if a machine is off at a time, by the faults that are planned before it.
fn is_off(planned: &[PlannedFault], place: usize, at_us: u64) -> bool {
    let leaves_off = |fault: MachineFault| match fault {
        MachineFault::Kill(_) | MachineFault::PowerLoss(_) | MachineFault::Stop(_) => Some(true),
        MachineFault::Start(_) | MachineFault::Upgrade(_) => Some(false),
        _ => None,
    };
    let earlier = planned
        .iter()
        .filter(|planned| planned.at_us < at_us && planned.fault.machine() == Some(place));
    let changes = earlier.filter_map(|each| Some((each.at_us, leaves_off(each.fault)?)));
    changes.max_by_key(|(at_us, _)| *at_us).is_some_and(|(_, is_off)| is_off)
}

/// True if runs of a family may draw a kind of fault.
fn is_possible(kind: FaultKind, family: Option<Family>) -> bool {
    match family {
        // After a blackout no node can tell another one the right time. Where grants are forgotten, other
        // faults would leave few moments in which two writes can get a majority.
        Some(Family::WrongStarts | Family::ForgottenGrants) => false,
        // A comparison of clusters asks one replica of each. After a blackout many replicas lack records,
        // and anti-entropy, which brings them later, queues nothing for other clusters.
        Some(Family::Clusters) => kind != FaultKind::Blackout,
        _ => true,
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
                let mut planned = plan(&mut random, 3, RotChance::Drawn, &Tempo::default());
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

    #[test]
    fn a_machine_restarts_while_two_others_are_cut_apart() {
        for machine_count in 3..5 {
            let mut random = Random::new(7, "restarts", 0);
            let planned = plan_restarts_beside_cuts(&mut random, machine_count, &Tempo::default());
            assert!(!planned.is_empty());
            for each in planned.chunks(6) {
                let times: Vec<u64> = each.iter().map(|planned| planned.at_us).collect();
                let faults: Vec<MachineFault> = each.iter().map(|planned| planned.fault).collect();
                let [MachineFault::Cut { from: one, to: other, is_cut: true }, ..] = faults[..]
                else {
                    panic!("a cut comes first, not {faults:?}");
                };
                let cut = |from, to, is_cut| MachineFault::Cut { from, to, is_cut };
                let cuts = [
                    cut(one, other, true),
                    cut(one, other, false),
                    cut(other, one, true),
                    cut(other, one, false),
                ];
                assert_eq!(faults[..4], cuts);
                let [.., MachineFault::Kill(killed), MachineFault::Start(started)] = faults[..]
                else {
                    panic!("a restart comes last, not {faults:?}");
                };
                assert!(killed == started && killed != one && killed != other, "{faults:?}");
                assert!(times[0] < times[4] && times[4] < times[5] && times[5] < times[1]);
            }
        }
        let mut random = Random::new(7, "restarts", 0);
        assert!(plan_restarts_beside_cuts(&mut random, 2, &Tempo::default()).is_empty());
    }

    #[test]
    fn a_machine_that_is_away_through_a_lull_is_not_started_in_it() {
        let tempo = Tempo { lull_us: 100_000_000, ..Tempo::default() };
        let begin_us = tempo.middle_us();
        let (stop, start) = (MachineFault::Stop(1), MachineFault::Start(1));
        let planned = |times: &[(u64, MachineFault)]| -> Vec<PlannedFault> {
            times
                .iter()
                .map(|(at_us, fault)| PlannedFault { at_us: *at_us, fault: *fault })
                .collect()
        };
        // The faults of a run are not in order of time before those of the lull are planned.
        let away = planned(&[(begin_us - 1, stop), (begin_us + tempo.lull_us, start), (1, start)]);
        let back = planned(&[(begin_us - 1, start), (1, stop)]);
        let mut count = 0;
        for seed in 0..100 {
            let in_lull = |planned: &[PlannedFault]| {
                let mut random = Random::new(seed, "faults in the lull", 0);
                plan_in_lull(&mut random, 3, Some(Family::Lull), &tempo, planned)
            };
            let all = in_lull(&[]);
            let concerns = all.iter().any(|each| each.fault == start);
            assert_eq!(in_lull(&away), if concerns { Vec::new() } else { all.clone() }, "{seed}");
            assert_eq!(in_lull(&back), all, "{seed}");
            count += u32::from(concerns);
        }
        assert!(count > 0, "some lulls would have started the machine");
    }
}

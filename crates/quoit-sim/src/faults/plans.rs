//! Plans of runs: which kinds of faults happen, and when.

use super::planner::{LONG_CUTS_US, LONG_STOPS_US, OFF_US, Planner};
use super::{MachineFault, Planned};
use crate::family::Family;
use crate::random::Random;
use crate::trouble::Trouble;
use crate::workload::Tempo;

/// Percentage of runs that have each of the kinds of [`Trouble::LATER`].
const LATER_PERCENT: u64 = 20;

/// Plans the faults of the kinds [`Trouble::FORMER`] for a run of `machine_count` machines, in order of
/// time; rot only if `with_rot` is true. A run has some kinds of faults and not others, so that a bug
/// which one kind hides shows in another run.
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

/// Plans further faults: of the kinds [`Trouble::LATER`], and of those that are certain in the family.
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
        match planner.random.percent(50) {
            true => planner.add_absence(tempo),
            false => planner.add_split(tempo),
        }
    }
    if troubles.is_empty() {
        planner.planned.sort_by_key(|planned| planned.at_us);
        return planner.planned;
    }
    // If two disks lost data, they could lose what two of three replicas had promised to keep.
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

/// True if runs of a family may draw a kind of fault.
fn is_possible(kind: Trouble, family: Option<Family>) -> bool {
    match family {
        // After a blackout no node can tell another one the right time.
        Some(Family::WrongStarts) => false,
        // A comparison of clusters asks one replica of each. After a blackout many replicas lack records,
        // and anti-entropy, which brings them later, queues nothing for other clusters.
        Some(Family::Clusters) => kind != Trouble::Blackout,
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

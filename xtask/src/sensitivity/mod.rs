//! `cargo xtask sensitivity`: runs the simulator with each planted fault, seed by seed, and reports in how
//! many of the seeds the fault is found. The runs with a fault are of the family that the simulator names for
//! it, if it names one, and else of the mix.
//!
//! The results are kept in a file, so that a measurement of hours can be interrupted and continued. The
//! seeds come in blocks, and each block runs with all faults, so that the table is meaningful long before
//! the end. One row of the table has no fault: its findings are failures of the store or of the checkers.

mod by_tests;
mod options;
mod results;
mod table;

use crate::soak;
use crate::tidy::planted::is_planted_in;
use options::Options;
use results::{Finding, Results};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Number of seeds in a block.
const BLOCK_SEEDS: usize = 20;
/// Time in seconds after which a run counts as a finding. Sound runs take about a second; a fault may make
/// a run last for ever.
const HANGS_AFTER_SECS: &str = "60";
/// Interval of the progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);
/// Name of the row without a fault.
const NO_FAULT: &str = "none";
/// The simulator's name for the mix of all families.
const MIX: &str = "mix";
/// Option of the simulator that names a family.
const FAMILY_OPTION: &str = "--family";

/// A planted fault, as the simulator lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Fault {
    name: String,
    /// Name of the variant in the code.
    variant: String,
    /// The part of the store that has the fault.
    area: String,
    /// Description of the wrong decision.
    description: String,
    /// The family whose seeds are most likely to find it; [`MIX`] if none is.
    family: String,
}

/// Runs the chore with these arguments.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    match Options::read(arguments).and_then(|options| measure(root, &options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}

fn measure(root: &Path, options: &Options) -> Result<(), String> {
    let simulator = soak::build_simulator(root)?;
    let faults = chosen(listed(&simulator)?, &options.faults)?;
    if options.by_tests {
        return by_tests::measure(root, &faults, options);
    }
    let path = root.join(&options.results);
    let setting = format!("{} {}", revision(root), options.run_arguments.join(" "));
    let results = Results::open(&path, setting.trim(), options.start)?;
    let results = Mutex::new(results);
    if !options.table_only {
        run_all(&simulator, &faults, options, &results)?;
    }
    let results = results.into_inner().expect("a thread that panics ends the program");
    print!("{}", table::table(&faults, &places(root, &faults), &results));
    Ok(())
}

/// The faults that are built into a simulator.
fn listed(simulator: &Path) -> Result<Vec<Fault>, String> {
    let output = Command::new(simulator).arg("faults").output();
    let output = output.map_err(|error| format!("{} faults: {error}", simulator.display()))?;
    let fault = |line: &str| {
        let mut parts = line.split('\t').map(str::to_owned);
        let mut next = || parts.next();
        Some(Fault {
            name: next()?,
            variant: next()?,
            area: next()?,
            description: next()?,
            family: next()?,
        })
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let listed: Option<Vec<Fault>> = text.lines().map(fault).collect();
    listed.ok_or_else(|| "the simulator lists faults in a form that is not known here".to_owned())
}

/// The faults with these names, or all faults without names.
fn chosen(listed: Vec<Fault>, names: &[String]) -> Result<Vec<Fault>, String> {
    for name in names {
        if !listed.iter().any(|fault| fault.name == *name) {
            let known: Vec<&str> = listed.iter().map(|fault| fault.name.as_str()).collect();
            return Err(format!("there is no fault {name:?}; there are {}", known.join(", ")));
        }
    }
    let is_chosen = |fault: &Fault| names.is_empty() || names.contains(&fault.name);
    Ok(listed.into_iter().filter(is_chosen).collect())
}

/// The revision of the sources, with a mark if there are uncommitted changes.
fn revision(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(root).args(arguments).output().ok();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let is_changed = git(&["status", "--porcelain"]).is_some_and(|status| !status.is_empty());
    let revision = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    if is_changed { revision + "+changes" } else { revision }
}

/// The files that contain the faults, by variant.
fn places(root: &Path, faults: &[Fault]) -> BTreeMap<String, PathBuf> {
    let mut places = BTreeMap::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let here = faults.iter().filter(|fault| is_planted_in(&text, &fault.variant));
                let relative = path.strip_prefix(root).unwrap_or(&path);
                places.extend(here.map(|fault| (fault.variant.clone(), relative.to_owned())));
            }
        }
    }
    places
}

/// The runs of a measurement: each seed of a block with each fault, and without a fault.
fn jobs(faults: &[Fault], seed_count: u64) -> impl Iterator<Item = (&str, u64)> {
    let blocks = (0..seed_count).step_by(BLOCK_SEEDS);
    blocks.flat_map(move |first| {
        let names = std::iter::once(NO_FAULT).chain(faults.iter().map(|fault| fault.name.as_str()));
        let end = seed_count.min(first + BLOCK_SEEDS as u64);
        names.flat_map(move |name| (first..end).map(move |seed| (name, seed)))
    })
}

fn run_all(
    simulator: &Path,
    faults: &[Fault],
    options: &Options,
    results: &Mutex<Results>,
) -> Result<(), String> {
    let queue = Mutex::new((jobs(faults, options.seed_count), Instant::now()));
    let next = || {
        let mut queue = queue.lock().expect("a thread that panics ends the program");
        let results = results.lock().expect("a thread that panics ends the program");
        if queue.1.elapsed() > PROGRESS_INTERVAL {
            queue.1 = Instant::now();
            eprintln!("{} runs measured", results.count());
        }
        let is_open = |(fault, seed): &(&str, u64)| {
            let is_enough = *fault != NO_FAULT
                && options.enough.is_some_and(|enough| results.found_count(fault) >= enough);
            !is_enough && results.get(fault, *seed).is_none()
        };
        queue.0.find(is_open)
    };
    let work = || -> Result<(), String> {
        while let Some((fault, seed)) = next() {
            let family = family_arguments(faults, fault, &options.run_arguments);
            let arguments = family.iter().map(String::as_str);
            let arguments = arguments.chain(options.run_arguments.iter().map(String::as_str));
            let finding = run_seed(simulator, fault, seed, arguments)?;
            let mut results = results.lock().expect("a thread that panics ends the program");
            results.add(fault, seed, finding)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.expect("a worker that panics has said why"))
    })
}

/// Arguments of the simulator by which the runs with a fault are of the family that fits; none if the mix
/// fits, or if `run_arguments` names a family for all runs.
fn family_arguments(faults: &[Fault], name: &str, run_arguments: &[String]) -> Vec<String> {
    let is_given = run_arguments.iter().any(|argument| argument.starts_with(FAMILY_OPTION));
    let fault = faults.iter().find(|fault| fault.name == name && fault.family != MIX && !is_given);
    fault.map_or_else(Vec::new, |fault| vec![FAMILY_OPTION.to_owned(), fault.family.clone()])
}

/// Runs a seed with a fault, in a process of its own.
fn run_seed<'a>(
    simulator: &Path,
    fault: &str,
    seed: u64,
    arguments: impl Iterator<Item = &'a str>,
) -> Result<Finding, String> {
    let mut command = Command::new(simulator);
    command.args(["run", "--hangs-after", HANGS_AFTER_SECS, "--seed"]).arg(seed.to_string());
    if fault != NO_FAULT {
        command.args(["--planted", fault]);
    }
    let output = command.args(arguments).output();
    let output = output.map_err(|error| format!("the simulator could not be started: {error}"))?;
    if output.status.success() {
        return Ok(Finding::Nothing);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    match (checker(&said, seed), output.status.code()) {
        (Some(checker), _) => Ok(Finding::By(checker)),
        (None, None) => Ok(Finding::By("Crash".to_owned())),
        (None, Some(status)) => {
            let fault = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command:?} ended with status {status}: {said}{fault}"))
        }
    }
}

/// The checker that a failed run reports, in the form `seed 7: Lost: ...`.
fn checker(said: &str, seed: u64) -> Option<String> {
    let head = format!("seed {seed}: ");
    let verdict = said.lines().rev().find_map(|line| line.strip_prefix(&head))?;
    Some(verdict.split(':').next().unwrap_or(verdict).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn fault(name: &str) -> Fault {
        let (variant, area) = (name.to_uppercase(), "engine".to_owned());
        let (description, family) = (format!("{name} is wrong"), MIX.to_owned());
        Fault { name: name.to_owned(), variant, area, description, family }
    }

    #[test]
    fn every_seed_is_measured_with_every_fault_block_by_block() {
        let faults = [fault("a"), fault("b")];
        let jobs: Vec<_> = jobs(&faults, 25).collect();
        assert_eq!(jobs.len(), 3 * 25);
        assert_eq!(jobs[0], (NO_FAULT, 0));
        assert_eq!(jobs[20], ("a", 0));
        assert_eq!(jobs[60], (NO_FAULT, 20));
        assert_eq!(jobs.last(), Some(&("b", 24)));
    }

    #[test]
    fn runs_are_of_the_family_that_fits_unless_one_is_given_for_all() {
        let of_members = Fault { family: "members".to_owned(), ..fault("a") };
        let faults = [of_members, fault("b")];
        let given = ["--family".to_owned(), "lull".to_owned()];
        assert_eq!(family_arguments(&faults, "a", &[]), ["--family", "members"]);
        assert!(family_arguments(&faults, "a", &given).is_empty());
        assert!(family_arguments(&faults, "b", &[]).is_empty(), "the mix fits");
        assert!(family_arguments(&faults, NO_FAULT, &[]).is_empty());
    }

    #[test]
    fn the_checker_is_named_by_the_last_line_about_the_seed() {
        let said =
            "12 s node 3: seed\nseed 7: Lost: key 3 lacks a write\nagain: cargo xtask soak\n";
        assert_eq!(checker(said, 7).as_deref(), Some("Lost"));
        assert_eq!(checker("error: no such option\n", 7), None);
    }

    #[test]
    fn only_faults_that_there_are_can_be_chosen() {
        let listed = || vec![fault("a"), fault("b")];
        assert_eq!(chosen(listed(), &[]), Ok(listed()));
        assert_eq!(chosen(listed(), &["b".to_owned()]), Ok(vec![fault("b")]));
        assert!(chosen(listed(), &["c".to_owned()]).is_err_and(|what| what.contains("a, b")));
    }
}

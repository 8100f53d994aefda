//! The smoke run: kept inputs and random mutations, in this process, in bounded time.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::Target;
use crate::mutate::mutate;

/// Time above which an input counts as a failure: the parser's cost grows too fast with its input.
pub const SLOWEST_INPUT: Duration = Duration::from_secs(2);

/// The amount of work of a smoke run for each target.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Number of random inputs, in addition to the seeds and the kept inputs.
    pub random_count: u64,
    /// Time after which the run stops early.
    pub time_max: Duration,
    /// Seed of the random inputs. The same seed gives the same inputs.
    pub seed: u64,
    /// Folder of the kept inputs, with a subfolder for each target.
    pub corpus: PathBuf,
}

/// An input that made a target fail.
#[derive(Debug)]
pub struct Failure {
    /// The input.
    pub input: Vec<u8>,
    /// The input's file, or how it was made.
    pub origin: String,
    /// Message of the panic.
    pub said: String,
}

/// Report of a smoke run of one target.
#[derive(Debug)]
pub struct Report {
    /// Number of inputs, of all kinds.
    pub input_count: u64,
    /// The first input that failed, which ends the run.
    pub failure: Option<Failure>,
}

/// Runs one target. `announce` is called with each input before the input runs.
///
/// # Errors
///
/// The operating system's error, if the kept inputs can't be read.
pub fn run(target: &Target, plan: &Plan, mut announce: impl FnMut(&[u8])) -> io::Result<Report> {
    let began = Instant::now();
    let mut report = Report { input_count: 0, failure: None };
    let mut pool: Vec<Vec<u8>> = Vec::new();
    let seeds = (target.seeds)().into_iter().enumerate();
    let mut given: Vec<_> = seeds.map(|(index, seed)| (format!("seed {index}"), seed)).collect();
    given.extend(kept_inputs(&plan.corpus.join(target.name))?);
    for (origin, input) in given {
        announce(&input);
        report.input_count += 1;
        if let Err(said) = run_one(target, &input) {
            report.failure = Some(Failure { input, origin, said });
            return Ok(report);
        }
        pool.push(input);
    }
    let mut random = StdRng::seed_from_u64(plan.seed);
    for round in 0..plan.random_count {
        if began.elapsed() > plan.time_max {
            break;
        }
        let mut input = match pool.len() {
            0 => Vec::new(),
            count => pool[random.random_range(0..count)].clone(),
        };
        mutate(&mut input, &pool, &mut random);
        announce(&input);
        report.input_count += 1;
        if let Err(said) = run_one(target, &input) {
            let origin = format!("random input {round} of seed {}", plan.seed);
            report.failure = Some(Failure { input, origin, said });
            break;
        }
    }
    Ok(report)
}

/// Runs a target on one input.
///
/// # Errors
///
/// The message of the panic, or a message that the target was too slow.
pub fn run_one(target: &Target, input: &[u8]) -> Result<(), String> {
    let began = Instant::now();
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "it panicked without words".to_string())
    })?;
    let took = began.elapsed();
    if took > SLOWEST_INPUT {
        return Err(format!("it took {took:?}, more than {SLOWEST_INPUT:?}"));
    }
    Ok(())
}

/// The kept inputs of a folder by path; empty if the folder does not exist.
fn kept_inputs(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.into_iter().map(|path| Ok((path.display().to_string(), fs::read(&path)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(corpus: &Path) -> Plan {
        Plan {
            random_count: 20_000,
            time_max: Duration::from_secs(60),
            seed: 1,
            corpus: corpus.to_path_buf(),
        }
    }

    /// Panics on a letter that is two mutations away from its seed.
    const FRAGILE: Target = Target {
        name: "fragile",
        run: |input| assert!(!input.windows(2).any(|pair| pair == [0xff, b'a']), "met ff 61"),
        seeds: || vec![b"abc".to_vec()],
    };

    const STURDY: Target =
        Target { name: "sturdy", run: |_| {}, seeds: || vec![b"abc".to_vec(), Vec::new()] };

    #[test]
    fn mutations_find_a_planted_fault() {
        let folder = tempfile::tempdir().unwrap();
        let report = run(&FRAGILE, &plan(folder.path()), |_| {}).unwrap();
        let failure = report.failure.expect("the fault is near the seed");
        assert!(failure.said.contains("met ff 61"), "{}", failure.said);
        assert!(run_one(&FRAGILE, &failure.input).is_err());
    }

    #[test]
    fn kept_inputs_run_first_and_name_their_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("fragile")).unwrap();
        fs::write(folder.path().join("fragile/old-crash"), [0xff, b'a']).unwrap();
        let report = run(&FRAGILE, &plan(folder.path()), |_| {}).unwrap();
        assert_eq!(report.input_count, 2);
        assert!(report.failure.unwrap().origin.ends_with("old-crash"));
    }

    #[test]
    fn a_sturdy_target_gets_all_its_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let mut announced = 0;
        let report = run(&STURDY, &plan(folder.path()), |_| announced += 1).unwrap();
        assert!(report.failure.is_none());
        assert_eq!((report.input_count, announced), (20_002, 20_002));
    }
}

//! `cargo xtask fuzz-smoke`: runs the fuzz targets on kept inputs and random mutations.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use quoit_fuzz::smoke::{Plan, run, run_one};
use quoit_fuzz::{TARGETS, Target, target};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limit of the address space: a parser that trusts a declared length of gigabytes fails.
const ADDRESS_SPACE_BYTES_MAX: u64 = 2 << 30;

const USAGE: &str = "\
usage: cargo xtask fuzz-smoke [--count N] [--seconds S] [--seed N] [TARGET..]
       cargo xtask fuzz-smoke --input FILE TARGET

Runs each target (all, if none is named) on its kept inputs in fuzz/corpus/TARGET, then on N
random mutations of them (20000), at most S seconds (4), in at most 2 GiB of address space.
An input that fails is written to a file, whose name is printed. If the whole program ends
(out of memory, say), the last input is in the newest file fuzz/*.running beside the program.
--input runs one file again.";

struct Arguments {
    plan: Plan,
    targets: Vec<Target>,
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(said) => {
            eprintln!("fuzz-smoke: {said}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Some(path) = &arguments.input {
        return run_file(path, &arguments.targets);
    }
    let limit = Rlimit { current: Some(ADDRESS_SPACE_BYTES_MAX), ..getrlimit(Resource::As) };
    if let Err(error) = setrlimit(Resource::As, limit) {
        println!("memory is not limited: {error}");
    }
    std::panic::set_hook(Box::new(|_| {}));
    let mut failed_count = 0;
    for target in &arguments.targets {
        match run_target(target, &arguments.plan) {
            Ok(true) => {}
            Ok(false) => failed_count += 1,
            Err(error) => {
                println!("FAIL {}: files: {error}", target.name);
                failed_count += 1;
            }
        }
    }
    println!("{} passed, {failed_count} failed", arguments.targets.len() - failed_count);
    if failed_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut plan = Plan {
        random_count: 20_000,
        time_max: Duration::from_secs(4),
        seed: 1,
        corpus: manifest.join("corpus"),
    };
    let mut targets = Vec::new();
    let mut input = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--count" => plan.random_count = number(&value()?)?,
            "--seconds" => plan.time_max = Duration::from_secs(number(&value()?)?),
            "--seed" => plan.seed = number(&value()?)?,
            "--input" => input = Some(PathBuf::from(value()?)),
            name => targets.push(target(name).ok_or_else(|| no_target(name))?),
        }
    }
    if targets.is_empty() {
        targets = TARGETS.to_vec();
    }
    if input.is_some() && targets.len() != 1 {
        return Err("--input needs the one target to run it on".to_string());
    }
    Ok(Arguments { plan, targets, input })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no whole number"))
}

fn no_target(name: &str) -> String {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    format!("there is no target {name:?}; there are {}", names.join(", "))
}

/// Runs one file, and shows the panic with its backtrace.
fn run_file(path: &Path, targets: &[Target]) -> ExitCode {
    let input = match fs::read(path) {
        Ok(input) => input,
        Err(error) => {
            eprintln!("fuzz-smoke: {}: {error}", path.display());
            return ExitCode::from(2);
        }
    };
    for target in targets {
        if let Err(said) = run_one(target, &input) {
            println!("FAIL {}: {said}", target.name);
            return ExitCode::FAILURE;
        }
    }
    println!("{}: passes", path.display());
    ExitCode::SUCCESS
}

/// Runs one target and prints its result line. Returns true if it passed.
fn run_target(target: &Target, plan: &Plan) -> io::Result<bool> {
    let folder = results_folder()?;
    let running_path = folder.join(format!("{}-{}.running", target.name, std::process::id()));
    let running = File::create(&running_path)?;
    let report = run(target, plan, |input| {
        // Best effort: the file only helps to find the input that crashed the whole program.
        let _ = running.set_len(input.len() as u64).and_then(|()| running.write_all_at(input, 0));
    })?;
    fs::remove_file(&running_path)?;
    let Some(failure) = report.failure else {
        println!("pass {}: {} inputs", target.name, report.input_count);
        return Ok(true);
    };
    let path = folder.join(format!("{}-{}.failed", target.name, std::process::id()));
    File::create(&path)?.write_all(&failure.input)?;
    println!("FAIL {}: {}: {}", target.name, failure.origin, failure.said);
    println!(
        "     run it again: cargo xtask fuzz-smoke --input {} {}",
        path.display(),
        target.name
    );
    Ok(false)
}

/// The folder for inputs, beside the build results.
fn results_folder() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new(".")).join("fuzz");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

//! `cargo xtask bench`: finds the benchmarks of the tree and runs one of them.
//!
//! A benchmark is either an example program of a package whose name begins with `bench_`, built
//! and run in release mode, or a script `benchmarks/NAME.py`. The first line of its
//! documentation is what the list shows. Whatever follows the name goes to the benchmark.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::workspace::{Package, packages};

const EXAMPLE_PREFIX: &str = "bench_";

struct Benchmark {
    name: String,
    /// What it measures, from its own first line.
    about: String,
    program: Program,
}

enum Program {
    Example { package: String, example: String },
    Script(PathBuf),
}

/// Runs the benchmark named first in `arguments`, or lists all when there is none.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    let found = match find(root) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("xtask: {error}");
            return ExitCode::FAILURE;
        }
    };
    let Some((name, rest)) = arguments.split_first() else {
        list(&found);
        return ExitCode::SUCCESS;
    };
    let Some(benchmark) = found.iter().find(|benchmark| benchmark.name == *name) else {
        eprintln!("xtask: there is no benchmark {name:?}");
        list(&found);
        return ExitCode::from(2);
    };
    match command(&benchmark.program).current_dir(root).args(rest).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: the benchmark {name:?} could not be started: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list(found: &[Benchmark]) {
    println!("benchmarks, run as `cargo xtask bench NAME`:");
    for benchmark in found {
        println!("  {:<20} {}", benchmark.name, benchmark.about);
    }
    if found.is_empty() {
        println!("  (none)");
    }
}

fn command(program: &Program) -> Command {
    match program {
        Program::Example { package, example } => {
            let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
            command.args(["run", "--release", "--package", package, "--example", example, "--"]);
            command
        }
        Program::Script(path) => {
            let mut command = Command::new("python3");
            command.arg(path);
            command
        }
    }
}

fn find(root: &Path) -> Result<Vec<Benchmark>, String> {
    let mut found = examples(&packages(root)?);
    found.extend(scripts(&root.join("benchmarks")));
    found.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(found)
}

fn examples(packages: &[Package]) -> Vec<Benchmark> {
    let mut found = Vec::new();
    for package in packages {
        for target in package.targets.iter().filter(|target| target.kind == "example") {
            let Some(name) = target.name.strip_prefix(EXAMPLE_PREFIX) else { continue };
            found.push(Benchmark {
                name: name.replace('_', "-"),
                about: first_line(&target.root_file, "//!"),
                program: Program::Example {
                    package: package.name.clone(),
                    example: target.name.clone(),
                },
            });
        }
    }
    found
}

fn scripts(folder: &Path) -> Vec<Benchmark> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .filter_map(|path| {
            let name = path.file_stem()?.to_str()?.replace('_', "-");
            let about = first_line(&path, "\"\"\"");
            Some(Benchmark { name, about, program: Program::Script(path) })
        })
        .collect()
}

/// The text after `mark` in the first line of `path` that begins with it.
fn first_line(path: &Path, mark: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(mark));
    line.unwrap_or_default().trim_matches(['"', ' ']).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_listed_under_its_name_with_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("echo_floor.py"), "#!x\n\"\"\"The bare echo.\n\"\"\"\n")
            .unwrap();
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        let found = scripts(folder.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "echo-floor");
        assert_eq!(found[0].about, "The bare echo.");
    }

    #[test]
    fn only_examples_with_the_prefix_are_benchmarks() {
        let target = |name: &str, kind: &str| crate::workspace::Target {
            name: name.into(),
            kind: kind.into(),
            root_file: PathBuf::from("nowhere.rs"),
        };
        let package = Package {
            name: "p".into(),
            manifest: PathBuf::new(),
            dependencies: Vec::new(),
            targets: vec![
                target("bench_index_memory", "example"),
                target("tour", "example"),
                target("bench_test", "test"),
            ],
        };
        let names: Vec<_> = examples(&[package]).into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["index-memory"]);
    }
}

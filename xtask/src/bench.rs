//! `cargo xtask bench`: runs a benchmark of the repository by its name, built with the profile `dist`.
//!
//! The arguments after the name go to the benchmark. Relative paths in them start at the repository's
//! folder.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The build profile of all measured programs; `cargo bench` inherits it.
const PROFILE: &str = "dist";

/// One benchmark.
struct Benchmark {
    name: &'static str,
    about: &'static str,
    program: Program,
}

/// The kind of program that a benchmark is.
enum Program {
    /// A comparison by `quoit-perf`. Both it and the node are built.
    Comparison,
    /// The example of this name in a package.
    Example { package: &'static str, example: &'static str },
    /// The `[[bench]]` target of this name in a package.
    Bench { package: &'static str, bench: &'static str },
}

const fn comparison(name: &'static str, about: &'static str) -> Benchmark {
    Benchmark { name, about, program: Program::Comparison }
}

const fn bench(
    name: &'static str,
    about: &'static str,
    package: &'static str,
    bench: &'static str,
) -> Benchmark {
    Benchmark { name, about, program: Program::Bench { package, bench } }
}

const BENCHMARKS: &[Benchmark] = &[
    comparison("cpu", "server processor time of get and put beside an echo and Redis"),
    comparison("instructions", "instructions of get and put under callgrind; --against BINARY"),
    comparison("reaping", "a million tombstones: time, processor time, p99 of gets meanwhile"),
    comparison(
        "large",
        "processor time of get and put of 64 KiB and 1 MB beside an echo of the bytes",
    ),
    comparison("durable", "rate of synced puts beside a bare log writer on the same disk"),
    comparison("merge", "latency at half the maximum rate, with and without a merge running"),
    comparison("data-types", "processor time of operations on sets and maps, small and large"),
    comparison("listing", "listing a million keys and ten buckets, alone and beside gets"),
    comparison("cluster", "processor time of all nodes an operation: three nodes beside one"),
    comparison("ladder", "processor time of all nodes an operation in clusters of 3 to 14 nodes"),
    comparison("messages", "messages and system calls between nodes a request, 3 to 14 nodes"),
    comparison("failover", "latencies by the second when one of five nodes is killed under load"),
    comparison("away", "what a node of five heals that was away for a minute under load"),
    comparison("replication", "two nodes: bootstrap, full-sync, cost of a link, put to readable"),
    comparison("lost", "how soon a node is whole again whose store lost its last records"),
    comparison("growth", "a cluster that grows from 3 to 14 nodes under load: moves and latencies"),
    comparison("import", "rate of importing directories of Riak's, of each engine"),
    comparison("client", "the load generator's processor time of a get beside redis-benchmark's"),
    comparison("start", "time to serve with many keys, after a clean stop and after SIGKILL"),
    comparison(
        "engines",
        "heads at each storage engine, and data beyond memory; --list tells the profiles",
    ),
    comparison("tls", "server processor time of get and put over TLS 1.3 beside plain"),
    comparison("node-tls", "get and put of three nodes, mutual TLS between them beside plain"),
    comparison("handshakes", "processor time of handshakes; p99 of requests beside many of them"),
    comparison("hostile", "p99 of gets, and memory, beside 1000 connections that abuse the node"),
    comparison(
        "connections",
        "10 000 idle connections: memory, processor time; 1000 active: fairness",
    ),
    comparison("account", "where the instructions, cache misses and system calls of a request go"),
    comparison("rights", "instructions of the check of a right, under callgrind"),
    Benchmark {
        name: "script-cost",
        about: "processor time of a key of the load generator: built-in ones beside scripts",
        program: Program::Example { package: "quoit-bench", example: "script_cost" },
    },
    Benchmark {
        name: "engine-memory",
        about: "memory of the whole engine with many keys of 67 bytes",
        program: Program::Example { package: "quoit-store", example: "engine_memory" },
    },
    Benchmark {
        name: "index-memory",
        about: "memory of the index with many keys",
        program: Program::Example { package: "quoit-store", example: "index_memory" },
    },
    Benchmark {
        name: "aae",
        about: "bytes and processor time of comparing copies, in sync and with differences",
        program: Program::Example { package: "quoit-core", example: "anti_entropy" },
    },
    bench(
        "index-engines",
        "a range of a secondary index in each engine: its first entries, and all of it",
        "quoit-store",
        "secondary_index",
    ),
    Benchmark {
        name: "index",
        about: "an index query of three nodes: its plan, first results, and all of it",
        program: Program::Example { package: "quoit-core", example: "index_query" },
    },
    bench("bitcask", "the engine: get and put of cached records", "quoit-store", "bitcask"),
    bench(
        "compression",
        "each engine without and with compressed values: processor time, bytes on disk",
        "quoit-store",
        "compression",
    ),
    bench("model", "objects: decode, encode, merge, contexts", "quoit-model", "model"),
    bench("wire", "messages: decode and encode", "quoit-wire", "codec"),
    bench(
        "internode",
        "a small call between two nodes beside an echo",
        "quoit-cluster",
        "internode",
    ),
    Benchmark {
        name: "mapreduce",
        about: "objects a second of a job that counts a million values of a KiB, on one thread",
        program: Program::Example { package: "quoit-core", example: "bench_mapreduce" },
    },
    bench("connection", "what a request costs a client of our own", "quoit-client", "connection"),
];

/// Runs the benchmark that the first argument names, or lists all benchmarks if there is no argument.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", list());
        return ExitCode::SUCCESS;
    };
    let Some(benchmark) = BENCHMARKS.iter().find(|benchmark| benchmark.name == *name) else {
        eprintln!("xtask: there is no benchmark {name:?}\n\n{}", list());
        return ExitCode::from(2);
    };
    for mut command in commands(benchmark, rest) {
        match command.current_dir(root).status() {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("xtask: {:?} could not be started: {error}", command.get_program());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn list() -> String {
    let mut text = String::from("benchmarks, run as `cargo xtask bench NAME [ARG..]`:\n");
    for benchmark in BENCHMARKS {
        text.push_str(&format!("  {:<14} {}\n", benchmark.name, benchmark.about));
    }
    text
}

/// The commands that run a benchmark, in order.
fn commands(benchmark: &Benchmark, arguments: &[String]) -> Vec<Command> {
    let mut last = cargo();
    match &benchmark.program {
        Program::Comparison => {
            let mut build = cargo();
            build.args(["build", "--profile", PROFILE, "--package", "quoit"]);
            build.args(["--package", "quoit-perf"]);
            last.args(["run", "--quiet", "--profile", PROFILE, "--package", "quoit-perf", "--"]);
            last.arg(benchmark.name).args(arguments);
            return vec![build, last];
        }
        Program::Example { package, example } => {
            last.args(["run", "--profile", PROFILE, "--package", package]);
            last.args(["--example", example, "--"]);
        }
        Program::Bench { package, bench } => {
            last.args(["bench", "--package", package, "--bench", bench, "--"]);
        }
    }
    last.args(arguments);
    vec![last]
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::packages;

    #[test]
    fn every_benchmark_is_a_target_of_the_workspace() {
        let packages = packages(&crate::repository_root()).unwrap();
        let has = |package: &str, kind: &str, name: &str| {
            packages.iter().filter(|found| found.name == package).any(|found| {
                found.targets.iter().any(|target| target.kind == kind && target.name == name)
            })
        };
        for benchmark in BENCHMARKS {
            let found = match &benchmark.program {
                Program::Comparison => has("quoit-perf", "bin", "quoit-perf"),
                Program::Example { package, example } => has(package, "example", example),
                Program::Bench { package, bench } => has(package, "bench", bench),
            };
            assert!(found, "benchmark {} names a program that is not there", benchmark.name);
        }
    }

    #[test]
    fn every_benchmark_of_the_workspace_is_listed() {
        for package in packages(&crate::repository_root()).unwrap() {
            for target in package.targets.iter().filter(|target| target.kind == "bench") {
                let listed = BENCHMARKS.iter().any(|benchmark| {
                    matches!(benchmark.program, Program::Bench { package: of, bench }
                        if of == package.name && bench == target.name)
                });
                assert!(listed, "{} of {} has no name here", target.name, package.name);
            }
        }
    }
}

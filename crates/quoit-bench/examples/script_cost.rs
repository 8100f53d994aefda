//! Measures the processor time of a key, for built-in generators and for scripts.
//!
//! ```text
//! cargo run --profile dist -p quoit-bench --example script_cost -- [ROUNDS]
//! ```
//!
//! Each round (default: 5) draws a million keys of each generator in turn, on one thread. Prints the
//! median, the minimum and the maximum over the rounds, in nanoseconds per key.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use quoit_bench::config::Config;
use quoit_bench::keygen::Key;
use quoit_bench::random::{Random, RandomKind, Seed};
use quoit_bench::valgen::Sources;
use quoit_bench::worker_place::WorkerPlace;
use std::error::Error;
use std::hint::black_box;

/// Number of keys in a round.
const KEY_COUNT: u32 = 1_000_000;

const SCRIPT: &str = "
function uniform(worker, max) { return () => random(max); }
function text(worker, max) { return () => `user-${random(max)}`; }
function counter(worker) { let n = 0; return () => n++; }
";

/// The generators, each with a name.
const GENERATORS: [(&str, &str); 5] = [
    ("built-in integer", "{uniform_int, 100000}"),
    ("built-in text", "{to_str, \"user-~w\", {uniform_int, 100000}}"),
    ("script, a counter", "{script_int, \"cost.js\", counter, []}"),
    ("script, a random integer", "{script_int, \"cost.js\", uniform, [100000]}"),
    ("script, a text with a random integer", "{script, \"cost.js\", text, [100000]}"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("cost.js"), SCRIPT)?;
    let mut costs_ns = vec![Vec::new(); GENERATORS.len()];
    for _ in 0..rounds {
        for ((_, generator), costs) in GENERATORS.iter().zip(&mut costs_ns) {
            let path = directory.path().join("cost.config");
            std::fs::write(&path, format!("{{key_generator, {generator}}}."))?;
            costs.push(cost_ns(&Config::load(&[path])?));
        }
    }
    for ((name, _), costs) in GENERATORS.iter().zip(&mut costs_ns) {
        costs.sort_by(f64::total_cmp);
        let (least, greatest) = (costs[0], costs[costs.len() - 1]);
        println!("{name}: {:.0} ns ({least:.0} to {greatest:.0})", costs[costs.len() / 2]);
    }
    Ok(())
}

/// Processor time of a key, in nanoseconds.
fn cost_ns(config: &Config) -> f64 {
    let mut keys = config.key_generator.clone();
    keys.start(WorkerPlace { number: 1, count: 1 }, &Sources::default());
    let mut random = Random::new(RandomKind::default(), Seed::default(), 1);
    let mut key = Key::default();
    let before = thread_time_ns();
    for _ in 0..KEY_COUNT {
        let drawn = keys.generate(&mut random, &mut key);
        assert!(drawn.is_ok(), "no generator ends");
        black_box(&key);
    }
    (thread_time_ns() - before) as f64 / f64::from(KEY_COUNT)
}

fn thread_time_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

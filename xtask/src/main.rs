//! Chores of the repository, run as `cargo xtask NAME`.
//!
//! The program does not depend on the other crates: it reads sources and starts other programs. So it
//! builds in seconds, and can check crates that do not compile.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod bench;
mod fuzz_smoke;
mod sensitivity;
mod soak;
mod tidy;
mod torture;
mod upgrade;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask CHORE

chores:
  tidy                  check the rules of the code that no other tool checks
  bench [NAME [ARG..]]  run a benchmark by its name; without a name, list them
  fuzz-smoke [ARG..]    run every fuzz target on its kept corpus and on random mutations
  soak [ARG..]          run simulated clusters: [--minutes N] [--seeds A..B], or --seed N [--trace];
                        --kills N: kill a process of each storage engine N times while it writes;
                        --upgrade-from REVISION: upgrade a cluster of that build node by node
  sensitivity [ARG..]   measure in how many seeds each planted fault is found, and print the table:
                        [--seeds N] [--enough N] [--fault NAME].. [--jobs N] [--results FILE]
                        [--keep | --anew] [--table] [-- ARG OF EACH RUN..]; with --tests, tell which
                        test of the crates notices each fault first
  torture [ARG..]       damage files of stopped nodes by a seed, and check what they say afterwards:
                        [--engine NAME] [--seeds A..B] [--nodes 1|3] [--stop order|kill]
                        [--kind flip|truncate|remove|swap] [--file PART] [--log]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((chore, rest)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let root = repository_root();
    match chore.as_str() {
        "tidy" => tidy::run(&root),
        "bench" => bench::run(&root, rest),
        "fuzz-smoke" => fuzz_smoke::run(&root, rest),
        "sensitivity" => sensitivity::run(&root, rest),
        "soak" => soak::run(&root, rest),
        "torture" => torture::run(&root, rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("xtask: there is no chore {other:?}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The parent folder of this crate's folder.
fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in a folder of the repository")
        .to_path_buf()
}

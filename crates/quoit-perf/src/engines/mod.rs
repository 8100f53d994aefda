//! Load profiles over all storage engines, side by side: the costs of each engine under each load.
//!
//! Each trial starts a fresh node with one engine, and runs `quoit bench` against it several times. Before
//! and after each run it reads the counters of the node's process, of its data directory and of the disk.
//! Only the profile `heads` opens the engines in this process.

mod beyond_memory;
mod heads;
mod interrupt;
mod load;
mod memory_group;
mod profile;
mod settle;
mod stage;
mod tables;
mod trial;
mod usage;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use profile::Profile;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

/// Options of the comparison.
#[derive(Args, Clone, Debug)]
pub(crate) struct EngineOptions {
    /// The quoit binary, a release build [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::beside("quoit"), hide_default_value = true)]
    quoit: PathBuf,
    /// Directory for data, on the disk to measure; a temporary folder is made in it and removed at the end
    /// [default: the directory of this program].
    #[arg(long, default_value_os_t = crate::beside("."), hide_default_value = true)]
    dir: PathBuf,
    /// Engines [default: the engines of each profile].
    #[arg(long, value_enum, value_delimiter = ',')]
    engine: Vec<EngineName>,
    /// Profiles [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    profile: Vec<Profile>,
    /// Length of each run in seconds. Runs that write a fixed number of records end with the last record,
    /// or after ten times this length.
    #[arg(long, default_value_t = 60)]
    duration_s: u64,
    /// Factor for the number of records: 0.01 tries a profile out.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Settings of the nodes.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Also writes the tables to this file.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Keeps the results of `quoit bench` for each run (tables over time, charts) in this directory.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Lists the profiles with their subjects and durations, and ends.
    #[arg(long)]
    list: bool,
}

/// A storage engine, by its name in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum EngineName {
    Bitcask,
    Leveled,
    Leveldb,
    Innostore,
    Memory,
}

impl EngineName {
    const ALL: [Self; 5] =
        [Self::Bitcask, Self::Leveled, Self::Leveldb, Self::Innostore, Self::Memory];

    const fn name(self) -> &'static str {
        match self {
            Self::Bitcask => "bitcask",
            Self::Leveled => "leveled",
            Self::Leveldb => "leveldb",
            Self::Innostore => "innostore",
            Self::Memory => "memory",
        }
    }
}

impl EngineOptions {
    /// A number of records, multiplied by the scale.
    fn scaled(&self, count: u64) -> u64 {
        quoit_number::rounded(count as f64 * self.scale).max(100)
    }

    /// The chosen profiles.
    fn profiles(&self) -> &[Profile] {
        if self.profile.is_empty() { Profile::value_variants() } else { &self.profile }
    }

    /// The chosen engines for a profile.
    fn engines(&self, profile: Profile) -> Vec<EngineName> {
        let wanted = |engine: &EngineName| self.engine.is_empty() || self.engine.contains(engine);
        if self.engine.is_empty() {
            profile.engines().to_vec()
        } else {
            EngineName::ALL.into_iter().filter(wanted).collect()
        }
    }
}

/// Runs the chosen profiles on the chosen engines, and prints a table for each profile.
pub(crate) fn engines(options: &EngineOptions) -> Result<()> {
    if options.list {
        print!("{}", list(options));
        return Ok(());
    }
    ensure!(
        options.scale > 0.0 && options.scale <= 100.0,
        "--scale is {}; take a number above 0 and up to 100, such as 0.01",
        options.scale
    );
    interrupt::watch().context("watching for SIGINT and SIGTERM")?;
    if let Some(keep) = &options.keep {
        std::fs::create_dir_all(keep).with_context(|| format!("making {}", keep.display()))?;
    }
    println!("{}", list(options));
    let mut report = String::new();
    for profile in options.profiles() {
        let began = Instant::now();
        let table = profile.run(options).with_context(|| format!("profile {}", profile.name()))?;
        let took_s = began.elapsed().as_secs();
        write!(report, "### {}\n\n{table}\n", profile.name())?;
        println!("\n### {}, {took_s} s\n\n{table}", profile.name());
        if let Some(out) = &options.out {
            // The file is written after each profile, so that an interruption keeps the finished ones.
            std::fs::write(out, &report).with_context(|| format!("writing {}", out.display()))?;
        }
    }
    Ok(())
}

fn list(options: &EngineOptions) -> String {
    let mut text =
        String::from("| profile | engines | about how long, s | what |\n|---|---|---|---|\n");
    for profile in options.profiles() {
        let engines = options.engines(*profile);
        let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
        let seconds = profile.seconds(options) * engines.len() as u64;
        let row = [profile.name(), &names.join(" "), &seconds.to_string(), profile.about()];
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

//! Profiles of load over all storage engines, side by side: what each engine costs where.
//!
//! Each trial is a fresh node with one engine and runs of `quoit bench` against it, one after the other; the
//! node's process, its data directory and the disk are looked at before and after each run. Only the
//! profile `heads` opens the engines in this process.

mod beyond;
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
    /// Directory for data, on the disk that is to be measured; a temporary folder is made in it and removed
    /// at the end [default: where this program is].
    #[arg(long, default_value_os_t = crate::beside("."), hide_default_value = true)]
    dir: PathBuf,
    /// Engines [default: those that each profile is about].
    #[arg(long, value_enum, value_delimiter = ',')]
    engine: Vec<EngineName>,
    /// Profiles [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    profile: Vec<Profile>,
    /// Seconds of each run that has a length; runs that write so many records end with them, or after ten
    /// times this.
    #[arg(long, default_value_t = 60)]
    duration_s: u64,
    /// Share of the records: 0.01 tries a profile out.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Settings of the nodes.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Also writes the tables to this file.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Keeps what `quoit bench` leaves of each run (tables over time, charts) in this directory.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Lists the profiles, what they are about and how long they take, and ends.
    #[arg(long)]
    list: bool,
}

/// A storage engine, by the name that it has in a configuration.
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
    /// A number of records, scaled.
    fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale).round() as u64).max(100)
    }

    /// The profiles that are wanted.
    fn profiles(&self) -> &[Profile] {
        if self.profile.is_empty() { Profile::value_variants() } else { &self.profile }
    }

    /// The engines that are wanted of a profile.
    fn engines(&self, profile: Profile) -> Vec<EngineName> {
        let wanted = |engine: &EngineName| self.engine.is_empty() || self.engine.contains(engine);
        if self.engine.is_empty() {
            profile.engines().to_vec()
        } else {
            EngineName::ALL.into_iter().filter(wanted).collect()
        }
    }
}

/// Runs the profiles that are wanted on the engines that are wanted, and prints a table of each profile.
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
            // After each profile, so that an interruption keeps what is there.
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

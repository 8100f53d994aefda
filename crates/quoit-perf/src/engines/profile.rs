//! The profiles there are.

use super::load::{Asks, BenchLoad, Stage};
use super::stage::Figures;
use super::tables::{FigureRow, curves, main_table};
use super::trial::{Trial, Variant};
use super::{EngineName, EngineOptions, beyond, heads};
use anyhow::Result;
use clap::ValueEnum;
use std::time::Duration;

/// The file of a published measurement over HTTP.
const EC2_CONFIG: &str = "crates/quoit-bench/configs/ec2-http.config";

/// Runs that end by themselves may take so many times the length of others.
const FILL_LIMIT_FACTOR: u64 = 10;

/// A profile of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Profile {
    /// Get 1 : update 2 over HTTP, every key new, as published for Riak in 2010.
    Ec2,
    /// A million values of 1 KiB; then half updates of few keys; then nearly all reads of few keys.
    Skewed,
    /// Values of 8 kB of which half compresses, with and without compression.
    HalfCompressible,
    /// 8 GB of 8 kB values over 2 GB of keys: bytes written per byte put.
    Written,
    /// Heads and whole records of 8 kB at the engine, cold and cached.
    Heads,
    /// 4 GiB of 5 kB values on a node with 1 GiB, keys uniform.
    BeyondUniform,
    /// The same, keys Pareto-distributed.
    BeyondPareto,
}

impl Profile {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Skewed => "skewed",
            Self::HalfCompressible => "half-compressible",
            Self::Written => "written",
            Self::Heads => "heads",
            Self::BeyondUniform => "beyond-uniform",
            Self::BeyondPareto => "beyond-pareto",
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::Ec2 => "HTTP, get 1 : update 2, every key new, 1000 bytes",
            Self::Skewed => {
                "1 million x 1 KiB; update-heavy and read-heavy, 4/5 on 1/5 of the keys"
            }
            Self::HalfCompressible => "8 kB, half of it compressible; with and without compression",
            Self::Written => "8 GB of 8 kB values over 2 GB of keys: bytes written per byte put",
            Self::Heads => "heads beside whole records of 8 kB, at the engine",
            Self::BeyondUniform => "4 GiB of 5 kB values in 1 GiB of memory, uniform",
            Self::BeyondPareto => "4 GiB of 5 kB values in 1 GiB of memory, Pareto",
        }
    }

    /// The engines that it is about.
    pub(super) const fn engines(self) -> &'static [EngineName] {
        match self {
            Self::Ec2 => &[EngineName::Bitcask, EngineName::Innostore],
            Self::Written => &[EngineName::Leveled, EngineName::Leveldb],
            Self::Heads => &[
                EngineName::Bitcask,
                EngineName::Leveled,
                EngineName::Leveldb,
                EngineName::Innostore,
            ],
            _ => &EngineName::ALL,
        }
    }

    /// About how long an engine takes, in seconds: most without a length are from a machine with two
    /// processors, the slowest engine counts.
    pub(super) fn seconds(self, options: &EngineOptions) -> u64 {
        let scaled = |seconds: u64| (seconds as f64 * options.scale).ceil() as u64;
        let each = options.duration_s;
        match self {
            Self::Ec2 => each + 20,
            Self::Skewed => scaled(200) + 2 * each + 40,
            Self::HalfCompressible => 2 * (scaled(100) + each + 30),
            Self::Written => scaled(300) + 30,
            Self::Heads => scaled(60),
            Self::BeyondUniform | Self::BeyondPareto => scaled(300) + 3 * each + 90,
        }
    }

    /// Runs it; gives its table.
    pub(super) fn run(self, options: &EngineOptions) -> Result<String> {
        match self {
            Self::Ec2 => {
                let ec2 = |options: &EngineOptions| vec![ec2(options)];
                Ok(tables_of(&self.rows(options, &plain(self, options), ec2)?))
            }
            Self::Skewed => Ok(tables_of(&self.rows(options, &plain(self, options), skewed)?)),
            Self::HalfCompressible => {
                let variants = compressing(self, options);
                Ok(tables_of(&self.rows(options, &variants, half_compressible)?))
            }
            Self::Written => {
                let rows = self.rows(options, &plain(self, options), written)?;
                Ok(format!("{}\n{}", tables_of(&rows), written_in_all(&rows)))
            }
            Self::Heads => heads::run(options, &options.engines(self)),
            Self::BeyondUniform | Self::BeyondPareto => beyond::run(self, options),
        }
    }

    /// Runs stages on a node of each variant.
    fn rows(
        self,
        options: &EngineOptions,
        variants: &[Variant],
        stages: impl Fn(&EngineOptions) -> Vec<Stage>,
    ) -> Result<Vec<FigureRow>> {
        let mut rows = Vec::new();
        for variant in variants {
            let trial = Trial::start(options, self.name(), variant, None)?;
            for stage in stages(options) {
                let figures: Figures = trial.run(&stage)?;
                let engine = variant.label.clone();
                rows.push(FigureRow { engine, stage: stage.name.to_owned(), figures });
            }
            trial.stop()?;
        }
        Ok(rows)
    }
}

fn tables_of(rows: &[FigureRow]) -> String {
    format!("{}\n{}", main_table(rows), curves(rows))
}

fn plain(profile: Profile, options: &EngineOptions) -> Vec<Variant> {
    options.engines(profile).into_iter().map(Variant::of).collect()
}

/// Each engine with what it compresses by itself, or else with what is compressed for it, and without.
fn compressing(profile: Profile, options: &EngineOptions) -> Vec<Variant> {
    let variants = options.engines(profile).into_iter().flat_map(|engine| {
        let plain = Variant::of(engine);
        match engine {
            EngineName::Leveldb => vec![
                plain.clone().with("lz4", &["leveldb.compression=on"]),
                plain.with("", &["leveldb.compression=off"]),
            ],
            EngineName::Leveled => vec![
                plain.clone().with("lz4", &["leveled.compression_method=lz4"]),
                plain.with("", &["leveled.compression_method=none"]),
            ],
            _ => vec![
                plain.clone().with("property lz4", &["buckets.default.compression=lz4"]),
                plain,
            ],
        }
    });
    variants.collect()
}

/// The length of a run that has one.
pub(super) const fn length(options: &EngineOptions) -> Duration {
    Duration::from_secs(options.duration_s)
}

/// The longest that a run may take which ends by itself.
pub(super) const fn fill_limit(options: &EngineOptions) -> Duration {
    Duration::from_secs(options.duration_s * FILL_LIMIT_FACTOR)
}

fn ec2(options: &EngineOptions) -> Stage {
    Stage {
        name: "get 1, update 2",
        asks: Asks::HttpFile(EC2_CONFIG),
        limit: length(options),
        value_bytes: 1000.0,
        live_bytes: None,
    }
}

fn skewed(options: &EngineOptions) -> Vec<Stage> {
    const VALUE_BYTES: u32 = 1024;
    let count = options.scaled(1_000_000);
    let values = format!("{{fixed_bin, {VALUE_BYTES}}}");
    let hot = format!("{{eightytwenty_int, {count}}}");
    let stage = |name, load, limit| Stage {
        name,
        asks: Asks::Load(load),
        limit,
        value_bytes: f64::from(VALUE_BYTES),
        live_bytes: Some(count as f64 * f64::from(VALUE_BYTES)),
    };
    let mixed = |operations| BenchLoad::new(hot.clone(), values.clone(), operations);
    vec![
        stage("load", BenchLoad::fill(count, values.clone()), fill_limit(options)),
        stage("get 1, put 1", mixed("{get, 1}, {put, 1}"), length(options)),
        stage("get 19, put 1", mixed("{get, 19}, {put, 1}"), length(options)),
    ]
}

fn half_compressible(options: &EngineOptions) -> Vec<Stage> {
    const VALUE_BYTES: f64 = 8001.0;
    let count = options.scaled(100_000);
    let values = "{semi_compressible, 8000, 1}".to_owned();
    let stage = |name, load, limit| Stage {
        name,
        asks: Asks::Load(load),
        limit,
        value_bytes: VALUE_BYTES,
        live_bytes: Some(count as f64 * VALUE_BYTES),
    };
    let keys = format!("{{uniform_int, {count}}}");
    vec![
        stage("load", BenchLoad::fill(count, values.clone()), fill_limit(options)),
        stage("get 1, put 1", BenchLoad::new(keys, values, "{get, 1}, {put, 1}"), length(options)),
    ]
}

/// Every key once, and so again: 8 GB in four parts.
fn written(options: &EngineOptions) -> Vec<Stage> {
    const VALUE_BYTES: u32 = 8000;
    let count = options.scaled(250_000);
    let values = format!("{{fixed_bin, {VALUE_BYTES}}}");
    let stage = |name| Stage {
        name,
        asks: Asks::Load(BenchLoad::fill(count, values.clone())),
        limit: fill_limit(options),
        value_bytes: f64::from(VALUE_BYTES),
        live_bytes: Some(count as f64 * f64::from(VALUE_BYTES)),
    };
    ["1st 2 GB", "2nd 2 GB", "3rd 2 GB", "4th 2 GB"].map(stage).to_vec()
}

/// Bytes written per byte put over all stages of each engine.
fn written_in_all(rows: &[FigureRow]) -> String {
    let mut text =
        String::from("| engine | bytes put, GB | bytes written per byte put |\n|---|---|---|\n");
    for of_engine in rows.chunk_by(|one, other| one.engine == other.engine) {
        let put: f64 = of_engine.iter().map(|row| row.figures.put_bytes()).sum();
        let written: u64 = of_engine.iter().map(|row| row.figures.moved.written_bytes).sum();
        let name = &of_engine[0].engine;
        text.push_str(&format!(
            "| {name} | {:.2} | {:.2} |\n",
            put / 1e9,
            written as f64 / put.max(1.0)
        ));
    }
    text
}

//! A load given by a URL and a few options.

use clap::{Args, ValueEnum};
use quoit_bench::config::{KeySpread, LoadOptions, Workload, parse_trace_speed};
use quoit_number::whole;
use std::path::PathBuf;

/// Options for the load of URLs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Load of a URL")]
pub(super) struct LineArgs {
    /// Weight of reads; reading a missing key is not a failure [default: 80, with --put 20, if no weight is
    /// given].
    #[arg(long, value_name = "WEIGHT")]
    get: Option<u32>,
    /// Weight of writes.
    #[arg(long, value_name = "WEIGHT")]
    put: Option<u32>,
    /// Weight of read-modify-writes: a read followed by a write of the same key.
    #[arg(long, value_name = "WEIGHT")]
    update: Option<u32>,
    /// Weight of deletes.
    #[arg(long, value_name = "WEIGHT")]
    delete: Option<u32>,
    /// Number of workers, each with one operation in flight [default: 20].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    workers: Option<u32>,
    /// Operations per second of all workers together, such as 500 or 5k, regardless of outstanding answers
    /// [default: as many as the workers can do].
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// Number of distinct keys, such as 100k or 2M [default: 100k].
    #[arg(long, value_name = "N", value_parser = count)]
    keys: Option<u64>,
    /// Distribution of the keys [default: uniform].
    #[arg(long, value_enum, value_name = "SPREAD")]
    spread: Option<Spread>,
    /// Size of each value in bytes, such as 500 or 2k [default: 1000].
    #[arg(long, value_name = "N", value_parser = count)]
    value_size: Option<u64>,
    /// Core workload of the Yahoo! Cloud Serving Benchmark, instead of weights and a distribution. Fill the
    /// keys first.
    #[arg(long, value_enum, value_name = "NAME")]
    workload: Option<NamedWorkload>,
    /// Write each key once, then end.
    #[arg(long)]
    fill: bool,
    /// Replay a trace: lines of time,operation,key,value_size below a header with these names, or in the
    /// format of Twitter's cache traces.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Speed of the replay relative to the trace, such as 2 or 0.5; max: without waiting [default: 1].
    #[arg(long, value_name = "FACTOR", value_parser = speed)]
    speed: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NamedWorkload {
    /// 50 % reads, 50 % writes; Zipf distribution.
    YcsbA,
    /// 95 % reads, 5 % writes; Zipf distribution.
    YcsbB,
    /// Reads only; Zipf distribution.
    YcsbC,
    /// 95 % reads, 5 % insertions; the latest insertions are read most often.
    YcsbD,
    /// 95 % scans of 1 to 100 records, 5 % insertions; Zipf distribution. Protocol Buffers only.
    YcsbE,
    /// 50 % reads, 50 % read-modify-writes; Zipf distribution.
    YcsbF,
}

impl From<NamedWorkload> for Workload {
    fn from(named: NamedWorkload) -> Self {
        match named {
            NamedWorkload::YcsbA => Self::YcsbA,
            NamedWorkload::YcsbB => Self::YcsbB,
            NamedWorkload::YcsbC => Self::YcsbC,
            NamedWorkload::YcsbD => Self::YcsbD,
            NamedWorkload::YcsbE => Self::YcsbE,
            NamedWorkload::YcsbF => Self::YcsbF,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Spread {
    /// All keys alike.
    Uniform,
    /// 80 % of the operations use the first 20 % of the keys.
    EightyTwenty,
    /// Pareto distribution.
    Pareto,
    /// Zipf distribution; the frequent keys are scattered over all keys.
    Zipfian,
    /// Zipf distribution; the latest keys are the most frequent ones.
    Latest,
}

/// Parses a number above 0 with an optional suffix k (thousands) or M (millions).
pub(in crate::bench) fn rate(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |number| (number, 1e6)),
    };
    let value = number.parse::<f64>().ok().map(|number| number * factor);
    value
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| "wanted a number above 0, such as 500, 5k or 1.5M".to_owned())
}

/// Checks the speed of a trace.
fn speed(text: &str) -> Result<String, String> {
    let wanted = || "wanted a factor of 0.000001 to 1000000, such as 2 or 0.5, or max".to_owned();
    parse_trace_speed(text).map(|_| text.to_owned()).ok_or_else(wanted)
}

/// Parses a whole number above 0, in the format of [`rate`].
pub(in crate::bench) fn count(text: &str) -> Result<u64, String> {
    let value = rate(text)?;
    let is_whole = value.fract() == 0.0 && value <= 1e15;
    is_whole.then_some(whole(value)).ok_or_else(|| "wanted a whole number".to_owned())
}

impl LineArgs {
    pub(super) fn options(&self) -> LoadOptions {
        LoadOptions {
            get: self.get,
            put: self.put,
            update: self.update,
            delete: self.delete,
            workers: self.workers,
            rate_per_s: self.rate,
            keys: self.keys,
            spread: self.spread.map(|spread| match spread {
                Spread::Uniform => KeySpread::Uniform,
                Spread::EightyTwenty => KeySpread::EightyTwenty,
                Spread::Pareto => KeySpread::Pareto,
                Spread::Zipfian => KeySpread::Zipfian,
                Spread::Latest => KeySpread::Latest,
            }),
            value_bytes: self.value_size,
            workload: self.workload.map(Workload::from),
            fills: self.fill,
            trace: self.trace.clone(),
            speed: self.speed.clone(),
        }
    }
}

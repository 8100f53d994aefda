//! A load that options of the command line describe instead of a file: servers as URLs, a mix, a rate.
//!
//! The options are turned into a configuration in TOML. The run keeps that configuration, so that the user
//! can repeat and extend the run.

mod error;
mod server;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::PathBuf;

pub use error::LoadOptionsError;
use server::{LineServer, Protocol};

/// Name of the configuration that is made from the command line.
pub(crate) const LINE_FILE: &str = "command-line.toml";

/// Default duration of such a run, in minutes: half a minute.
const DEFAULT_MINUTES: f64 = 0.5;

/// Options that describe a load. `None` selects the default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadOptions {
    /// Weight of reads.
    pub get: Option<u32>,
    /// Weight of writes without a read before them.
    pub put: Option<u32>,
    /// Weight of updates: a read followed by a write of the same key.
    pub update: Option<u32>,
    /// Weight of deletes.
    pub delete: Option<u32>,
    /// Number of workers, each with one operation in flight. Default: 20.
    pub workers: Option<u32>,
    /// Arrivals per second of all workers together. Default: no schedule, as fast as the workers can.
    pub rate_per_s: Option<f64>,
    /// Number of distinct keys. Default: 100 000.
    pub keys: Option<u64>,
    /// The distribution of keys. Default: uniform.
    pub spread: Option<KeySpread>,
    /// Size of each value in bytes. Default: 1000.
    pub value_bytes: Option<u64>,
    /// A named mix and distribution, in place of weights and `spread`.
    pub workload: Option<Workload>,
    /// Write every key once, instead of the mix.
    pub fills: bool,
    /// Replay the operations of this file, instead of the mix.
    pub trace: Option<PathBuf>,
    /// Factor by which the trace is replayed faster than recorded, as text; `max` for no waiting. Default:
    /// 1.
    pub speed: Option<String>,
}

/// The distribution by which a load draws its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySpread {
    /// Every key is equally likely.
    Uniform,
    /// Four fifths of the draws fall on the first fifth of the keys.
    EightyTwenty,
    /// A truncated Pareto distribution: few keys are drawn very often.
    Pareto,
    /// Zipf's distribution, with the popular keys scattered over the key space.
    Zipfian,
    /// Zipf's distribution, with the most recently inserted keys the most popular.
    Latest,
}

impl KeySpread {
    fn generator(self) -> &'static str {
        match self {
            Self::Uniform => "uniform_int",
            Self::EightyTwenty => "eightytwenty_int",
            Self::Pareto => "truncated_pareto_int",
            Self::Zipfian => "scrambled_zipfian_int",
            Self::Latest => "latest_int",
        }
    }

    /// The generator of `keys` keys, in TOML. The key space is the same for all spreads, except for those
    /// that basho_bench defines.
    fn term(self, keys: u64) -> String {
        match self {
            Self::Uniform => format!("[{:?}, 0, {keys}]", self.generator()),
            _ => format!("[{:?}, {keys}]", self.generator()),
        }
    }
}

/// The core workloads of the Yahoo! Cloud Serving Benchmark (Cooper et al.: Benchmarking Cloud Serving
/// Systems with YCSB, SoCC 2010).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Half reads, half writes of existing keys.
    YcsbA,
    /// 95 % reads, 5 % writes.
    YcsbB,
    /// Only reads.
    YcsbC,
    /// 95 % reads, mostly of recently inserted keys, and 5 % inserts.
    YcsbD,
    /// 95 % scans of up to a hundred records, and 5 % inserts.
    YcsbE,
    /// Half reads, half reads followed by a write of the same key.
    YcsbF,
}

impl Workload {
    fn spread(self) -> KeySpread {
        match self {
            Self::YcsbD => KeySpread::Latest,
            _ => KeySpread::Zipfian,
        }
    }

    /// The operations with their weights, in TOML. `None` if the protocol lacks an operation.
    fn operations(self, protocol: Protocol) -> Option<String> {
        let [get, put, update, _] = protocol.operations();
        let (get, put) = (get?, put?);
        Some(match self {
            Self::YcsbA => format!("[[{get:?}, 50], [{put:?}, 50]]"),
            Self::YcsbB => format!("[[{get:?}, 95], [{put:?}, 5]]"),
            Self::YcsbC => format!("[[{get:?}, 1]]"),
            Self::YcsbD => format!("[[{get:?}, 95], [\"insert\", [\"insert\", {put:?}], 5]]"),
            Self::YcsbE if protocol == Protocol::Pb => {
                format!("[[\"scan\", [\"scan\", 100], 95], [\"insert\", [\"insert\", {put:?}], 5]]")
            }
            Self::YcsbE => return None,
            Self::YcsbF => format!("[[{get:?}, 50], [{:?}, 50]]", update?),
        })
    }
}

/// True if an argument of the command line is a URL rather than a file.
pub fn is_url(argument: &str) -> bool {
    argument.contains("://")
}

/// Builds the configuration of a load, in TOML.
///
/// # Errors
///
/// When there is no URL, a URL does not name a server of a known protocol, or the options contradict each
/// other.
pub(crate) fn configuration(
    urls: &[String],
    options: &LoadOptions,
) -> Result<String, LoadOptionsError> {
    let servers: Vec<LineServer> =
        urls.iter().map(|url| LineServer::parse(url)).collect::<Result<_, _>>()?;
    let Some((first_url, first)) = urls.first().zip(servers.first()) else {
        return Err(LoadOptionsError::OptionsOfFiles);
    };
    let mut given = urls.iter().zip(&servers);
    if let Some((other, _)) = given.find(|(_, server)| !server.is_like(first)) {
        let (first, other) = (first_url.clone(), other.clone());
        return Err(LoadOptionsError::Differ { first, other });
    }
    let quoted = |text: &str| format!("{text:?}");
    let mut toml = String::from("# The load that the command line asked for.\n\n");
    let mut line = |key: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(toml, "{key} = {value}");
    };
    check_trace(options)?;
    if let Some(trace) = &options.trace {
        line("trace", quoted(&trace.display().to_string()));
        line("trace_speed", quoted(options.speed.as_deref().unwrap_or("1")));
    } else {
        let mode = options.rate_per_s.map(|rate| format!("[\"open_rate\", {rate}]"));
        line("mode", mode.unwrap_or_else(|| quoted("max")));
        let duration = if options.fills { quoted("infinity") } else { DEFAULT_MINUTES.to_string() };
        line("duration", duration);
    }
    line("report_interval", "1".to_owned());
    line("concurrent", options.workers.unwrap_or(20).to_string());
    let (driver, prefix) = first.protocol.driver();
    line("driver", quoted(driver));
    let ips = servers.iter().rev();
    let ips: Vec<_> = ips.map(|server| format!("[{:?}, {}]", server.host, server.port)).collect();
    line(&format!("{prefix}_ips"), format!("[{}]", ips.join(", ")));
    for (key, value) in place(first) {
        line(key, value);
    }
    let keys = options.keys.unwrap_or(100_000);
    let drawn = match (options.fills, options.workload) {
        (true, _) => format!("[\"partitioned_sequential_int\", 0, {keys}]"),
        (false, Some(workload)) => workload.spread().term(keys),
        (false, None) => options.spread.unwrap_or(KeySpread::Uniform).term(keys),
    };
    line("key_generator", format!("[\"to_binstr\", \"key-~10..0B\", {drawn}]"));
    let value_bytes = options.value_bytes.unwrap_or(1000);
    line("value_generator", format!("[\"fixed_bin\", {value_bytes}]"));
    line("operations", operations(first.protocol, options)?);
    Ok(toml)
}

/// Refuses a trace together with options that the trace already decides.
fn check_trace(options: &LoadOptions) -> Result<(), LoadOptionsError> {
    if options.trace.is_none() {
        return options.speed.as_ref().map_or(Ok(()), |_| Err(LoadOptionsError::SpeedWithoutTrace));
    }
    let weights = [options.get, options.put, options.update, options.delete];
    let beside = [
        (weights.iter().any(Option::is_some), "--get, --put, --update and --delete"),
        (options.rate_per_s.is_some(), "--rate"),
        (options.keys.is_some(), "--keys"),
        (options.spread.is_some(), "--spread"),
        (options.value_bytes.is_some(), "--value-size"),
        (options.workload.is_some(), "--workload"),
        (options.fills, "--fill"),
    ];
    match beside.iter().find(|(is_given, _)| *is_given) {
        Some((_, name)) => Err(LoadOptionsError::TraceConflict(name)),
        None => Ok(()),
    }
}

/// The keys that name the bucket and switch TLS on.
fn place(server: &LineServer) -> Vec<(&'static str, String)> {
    let LineServer { bucket_type, bucket, .. } = server;
    match server.protocol {
        Protocol::Pb => {
            let binary = |name: &str| format!("{{ binary = {name:?} }}");
            let bucket = match bucket_type {
                Some(name) => format!("{{ tuple = [{}, {}] }}", binary(name), binary(bucket)),
                None => binary(bucket),
            };
            vec![("riakc_pb_bucket", bucket)]
        }
        Protocol::Http { tls } => {
            let path = match bucket_type {
                Some(name) => format!("/types/{name}/buckets/{bucket}/keys"),
                None => format!("/buckets/{bucket}/keys"),
            };
            let mut keys = vec![("http_raw_path", format!("{path:?}"))];
            if tls {
                keys.push(("http_use_ssl", "true".to_owned()));
            }
            keys
        }
        Protocol::Memcached => Vec::new(),
        Protocol::Redis => vec![("bucket_name", format!("{{ binary = {bucket:?} }}"))],
    }
}

/// The mix in TOML. Default: four reads to one write.
fn operations(protocol: Protocol, options: &LoadOptions) -> Result<String, LoadOptionsError> {
    let LoadOptions { get, put, update, delete, .. } = *options;
    let weights = [("--get", get), ("--put", put), ("--update", update), ("--delete", delete)];
    let weighted = weights.iter().find(|(_, weight)| weight.is_some()).map(|(name, _)| *name);
    let beside = weighted.or(options.spread.map(|_| "--spread"));
    if options.fills {
        let [_, put, ..] = protocol.operations();
        let put = put.unwrap_or("put");
        let beside = beside.or(options.workload.map(|_| "--workload"));
        return beside.map_or_else(
            || Ok(format!("[[{put:?}, 1]]")),
            |name| Err(LoadOptionsError::FillConflict(name)),
        );
    }
    if let Some(workload) = options.workload {
        return match beside {
            Some(name) => Err(LoadOptionsError::WorkloadConflict(name)),
            None => workload.operations(protocol).ok_or(LoadOptionsError::WorkloadUnsupported),
        };
    }
    let is_silent = [get, put, update, delete].iter().all(Option::is_none);
    let (get, put, delete) = match (is_silent, &options.trace) {
        (false, _) => (get, put, delete),
        (true, None) => (Some(80), Some(20), delete),
        // A trace decides each operation, so the weights only list the operations that can occur.
        (true, Some(_)) => (Some(1), Some(1), Some(1)),
    };
    let mut mix = Vec::new();
    for (name, weight) in protocol.operations().into_iter().zip([get, put, update, delete]) {
        if let Some(weight) = weight.filter(|weight| *weight > 0) {
            let name = name.ok_or(LoadOptionsError::NoUpdate)?;
            mix.push(format!("[{name:?}, {weight}]"));
        }
    }
    if mix.is_empty() {
        return Err(LoadOptionsError::NoOperation);
    }
    Ok(format!("[{}]", mix.join(", ")))
}

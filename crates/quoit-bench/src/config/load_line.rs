//! A load that options of the command line describe instead of a file: servers as URLs, a mix, a rate.
//!
//! The options are turned into a configuration in TOML. The run keeps that configuration, so that the user
//! can repeat and extend the run.

use std::fmt::Write as _;
use std::path::PathBuf;

use thiserror::Error;
use url::Url;

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

/// Reasons why a command line does not describe a load. Each message names the value and the remedy.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LoadOptionsError {
    /// Options that describe a load were given with configuration files.
    #[error(
        "--get, --put, --update, --delete, --workers, --rate, --keys, --spread, --value-size, --workload, \
         --fill, --trace and --speed describe a load of a URL: give one, such as pb://127.0.0.1:8087, or \
         set the keys in the configuration file"
    )]
    OptionsOfFiles,
    /// URLs and configuration files were given together.
    #[error(
        "{url} is a URL and {file} a file: give servers or configurations (and --target with these)"
    )]
    Mixed {
        /// The first URL.
        url: String,
        /// The first file.
        file: String,
    },
    /// A text is not the URL of a server.
    #[error(
        "{url}: {problem}; write for example pb://127.0.0.1:8087 or http://127.0.0.1:8098/TYPE/BUCKET"
    )]
    Url {
        /// The text.
        url: String,
        /// The fault.
        problem: String,
    },
    /// Two servers differ in protocol or bucket.
    #[error("{first} and {other} differ in protocol or bucket: one load has one of each")]
    Differ {
        /// The first URL.
        first: String,
        /// The first URL that differs from it.
        other: String,
    },
    /// All weights are 0.
    #[error("all weights are 0: set at least one of --get, --put, --update and --delete above 0")]
    NoOperation,
    /// A named workload was given with an option that it already decides.
    #[error("--workload has a mix and a spread of its own: leave out {0}")]
    WorkloadConflict(&'static str),
    /// The workload has an operation that the protocol does not have.
    #[error(
        "this workload has operations that only other protocols have: E needs pb://, F needs pb:// or http://"
    )]
    WorkloadUnsupported,
    /// `--fill` was given with an option that contradicts it.
    #[error("--fill writes each key once: leave out {0}")]
    FillConflict(&'static str),
    /// A trace was given with an option that the trace already decides.
    #[error("the operations, keys, sizes and times come from --trace: leave out {0}")]
    TraceConflict(&'static str),
    /// A speed was given without a trace.
    #[error("--speed applies only to a trace: add --trace FILE")]
    SpeedWithoutTrace,
    /// The protocol does not have the operation.
    #[error("redis and memcached have no --update: use --get and --put")]
    NoUpdate,
}

/// A protocol, by the scheme of its URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Pb,
    Http { tls: bool },
    Redis,
    Memcached,
}

impl Protocol {
    fn of_scheme(scheme: &str) -> Option<Self> {
        Some(match scheme {
            "pb" => Self::Pb,
            "http" => Self::Http { tls: false },
            "https" => Self::Http { tls: true },
            "redis" => Self::Redis,
            "memcached" => Self::Memcached,
            _ => return None,
        })
    }

    /// True if the protocol has bucket types.
    fn has_types(self) -> bool {
        matches!(self, Self::Pb | Self::Http { .. })
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Pb => 8087,
            Self::Http { .. } => 8098,
            Self::Redis => 6379,
            Self::Memcached => 11_211,
        }
    }

    /// Name of the driver, and prefix of its keys.
    fn driver(self) -> (&'static str, &'static str) {
        match self {
            Self::Pb => ("riakc_pb", "riakc_pb"),
            Self::Http { .. } => ("http_raw", "http_raw"),
            Self::Redis => ("redis", "redis"),
            Self::Memcached => ("memcached", "memcached"),
        }
    }

    /// Names of the driver's read, write, update and delete.
    fn operations(self) -> [Option<&'static str>; 4] {
        match self {
            Self::Redis => [Some("get"), Some("set"), None, Some("del")],
            Self::Memcached => [Some("get_any"), Some("set"), None, Some("delete")],
            Self::Pb | Self::Http { .. } => ["get", "put", "update", "delete"].map(Some),
        }
    }
}

/// A server of the command line, parsed from its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LineServer {
    protocol: Protocol,
    host: String,
    port: u16,
    bucket_type: Option<String>,
    bucket: String,
}

impl LineServer {
    fn parse(text: &str) -> Result<Self, LoadOptionsError> {
        let fault = |problem: String| LoadOptionsError::Url { url: text.to_owned(), problem };
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let protocol = Protocol::of_scheme(scheme).ok_or_else(|| {
            fault(format!(
                "{scheme} is not a protocol of this program: write pb, http, https, redis or memcached"
            ))
        })?;
        // With a scheme that the URL standard does not know, the parser keeps every port. For `http` it
        // would drop port 80, which is not the default port here.
        let url = Url::parse(&format!("quoit://{rest}"));
        let url = url.map_err(|error| fault(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fault("logins come from QUOIT_USER and QUOIT_PASSWORD_FILE".to_owned()));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| fault("there is no host".to_owned()))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(fault("nothing comes behind the path, neither ? nor #".to_owned()));
        }
        let path: Vec<&str> = url.path().split('/').filter(|part| !part.is_empty()).collect();
        let (bucket_type, bucket) = match path[..] {
            [] => (None, "bench"),
            [bucket] => (None, bucket),
            [bucket_type, bucket] if protocol.has_types() => (Some(bucket_type), bucket),
            _ => return Err(fault("the path is BUCKET or TYPE/BUCKET".to_owned())),
        };
        Ok(Self {
            protocol,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: url.port().unwrap_or(protocol.default_port()),
            bucket_type: bucket_type.map(str::to_owned),
            bucket: bucket.to_owned(),
        })
    }

    fn is_like(&self, other: &Self) -> bool {
        let load =
            |server: &Self| (server.protocol, server.bucket_type.clone(), server.bucket.clone());
        load(self) == load(other)
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
/// When a URL does not name a server of a known protocol, or the options contradict each other.
pub(crate) fn configuration(
    urls: &[String],
    options: &LoadOptions,
) -> Result<String, LoadOptionsError> {
    let servers: Vec<LineServer> =
        urls.iter().map(|url| LineServer::parse(url)).collect::<Result<_, _>>()?;
    let first = &servers[0];
    if let Some(other) = servers.iter().position(|server| !server.is_like(first)) {
        return Err(LoadOptionsError::Differ {
            first: urls[0].clone(),
            other: urls[other].clone(),
        });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Pacing, Settings, Target, TargetKeys};
    use std::path::Path;

    fn config(urls: &[&str], options: &LoadOptions) -> Config {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        let toml = configuration(&urls, options).expect("a load");
        let mut settings = Settings::default();
        settings.add(Path::new(LINE_FILE), toml.as_bytes()).expect("TOML");
        let config = Config::from_settings(settings).expect("a configuration");
        assert_eq!(config.warnings, [""; 0], "{toml}");
        config
    }

    fn fault(url: &str, options: &LoadOptions) -> String {
        configuration(&[url.to_owned()], options).expect_err("no load").to_string()
    }

    #[test]
    fn a_line_becomes_a_configuration_that_is_read_without_a_warning() {
        let options = LoadOptions {
            get: Some(3),
            delete: Some(1),
            rate_per_s: Some(5000.0),
            workers: Some(50),
            spread: Some(KeySpread::EightyTwenty),
            ..LoadOptions::default()
        };
        let config = config(&["pb://a:17/maps/b", "pb://[::1]/maps/b"], &options);
        assert_eq!((config.driver.as_str(), config.worker_count), ("riakc_pb", 50));
        assert!(matches!(config.pacing, Pacing::Open { rate_per_s: 5000.0, .. }));
        let target = |host: &str, port| Target { host: host.to_owned(), port };
        let targets = config
            .targets(TargetKeys { ips: "riakc_pb_ips", port: "riakc_pb_port", default_port: 1 })
            .expect("targets");
        assert_eq!(targets, [target("a", 17), target("::1", 8087)]);
        assert_eq!(config.operations.len(), 2);
    }

    #[test]
    fn every_protocol_has_its_driver_and_four_reads_to_a_write() {
        for (url, driver) in [
            ("pb://h", "riakc_pb"),
            ("http://h/b", "http_raw"),
            ("https://h:1/t/b", "http_raw"),
            ("redis://h", "redis"),
            ("memcached://h", "memcached"),
        ] {
            let config = config(&[url], &LoadOptions::default());
            assert_eq!((config.driver.as_str(), config.pacing), (driver, Pacing::Max), "{url}");
            let weights: Vec<_> = config.operations.iter().map(|entry| entry.weight).collect();
            assert_eq!(weights, [80, 20], "{url}");
        }
        let http = config(&["http://h"], &LoadOptions::default());
        let targets = http
            .targets(TargetKeys { ips: "http_raw_ips", port: "http_raw_port", default_port: 1 })
            .expect("targets");
        assert_eq!(targets[0].port, 8098);
    }

    #[test]
    fn named_workloads_are_mixes_and_spreads() {
        let of = |workload, url: &str| {
            let options = LoadOptions { workload: Some(workload), ..LoadOptions::default() };
            config(&[url], &options)
        };
        let insertion = of(Workload::YcsbD, "pb://h");
        let inserts: Vec<_> = insertion.operations.iter().map(|entry| entry.inserts).collect();
        assert_eq!(inserts, [false, true]);
        assert_eq!(insertion.operations[1].operation, crate::term::Term::atom("put"));
        assert!(insertion.inserted_keys().is_some());
        assert!(of(Workload::YcsbA, "redis://h").inserted_keys().is_none());
        for workload in [Workload::YcsbB, Workload::YcsbC, Workload::YcsbF] {
            of(workload, "http://h");
        }
        of(Workload::YcsbE, "pb://h");
        let scans = LoadOptions { workload: Some(Workload::YcsbE), ..LoadOptions::default() };
        assert_eq!(fault("http://h", &scans), LoadOptionsError::WorkloadUnsupported.to_string());
        let weighted = LoadOptions { get: Some(1), ..scans };
        assert!(fault("pb://h", &weighted).contains("leave out --get"));
    }

    #[test]
    fn a_fill_writes_each_key_once() {
        let fill = LoadOptions { fills: true, keys: Some(50), ..LoadOptions::default() };
        let config = config(&["pb://h"], &fill);
        assert_eq!(config.key_generator.dimension(), Some(50));
        assert_eq!(config.length, crate::config::RunLength::Unlimited);
        let beside = LoadOptions { workload: Some(Workload::YcsbA), ..fill };
        assert!(fault("pb://h", &beside).contains("leave out --workload"));
    }

    #[test]
    fn a_line_that_describes_no_load_is_told_with_the_remedy() {
        let none = LoadOptions::default();
        for (url, expected) in [
            (
                "ftp://h",
                "ftp is not a protocol of this program: write pb, http, https, redis or memcached",
            ),
            ("pb://", "write for example"),
            ("pb://h:99999", "write for example"),
            ("pb://u:p@h", "QUOIT_USER"),
            ("pb://h/a/b/c", "TYPE/BUCKET"),
            ("pb://h/b?timeout=1", "neither ? nor #"),
        ] {
            assert!(fault(url, &none).contains(expected), "{url}: {}", fault(url, &none));
        }
        let nothing = LoadOptions { get: Some(0), ..LoadOptions::default() };
        assert!(fault("pb://h", &nothing).contains("all weights are 0"));
        let update = LoadOptions { update: Some(1), ..LoadOptions::default() };
        assert_eq!(fault("redis://h", &update), LoadOptionsError::NoUpdate.to_string());
        let urls = ["pb://h".to_owned(), "http://h".to_owned()];
        let differ = configuration(&urls, &none).expect_err("two protocols");
        assert!(differ.to_string().contains("differ in protocol or bucket"), "{differ}");
    }
}

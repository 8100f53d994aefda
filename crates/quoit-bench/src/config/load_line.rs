//! A load that the command line describes without a file: servers as URLs, a mix, a rate.
//!
//! It becomes a configuration in TOML, which the run keeps, so that it can be repeated and extended.

use std::fmt::Write as _;

use thiserror::Error;
use url::Url;

/// Name of the configuration that a load of the command line becomes.
pub(crate) const LINE_FILE: &str = "command-line.toml";

/// Length of a run that says nothing else: half a minute, in minutes.
const DEFAULT_MINUTES: f64 = 0.5;

/// Parts of a load beside its servers; what is `None` has a default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineOptions {
    /// Weight of reads.
    pub get: Option<u32>,
    /// Weight of writes without a read before them.
    pub put: Option<u32>,
    /// Weight of reads with a write after each.
    pub update: Option<u32>,
    /// Weight of deletes.
    pub delete: Option<u32>,
    /// Workers, each with one operation in flight; 20.
    pub workers: Option<u32>,
    /// Arrivals a second of all workers together; as many as the workers can.
    pub rate_per_s: Option<f64>,
    /// Number of different keys; 100 000.
    pub keys: Option<u64>,
    /// How keys are drawn; evenly.
    pub spread: Option<KeySpread>,
    /// Bytes of each value; 1000.
    pub value_bytes: Option<u64>,
}

/// How the keys of a load are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySpread {
    /// All alike.
    Uniform,
    /// Four fifths of the draws among the first fifth of the keys.
    EightyTwenty,
    /// By a Pareto distribution: few keys are drawn very often.
    Pareto,
}

impl KeySpread {
    fn generator(self) -> &'static str {
        match self {
            Self::Uniform => "uniform_int",
            Self::EightyTwenty => "eightytwenty_int",
            Self::Pareto => "truncated_pareto_int",
        }
    }
}

/// Why a command line describes no load. Each message names the value and the remedy.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LineError {
    /// Options of a load beside configuration files.
    #[error(
        "--get, --put, --update, --delete, --workers, --rate, --keys, --spread and --value-size describe a \
         load of a URL: give one, such as pb://127.0.0.1:8087, or set the keys in the configuration file"
    )]
    OptionsOfFiles,
    /// URLs beside configuration files.
    #[error(
        "{url} is a URL and {file} a file: give servers or configurations (and --target with these)"
    )]
    Mixed {
        /// A URL.
        url: String,
        /// A file.
        file: String,
    },
    /// A text that is no URL of a server.
    #[error(
        "{url}: {problem}; write for example pb://127.0.0.1:8087 or http://127.0.0.1:8098/TYPE/BUCKET"
    )]
    Url {
        /// The text.
        url: String,
        /// The fault.
        problem: String,
    },
    /// Two servers with different protocols or buckets.
    #[error("{first} and {other} differ in protocol or bucket: one load has one of each")]
    Differ {
        /// The first URL.
        first: String,
        /// One that differs from it.
        other: String,
    },
    /// Nothing to do.
    #[error("all weights are 0: give one of --get, --put, --update and --delete a number above")]
    NoOperation,
    /// An operation that the protocol does not have.
    #[error("redis has no --update: use --get and --put")]
    NoUpdate,
}

/// A protocol, by the scheme of its URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Pb,
    Http { tls: bool },
    Redis,
}

impl Protocol {
    fn of_scheme(scheme: &str) -> Option<Self> {
        Some(match scheme {
            "pb" => Self::Pb,
            "http" => Self::Http { tls: false },
            "https" => Self::Http { tls: true },
            "redis" => Self::Redis,
            _ => return None,
        })
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Pb => 8087,
            Self::Http { .. } => 8098,
            Self::Redis => 6379,
        }
    }

    /// Driver, and prefix of its keys.
    fn driver(self) -> (&'static str, &'static str) {
        match self {
            Self::Pb => ("riakc_pb", "riakc_pb"),
            Self::Http { .. } => ("http_raw", "http_raw"),
            Self::Redis => ("redis", "redis"),
        }
    }
}

/// A server of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LineServer {
    protocol: Protocol,
    host: String,
    port: u16,
    bucket_type: Option<String>,
    bucket: String,
}

impl LineServer {
    fn parse(text: &str) -> Result<Self, LineError> {
        let fault = |problem: String| LineError::Url { url: text.to_owned(), problem };
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let protocol = Protocol::of_scheme(scheme)
            .ok_or_else(|| fault(format!("{scheme} is none of pb, http, https and redis")))?;
        // The standard drops the default ports of the schemes that it knows, which are not those of here.
        let url = Url::parse(&format!("quoit://{rest}"));
        let url = url.map_err(|error| fault(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fault("logins come from QUOIT_USER and QUOIT_PASSWORD_FILE".to_owned()));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| fault("there is no host".to_owned()))?;
        let path: Vec<&str> = url.path().split('/').filter(|part| !part.is_empty()).collect();
        let (bucket_type, bucket) = match path[..] {
            [] => (None, "bench"),
            [bucket] => (None, bucket),
            [bucket_type, bucket] if protocol != Protocol::Redis => (Some(bucket_type), bucket),
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

/// Whether an argument of the command line is a URL rather than a file.
pub fn is_url(argument: &str) -> bool {
    argument.contains("://")
}

/// The configuration of a load, in TOML.
///
/// # Errors
///
/// When a URL is none of a server, or the options don't fit it.
pub(crate) fn configuration(urls: &[String], options: &LineOptions) -> Result<String, LineError> {
    let servers: Vec<LineServer> =
        urls.iter().map(|url| LineServer::parse(url)).collect::<Result<_, _>>()?;
    let first = &servers[0];
    if let Some(other) = servers.iter().position(|server| !server.is_like(first)) {
        return Err(LineError::Differ { first: urls[0].clone(), other: urls[other].clone() });
    }
    let quoted = |text: &str| format!("{text:?}");
    let mut toml = String::from("# The load that the command line asked for.\n\n");
    let mut line = |key: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(toml, "{key} = {value}");
    };
    let mode = options.rate_per_s.map(|rate| format!("[\"open_rate\", {rate}]"));
    line("mode", mode.unwrap_or_else(|| quoted("max")));
    line("duration", DEFAULT_MINUTES.to_string());
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
    let spread = options.spread.unwrap_or(KeySpread::Uniform).generator();
    let keys = options.keys.unwrap_or(100_000);
    line("key_generator", format!("[\"to_binstr\", \"key-~10..0B\", [{spread:?}, {keys}]]"));
    let value_bytes = options.value_bytes.unwrap_or(1000);
    line("value_generator", format!("[\"fixed_bin\", {value_bytes}]"));
    line("operations", operations(first.protocol, options)?);
    Ok(toml)
}

/// The keys that name the bucket, and whether TLS is spoken.
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
        Protocol::Redis => vec![("bucket_name", format!("{{ binary = {bucket:?} }}"))],
    }
}

/// The mix; four reads to a write where nothing is said.
fn operations(protocol: Protocol, options: &LineOptions) -> Result<String, LineError> {
    let LineOptions { get, put, update, delete, .. } = *options;
    let is_silent = [get, put, update, delete].iter().all(Option::is_none);
    let (get, put) = if is_silent { (Some(80), Some(20)) } else { (get, put) };
    let names = match protocol {
        Protocol::Redis => ["get", "set", "update", "del"],
        _ => ["get", "put", "update", "delete"],
    };
    if protocol == Protocol::Redis && update.is_some_and(|weight| weight > 0) {
        return Err(LineError::NoUpdate);
    }
    let weights = names.into_iter().zip([get, put, update, delete]);
    let mix: Vec<_> = weights
        .filter_map(|(name, weight)| Some((name, weight.filter(|weight| *weight > 0)?)))
        .map(|(name, weight)| format!("[{name:?}, {weight}]"))
        .collect();
    if mix.is_empty() {
        return Err(LineError::NoOperation);
    }
    Ok(format!("[{}]", mix.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Pacing, Settings, Target};
    use std::path::Path;

    fn config(urls: &[&str], options: &LineOptions) -> Config {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        let toml = configuration(&urls, options).expect("a load");
        let mut settings = Settings::default();
        settings.add(Path::new(LINE_FILE), toml.as_bytes()).expect("TOML");
        let config = Config::from_settings(settings).expect("a configuration");
        assert_eq!(config.warnings, [""; 0], "{toml}");
        config
    }

    fn fault(url: &str, options: &LineOptions) -> String {
        configuration(&[url.to_owned()], options).expect_err("no load").to_string()
    }

    #[test]
    fn a_line_becomes_a_configuration_that_is_read_without_a_warning() {
        let options = LineOptions {
            get: Some(3),
            delete: Some(1),
            rate_per_s: Some(5000.0),
            workers: Some(50),
            spread: Some(KeySpread::EightyTwenty),
            ..LineOptions::default()
        };
        let config = config(&["pb://a:17/maps/b", "pb://[::1]/maps/b"], &options);
        assert_eq!((config.driver.as_str(), config.worker_count), ("riakc_pb", 50));
        assert!(matches!(config.pacing, Pacing::Open { rate_per_s: 5000.0, .. }));
        let target = |host: &str, port| Target { host: host.to_owned(), port };
        let targets = config.targets("riakc_pb_ips", "riakc_pb_port", 1).expect("targets");
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
        ] {
            let config = config(&[url], &LineOptions::default());
            assert_eq!((config.driver.as_str(), config.pacing), (driver, Pacing::Max), "{url}");
            let weights: Vec<_> = config.operations.iter().map(|entry| entry.weight).collect();
            assert_eq!(weights, [80, 20], "{url}");
        }
        let http = config(&["http://h"], &LineOptions::default());
        let targets = http.targets("http_raw_ips", "http_raw_port", 1).expect("targets");
        assert_eq!(targets[0].port, 8098);
    }

    #[test]
    fn a_line_that_describes_no_load_is_told_with_the_remedy() {
        let none = LineOptions::default();
        for (url, expected) in [
            ("ftp://h", "ftp is none of pb, http, https and redis"),
            ("pb://", "write for example"),
            ("pb://h:99999", "write for example"),
            ("pb://u:p@h", "QUOIT_USER"),
            ("pb://h/a/b/c", "TYPE/BUCKET"),
        ] {
            assert!(fault(url, &none).contains(expected), "{url}: {}", fault(url, &none));
        }
        let nothing = LineOptions { get: Some(0), ..LineOptions::default() };
        assert!(fault("pb://h", &nothing).contains("all weights are 0"));
        let update = LineOptions { update: Some(1), ..LineOptions::default() };
        assert_eq!(fault("redis://h", &update), LineError::NoUpdate.to_string());
        let urls = ["pb://h".to_owned(), "http://h".to_owned()];
        let differ = configuration(&urls, &none).expect_err("two protocols");
        assert!(differ.to_string().contains("differ in protocol or bucket"), "{differ}");
    }
}

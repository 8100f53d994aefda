//! Configurations in basho_bench's Erlang terms or in TOML, read into typed values.

mod agents;
mod config_text;
mod convert;
mod duration;
mod error;
mod events;
mod expectation;
mod generators;
mod hooks;
mod known_keys;
mod load_line;
mod operations;
mod pacing;
mod replay;
mod scripts;
mod settings;
mod simple_keys;
mod targets;
#[cfg(test)]
mod tests;
mod toml_form;
mod value_form;
mod verification;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use crate::log_level::LogLevel;
pub use agents::AgentPlan;
pub(crate) use agents::{NamedFile, agent_address};
pub(crate) use config_text::ConfigText;
pub use convert::to_toml;
pub use duration::RunLength;
pub use error::{ConfigError, SettingPlace};
pub(crate) use events::event_name;
pub use events::{EventAction, EventCall, RunEvent};
pub use expectation::{Expectation, ExpectationError, Figure, Relation};
use generators::Generators;
pub(crate) use hooks::DIRECTORY_VARIABLE;
pub use hooks::Hooks;
pub(crate) use known_keys::unread_target_keys;
pub(crate) use load_line::LINE_FILE;
pub use load_line::{KeySpread, LoadOptions, LoadOptionsError, Workload, is_url};
pub use operations::OperationEntry;
pub(crate) use operations::file_label;
pub(crate) use pacing::time_of;
pub use pacing::{Arrivals, KneePlan, Pacing};
pub use replay::parse_trace_speed;
pub use settings::Settings;
pub(crate) use settings::bytes_of;
use simple_keys::{check_stats, read_driver, read_log_level, read_random_kind, read_seed};
pub use targets::{Target, TargetKeys, TargetOverride};
pub use toml_form::TomlError;
pub(crate) use value_form::ValueForm;

use crate::keygen::KeyGenerator;
use crate::notices::Notices;
use crate::random::{RandomKind, Seed};
use crate::script::{FaultSlot, Session};
use crate::share::Share;
use crate::trace::Replay;
use crate::valgen::{SourceSettings, ValueGenerator};
use crate::verify::VerifySettings;

/// Maximum number of workers in one process.
const CONCURRENT_MAX: u32 = 100_000;

/// A configuration that can be run.
#[derive(Debug, Clone)]
pub struct Config {
    /// Timing of the operations (`mode`).
    pub pacing: Pacing,
    /// Settings of a search for the highest rate that the system sustains (`mode`, an extension). `pacing`
    /// is then the first rate.
    pub knee: Option<KneePlan>,
    /// Length of the warm-up, whose operations are not measured (`warmup`, an extension).
    pub warmup: Duration,
    /// Settings of the verification, if the run verifies (`verify`, an extension).
    pub verify: Option<VerifySettings>,
    /// Condition under which the run ends (`duration`).
    pub length: RunLength,
    /// Number of workers (`concurrent`).
    pub worker_count: u32,
    /// Name of the driver without the prefix `basho_bench_driver_` (`driver`).
    pub driver: String,
    /// The mix of operations (`operations`), in the order of the file.
    pub operations: Vec<OperationEntry>,
    /// Generator of keys (`key_generator`).
    pub key_generator: KeyGenerator,
    /// Generator of values (`value_generator`).
    pub value_generator: ValueGenerator,
    /// Time that one row of the tables covers, in whole seconds (`report_interval`).
    pub report_interval: Duration,
    /// Seed of all random streams (`rng_seed`).
    pub seed: Seed,
    /// Generator of the random streams (`rng`, an extension).
    pub random_kind: RandomKind,
    /// Lowest level that the logs keep (`log_level`).
    pub log_level: LogLevel,
    /// Stop the run after its first error (`shutdown_on_error`).
    pub shutdown_on_error: bool,
    /// Conditions on the run's results (`expect`, an extension).
    pub expectations: Vec<Expectation>,
    /// Stop the run when its first part misses an expectation (`abort_early`, an extension).
    pub aborts_early: bool,
    /// Servers whose statistics are read each second, by their HTTP addresses (`watch`, an extension).
    pub watched: Vec<Target>,
    /// The trace that is replayed (`trace` and `trace_speed`, extensions).
    pub replay: Option<Replay>,
    /// Commands and marks at times of the run (`events`, an extension).
    pub events: Vec<RunEvent>,
    /// The source that values are cut from.
    pub source: SourceSettings,
    /// Parent directory of the results, unless the command line sets one (`test_dir`).
    pub results_dir: PathBuf,
    /// Number of threads of the load generator (`client_threads`, an extension).
    pub thread_count: u32,
    /// Agents that run the workers (`agents`, an extension; or `distribute_work` and `remote_nodes`).
    pub agents: Option<AgentPlan>,
    /// The part of the run that this process does; all of it unless an agent runs this process.
    pub share: Share,
    /// Commands before and after the run (`pre_hook`, `post_hook`).
    pub hooks: Hooks,
    /// Warnings to print before the run.
    pub warnings: Vec<String>,
    /// All keys, for the drivers to read.
    pub settings: Settings,
    /// Servers of the command line, which replace the servers of the file; empty without such servers.
    pub target_overrides: Vec<TargetOverride>,
    /// True if standard output is reserved for lines of JSON; all other output then goes to standard error.
    pub is_json: bool,
    /// Directory of the run's files, which relative paths of drivers start from. Empty until the directory
    /// exists.
    pub run_directory: PathBuf,
    /// Passes the messages of drivers to the log of the run.
    pub notices: Notices,
    /// The script that decides the order of each worker's operations, in place of weights (`session`, an
    /// extension).
    pub(crate) session: Option<Session>,
    /// The scripts of generators and of the session.
    pub script_paths: Vec<PathBuf>,
    /// Keeps the first fault that a script caused.
    pub(crate) script_faults: FaultSlot,
}

impl Config {
    /// Reads configuration files. If several files set one key, the last file wins.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or parsed, the files set no key, or the value of a key does not have the
    /// form that the key requires.
    pub fn load(paths: &[PathBuf]) -> Result<Self, ConfigError> {
        let Some(first) = paths.first() else { return Err(ConfigError::NoFile) };
        let settings = Settings::load(paths)?;
        if settings.is_empty() {
            return Err(ConfigError::Empty { path: first.clone() });
        }
        let mut config = Self::from_settings(settings)?;
        config.load_scripts()?;
        config.open_files()?;
        Ok(config)
    }

    /// The configuration, as text, of a load that command line options describe.
    ///
    /// # Errors
    ///
    /// When a URL does not name a server of a known protocol, or the options contradict each other.
    pub(crate) fn text_of_line(
        urls: &[String],
        options: &LoadOptions,
    ) -> Result<String, ConfigError> {
        load_line::configuration(urls, options).map_err(ConfigError::Line)
    }

    /// Reads a configuration that is in no file.
    ///
    /// # Errors
    ///
    /// When the value of a key does not have the form that the key requires.
    pub(crate) fn of_text(text: ConfigText<'_>) -> Result<Self, ConfigError> {
        let ConfigText { name, text } = text;
        let mut settings = Settings::default();
        settings.add(name.as_ref(), text.as_bytes())?;
        Self::from_settings(settings)
    }

    /// Checks that the files with keys and values can be opened.
    fn open_files(&self) -> Result<(), ConfigError> {
        for (key, keys) in [
            ("key_generator", Some(&self.key_generator)),
            ("value_generator", self.value_generator.keys()),
        ] {
            let opened = keys.map_or(Ok(()), KeyGenerator::open_files);
            opened.map_err(|(path, error)| ConfigError::KeyFile {
                place: self.settings.place(key),
                key,
                path: path.to_owned(),
                error,
            })?;
        }
        let blob_key = "value_generator_blob_file";
        match &self.source.file {
            Some(path) => check_blob(path).map_err(|error| ConfigError::KeyFile {
                place: self.settings.place(blob_key),
                key: blob_key,
                path: path.clone(),
                error,
            }),
            None => Ok(()),
        }
    }

    /// Builds the configuration from its settings.
    ///
    /// # Errors
    ///
    /// When the value of a key does not have the form that the key requires.
    pub fn from_settings(settings: Settings) -> Result<Self, ConfigError> {
        let mut warnings = settings.remarks().to_vec();
        warnings.extend(known_keys::warnings(&settings)?);
        let operations = operations::read_operations(&settings)?;
        let driver = read_driver(&settings)?;
        check_stats(&settings, &mut warnings)?;
        let worker_count = settings.integer("concurrent", 3, 1..=CONCURRENT_MAX)?;
        let cores = std::thread::available_parallelism()
            .map_or(1, |cores| quoit_number::saturating_u32(cores.get() as u64));
        let threads = settings.integer("client_threads", cores, 1..=1024)?;
        let hooks = Hooks::read(&settings, &mut warnings)?;
        let agents = agents::read_agents(&settings, &mut warnings)?;
        let Generators { keys: key_generator, values: value_generator, source } =
            Generators::read(&settings, worker_count, &mut warnings)?;
        operations::check_inserts(&settings, &operations, &key_generator)?;
        let mut config = Self {
            pacing: pacing::read_pacing(&settings)?,
            knee: pacing::read_knee(&settings),
            warmup: pacing::read_warmup(&settings)?,
            verify: verification::read_verification(&settings)?,
            length: settings.read(
                "duration",
                RunLength::For(Duration::from_secs(300)),
                "write minutes above 0, or infinity",
                RunLength::of_term,
            )?,
            worker_count,
            driver,
            operations,
            key_generator,
            value_generator,
            report_interval: Duration::from_secs(settings.integer(
                "report_interval",
                10,
                1..=86_400,
            )?),
            seed: read_seed(&settings)?,
            random_kind: read_random_kind(&settings)?,
            log_level: read_log_level(&settings)?,
            shutdown_on_error: settings.boolean("shutdown_on_error", false)?,
            expectations: expectation::read_expectations(&settings)?,
            aborts_early: settings.boolean("abort_early", false)?,
            watched: targets::read_watched(&settings)?,
            events: events::read_events(&settings)?,
            replay: None,
            source,
            results_dir: PathBuf::from(settings.text("test_dir", "tests")?),
            thread_count: threads.min(worker_count),
            agents,
            share: Share::WHOLE,
            hooks,
            warnings,
            settings,
            target_overrides: Vec::new(),
            is_json: false,
            run_directory: PathBuf::new(),
            notices: Notices::default(),
            session: None,
            script_paths: Vec::new(),
            script_faults: FaultSlot::default(),
        };
        config.read_replay()?;
        config.read_session()?;
        Ok(config)
    }

    /// The generator of keys for operations that insert, if the mix has any. Its first number follows the
    /// last key of `key_generator`.
    pub(crate) fn inserted_keys(&self) -> Option<KeyGenerator> {
        let inserts = self.operations.iter().any(|entry| entry.inserts && entry.weight > 0);
        inserts.then(|| self.key_generator.inserting())?
    }

    /// Servers of the command line for the list named `list`. `None` selects the servers without a list
    /// name.
    pub(crate) fn overrides(&self, list: Option<&str>) -> Vec<Target> {
        let of_list = self.target_overrides.iter().filter(|target| target.list.as_deref() == list);
        of_list.map(|target| target.target.clone()).collect()
    }

    /// The servers of a driver. Servers of the command line take precedence: first those for the list of
    /// the keys, then those without a list name.
    ///
    /// # Errors
    ///
    /// When the value of either key does not have the form that the key requires.
    pub fn targets(&self, keys: TargetKeys<'_>) -> Result<Vec<Target>, ConfigError> {
        let port = self.settings.integer(keys.port, keys.default_port, 1..=u16::MAX)?;
        let list = keys.ips.strip_suffix("_ips");
        for overrides in [self.overrides(list), self.overrides(None)] {
            if !overrides.is_empty() {
                return Ok(overrides);
            }
        }
        targets::read_targets(&self.settings, keys.ips, port)
    }

    /// Estimated total size of the values once every key is written, in bytes: the number of distinct keys
    /// times the mean size of a value. `None` if one of the two is unknown.
    pub fn estimated_size_bytes(&self) -> Option<u64> {
        let keys = self.key_generator.dimension()?;
        Some(quoit_number::whole(self.value_generator.mean_bytes()? * keys as f64))
    }
}

/// Checks that the file can be read and is not empty, so that values can be cut from it.
fn check_blob(path: &Path) -> std::io::Result<()> {
    let mut byte = [0];
    match std::fs::File::open(path)?.read(&mut byte)? {
        0 => Err(std::io::Error::other("it is empty")),
        _ => Ok(()),
    }
}

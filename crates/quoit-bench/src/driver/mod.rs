//! Drivers, which perform operations on the system under test.
//!
//! A driver is a file that implements [`Driver`] and a line in `with_named`. A driver value owns the
//! connections of one worker and performs one operation at a time. The run, not the driver, does the pacing,
//! ends after the duration, counts the operations and measures their latencies.

mod bitcask;
mod both_targets;
mod disconnect;
mod engine;
mod http_link;
mod http_raw;
mod http_templated;
mod index_queries;
mod indexes;
mod inputs;
mod memcached;
mod memory;
mod nhs;
mod null;
mod nullfile;
mod ordered;
mod pb_data_type;
mod pb_get;
mod pb_link;
mod pb_replicas;
mod redis;
mod refusal;
mod request_stream;
mod riakc_dt_pb;
mod riakc_pb;
mod riakclient;

use std::borrow::Cow;
use std::future::Future;
use std::path::PathBuf;

pub use inputs::Inputs;
use thiserror::Error;

use self::ordered::{EleveldbDriver, InnostoreDriver, LeveledDriver};
use crate::config::{Config, ConfigError, Target};
use crate::keygen::{Key, KeyKind};
use crate::term::Term;
use crate::valgen::SourceError;
use crate::verify::Read;
use crate::worker_place::WorkerPlace;

/// The outcome of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The operation succeeded, and its latency counts.
    Success,
    /// The operation is not counted, and the next one starts at once.
    Silent,
    /// The operation failed for this reason.
    Failure(Term),
    /// The worker has nothing left to do and ends normally.
    Stop,
}

/// Reasons why a worker's driver cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The server cannot be reached.
    #[error("cannot connect to {target}: {reason}; is the server running there?")]
    Connect {
        /// Host and port.
        target: String,
        /// The reason.
        reason: String,
    },
    /// The server does not say which nodes hold which keys.
    #[error(
        "{target} sends no layout of its cluster: {reason}; set riakc_pb_replica_aware = false to run \
         without one"
    )]
    Layout {
        /// Host and port.
        target: String,
        /// The server's answer.
        reason: String,
    },
    /// The source of values is empty or can't be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store of an engine cannot be opened.
    #[error("cannot open the store {}: {reason}", .path.display())]
    Store {
        /// Directory of the store.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Requirements of a driver's settings on the system under test, for a user who checks before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemRequirements {
    /// The servers, in the order in which workers take them; empty for a driver without servers.
    pub targets: Vec<Target>,
    /// Servers of additional lists, each with the name of the list.
    pub additional_lists: Vec<(&'static str, Vec<Target>)>,
    /// The guarantee that a write waits for before it is acknowledged: the quorums of requests, or the
    /// syncs of an engine.
    pub durability: String,
}

/// The connection of one worker to the system under test, and the operations on it.
///
/// The futures of operations are not `Send`, because a worker stays on the thread that started it.
pub trait Driver: Sized + 'static {
    /// Name in configurations, without `basho_bench_driver_`.
    const NAME: &'static str;

    /// The operations, as listed by the error about an unknown operation.
    const OPERATIONS: &'static str;

    /// An operation with its arguments, already checked.
    type Operation: Copy + Send + Sync + 'static;

    /// State that all workers share: the driver's settings, read once.
    type Plan: Send + Sync + 'static;

    /// Names of the server lists that `--target LIST=HOST:PORT` selects: `http` for `http_ips`. Empty for a
    /// driver with one list or without servers.
    const TARGET_LISTS: &'static [&'static str] = &[];

    /// Reads the driver's settings.
    ///
    /// # Errors
    ///
    /// When a setting, or the kind of a generator, does not fit the driver.
    fn plan(config: &Config) -> Result<Self::Plan, ConfigError>;

    /// Requirements of the settings on the system under test.
    fn system_requirements(plan: &Self::Plan) -> SystemRequirements;

    /// Notices about the settings, to be printed before a run.
    fn notices(_plan: &Self::Plan) -> Vec<String> {
        Vec::new()
    }

    /// The operation that a term of the configuration names; `None` if the driver does not have it.
    fn operation(plan: &Self::Plan, term: &Term) -> Option<Self::Operation>;

    /// The reason why an operation of basho_bench's driver is not offered here; `None` for other terms.
    fn missing(_term: &Term) -> Option<&'static str> {
        None
    }

    /// True if the operation draws values.
    fn draws_values(operation: Self::Operation) -> bool;

    /// Prepares the system under test, once, before the workers connect. Returns notices to print. A
    /// failure is such a notice and does not stop the run.
    fn prepare(_plan: &Self::Plan) -> impl Future<Output = Vec<String>> {
        async { Vec::new() }
    }

    /// Connects one worker.
    fn connect(
        plan: &Self::Plan,
        place: WorkerPlace,
    ) -> impl Future<Output = Result<Self, StartError>>;

    /// True if the driver reports its reads and writes for verification ([`Inputs`]) and implements
    /// [`read_back`](Self::read_back).
    const VERIFIES: bool = false;

    /// Performs one operation: all of its requests one after another, including retries.
    fn perform(
        &mut self,
        plan: &Self::Plan,
        operation: Self::Operation,
        inputs: &mut Inputs,
    ) -> impl Future<Output = Outcome>;

    /// Reads one key at the end of a verified run, and passes its values to `read`. Only called if the
    /// driver [verifies](Self::VERIFIES). The error is the reason of a failure; the caller tries the key
    /// again.
    fn read_back(
        &mut self,
        _plan: &Self::Plan,
        _key: &[u8],
        _read: Read,
    ) -> impl Future<Output = Result<(), Term>> {
        async { Err(Term::atom("not_verified")) }
    }
}

/// A task that is generic over the driver.
pub(crate) trait DriverTask {
    /// Result of the task.
    type Output;

    /// Runs the task with the driver `D`.
    fn with<D: Driver>(self) -> Self::Output;
}

/// Runs a task with the driver that the configuration names.
///
/// # Errors
///
/// When no driver has that name.
pub(crate) fn with_named<T: DriverTask>(
    config: &Config,
    task: T,
) -> Result<T::Output, ConfigError> {
    Ok(match config.driver.as_str() {
        http_raw::HttpRaw::NAME => task.with::<http_raw::HttpRaw>(),
        http_templated::HttpTemplated::NAME => task.with::<http_templated::HttpTemplated>(),
        riakc_dt_pb::RiakcDtPb::NAME => task.with::<riakc_dt_pb::RiakcDtPb>(),
        riakc_pb::RiakcPb::NAME => task.with::<riakc_pb::RiakcPb>(),
        index_queries::IndexQueries::NAME => task.with::<index_queries::IndexQueries>(),
        nhs::Nhs::NAME => task.with::<nhs::Nhs>(),
        bitcask::Bitcask::NAME => task.with::<bitcask::Bitcask>(),
        EleveldbDriver::NAME => task.with::<EleveldbDriver>(),
        LeveledDriver::NAME => task.with::<LeveledDriver>(),
        InnostoreDriver::NAME => task.with::<InnostoreDriver>(),
        memory::Memory::NAME | "ets" | "dets" => task.with::<memory::Memory>(),
        memcached::Memcached::NAME => task.with::<memcached::Memcached>(),
        redis::Redis::NAME => task.with::<redis::Redis>(),
        riakclient::RiakClient::NAME => task.with::<riakclient::RiakClient>(),
        nullfile::NullFile::NAME => task.with::<nullfile::NullFile>(),
        null::Null::NAME => task.with::<null::Null>(),
        other => return Err(refusal::not_offered(config, other)),
    })
}

/// The bytes of a key; an integer becomes decimal digits.
fn key_bytes(kind: KeyKind, key: &Key) -> Cow<'_, [u8]> {
    match kind {
        KeyKind::Integer => Cow::Owned(key.integer().to_string().into_bytes()),
        KeyKind::String | KeyKind::Binary => Cow::Borrowed(key.bytes()),
    }
}

/// Checks that the driver can verify, if the run verifies.
pub(crate) fn check_verifies<D: Driver>(config: &Config) -> Result<(), ConfigError> {
    if config.verify.is_some() && !D::VERIFIES {
        let expected = format!("the driver {} cannot: http_raw and riakc_pb can", D::NAME);
        return Err(config.settings.value_error("verify", expected));
    }
    Ok(())
}

/// Checks that a driver with the server lists `known_lists` has those that the command line names.
pub(crate) fn check_target_lists(
    config: &Config,
    driver: &'static str,
    known_lists: &[&str],
    system_requirements: &SystemRequirements,
) -> Result<(), ConfigError> {
    if !config.target_overrides.is_empty() && system_requirements.targets.is_empty() {
        return Err(ConfigError::TargetUnused { driver });
    }
    let mut lists = config.target_overrides.iter().filter_map(|target| target.list.as_deref());
    match lists.find(|list| !known_lists.contains(list)) {
        None => Ok(()),
        Some(list) => {
            let known = match known_lists {
                [] => "it has one list: write HOST:PORT alone".to_owned(),
                lists => format!("it has {}", lists.join(", ")),
            };
            Err(ConfigError::TargetList { driver, list: list.to_owned(), known })
        }
    }
}

/// Checks that values are bytes, for drivers that store bytes.
fn check_values_are_bytes(config: &Config, driver: &str) -> Result<(), ConfigError> {
    if config.value_generator.kind() == KeyKind::Integer {
        let expected = format!("the driver {driver} stores bytes: write for instance fixed_bin");
        return Err(config.settings.value_error("value_generator", expected));
    }
    Ok(())
}

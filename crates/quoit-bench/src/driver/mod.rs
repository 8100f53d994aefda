//! Drivers: what one operation does to the system under test.
//!
//! A driver is one file that implements [`Driver`] and one line in `with_named`. It owns the
//! connection of one worker and performs one operation at a time; how often, how long and how it
//! is counted is the business of the run.

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

use self::ordered::{OnEleveldb, OnInnostore, OnLeveled};
use crate::config::{Config, ConfigError, Target};
use crate::keygen::{Key, Kind};
use crate::term::Term;
use crate::valgen::SourceError;
use crate::verify::Read;
use crate::worker_place::WorkerPlace;

/// Outcome of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded; its latency counts.
    Success,
    /// It is not counted at all, and the next one starts at once.
    Silent,
    /// It failed, for this reason.
    Failure(Term),
    /// The worker has nothing left to do and ends normally.
    Stop,
}

/// Why a worker's driver cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The server is not to be reached.
    #[error("cannot connect to {target}: {reason}; is the server running there?")]
    Connect {
        /// Host and port.
        target: String,
        /// Error of connecting.
        reason: String,
    },
    /// The server does not tell which nodes hold which keys.
    #[error(
        "{target} sends no layout of its cluster: {reason}; set riakc_pb_replica_aware = false to run \
         without one"
    )]
    Layout {
        /// Host and port.
        target: String,
        /// Answer of the server.
        reason: String,
    },
    /// There are no bytes to make values of.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store of an engine cannot be opened.
    #[error("cannot open the store {}: {reason}", .path.display())]
    Store {
        /// Its directory.
        path: PathBuf,
        /// Error of opening it.
        reason: String,
    },
}

/// Requirements of a driver's settings on the system under test, for a user who checks before a
/// run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asks {
    /// The servers, in the order in which workers take them; none for a driver without one.
    pub targets: Vec<Target>,
    /// Servers of further lists, each with the list's name.
    pub others: Vec<(&'static str, Vec<Target>)>,
    /// Guarantee that a write waits for before it is acknowledged: the quorums that requests carry,
    /// or the syncs of an engine.
    pub durability: String,
}

/// The system under test as one worker sees it.
///
/// Operations are not `Send`: a worker stays on the thread that started it.
pub trait Driver: Sized + 'static {
    /// The name in configurations, without `basho_bench_driver_`.
    const NAME: &'static str;

    /// The operations, as the error about an unknown one lists them.
    const OPERATIONS: &'static str;

    /// An operation with its arguments, checked.
    type Operation: Copy + Send + Sync + 'static;

    /// State that all workers share: the driver's settings, read once.
    type Plan: Send + Sync + 'static;

    /// The lists of servers that `--target LIST=HOST:PORT` names: `http` for `http_ips`. None for a driver
    /// with one list or without servers.
    const TARGET_LISTS: &'static [&'static str] = &[];

    /// Reads the driver's settings.
    ///
    /// # Errors
    ///
    /// When a setting, or a generator's kind, does not fit the driver.
    fn plan(config: &Config) -> Result<Self::Plan, ConfigError>;

    /// The requirements of these settings on the system under test.
    fn asks(plan: &Self::Plan) -> Asks;

    /// Notices about these settings, to be printed before a run.
    fn notices(_plan: &Self::Plan) -> Vec<String> {
        Vec::new()
    }

    /// The operation of a term, or nothing when the driver does not have it.
    fn operation(plan: &Self::Plan, term: &Term) -> Option<Self::Operation>;

    /// Why an operation that basho_bench's driver has is not to be had here; nothing for others.
    fn missing(_term: &Term) -> Option<&'static str> {
        None
    }

    /// True when the operation draws values.
    fn draws_values(operation: Self::Operation) -> bool;

    /// Prepares the system under test, once, before the workers connect; gives what should be
    /// told of it. A failure here does not stop the run.
    fn prepare(_plan: &Self::Plan) -> impl Future<Output = Vec<String>> {
        async { Vec::new() }
    }

    /// Connects one worker.
    fn connect(
        plan: &Self::Plan,
        place: WorkerPlace,
    ) -> impl Future<Output = Result<Self, StartError>>;

    /// True when the driver tells of its operations to be verified ([`Inputs`]) and can
    /// [read back](Self::read_back).
    const VERIFIES: bool = false;

    /// Performs one operation: all its requests one after the other, retries included.
    fn perform(
        &mut self,
        plan: &Self::Plan,
        operation: Self::Operation,
        inputs: &mut Inputs,
    ) -> impl Future<Output = Outcome>;

    /// Reads one key at the end of a verified run, and tells `read` what was found. Only asked of
    /// a driver that [verifies](Self::VERIFIES). The error is a reason; the key is tried again.
    fn read_back(
        &mut self,
        _plan: &Self::Plan,
        _key: &[u8],
        _read: Read,
    ) -> impl Future<Output = Result<(), Term>> {
        async { Err(Term::atom("not_verified")) }
    }
}

/// Something to do with the driver that a configuration names.
pub(crate) trait DriverTask {
    /// Result of the task.
    type Output;

    /// Does it with that driver.
    fn with<D: Driver>(self) -> Self::Output;
}

/// Does something with the driver that a configuration names.
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
        OnEleveldb::NAME => task.with::<OnEleveldb>(),
        OnLeveled::NAME => task.with::<OnLeveled>(),
        OnInnostore::NAME => task.with::<OnInnostore>(),
        memory::Memory::NAME | "ets" | "dets" => task.with::<memory::Memory>(),
        memcached::Memcached::NAME => task.with::<memcached::Memcached>(),
        redis::Redis::NAME => task.with::<redis::Redis>(),
        riakclient::RiakClient::NAME => task.with::<riakclient::RiakClient>(),
        nullfile::NullFile::NAME => task.with::<nullfile::NullFile>(),
        null::Null::NAME => task.with::<null::Null>(),
        other => return Err(refusal::not_offered(config, other)),
    })
}

/// A key's bytes; integers in decimal digits.
fn key_bytes(kind: Kind, key: &Key) -> Cow<'_, [u8]> {
    match kind {
        Kind::Integer => Cow::Owned(key.integer().to_string().into_bytes()),
        Kind::String | Kind::Binary => Cow::Borrowed(key.bytes()),
    }
}

/// Checks that a run that is to be verified has a driver that can.
pub(crate) fn check_verifies<D: Driver>(config: &Config) -> Result<(), ConfigError> {
    if config.verify.is_some() && !D::VERIFIES {
        let expected = format!("the driver {} cannot: http_raw and riakc_pb can", D::NAME);
        return Err(config.settings.value_error("verify", expected));
    }
    Ok(())
}

/// Checks that the driver has the servers that the command line names.
pub(crate) fn check_target_lists<D: Driver>(
    config: &Config,
    asks: &Asks,
) -> Result<(), ConfigError> {
    if !config.target_overrides.is_empty() && asks.targets.is_empty() {
        return Err(ConfigError::TargetUnused { driver: D::NAME });
    }
    let mut lists = config.target_overrides.iter().filter_map(|target| target.list.as_deref());
    match lists.find(|list| !D::TARGET_LISTS.contains(list)) {
        None => Ok(()),
        Some(list) => {
            let known = match D::TARGET_LISTS {
                [] => "it has one list: write HOST:PORT alone".to_owned(),
                lists => format!("it has {}", lists.join(", ")),
            };
            Err(ConfigError::TargetList { driver: D::NAME, list: list.to_owned(), known })
        }
    }
}

/// Checks that values are bytes, as drivers that store them want.
fn check_values_are_bytes(config: &Config, driver: &str) -> Result<(), ConfigError> {
    if config.value_generator.kind() == Kind::Integer {
        let expected = format!("the driver {driver} stores bytes: write for instance fixed_bin");
        return Err(config.settings.value_error("value_generator", expected));
    }
    Ok(())
}

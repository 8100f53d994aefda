//! Settings of the driver.

use std::time::Duration;

use bytes::Bytes;

use crate::config::{Config, ConfigError, Settings, Target, TargetKeys, bytes_of};
use crate::driver::pb_data_type::DataTypeBucket;
use crate::keygen::KeyKind;
use crate::term::Term;

/// Default time limit of requests.
const TIMEOUT: Duration = Duration::from_secs(62);

/// A key that has two names.
struct RenamedKey {
    older: &'static str,
    newer: &'static str,
}

const BUCKET: RenamedKey = RenamedKey { older: "riakc_dt_pb_bucket", newer: "riakc_dt_bucket" };

const IPS: RenamedKey = RenamedKey { older: "riakc_dt_pb_ips", newer: "riakc_dt_ips" };

const PORT: RenamedKey = RenamedKey { older: "riakc_dt_pb_port", newer: "riakc_dt_port" };

/// The settings that all workers share.
#[derive(Debug)]
pub(in crate::driver) struct DtPlan {
    pub(super) targets: Vec<Target>,
    pub(super) records: DataTypeBucket,
    /// Time limit for connecting, and for an operation that has lost its connection.
    pub(super) timeout_general: Duration,
    pub(super) key_kind: KeyKind,
    /// Number of elements that a batch adds.
    pub(super) batch_size: u64,
    /// True if all operations on sets use one set.
    pub(super) one_set: bool,
    /// True if all operations on maps use one map.
    pub(super) one_map: bool,
    /// Number of named sets that the operations on sets use; `None` if they use generated keys.
    pub(super) preloaded_count: Option<u64>,
    /// Size from which `insert` adds nothing more to a preloaded set.
    pub(super) preloaded_size_max: u64,
    /// The fields that `multi_ops` changes.
    pub(super) multi: Vec<FieldOperation>,
}

/// A field of a map, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum FieldOperation {
    Set,
    Register,
    Flag,
    Counter,
    Map,
}

impl FieldOperation {
    /// The field with a name as in `{map, set, insert}`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "set" => Self::Set,
            "register" => Self::Register,
            "flag" => Self::Flag,
            "counter" => Self::Counter,
            "map" => Self::Map,
            _ => return None,
        })
    }
}

impl DtPlan {
    pub(super) fn read(config: &Config) -> Result<Self, ConfigError> {
        let settings = &config.settings;
        let expected = "write {<<\"type\">>, <<\"bucket\">>}: data types need a bucket type";
        let default = (Bytes::from_static(b"riak_dt"), Bytes::from_static(b"test"));
        let (bucket_type, bucket) =
            settings.read(BUCKET.used_in(settings), default, expected, |term| {
                match term.as_tuple()? {
                    [of_type, bucket] => {
                        Some((bytes_of(of_type)?.into(), bytes_of(bucket)?.into()))
                    }
                    _ => None,
                }
            })?;
        let timeout_general = settings.time_limit("pb_timeout_general", TIMEOUT)?;
        let records = DataTypeBucket {
            bucket_type,
            bucket,
            timeout_read: settings.time_limit("pb_timeout_read", timeout_general)?,
            timeout_write: settings.time_limit("pb_timeout_write", timeout_general)?,
        };
        let preloaded_count = settings.integer("riakc_dt_preload_sets_num", 10, 1..=1_000_000)?;
        let preloads = settings.boolean("riakc_dt_preload_sets", false)?;
        Ok(Self {
            targets: config.targets(TargetKeys {
                ips: IPS.used_in(settings),
                port: PORT.used_in(settings),
                default_port: 8087,
            })?,
            records,
            timeout_general,
            key_kind: config.key_generator.kind(),
            batch_size: settings.integer("riakc_dt_pb_sets_batchsize", 100, 1..=1_000_000)?,
            one_set: settings.boolean("riakc_dt_run_one_set", false)?,
            one_map: settings.boolean("riakc_dt_run_one_map", false)?,
            preloaded_count: preloads.then_some(preloaded_count),
            preloaded_size_max: settings.integer(
                "riakc_dt_max_vals_for_preload",
                100,
                1..=u64::from(u32::MAX),
            )?,
            multi: read_multi(settings)?,
        })
    }
}

impl RenamedKey {
    /// The newer name if it is set, otherwise the older one.
    fn used_in(&self, settings: &Settings) -> &'static str {
        if settings.get(self.newer).is_some() { self.newer } else { self.older }
    }
}

fn read_multi(settings: &Settings) -> Result<Vec<FieldOperation>, ConfigError> {
    let expected = "write a list of map_counter, map_register, map_flag, map_set, map_map";
    let field_of = |term: &Term| FieldOperation::named(term.as_atom()?.strip_prefix("map_")?);
    settings.read("riakc_dt_map_multi_ops", Vec::new(), expected, |term| {
        term.as_list()?.iter().map(field_of).collect()
    })
}

//! Settings of the driver.

use std::time::Duration;

use bytes::Bytes;
use quoit_client::Quorum;

use super::data_types::DataTypeOperation;
use super::drawn_indexes::DrawnIndexes;
use super::{PbOperation, RiakcPb};
use crate::config::{Config, ConfigError, Settings, Target, TargetKeys, bytes_of};
use crate::driver::Driver as _;
use crate::driver::check_values_are_bytes;
use crate::driver::pb_data_type::DataTypeBucket;
use crate::driver::pb_get::PbRecordName;
use crate::driver::pb_replicas::Routing;
use crate::keygen::KeyKind;
use crate::term::Term;

/// Default time limit of requests.
const TIMEOUT: Duration = Duration::from_secs(62);

/// Default number of generated keys of a MapReduce job.
const KEYLIST_LENGTH: usize = 1000;

/// Maximum number of generated keys of a MapReduce job.
const KEYLIST_LENGTH_MAX: usize = 1_000_000;

/// Maximum number of objects in a bucket whose jobs are checked. The sum of their values then fits into 63
/// bits.
const PRELOADED_COUNT_MAX: u64 = 1 << 31;

/// The bucket type of buckets that are named without one.
const DEFAULT_TYPE: Bytes = Bytes::from_static(b"default");

/// The settings that all workers share.
#[derive(Debug)]
pub(in crate::driver) struct PbPlan {
    pub(super) targets: Vec<Target>,
    pub(super) bucket: Bytes,
    pub(super) bucket_type: Option<Bytes>,
    /// The same bucket, for operations on data types.
    pub(super) records: DataTypeBucket,
    pub(super) content_type: Bytes,
    pub(super) r: Option<u32>,
    pub(super) w: Option<u32>,
    pub(super) dw: Option<u32>,
    pub(super) rw: Option<u32>,
    pub(super) pr: Option<u32>,
    pub(super) pw: Option<u32>,
    pub(super) timeout_listkeys: Duration,
    /// Time limit for connecting, and for an operation that has lost its connection.
    pub(super) timeout_general: Duration,
    pub(super) timeout_read: Duration,
    pub(super) timeout_write: Duration,
    pub(super) is_verified: bool,
    pub(super) key_kind: KeyKind,
    /// The rule that selects the node for a request.
    pub(super) routing: Routing,
    /// True if a put is repeated when the server refuses it because of overload.
    pub(super) repeats_overload: bool,
    /// Indexes of the written objects.
    pub(super) indexes: DrawnIndexes,
    /// Number of generated keys of a MapReduce job.
    pub(super) keylist_length: usize,
    /// Number of objects in the bucket, if it is known. Jobs over the whole bucket are checked by it.
    pub(super) preloaded_count: Option<u64>,
    pub(super) timeout_mapreduce: Duration,
}

impl PbPlan {
    /// The name of the record with a key.
    pub(super) fn record<'a>(&'a self, key: &'a [u8]) -> PbRecordName<'a> {
        PbRecordName { bucket_type: self.bucket_type.as_deref(), bucket: &self.bucket, key }
    }

    /// Settings for an untyped bucket whose reads and writes wait for `replies` replicas.
    pub(in crate::driver) fn of_bucket(
        targets: Vec<Target>,
        bucket: Bytes,
        replies: Quorum,
    ) -> Self {
        Self {
            targets,
            records: DataTypeBucket {
                bucket_type: DEFAULT_TYPE,
                bucket: bucket.clone(),
                timeout_read: TIMEOUT,
                timeout_write: TIMEOUT,
            },
            bucket,
            bucket_type: None,
            content_type: Bytes::from_static(b"application/octet-stream"),
            r: replies.to_field(),
            w: replies.to_field(),
            dw: None,
            rw: None,
            pr: None,
            pw: None,
            timeout_listkeys: TIMEOUT,
            timeout_general: TIMEOUT,
            timeout_read: TIMEOUT,
            timeout_write: TIMEOUT,
            is_verified: false,
            key_kind: KeyKind::Binary,
            routing: Routing::Target,
            repeats_overload: false,
            indexes: DrawnIndexes::default(),
            keylist_length: KEYLIST_LENGTH,
            preloaded_count: None,
            timeout_mapreduce: TIMEOUT,
        }
    }
}

/// Checks that keys are bytes.
pub(in crate::driver) fn check_keys(config: &Config, driver: &str) -> Result<(), ConfigError> {
    if config.key_generator.kind() == KeyKind::Integer {
        let expected = format!(
            "the driver {driver} takes binaries or strings: wrap the generator, as in \
             {{int_to_bin_bigendian, {{uniform_int, 100000}}}}"
        );
        return Err(config.settings.value_error("key_generator", expected));
    }
    Ok(())
}

/// Checks that the generators fit the operations of the mix. Keys are numbers for operations on teams and
/// games, and bytes otherwise; values are numbers for operations that count, and bytes otherwise.
pub(super) fn check_generators(config: &Config) -> Result<(), ConfigError> {
    let settings = &config.settings;
    let operations: Vec<PbOperation> =
        config.operations.iter().filter_map(|entry| PbOperation::of(&entry.operation)).collect();
    if config.verify.is_some()
        && operations.iter().any(|operation| matches!(operation, PbOperation::DataType(_)))
    {
        let expected = "records with data types are not verified: take them or verify out";
        return Err(settings.value_error("verify", expected));
    }
    let of_data_type = |operation: &PbOperation| match operation {
        PbOperation::DataType(operation) => Some(*operation),
        _ => None,
    };
    let numbered = |operation| of_data_type(operation).is_some_and(DataTypeOperation::numbers_keys);
    let keyed: Vec<&PbOperation> =
        operations.iter().filter(|operation| operation.draws_key()).collect();
    if keyed.iter().any(|operation| numbered(operation)) {
        if !keyed.iter().all(|operation| numbered(operation)) {
            let expected = "operations on teams and games take numbers for keys, others bytes: make a \
                            run of each kind";
            return Err(settings.value_error("operations", expected));
        }
        if config.key_generator.kind() != KeyKind::Integer {
            let expected = "operations on teams and games take numbers for keys: write for instance \
                            {uniform_int, 1000}";
            return Err(settings.value_error("key_generator", expected));
        }
    } else {
        check_keys(config, RiakcPb::NAME)?;
    }
    let counts = |operation: &PbOperation| {
        of_data_type(operation).is_some_and(DataTypeOperation::draws_number)
    };
    let drawing: Vec<&PbOperation> =
        operations.iter().filter(|operation| RiakcPb::draws_values(**operation)).collect();
    if drawing.is_empty() {
        return Ok(());
    }
    if !drawing.iter().any(|operation| counts(operation)) {
        return check_values_are_bytes(config, RiakcPb::NAME);
    }
    if !drawing.iter().all(|operation| counts(operation)) {
        let expected = "operations that count take numbers for values, others bytes: make a run of \
                        each kind";
        return Err(settings.value_error("operations", expected));
    }
    if config.value_generator.kind() != KeyKind::Integer {
        let expected = "operations that count take numbers for values: write for instance \
                        {uniform_int, 10}";
        return Err(settings.value_error("value_generator", expected));
    }
    Ok(())
}

pub(super) fn read_plan(config: &Config) -> Result<PbPlan, ConfigError> {
    let settings = &config.settings;
    let replies = read_quorum(settings, "riakc_pb_replies", Quorum::Majority)?;
    let quorum = |key| read_quorum(settings, key, replies).map(Quorum::to_field);
    let (bucket_type, bucket) = read_bucket(settings, "test")?;
    let expected = "TLS and the login are set by environment variables: QUOIT_USER, QUOIT_PASSWORD_FILE, \
                    QUOIT_CACERT";
    settings.read("pb_connect_options", (), expected, |term| {
        let is_plain = |option: &Term| {
            let name = option.as_tuple().and_then(|pair| pair.first()).unwrap_or(option);
            !matches!(name.as_atom(), Some("credentials" | "cacertfile" | "ssl_opts"))
        };
        term.as_list()?.iter().all(is_plain).then_some(())
    })?;
    let timeout_general = settings.time_limit("pb_timeout_general", TIMEOUT)?;
    let timeout_read = settings.time_limit("pb_timeout_read", timeout_general)?;
    let timeout_write = settings.time_limit("pb_timeout_write", timeout_general)?;
    let preloaded_count = match settings.get("riakc_pb_preloaded_keys") {
        None => None,
        Some(_) => Some(settings.integer("riakc_pb_preloaded_keys", 0, 0..=PRELOADED_COUNT_MAX)?),
    };
    let keylist_length =
        settings.integer("riakc_pb_keylist_length", KEYLIST_LENGTH, 1..=KEYLIST_LENGTH_MAX)?;
    let targets = config.targets(TargetKeys {
        ips: "riakc_pb_ips",
        port: "riakc_pb_port",
        default_port: 8087,
    })?;
    let routing = match settings.get("riakc_pb_replica_aware") {
        // Several targets are most likely nodes of one cluster.
        None if targets.len() > 1 => Routing::ReplicasIfTold,
        _ if settings.boolean("riakc_pb_replica_aware", false)? => Routing::Replicas,
        _ => Routing::Target,
    };
    Ok(PbPlan {
        targets,
        records: DataTypeBucket {
            bucket_type: bucket_type.clone().unwrap_or(DEFAULT_TYPE),
            bucket: bucket.clone(),
            timeout_read,
            timeout_write,
        },
        bucket,
        bucket_type,
        content_type: settings.bytes("riakc_pb_content_type", b"application/octet-stream")?.into(),
        r: quorum("riakc_pb_r")?,
        w: quorum("riakc_pb_w")?,
        dw: quorum("riakc_pb_dw")?,
        rw: quorum("riakc_pb_rw")?,
        pr: quorum("riakc_pb_pr")?,
        pw: quorum("riakc_pb_pw")?,
        timeout_general,
        timeout_listkeys: settings.time_limit("pb_timeout_listkeys", timeout_general)?,
        timeout_read,
        timeout_write,
        is_verified: config.verify.is_some(),
        key_kind: config.key_generator.kind(),
        routing,
        repeats_overload: settings.boolean("riakc_pb_repeat_overload", false)?,
        indexes: DrawnIndexes::read(settings)?,
        keylist_length,
        preloaded_count,
        timeout_mapreduce: settings.time_limit("pb_timeout_mapreduce", timeout_general)?,
    })
}

/// The bucket type, if one is set, and the bucket of `riakc_pb_bucket`.
pub(in crate::driver) fn read_bucket(
    settings: &Settings,
    default: &'static str,
) -> Result<(Option<Bytes>, Bytes), ConfigError> {
    let expected = "write <<\"bucket\">> or {<<\"type\">>, <<\"bucket\">>}";
    let default = (None, Bytes::from_static(default.as_bytes()));
    settings.read("riakc_pb_bucket", default, expected, |term| match term {
        Term::Tuple(parts) => match parts.as_slice() {
            [of_type, bucket] => Some((Some(bytes_of(of_type)?.into()), bytes_of(bucket)?.into())),
            _ => None,
        },
        name => Some((None, bytes_of(name)?.into())),
    })
}

pub(in crate::driver) fn read_quorum(
    settings: &Settings,
    key: &str,
    default: Quorum,
) -> Result<Quorum, ConfigError> {
    let expected = "write a number of replicas, or one, quorum, all or default";
    settings.read(key, default, expected, |term| match term {
        Term::Integer(count) => {
            let count = u32::try_from(*count).ok().filter(|count| *count <= 1024)?;
            Some(Quorum::Count(count))
        }
        Term::Atom(name) => match name.as_str() {
            "one" => Some(Quorum::One),
            "quorum" => Some(Quorum::Majority),
            "all" => Some(Quorum::All),
            "default" => Some(Quorum::Default),
            _ => None,
        },
        _ => None,
    })
}

/// A quorum in the spelling of configurations.
pub(super) fn quorum_text(field: Option<u32>) -> String {
    match Quorum::from_field(field) {
        Quorum::One => "one".to_owned(),
        Quorum::Majority => "quorum".to_owned(),
        Quorum::All => "all".to_owned(),
        Quorum::Default => "default (the bucket decides)".to_owned(),
        Quorum::Count(count) => count.to_string(),
    }
}

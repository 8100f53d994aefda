//! Settings of the driver.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::keys::Order;
use crate::config::{Config, ConfigError, Settings, Target, TargetKeys, bytes_of};
use crate::driver::both_targets::{BothTargets, without_unnamed_overrides};
use crate::driver::{SystemRequirements, check_values_are_bytes};
use crate::keygen::KeyKind;
use crate::login::HttpSecurity;
use crate::notices::Notices;
use crate::term::Term;

/// Maximum number of records of a worker: a key has nine digits for the number.
const RECORD_COUNT_MAX: u64 = 999_999_999;

/// Maximum size of a document, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// The settings that all workers share.
#[derive(Debug)]
pub(in crate::driver) struct NhsPlan {
    pub(super) pb_targets: Vec<Target>,
    /// Servers of the second cluster.
    pub(super) repl_targets: Vec<Target>,
    pub(super) security: Option<Arc<HttpSecurity>>,
    pub(super) http_targets: Vec<Target>,
    /// True if operations wait for documents in the second cluster.
    pub(super) checks_replication: bool,
    pub(super) pb_timeout: Duration,
    pub(super) http_timeout: Duration,
    /// Time limit of waiting for a document in the second cluster, and of background queries.
    pub(super) fold_timeout: Duration,
    /// Name by which this load generator's keys differ from those of others.
    pub(super) node_name: Vec<u8>,
    pub(super) records: Records,
    /// Size of documents in bytes.
    pub(super) document_bytes: usize,
    pub(super) document_order: Order,
    pub(super) record_bucket: BucketPlan,
    pub(super) document_bucket: BucketPlan,
    pub(super) node_confirms: u64,
    /// Maximum number of postcodes of a record.
    pub(super) postcode_count_max: u64,
    pub(super) key_kind: KeyKind,
    /// Receives the results of background queries.
    pub(super) notices: Notices,
}

/// Settings of the records, which are never deleted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Records {
    /// Number of records of a worker. Additions become rarer as the worker approaches it.
    pub(super) count_max: u64,
    /// A worker reads records once it has more than this number.
    pub(super) count_min: u64,
    pub(super) order: Order,
}

/// A bucket, and the value for its property `sync_on_write`.
#[derive(Debug)]
pub(super) struct BucketPlan {
    pub(super) name: Bytes,
    /// Value of `sync_on_write`: one, all or backend.
    pub(super) sync: String,
}

impl NhsPlan {
    /// Reads the settings.
    pub(super) fn read(config: &Config, driver: &str) -> Result<Self, ConfigError> {
        check_values_are_bytes(config, driver)?;
        let settings = &config.settings;
        let BothTargets { pb: pb_targets, http: http_targets, security } =
            BothTargets::read(config)?;
        let (document_bytes, document_order) = read_unique(settings)?;
        Ok(Self {
            pb_targets,
            repl_targets: without_unnamed_overrides(config).targets(TargetKeys {
                ips: "replpb_ips",
                port: "pb_port",
                default_port: 8087,
            })?,
            http_targets,
            checks_replication: config
                .operations
                .iter()
                .any(|entry| entry.operation.as_atom() == Some("put_unique_checkrepl")),
            security,
            pb_timeout: settings.time_limit("pb_timeout_general", Duration::from_secs(30))?,
            http_timeout: settings.time_limit("http_timeout_general", Duration::from_secs(30))?,
            fold_timeout: settings.time_limit("fold_timeout_general", Duration::from_secs(3600))?,
            node_name: read_node_name(settings)?,
            records: read_records(settings)?,
            document_bytes,
            document_order,
            record_bucket: RECORD_BUCKET.read(settings)?,
            document_bucket: DOCUMENT_BUCKET.read(settings)?,
            node_confirms: settings.integer("node_confirms", 2, 0..=1024)?,
            postcode_count_max: settings.integer("postcode_indexcount", 3, 1..=1000)?,
            key_kind: config.key_generator.kind(),
            notices: config.notices.clone(),
        })
    }

    /// See [`Driver::system_requirements`](crate::driver::Driver::system_requirements).
    pub(super) fn system_requirements(&self) -> SystemRequirements {
        let syncs = [&self.record_bucket, &self.document_bucket]
            .map(|bucket| format!("{} {}", String::from_utf8_lossy(&bucket.name), bucket.sync));
        let durability = format!(
            "requests carry no quorums, the buckets decide; set at start: node_confirms {}, \
             sync_on_write of {} and {}",
            self.node_confirms, syncs[0], syncs[1]
        );
        let additional_lists =
            vec![("http", self.http_targets.clone()), ("replpb", self.repl_targets.clone())];
        SystemRequirements { targets: self.pb_targets.clone(), additional_lists, durability }
    }

    /// See [`Driver::notices`](crate::driver::Driver::notices).
    pub(super) fn notices(&self) -> Vec<String> {
        let same = self.repl_targets.iter().find(|target| self.pb_targets.contains(target));
        let notice = |target| {
            format!(
                "{target} is both in pb_ips and in replpb_ips: put_unique_checkrepl measures no \
                 replication"
            )
        };
        same.filter(|_| self.checks_replication).map(notice).into_iter().collect()
    }
}

fn read_node_name(settings: &Settings) -> Result<Vec<u8>, ConfigError> {
    let host_name = || rustix::system::uname().nodename().to_bytes().to_vec();
    match settings.get("node_name") {
        None => Ok(host_name()),
        Some(_) => settings.read("node_name", Vec::new(), "write an atom or a string", |term| {
            term.as_atom().map(|name| name.as_bytes().to_vec()).or_else(|| bytes_of(term))
        }),
    }
}

fn read_records(settings: &Settings) -> Result<Records, ConfigError> {
    let expected = "write {MaxRecordsOfAWorker, MinRecordsOfAWorker, Order}, Order key_order or \
                    skew_order";
    let default = Records { count_max: 1, count_min: 1, order: Order::Key };
    settings.read("alwaysget", default, expected, |term| {
        let [count_max, count_min, order] = term.as_tuple()? else { return None };
        let (count_max, count_min) = (count_of(count_max)?, count_of(count_min)?);
        (count_max > 0).then_some(Records { count_max, count_min, order: order_of(order)? })
    })
}

fn read_unique(settings: &Settings) -> Result<(usize, Order), ConfigError> {
    let expected = "write {SizeInBytes, Order}, Order key_order or skew_order";
    settings.read("unique", (8000, Order::Key), expected, |term| {
        let [size, order] = term.as_tuple()? else { return None };
        let size = u64::try_from(size.as_integer()?).ok()?;
        let size = usize::try_from(size).ok().filter(|_| size <= DOCUMENT_BYTES_MAX)?;
        Some((size, order_of(order)?))
    })
}

fn count_of(term: &Term) -> Option<u64> {
    u64::try_from(term.as_integer()?).ok().filter(|count| *count <= RECORD_COUNT_MAX)
}

fn order_of(term: &Term) -> Option<Order> {
    match term.as_atom()? {
        "key_order" => Some(Order::Key),
        "skew_order" => Some(Order::Skew),
        _ => None,
    }
}

/// The keys of a bucket, with the values of those that are not set.
struct BucketKeys {
    name: &'static str,
    default_name: &'static str,
    sync: &'static str,
    default_sync: &'static str,
}

const RECORD_BUCKET: BucketKeys = BucketKeys {
    name: "record_bucket",
    default_name: "domainRecord",
    sync: "record_sync",
    default_sync: "one",
};

const DOCUMENT_BUCKET: BucketKeys = BucketKeys {
    name: "document_bucket",
    default_name: "domainDocument",
    sync: "document_sync",
    default_sync: "backend",
};

impl BucketKeys {
    fn read(&self, settings: &Settings) -> Result<BucketPlan, ConfigError> {
        let name = settings.bytes(self.name, self.default_name.as_bytes())?.into();
        let expected = "write one, all or backend";
        let sync = settings.read(self.sync, self.default_sync.to_owned(), expected, |term| {
            let text = term
                .as_atom()
                .map(str::to_owned)
                .or_else(|| bytes_of(term).and_then(|bytes| String::from_utf8(bytes).ok()))?;
            matches!(text.as_str(), "one" | "all" | "backend").then_some(text)
        })?;
        Ok(BucketPlan { name, sync })
    }
}

//! Settings of full-sync.

use crate::address::PeerAddress;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;

/// Records that full-sync compares (`ttaaefs_scope`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FullSyncScope {
    /// None: only commands run checks.
    Disabled,
    /// All records.
    All,
    /// Records of one bucket.
    Bucket,
}

/// Kinds of checks, by the records that they repair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckKind {
    /// All records.
    All,
    /// Records that were modified in the last day.
    Day,
    /// Records that were modified in the last hour.
    Hour,
    /// Records of the range that the last check has planned or an operator has set. Without a range:
    /// records that were modified since the last check that was in sync.
    Range,
    /// All records. Between Quoit clusters, comparing all records costs only what differs.
    Auto,
    /// None: a slice of the schedule without a check.
    None,
}

impl FromStr for CheckKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "all" | "all_check" => Self::All,
            "day" | "day_check" => Self::Day,
            "hour" | "hour_check" => Self::Hour,
            "range" | "range_check" => Self::Range,
            "auto" | "auto_check" => Self::Auto,
            "none" | "no_check" => Self::None,
            _ => {
                return Err(format!(
                    "`{text}` is not a check: wanted all, day, hour, range or auto"
                ));
            }
        })
    }
}

/// Hours of the day (UTC) in which scheduled auto checks may compare all records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckWindow {
    /// All hours.
    Always,
    /// No hour.
    Never,
    /// From the first hour to the second, both included. The range may cross midnight.
    Hours(u8, u8),
}

impl CheckWindow {
    pub(super) fn has(self, unix_secs: u64) -> bool {
        let hour = (unix_secs / 3_600 % 24) as u8;
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Hours(start, end) if start <= end => (start..=end).contains(&hour),
            Self::Hours(start, end) => hour >= start || hour <= end,
        }
    }
}

/// Settings of full-sync.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FullSyncSettings {
    /// Scope of scheduled checks.
    pub scope: FullSyncScope,
    /// Bucket type and bucket of the scope `bucket`.
    pub bucket: Option<(String, String)>,
    /// Queue here for records that are newer here (`ttaaefs_queuename`).
    pub queue: String,
    /// Queue there for records that are newer there (`ttaaefs_queuename_peer`). `None` to leave these
    /// records to the other cluster's own checks.
    pub peer_queue: Option<String>,
    /// A node of the other cluster, or a load balancer in front of it.
    pub peer: Option<PeerAddress>,
    /// Number of checks a day, by kind.
    pub checks_a_day: Vec<(CheckKind, u32)>,
    /// Hours in which auto checks may compare all records.
    pub window: CheckWindow,
    /// Time between two checks of the cluster, which replaces the schedule (`repl.fullsync.interval`).
    pub interval: Option<Duration>,
    /// Quarter of each slice in which this cluster makes its checks, 1 to 4 (`ttaaefs_cluster_slice`).
    pub cluster_slice: u32,
    /// With a Riak cluster, `n_val` here of the buckets that are compared (`ttaaefs_localnval`).
    pub local_n_val: u32,
    /// With a Riak cluster, `n_val` there of these buckets (`ttaaefs_remotenval`).
    pub remote_n_val: u32,
    /// With a Riak cluster, number of tree segments whose records a check compares
    /// (`ttaaefs_maxresults`).
    pub segment_count_max: usize,
    /// With a Riak cluster, factor by which a range check compares more segments
    /// (`ttaaefs_rangeboost`).
    pub range_boost: usize,
    /// Number of queued records, on either side, after which a check ends (`repl.fullsync.maximum`).
    pub repair_count_max: usize,
    /// True if each repaired record is logged (`ttaaefs_logrepairs`).
    pub logs_repairs: bool,
    /// Time after the start of the node before the first scheduled check, at most one minute.
    pub rest_at_start: Duration,
}

/// Changes of queues and `n_val`s of full-sync. Fields that are `None` stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FullSyncChange {
    /// Queue here for records that are newer here.
    #[serde(default)]
    pub queue: Option<String>,
    /// Queue there for records that are newer there.
    #[serde(default)]
    pub peer_queue: Option<String>,
    /// With a Riak cluster, `n_val` here of the buckets that are compared.
    #[serde(default)]
    pub local_n_val: Option<u32>,
    /// With a Riak cluster, `n_val` there of these buckets.
    #[serde(default)]
    pub remote_n_val: Option<u32>,
}

impl FullSyncChange {
    /// This change applied after an earlier one.
    #[must_use]
    pub(crate) fn after(self, former: Self) -> Self {
        Self {
            queue: self.queue.or(former.queue),
            peer_queue: self.peer_queue.or(former.peer_queue),
            local_n_val: self.local_n_val.or(former.local_n_val),
            remote_n_val: self.remote_n_val.or(former.remote_n_val),
        }
    }
}

impl FullSyncSettings {
    /// True if a check of a kind is meant to compare the records of all buckets, of all times. With a
    /// Riak cluster it leaves out buckets with another `n_val`.
    pub(super) fn compares_all(&self, kind: CheckKind) -> bool {
        matches!(kind, CheckKind::All | CheckKind::Auto) && self.scope != FullSyncScope::Bucket
    }
}

impl Default for FullSyncSettings {
    fn default() -> Self {
        Self {
            scope: FullSyncScope::Disabled,
            bucket: None,
            queue: "q1_ttaaefs".to_owned(),
            peer_queue: None,
            peer: None,
            checks_a_day: vec![(CheckKind::Auto, 24)],
            window: CheckWindow::Always,
            interval: None,
            cluster_slice: 1,
            local_n_val: 3,
            remote_n_val: 3,
            segment_count_max: 32,
            range_boost: 16,
            repair_count_max: 1_000_000,
            logs_repairs: false,
            rest_at_start: Duration::from_secs(60),
        }
    }
}

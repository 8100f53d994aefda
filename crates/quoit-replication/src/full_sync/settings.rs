//! Settings of full-sync.

use crate::address::PeerAddress;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;

/// The records that full-sync is about (`ttaaefs_scope`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FullSyncScope {
    /// None: checks are run by command alone.
    Disabled,
    /// All.
    All,
    /// Those of one bucket.
    Bucket,
}

/// The records that a check repairs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckKind {
    /// All.
    All,
    /// Those modified in the last day.
    Day,
    /// Those modified in the last hour.
    Hour,
    /// Those of the range that the last check has planned or an operator has set; without one, those modified
    /// since the last check that was in sync.
    Range,
    /// All: between clusters of Quoit comparing everything costs what differs.
    Auto,
    /// None: a place in the schedule that is left free.
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
            _ => return Err(format!("`{text}` is no check: wanted all, day, hour, range or auto")),
        })
    }
}

/// The hours of a day (UTC) in which scheduled checks of all records may be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckWindow {
    /// All.
    Always,
    /// None.
    Never,
    /// From the first to the second, both included; it may go around midnight.
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
    /// The queue here for what is newer here (`ttaaefs_queuename`).
    pub queue: String,
    /// The queue there for what is newer there (`ttaaefs_queuename_peer`); `None`: the other cluster finds it
    /// itself.
    pub peer_queue: Option<String>,
    /// A node of the other cluster, or a balancer before it.
    pub peer: Option<PeerAddress>,
    /// Checks a day, by kind.
    pub checks_a_day: Vec<(CheckKind, u32)>,
    /// When all records may be checked by auto checks.
    pub window: CheckWindow,
    /// Time between two checks of the cluster, whatever the schedule says (`repl.fullsync.interval`).
    pub interval: Option<Duration>,
    /// Which quarter of each slice is this cluster's, 1 to 4 (`ttaaefs_cluster_slice`).
    pub cluster_slice: u32,
    /// With a Riak, the n_val here of the buckets that are compared (`ttaaefs_localnval`).
    pub local_n_val: u32,
    /// With a Riak, their n_val there (`ttaaefs_remotenval`).
    pub remote_n_val: u32,
    /// With a Riak, segments of trees whose records a check compares (`ttaaefs_maxresults`).
    pub segment_count_max: usize,
    /// With a Riak, how many times as many segments a range check compares (`ttaaefs_rangeboost`).
    pub range_boost: usize,
    /// Records that a check queues at most, on either side (`repl.fullsync.maximum`).
    pub repair_count_max: usize,
    /// Whether each repaired record is logged (`ttaaefs_logrepairs`).
    pub logs_repairs: bool,
    /// Time after the start of the node before the first scheduled check, a minute at most.
    pub rest_at_start: Duration,
}

/// Queues and `n_val`s that full-sync is to compare by from now on; those that are `None` stay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FullSyncChange {
    /// The queue here for what is newer here.
    #[serde(default)]
    pub queue: Option<String>,
    /// The queue there for what is newer there.
    #[serde(default)]
    pub peer_queue: Option<String>,
    /// With a Riak, the n_val here of the buckets that are compared.
    #[serde(default)]
    pub local_n_val: Option<u32>,
    /// With a Riak, their n_val there.
    #[serde(default)]
    pub remote_n_val: Option<u32>,
}

impl FullSyncChange {
    /// This change after a former one.
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

//! Rebase: a check after a link was stale, in which one cluster decides about deletes.
//!
//! A record that only one cluster has was either written there, or deleted in the other one, which may
//! no longer remember the delete. An operator says which cluster is right. Records that only the other
//! one has are deleted there, unless they were modified just before. All other differences are repaired
//! as in any check.

use super::other_cluster::OtherCluster;
use super::report::FullSyncReport;
use super::walk::FullSyncError;
use quoit_core::{ClusterWithRecord, DeletesOutcome, Difference, RecordVersion, ReplicatedStore};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::sync::Arc;

/// Number of deletes in a request.
const DELETE_COUNT: usize = 1_024;

/// The cluster that is right about records which the other one does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RebaseFrom {
    /// This cluster: records that only the other one has are deleted there.
    Here,
    /// The other cluster: records that only this one has are deleted here.
    There,
}

impl FromStr for RebaseFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "here" => Ok(Self::Here),
            "there" => Ok(Self::There),
            _ => Err(format!("`{text}` is not a side of a link: wanted here or there")),
        }
    }
}

/// Plan of a check that deletes records which only one cluster has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RebasePlan {
    pub(super) from: RebaseFrom,
    /// Time of modification, in microseconds since 1970, after which records stay because they may be
    /// on their way.
    pub(super) modified_until_us: u64,
    /// True to only count what would be done.
    pub(super) is_dry_run: bool,
}

impl RebasePlan {
    /// Deletes records that only the wrong cluster has, and returns the other differences.
    pub(super) async fn delete(
        &self,
        store: &Arc<ReplicatedStore>,
        other: &mut OtherCluster,
        found: Vec<Difference>,
        report: &mut FullSyncReport,
    ) -> Result<Vec<Difference>, FullSyncError> {
        let (deleted, left) = self.split(found);
        for some in deleted.chunks(DELETE_COUNT) {
            let done = match (self.is_dry_run, self.from) {
                (true, _) => {
                    DeletesOutcome { deleted_count: some.len() as u64, ..DeletesOutcome::default() }
                }
                (false, RebaseFrom::Here) => other.delete_seen(some).await?,
                (false, RebaseFrom::There) => store.replication().delete_seen(some.to_vec()).await,
            };
            match self.from {
                RebaseFrom::Here => report.deleted_there += done.deleted_count,
                RebaseFrom::There => report.deleted_here += done.deleted_count,
            }
            if done.failed_count > 0 {
                let fault = done.fault.unwrap_or_else(|| "the node stops".to_owned());
                return Err(FullSyncError::Undeleted(done.failed_count, fault));
            }
        }
        Ok(left)
    }

    /// Separates the records to delete from the other differences.
    fn split(&self, found: Vec<Difference>) -> (Vec<RecordVersion>, Vec<Difference>) {
        let (mut deleted, mut left) = (Vec::new(), Vec::new());
        for each in found {
            let clock = match (self.from, &each.only_in) {
                (RebaseFrom::Here, Some(ClusterWithRecord::There(clock)))
                | (RebaseFrom::There, Some(ClusterWithRecord::Here(clock))) => Some(clock.clone()),
                _ => None,
            };
            match clock.filter(|_| each.modified_us <= self.modified_until_us) {
                Some(clock) => deleted.push(RecordVersion { key: each.key, clock }),
                None => left.push(each),
            }
        }
        (deleted, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quoit_core::DifferenceDirection;

    #[test]
    fn what_only_the_wrong_cluster_has_is_deleted_unless_it_is_new() {
        let difference = |key: &'static str, modified_us, only_in| Difference {
            key: key.into(),
            direction: DifferenceDirection::Both,
            modified_us,
            only_in,
        };
        let clock = Bytes::from_static(b"clock");
        let found = vec![
            difference("here", 5, Some(ClusterWithRecord::Here(clock.clone()))),
            difference("there", 5, Some(ClusterWithRecord::There(clock.clone()))),
            difference("both", 5, None),
            difference("new there", 11, Some(ClusterWithRecord::There(clock))),
        ];
        let split = |from| {
            let plan = RebasePlan { from, modified_until_us: 10, is_dry_run: false };
            let (deleted, left) = plan.split(found.clone());
            let left: Vec<Bytes> = left.into_iter().map(|each| each.key).collect();
            (deleted.into_iter().map(|each| each.key).collect::<Vec<_>>(), left)
        };
        let keys = |keys: &[&'static str]| {
            keys.iter().map(|key| Bytes::from_static(key.as_bytes())).collect::<Vec<_>>()
        };
        assert_eq!(
            split(RebaseFrom::Here),
            (keys(&["there"]), keys(&["here", "both", "new there"]))
        );
        assert_eq!(
            split(RebaseFrom::There),
            (keys(&["here"]), keys(&["there", "both", "new there"]))
        );
    }
}

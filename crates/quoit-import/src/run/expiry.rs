//! Records that Riak hides because they have expired.

use quoit_riak_files::StoredRecord;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The times that tell which records have expired when an import begins.
#[derive(Clone, Copy)]
pub(super) struct Expiry {
    since_1970: Duration,
    /// Records that the backend wrote before this second have expired.
    oldest_secs: Option<u64>,
    /// True if records of LevelDB expire at their own times. LevelDB shows them all while its expiry is off.
    has_own_times: bool,
}

impl Expiry {
    /// The present time. Records expire `expire_after_secs` after their backend wrote them, if given, and at
    /// their own times if `has_own_times`.
    pub(super) fn now(expire_after_secs: Option<u64>, has_own_times: bool) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::at(since_1970, expire_after_secs, has_own_times)
    }

    fn at(since_1970: Duration, expire_after_secs: Option<u64>, has_own_times: bool) -> Self {
        let oldest_secs = expire_after_secs.map(|secs| since_1970.as_secs().saturating_sub(secs));
        Self { since_1970, oldest_secs, has_own_times }
    }

    /// True if the record has expired.
    pub(super) fn is_over(&self, record: &StoredRecord) -> bool {
        let written_secs = record.written_secs.map(u64::from);
        let is_old = self.oldest_secs.zip(written_secs).is_some_and(|(oldest, at)| at < oldest);
        let own_us = record.expires_at_us.filter(|_| self.has_own_times);
        let expires_at = own_us.map(Duration::from_micros);
        is_old || expires_at.is_some_and(|at| at <= self.since_1970)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quoit_model::bitcask_key::BitcaskKey;
    use std::path::Path;

    #[test]
    fn records_expire_by_their_own_time_and_by_the_time_of_their_writing() {
        let name = || Bytes::from_static(b"name");
        let record = |written_secs, expires_at_us| StoredRecord {
            key: BitcaskKey { bucket_type: name(), bucket: name(), key: name() },
            object: Bytes::new(),
            written_secs,
            expires_at_us,
            file: Path::new("file").into(),
            offset: 0,
        };
        let is_over = |expire_after_secs, has_own_times, record| {
            let now = Duration::from_secs(1_000);
            Expiry::at(now, expire_after_secs, has_own_times).is_over(&record)
        };
        assert!(is_over(None, true, record(None, Some(1_000_000_000))));
        assert!(!is_over(None, true, record(None, Some(1_000_000_001))));
        assert!(!is_over(None, false, record(None, Some(1_000_000_000))), "LevelDB shows it");
        assert!(!is_over(None, false, record(Some(1), None)), "no period is known");
        assert!(is_over(Some(100), false, record(Some(899), None)));
        assert!(!is_over(Some(100), false, record(Some(900), None)));
        assert!(!is_over(Some(100), false, record(None, None)));
    }
}

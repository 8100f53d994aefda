//! The limit of open files and connections of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Share of the descriptors that client connections may use, in percent; the rest is for the files of the
/// store.
const CONNECTION_SHARE_PERCENT: u64 = 75;

/// Raises the limit of open files to the maximum that the system allows; a process started from a shell
/// often begins with 1024. Returns the limit; `None` = unlimited.
pub(crate) fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_ok() {
        return limit.maximum;
    }
    limit.current
}

/// Number of connections to serve at once: the configured number, or less so that the store has descriptors
/// for its files.
pub(crate) fn connection_count_max(configured: usize, descriptor_limit: Option<u64>) -> usize {
    let Some(limit) = descriptor_limit else { return configured };
    let share = limit.saturating_mul(CONNECTION_SHARE_PERCENT) / 100;
    let most = usize::try_from(share).unwrap_or(usize::MAX).max(1);
    if configured > most {
        tracing::info!(
            most,
            configured,
            limit,
            "max_connections is more than the limit of open files (ulimit -n) allows"
        );
    }
    configured.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_store() {
        assert_eq!(connection_count_max(65_536, Some(1_024)), 768);
        assert_eq!(connection_count_max(100, Some(1_024)), 100);
        assert_eq!(connection_count_max(65_536, None), 65_536);
        assert_eq!(connection_count_max(10, Some(0)), 1);
    }
}

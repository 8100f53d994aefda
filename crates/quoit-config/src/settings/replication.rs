//! Settings of replication between clusters, from the configuration.

use super::Settings;
use quoit_core::{ChangeFeedSettings, QueueDefinition, QueueDefinitionError, SourceQueueSettings};
use quoit_model::props::Quorum;
use quoit_replication::{
    BucketTypeMode, CheckKind, CheckWindow, FullSyncScope, FullSyncSettings, LoginSettings,
    PeerAddress, PeerAddressError, Protocol, SinkSettings,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directory of replication queues in the data directory.
const DIRECTORY: &str = "replication";

impl Settings {
    /// Settings of the source queues, and the faults of invalid queue definitions, which are left out.
    #[must_use]
    pub fn source_queues(&self) -> (SourceQueueSettings, Vec<QueueDefinitionError>) {
        let defaults = SourceQueueSettings::default();
        let count = |name| self.integer(name).and_then(|number| usize::try_from(number).ok());
        let full_sync = self.full_sync();
        let has_full_sync = full_sync.scope == FullSyncScope::All && full_sync.peer.is_some();
        let (queues, faults) = QueueDefinition::read_list(&self.text("replrtq_srcqueue"));
        let settings = SourceQueueSettings {
            is_enabled: self.flag("replrtq_enablesrc"),
            queues,
            object_count_max: count("replrtq_srcobjectlimit").unwrap_or(defaults.object_count_max),
            object_bytes_max: self
                .size_bytes("replrtq_srcobjectsize")
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or(defaults.object_bytes_max),
            entry_count_max: self
                .integer("replrtq_overflow_limit")
                .and_then(|number| u64::try_from(number).ok())
                .unwrap_or(defaults.entry_count_max),
            window_count_max: defaults.window_count_max,
            compresses: self.flag("replrtq_compressonwire"),
            vnode_check: match self.get("replrtq_vnodecheck") {
                Some("quorum") => Quorum::Quorum,
                Some("all") => Quorum::All,
                _ => Quorum::One,
            },
            queues_reaps: self.flag("repl_reap"),
            forwards: self.flag("repl.forward"),
            full_sync_queue: has_full_sync.then_some(full_sync.queue),
            retention: self.duration("repl.retention").unwrap_or(defaults.retention),
        };
        (settings, faults)
    }

    /// Settings of the sinks, and the faults of invalid peer addresses, which are left out.
    #[must_use]
    pub fn sinks(&self) -> (SinkSettings, Vec<PeerAddressError>) {
        let defaults = SinkSettings::default();
        let count = |name| self.integer(name).and_then(|number| usize::try_from(number).ok());
        let (peers, faults) = PeerAddress::read_list(&self.text("replrtq_sinkpeers"));
        let worker_count = count("replrtq_sinkworkers").unwrap_or(defaults.worker_count);
        let settings = SinkSettings {
            is_enabled: self.flag("replrtq_enablesink"),
            queue: self.text("replrtq_sinkqueue"),
            peers,
            worker_count,
            peer_limit: count("replrtq_sinkpeerlimit"),
            discovers: self.flag("replrtq_peer_discovery"),
            prompt_secs_max: self
                .integer("replrtq_prompt_max_seconds")
                .and_then(|secs| u64::try_from(secs).ok())
                .unwrap_or(defaults.prompt_secs_max),
            login: self.replication_login(),
            log_interval: self
                .integer("replrtq_logfrequency")
                .and_then(|ms| u64::try_from(ms).ok())
                .map_or(defaults.log_interval, Duration::from_millis),
            node_name: self.text("nodename"),
            bucket_types: match self.get("repl.bucket_types") {
                Some("create") => BucketTypeMode::Create,
                Some("follow") => BucketTypeMode::Follow,
                _ => BucketTypeMode::Off,
            },
            full_sync: self.full_sync(),
        };
        (settings, faults)
    }

    /// The login at nodes of other clusters. [`Settings::check_security`] has checked that its settings are
    /// complete.
    fn replication_login(&self) -> Option<LoginSettings> {
        let file = |name: &str| self.get(name).map(|path| self.in_etc(path));
        Some(LoginSettings {
            user: self.get("repl_username")?.to_owned(),
            password_file: file("repl.password_file"),
            authorities: file("repl_cacert_filename")?,
            identity: file("repl_cert_filename").zip(file("repl_key_filename")),
        })
    }

    fn full_sync(&self) -> FullSyncSettings {
        let defaults = FullSyncSettings::default();
        let number = |name: &str| self.integer(name).and_then(|number| u32::try_from(number).ok());
        let hour = |name: &str| self.integer(name).and_then(|hour| u8::try_from(hour).ok());
        let checks = [
            ("ttaaefs_allcheck", CheckKind::All),
            ("ttaaefs_daycheck", CheckKind::Day),
            ("ttaaefs_hourcheck", CheckKind::Hour),
            ("ttaaefs_rangecheck", CheckKind::Range),
            ("ttaaefs_autocheck", CheckKind::Auto),
            ("ttaaefs_nocheck", CheckKind::None),
        ];
        let checks_a_day = checks.map(|(name, kind)| (kind, number(name).unwrap_or(0)));
        let window = || {
            let start = hour("ttaaefs_allcheck.window.start").unwrap_or(0);
            CheckWindow::Hours(start, hour("ttaaefs_allcheck.window.end").unwrap_or(23))
        };
        let bucket = self.get("ttaaefs_bucketfilter_name").map(str::to_owned);
        FullSyncSettings {
            scope: match self.get("ttaaefs_scope") {
                Some("all" | "type") => FullSyncScope::All,
                Some("bucket") => FullSyncScope::Bucket,
                _ => FullSyncScope::Disabled,
            },
            bucket: bucket.map(|bucket| (self.text("ttaaefs_bucketfilter_type"), bucket)),
            queue: self.text("ttaaefs_queuename"),
            peer_queue: self
                .get("ttaaefs_queuename_peer")
                .filter(|name| *name != "disabled")
                .map(str::to_owned),
            peer: self.full_sync_peer(),
            checks_a_day: checks_a_day.to_vec(),
            window: match self.get("ttaaefs_allcheck.policy") {
                Some("never") => CheckWindow::Never,
                Some("window") => window(),
                _ => CheckWindow::Always,
            },
            interval: self.duration("repl.fullsync.interval"),
            cluster_slice: number("ttaaefs_cluster_slice").unwrap_or(defaults.cluster_slice),
            local_n_val: number("ttaaefs_localnval").unwrap_or(defaults.local_n_val),
            remote_n_val: number("ttaaefs_remotenval").unwrap_or(defaults.remote_n_val),
            segment_count_max: number("ttaaefs_maxresults")
                .map_or(defaults.segment_count_max, |count| count as usize),
            range_boost: number("ttaaefs_rangeboost")
                .map_or(defaults.range_boost, |boost| boost as usize),
            repair_count_max: self
                .integer("repl.fullsync.maximum")
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(defaults.repair_count_max),
            logs_repairs: self.flag("ttaaefs_logrepairs"),
            rest_at_start: defaults.rest_at_start,
        }
    }

    fn full_sync_peer(&self) -> Option<PeerAddress> {
        let host = self.get("ttaaefs_peerip")?.to_owned();
        let port = self.integer("ttaaefs_peerport").and_then(|port| u16::try_from(port).ok())?;
        let protocol = match self.get("ttaaefs_peerprotocol") {
            Some("http") => Protocol::Http,
            _ => Protocol::Pb,
        };
        Some(PeerAddress { queue: None, host, port, protocol })
    }

    /// Limits of the log of change feeds.
    #[must_use]
    pub fn change_feeds(&self) -> ChangeFeedSettings {
        let defaults = ChangeFeedSettings::default();
        ChangeFeedSettings {
            retention: self.duration("change_feed.retention").unwrap_or(defaults.retention),
            bytes_max: self.size_bytes("change_feed.maximum_bytes").unwrap_or(defaults.bytes_max),
        }
    }

    /// The directory of source queues.
    #[must_use]
    pub fn source_queue_directory(&self, data_dir: &Path) -> PathBuf {
        self.get("replrtq_dataroot").map_or_else(|| data_dir.join(DIRECTORY), PathBuf::from)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Sources, load};
    use quoit_model::props::Quorum;
    use quoit_replication::FullSyncScope;
    use std::path::Path;

    #[test]
    fn source_queues_of_a_riak_conf_have_their_settings_and_a_bad_definition_is_told() {
        let lines = [
            "replrtq_enablesrc = enabled",
            "replrtq_srcqueue = q1:any|q2:bucket.x|q3:buckettype.maps",
            "replrtq_srcobjectsize = 1KB",
            "replrtq_vnodecheck = quorum",
            "repl_reap = enabled",
            "replrtq_enablesink = enabled",
            "replrtq_sinkpeers = 10.0.0.1:8087:pb|q9:10.0.0.2:8087:pb|nonsense",
            "replrtq_sinkworkers = 8",
            "repl_username = mirror",
            "repl_cacert_filename = $(platform_etc_dir)/ca.pem",
            "repl.password_file = /p",
            "ttaaefs_scope = all",
            "ttaaefs_peerip = 10.1.2.3",
            "ttaaefs_peerport = 8087",
            "ttaaefs_queuename_peer = back",
        ];
        let command_line = lines.iter().map(|line| (*line).to_owned()).collect();
        let settings = load(&Sources { command_line, ..Sources::default() }).expect("good");
        let (queues, faults) = settings.source_queues();
        let names: Vec<&str> = queues.queues.iter().map(|queue| &*queue.name).collect();
        assert_eq!(names, ["q1", "q3"]);
        assert_eq!(faults.len(), 1);
        assert!(queues.is_enabled && queues.queues_reaps && queues.forwards);
        assert_eq!(queues.full_sync_queue.as_deref(), Some("q1_ttaaefs"));
        assert_eq!((queues.object_bytes_max, queues.object_count_max), (1 << 10, 1_000));
        assert_eq!(queues.vnode_check, Quorum::Quorum);
        let (sinks, faults) = settings.sinks();
        assert_eq!((sinks.is_enabled, sinks.peers.len(), faults.len()), (true, 2, 1));
        assert_eq!((sinks.worker_count, sinks.peer_limit), (8, None));
        let login = sinks.login.expect("a login");
        assert_eq!((&*login.user, &*login.authorities), ("mirror", Path::new("./etc/ca.pem")));
        assert_eq!(login.password_file.as_deref(), Some(Path::new("/p")));
        let full_sync = sinks.full_sync;
        assert_eq!(
            full_sync.peer.map(|peer| peer.to_string()).as_deref(),
            Some("10.1.2.3:8087:pb")
        );
        assert_eq!(full_sync.peer_queue.as_deref(), Some("back"));
        assert_eq!(full_sync.scope, FullSyncScope::All);
        let directory = settings.source_queue_directory(Path::new("d"));
        assert_eq!(directory, Path::new("d/replication"));
    }
}

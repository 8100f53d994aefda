//! Settings of replication between clusters.

use super::Settings;
use quoit_core::{QueueDefinition, QueueDefinitionError, SourceQueueSettings};
use quoit_model::props::Quorum;
use std::path::{Path, PathBuf};

/// The directory of source queues in the data directory.
const DIRECTORY: &str = "replication";

impl Settings {
    /// Settings of source queues, and faults of definitions of queues, which are left out.
    #[must_use]
    pub fn source_queues(&self) -> (SourceQueueSettings, Vec<QueueDefinitionError>) {
        let defaults = SourceQueueSettings::default();
        let count = |name| self.integer(name).and_then(|number| usize::try_from(number).ok());
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
        };
        (settings, faults)
    }

    /// The directory of source queues.
    #[must_use]
    pub fn source_queue_directory(&self, data_dir: &Path) -> PathBuf {
        self.get("replrtq_dataroot").map_or_else(|| data_dir.join(DIRECTORY), PathBuf::from)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Sources, load};
    use quoit_model::props::Quorum;
    use std::path::Path;

    #[test]
    fn source_queues_of_a_riak_conf_have_their_settings_and_a_bad_definition_is_told() {
        let lines = [
            "replrtq_enablesrc = enabled",
            "replrtq_srcqueue = q1:any|q2:bucket.x|q3:buckettype.maps",
            "replrtq_srcobjectsize = 1KB",
            "replrtq_vnodecheck = quorum",
            "repl_reap = enabled",
        ];
        let command_line = lines.iter().map(|line| (*line).to_owned()).collect();
        let settings = load(&Sources { command_line, ..Sources::default() }).expect("good");
        let (queues, faults) = settings.source_queues();
        let names: Vec<&str> = queues.queues.iter().map(|queue| &*queue.name).collect();
        assert_eq!(names, ["q1", "q3"]);
        assert_eq!(faults.len(), 1);
        assert!(queues.is_enabled && queues.queues_reaps && queues.forwards);
        assert_eq!((queues.object_bytes_max, queues.object_count_max), (1 << 10, 1_000));
        assert_eq!(queues.vnode_check, Quorum::Quorum);
        let directory = settings.source_queue_directory(Path::new("d"));
        assert_eq!(directory, Path::new("d/replication"));
    }
}

//! Settings of the client interfaces and the audit log, from the configuration.

use super::Settings;
use quoit_server::{
    AUDIT_FILE_BYTES, AUDIT_FILES_KEPT, AuditSettings, AuditedBucketsError, JobClasses,
    MapReduceSettings, MemorySettings, PaceSettings, ScriptLimits, ServerSettings,
};
use std::path::{Path, PathBuf};

/// Bytes of the largest request besides its object: names, context, and message overhead.
const REQUEST_MARGIN_BYTES: u64 = 1 << 20;
/// Requests and answers may take this part of the machine's memory (one in 4) by default.
const MEMORY_PART: u64 = 4;
/// Assumed memory of a machine whose memory is unknown, in bytes.
const MEMORY_BYTES_DEFAULT: u64 = 4 << 30;

impl Settings {
    /// Settings of the audit log for a data directory; `None` if it is off.
    ///
    /// # Errors
    ///
    /// [`AuditedBucketsError`] for an invalid list of buckets.
    pub fn audit(&self, data_dir: &Path) -> Result<Option<AuditSettings>, AuditedBucketsError> {
        if !self.flag("audit") {
            return Ok(None);
        }
        let file = self.get("audit.file").map_or_else(|| data_dir.join("audit.log"), PathBuf::from);
        let kept = self.integer("audit.file.kept").and_then(|count| u32::try_from(count).ok());
        Ok(Some(AuditSettings {
            file,
            file_bytes_max: self.size_bytes("audit.file.maximum_size").unwrap_or(AUDIT_FILE_BYTES),
            kept_count: kept.unwrap_or(AUDIT_FILES_KEPT),
            buckets: self.text("audit.buckets").parse()?,
        }))
    }

    /// Settings of the client interfaces.
    pub fn server(&self) -> ServerSettings {
        let object_bytes_max = self.store().limits.object_size_bytes_max;
        let request_bytes = self.size_bytes("request.maximum_size");
        let request_bytes =
            request_bytes.unwrap_or(object_bytes_max.saturating_add(REQUEST_MARGIN_BYTES));
        let request_bytes_max = usize::try_from(request_bytes).unwrap_or(usize::MAX);
        let budget_bytes = self.size_bytes("request.maximum_memory").unwrap_or_else(|| {
            quoit_server::memory_bytes().unwrap_or(MEMORY_BYTES_DEFAULT) / MEMORY_PART
        });
        let share_bytes = self.size_bytes("request.maximum_memory.per_connection");
        let pace = PaceSettings::default();
        ServerSettings {
            request_bytes_max,
            memory: MemorySettings::new(budget_bytes, share_bytes, request_bytes_max),
            pace: PaceSettings {
                stall_limit: self.duration("request.stall_timeout").unwrap_or(pace.stall_limit),
                bytes_per_sec_min: self
                    .size_bytes("request.minimum_rate")
                    .unwrap_or(pace.bytes_per_sec_min),
            },
            http_url_decoding: self.flag("http_url_encoding"),
            secure_referer_check: self.flag("secure_referer_check"),
            admin_remote: self.flag("admin_remote"),
            connection_count_max: self
                .integer("max_connections")
                .and_then(|number| usize::try_from(number).ok())
                .unwrap_or(usize::MAX),
            index_timeout_ms: self
                .integer("secondary_index_timeout")
                .and_then(|number| u64::try_from(number).ok())
                .unwrap_or_default(),
            jobs: JobClasses {
                list_buckets: self.flag("cluster.job.riak_kv.list_buckets"),
                stream_list_buckets: self.flag("cluster.job.riak_kv.stream_list_buckets"),
                list_keys: self.flag("cluster.job.riak_kv.list_keys"),
                stream_list_keys: self.flag("cluster.job.riak_kv.stream_list_keys"),
                secondary_index: self.flag("cluster.job.riak_kv.secondary_index"),
                stream_secondary_index: self.flag("cluster.job.riak_kv.stream_secondary_index"),
                map_reduce: self.flag("cluster.job.riak_kv.map_reduce"),
                map_reduce_js: self.flag("cluster.job.riak_kv.map_reduce_js"),
            },
            mapreduce: self.mapreduce(),
            ..ServerSettings::default()
        }
    }

    /// Limits of MapReduce jobs.
    fn mapreduce(&self) -> MapReduceSettings {
        let defaults = MapReduceSettings::default();
        let bytes = |name: &str, default: usize| {
            self.size_bytes(name).and_then(|size| usize::try_from(size).ok()).unwrap_or(default)
        };
        let scripts = ScriptLimits::default();
        let javascript = self.flag("mapreduce.javascript").then(|| ScriptLimits {
            call_time_max: self
                .duration("mapreduce.javascript.call_timeout")
                .unwrap_or(scripts.call_time_max),
            job_time_max: self
                .duration("mapreduce.javascript.job_timeout")
                .unwrap_or(scripts.job_time_max),
            memory_bytes_max: bytes(
                "mapreduce.javascript.maximum_memory",
                scripts.memory_bytes_max,
            ),
            jobs_memory_bytes_max: bytes(
                "mapreduce.javascript.jobs.maximum_memory",
                scripts.jobs_memory_bytes_max,
            ),
            output_bytes_max: bytes(
                "mapreduce.javascript.maximum_output",
                scripts.output_bytes_max,
            ),
        });
        MapReduceSettings {
            job_count_max: self
                .integer("mapreduce.jobs.maximum")
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(defaults.job_count_max),
            job_memory_bytes_max: bytes(
                "mapreduce.job.maximum_memory",
                defaults.job_memory_bytes_max,
            ),
            javascript,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Sources, load};
    use std::time::Duration;

    #[test]
    fn the_largest_request_follows_from_the_largest_object_and_from_the_memory() {
        let of = |lines: &[&str]| {
            let command_line = lines.iter().map(|line| (*line).to_owned()).collect();
            let sources = Sources { command_line, ..Sources::default() };
            load(&sources).expect("a good configuration").server()
        };
        assert_eq!(of(&[]).request_bytes_max, 51 << 20);
        assert_eq!(of(&["object.size.maximum = 1MB"]).request_bytes_max, 2 << 20);
        assert_eq!(of(&["request.maximum_size = 7MB"]).request_bytes_max, 7 << 20);
        let small = of(&["request.maximum_memory = 100MB"]);
        assert_eq!((small.memory.budget_bytes, small.memory.share_bytes), (100 << 20, 75 << 20));
        let given = of(&["request.maximum_memory.per_connection = 3MB"]);
        assert_eq!(given.memory.share_bytes, 3 << 20);
        let pace = of(&["request.stall_timeout = 5s", "request.minimum_rate = 1KB"]).pace;
        assert_eq!((pace.stall_limit, pace.bytes_per_sec_min), (Duration::from_secs(5), 1 << 10));
    }
}

//! Configurations for `quoit bench`.

use std::time::Duration;

/// A load over Protocol Buffers on one bucket.
#[derive(Clone, Debug)]
pub(super) struct BenchLoad {
    /// `max`, or an open rate.
    pub(super) rate: Option<u32>,
    pub(super) workers: u32,
    pub(super) bucket: &'static str,
    /// Generator of integers.
    pub(super) keys: String,
    /// Generator of values.
    pub(super) values: String,
    /// Operations with their weights.
    pub(super) operations: &'static str,
    /// Whether puts wait until they are synced, as the bucket's default is.
    pub(super) is_synced: bool,
    /// Whether puts are made again that a node refuses because its store is behind.
    pub(super) is_complete: bool,
}

impl BenchLoad {
    /// As fast as it goes, by 32 workers.
    pub(super) fn new(keys: String, values: String, operations: &'static str) -> Self {
        let (workers, bucket) = (32, "test");
        Self {
            rate: None,
            workers,
            bucket,
            keys,
            values,
            operations,
            is_synced: true,
            is_complete: false,
        }
    }

    /// Puts of keys 1 to `count`, once each, and again where the node has refused one.
    pub(super) fn fill(count: u64, values: String) -> Self {
        let keys = format!("{{partitioned_sequential_int, 1, {count}}}");
        Self { is_complete: true, ..Self::new(keys, values, "{put, 1}") }
    }

    /// Puts of keys 1 to `count`, once each and without waiting for the disk: what others are measured on.
    pub(super) fn prepare(count: u64, values: String) -> Self {
        Self { is_synced: false, ..Self::fill(count, values) }
    }

    /// The configuration, in basho_bench's terms.
    pub(super) fn config(&self) -> String {
        let mode =
            self.rate.map_or_else(|| "max".to_owned(), |rate| format!("{{open_rate, {rate}}}"));
        let dw = if self.is_synced { "default" } else { "0" };
        let Self { workers, bucket, keys, values, operations, is_complete, .. } = self;
        format!(
            "{{mode, {mode}}}.\n{{concurrent, {workers}}}.\n\
             {{driver, basho_bench_driver_riakc_pb}}.\n{{riakc_pb_ips, [{{127,0,0,1}}]}}.\n\
             {{riakc_pb_replies, default}}.\n{{riakc_pb_dw, {dw}}}.\n\
             {{riakc_pb_repeat_overload, {is_complete}}}.\n\
             {{riakc_pb_bucket, <<\"{bucket}\">>}}.\n\
             {{key_generator, {{int_to_bin_bigendian, {keys}}}}}.\n\
             {{value_generator, {values}}}.\n{{operations, [{operations}]}}.\n"
        )
    }
}

/// One run of `quoit bench`.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Name in tables.
    pub(super) name: &'static str,
    pub(super) load: BenchLoad,
    /// The run ends after so long at the latest.
    pub(super) limit: Duration,
    /// Mean bytes of a value.
    pub(super) value_bytes: f64,
    /// Bytes of all values that are there after it, where that is known.
    pub(super) live_bytes: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_written_in_terms() {
        let mut load = BenchLoad::fill(7, "{fixed_bin, 5}".to_owned());
        load.rate = Some(20);
        let text = load.config();
        for part in [
            "{mode, {open_rate, 20}}.",
            "{key_generator, {int_to_bin_bigendian, {partitioned_sequential_int, 1, 7}}}.",
            "{value_generator, {fixed_bin, 5}}.",
            "{operations, [{put, 1}]}.",
            "{riakc_pb_repeat_overload, true}.",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}

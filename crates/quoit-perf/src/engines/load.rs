//! Configurations for `quoit bench`.

use std::time::Duration;

/// A load over Protocol Buffers on one bucket.
#[derive(Clone, Debug)]
pub(super) struct BenchLoad {
    /// Arrivals per second in an open loop; `None` for as fast as possible.
    pub(super) rate: Option<u32>,
    pub(super) workers: u32,
    pub(super) bucket: &'static str,
    /// Generators of keys and values.
    pub(super) generators: LoadGenerators,
    /// Operations with their weights.
    pub(super) operations: &'static str,
    /// True if puts wait for a sync, which is the bucket's default.
    pub(super) is_synced: bool,
    /// True if puts are repeated that a node refuses because its store is overloaded.
    pub(super) is_complete: bool,
}

/// Generators of a load, as Erlang terms of basho_bench.
#[derive(Clone, Debug)]
pub(super) struct LoadGenerators {
    /// Generator of the keys' integers.
    pub(super) keys: String,
    /// Generator of the values.
    pub(super) values: String,
}

impl BenchLoad {
    /// A load of 32 workers, as fast as possible.
    pub(super) fn new(generators: LoadGenerators, operations: &'static str) -> Self {
        let (workers, bucket) = (32, "test");
        Self {
            rate: None,
            workers,
            bucket,
            generators,
            operations,
            is_synced: true,
            is_complete: false,
        }
    }

    /// Puts of the keys 1 to `count`, once each. Puts that the node refuses are repeated.
    pub(super) fn fill(count: u64, values: String) -> Self {
        let keys = format!("{{partitioned_sequential_int, 1, {count}}}");
        Self { is_complete: true, ..Self::new(LoadGenerators { keys, values }, "{put, 1}") }
    }

    /// Puts of the keys 1 to `count` without waiting for a sync: preparation of a measurement.
    pub(super) fn prepare(count: u64, values: String) -> Self {
        Self { is_synced: false, ..Self::fill(count, values) }
    }

    /// The configuration, as Erlang terms of basho_bench.
    pub(super) fn config(&self) -> String {
        let mode =
            self.rate.map_or_else(|| "max".to_owned(), |rate| format!("{{open_rate, {rate}}}"));
        let dw = if self.is_synced { "default" } else { "0" };
        let Self { workers, bucket, operations, is_complete, .. } = self;
        let LoadGenerators { keys, values } = &self.generators;
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
    /// Name of the run in tables.
    pub(super) name: &'static str,
    pub(super) load: BenchLoad,
    /// Time after which the run ends at the latest.
    pub(super) limit: Duration,
    /// Mean size of a value, in bytes.
    pub(super) value_bytes: f64,
    /// Total size of all values after the run, in bytes, if it is known.
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

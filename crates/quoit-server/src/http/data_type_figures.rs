//! Figures by data type, under Riak's names and as metrics.

use super::metrics::{BYTES, COUNTS, FamilyKind, MetricsText, TIMES_US, US_PER_SEC};
use super::stats::{Figures, put, put_summary};
use quoit_core::{
    Cumulative, DataTypeCounter, DataTypeDistribution, DataTypeSnapshot, LatencySummary, Stats,
};
use quoit_model::props::Datatype;

/// Data types that have figures of their own. Grow-only sets are counted with sets.
pub(super) const DATATYPES: [(&str, Datatype); 4] = [
    ("counter", Datatype::Counter),
    ("set", Datatype::Set),
    ("map", Datatype::Map),
    ("hll", Datatype::Hll),
];

/// Names of counters; `@` stands for the data type.
const COUNTERS: [(&str, DataTypeCounter); 4] = [
    ("node_gets_@", DataTypeCounter::Gets),
    ("node_puts_@", DataTypeCounter::Puts),
    ("vnode_@_update", DataTypeCounter::Updates),
    ("object_@_merge", DataTypeCounter::Merges),
];

/// Names of distributions; `@` stands for the data type.
const DISTRIBUTIONS: [(&str, DataTypeDistribution); 6] = [
    ("node_get_fsm_@_time", DataTypeDistribution::GetTimeUs),
    ("node_put_fsm_@_time", DataTypeDistribution::PutTimeUs),
    ("node_get_fsm_@_siblings", DataTypeDistribution::GetSiblings),
    ("node_get_fsm_@_objsize", DataTypeDistribution::GetObjectBytes),
    ("vnode_@_update_time", DataTypeDistribution::UpdateTimeUs),
    ("object_@_merge_time", DataTypeDistribution::MergeTimeUs),
];

/// Adds every figure of every data type; 0 if it has not occurred yet.
pub(super) fn data_types(figures: &mut Figures, stats: &Stats) {
    for (name, datatype) in DATATYPES {
        let snapshot = stats.data_type_snapshot(datatype);
        let mut count = |name: &str, counter| {
            let of = |figure: fn(&DataTypeSnapshot, DataTypeCounter) -> u64| {
                snapshot.as_ref().map_or(0, |snapshot| figure(snapshot, counter))
            };
            put(figures, name, of(DataTypeSnapshot::last_minute));
            put(figures, &format!("{name}_total"), of(DataTypeSnapshot::total));
        };
        for (pattern, counter) in COUNTERS {
            count(&pattern.replace('@', name), counter);
        }
        if datatype == Datatype::Hll {
            count("hll_bytes", DataTypeCounter::HllBytes);
        }
        let own = match datatype {
            Datatype::Hll => ("hll_bytes", DataTypeDistribution::HllBytes),
            _ => ("@_actor_counts", DataTypeDistribution::Actors),
        };
        for (pattern, distribution) in DISTRIBUTIONS.into_iter().chain([own]) {
            let summary = snapshot
                .as_ref()
                .map_or_else(LatencySummary::default, |snapshot| snapshot.summary(distribution));
            put_summary(figures, &pattern.replace('@', name), summary);
        }
    }
}

/// Adds the same figures as metrics with a label for the data type. Data types that have not been used are
/// left out.
pub(super) fn data_type_metrics(text: &mut MetricsText, stats: &Stats) {
    let snapshots: Vec<(&str, DataTypeSnapshot)> = DATATYPES
        .iter()
        .filter_map(|(name, datatype)| Some((*name, stats.data_type_snapshot(*datatype)?)))
        .collect();
    if snapshots.is_empty() {
        return;
    }
    for (name, help, counter) in [
        ("quoit_data_type_gets", "Reads of data types.", DataTypeCounter::Gets),
        ("quoit_data_type_puts", "Updates of data types.", DataTypeCounter::Puts),
        (
            "quoit_data_type_updates",
            "Operations on this node's copies of data types.",
            DataTypeCounter::Updates,
        ),
        ("quoit_data_type_merges", "Merges of copies that differed.", DataTypeCounter::Merges),
    ] {
        text.family(name, help, FamilyKind::Counter);
        for (datatype, snapshot) in &snapshots {
            let total = snapshot.total(counter);
            text.line(format_args!("{name}_total{{datatype=\"{datatype}\"}} {total}"));
        }
    }
    for (name, help, distribution, limits, unit) in [
        (
            "quoit_data_type_get_duration_seconds",
            "Time of reads of data types.",
            DataTypeDistribution::GetTimeUs,
            TIMES_US,
            US_PER_SEC,
        ),
        (
            "quoit_data_type_put_duration_seconds",
            "Time of updates of data types.",
            DataTypeDistribution::PutTimeUs,
            TIMES_US,
            US_PER_SEC,
        ),
        (
            "quoit_data_type_update_duration_seconds",
            "Time of operations on copies of data types.",
            DataTypeDistribution::UpdateTimeUs,
            TIMES_US,
            US_PER_SEC,
        ),
        (
            "quoit_data_type_get_object_bytes",
            "Sizes of data types read.",
            DataTypeDistribution::GetObjectBytes,
            BYTES,
            1.0,
        ),
        (
            "quoit_data_type_actors",
            "Actors in the clocks of data types.",
            DataTypeDistribution::Actors,
            COUNTS,
            1.0,
        ),
    ] {
        let of_type = |(datatype, snapshot): &(&str, DataTypeSnapshot)| {
            (format!("datatype=\"{datatype}\""), snapshot.cumulative(distribution, limits))
        };
        let histograms: Vec<(String, Cumulative)> = snapshots.iter().map(of_type).collect();
        text.histograms(name, help, &histograms, unit);
    }
}

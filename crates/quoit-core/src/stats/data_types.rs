//! Figures by data type.
//!
//! The figures of a type take about 2 MB of memory from its first request on. All threads share them,
//! because an operation on a data type costs far more than counting it.

use super::Sizes;
use super::recorder::{Cumulative, LatencySummary, Recorder, Samples, Snapshot, Sums};
use quoit_model::object::Object;
use quoit_model::props::Datatype;
use std::sync::OnceLock;

/// Events that are counted for each data type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum DataTypeCounter {
    /// Reads coordinated here that found the data type.
    Gets,
    /// Updates coordinated here.
    Puts,
    /// Operations that were applied to this node's copies.
    Updates,
    /// Merges of two different copies.
    Merges,
    /// Bytes of HyperLogLog states after operations.
    HllBytes,
}
const COUNTER_COUNT: usize = DataTypeCounter::HllBytes as usize + 1;

/// Quantities whose distributions are kept for each data type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum DataTypeDistribution {
    /// Microseconds from request to answer of a read.
    GetTimeUs,
    /// Microseconds from request to answer of an update.
    PutTimeUs,
    /// Number of siblings of records read. It exceeds one only if plain values were written to the
    /// record.
    GetSiblings,
    /// Bytes of records read.
    GetObjectBytes,
    /// Microseconds that an operation on this node's copy took.
    UpdateTimeUs,
    /// Microseconds that a merge took.
    MergeTimeUs,
    /// Number of actors in the clock after operations.
    Actors,
    /// Bytes of HyperLogLog states after operations.
    HllBytes,
}
const DISTRIBUTION_COUNT: usize = DataTypeDistribution::HllBytes as usize + 1;

/// Figures of a type.
#[derive(Default)]
struct Figures {
    recorder: Recorder<COUNTER_COUNT, DISTRIBUTION_COUNT>,
    samples: Samples<COUNTER_COUNT, DISTRIBUTION_COUNT>,
}

/// Figures of all types.
#[derive(Default)]
pub(crate) struct DataTypeStats([OnceLock<Box<Figures>>; 4]);

/// Figures of a type at one moment.
pub struct DataTypeSnapshot(Snapshot<COUNTER_COUNT, DISTRIBUTION_COUNT>);

impl DataTypeStats {
    /// Figures of a type. Types that share a name in the statistics share figures.
    const fn figures(&self, datatype: Datatype) -> &OnceLock<Box<Figures>> {
        let [counters, sets, maps, hlls] = &self.0;
        match datatype {
            Datatype::Counter => counters,
            Datatype::Set | Datatype::Gset => sets,
            Datatype::Map => maps,
            Datatype::Hll => hlls,
        }
    }

    fn of(&self, datatype: Datatype) -> &Recorder<COUNTER_COUNT, DISTRIBUTION_COUNT> {
        let begin = || {
            let figures = Box::<Figures>::default();
            // A first sample of zeros makes the first event of a type count for the last minute.
            figures.samples.keep(Sums::of(std::slice::from_ref(&figures.recorder)));
            figures
        };
        &self.figures(datatype).get_or_init(begin).recorder
    }

    /// Counts a read that found the data type.
    pub(crate) fn record_get(&self, datatype: Datatype, time_us: u64, sizes: Sizes) {
        let figures = self.of(datatype);
        let Sizes { sibling_count, value_bytes } = sizes;
        figures.add(DataTypeCounter::Gets as usize, 1);
        figures.record(DataTypeDistribution::GetTimeUs as usize, time_us);
        figures.record(DataTypeDistribution::GetSiblings as usize, sibling_count);
        figures.record(DataTypeDistribution::GetObjectBytes as usize, value_bytes);
    }

    /// Counts an update. `time_us` is `None` for failed ones.
    pub(crate) fn record_put(&self, datatype: Datatype, time_us: Option<u64>) {
        let figures = self.of(datatype);
        figures.add(DataTypeCounter::Puts as usize, 1);
        if let Some(time_us) = time_us {
            figures.record(DataTypeDistribution::PutTimeUs as usize, time_us);
        }
    }

    /// Counts an operation on a copy; `object` is the copy after it.
    pub(crate) fn record_update(&self, datatype: Datatype, time_us: u64, object: &Object) {
        let figures = self.of(datatype);
        figures.add(DataTypeCounter::Updates as usize, 1);
        figures.record(DataTypeDistribution::UpdateTimeUs as usize, time_us);
        let actors = object.clock.entries().len() as u64;
        figures.record(DataTypeDistribution::Actors as usize, actors);
        if datatype == Datatype::Hll {
            let states = object.siblings.iter().filter(|sibling| sibling.is_data_type());
            let state_bytes = states.map(|state| state.value.len() as u64).sum();
            figures.add(DataTypeCounter::HllBytes as usize, state_bytes);
            figures.record(DataTypeDistribution::HllBytes as usize, state_bytes);
        }
    }

    /// Counts a merge.
    pub(super) fn record_merge(&self, datatype: Datatype, time_us: u64) {
        let figures = self.of(datatype);
        figures.add(DataTypeCounter::Merges as usize, 1);
        figures.record(DataTypeDistribution::MergeTimeUs as usize, time_us);
    }

    /// Stores the present sums of all types that were used.
    pub(super) fn sample(&self) {
        for figures in self.0.iter().filter_map(OnceLock::get) {
            figures.samples.keep(Sums::of(std::slice::from_ref(&figures.recorder)));
        }
    }

    /// Figures of a type; `None` if it was never used.
    pub(super) fn snapshot(&self, datatype: Datatype) -> Option<DataTypeSnapshot> {
        let figures = self.figures(datatype).get()?;
        let now = || Sums::of(std::slice::from_ref(&figures.recorder));
        Some(DataTypeSnapshot(figures.samples.snapshot(now)))
    }
}

impl DataTypeSnapshot {
    /// Number of events since the start.
    #[must_use]
    pub fn total(&self, counter: DataTypeCounter) -> u64 {
        self.0.total(counter as usize)
    }

    /// Number of events in the last minute.
    #[must_use]
    pub fn last_minute(&self, counter: DataTypeCounter) -> u64 {
        self.0.last_minute(counter as usize)
    }

    /// Distribution over the last minute. Percentiles are exact to within 1/16 of the value.
    #[must_use]
    pub fn summary(&self, distribution: DataTypeDistribution) -> LatencySummary {
        self.0.summary(distribution as usize)
    }

    /// Distribution since the start, as
    /// [`StatsSnapshot::cumulative`](super::StatsSnapshot::cumulative).
    #[must_use]
    pub fn cumulative(&self, distribution: DataTypeDistribution, limits: &[u64]) -> Cumulative {
        self.0.cumulative(distribution as usize, limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_counted_apart_and_grow_only_sets_as_sets() {
        let stats = DataTypeStats::default();
        assert!(stats.snapshot(Datatype::Set).is_none(), "nothing is kept of what nobody uses");
        stats.record_put(Datatype::Gset, Some(70));
        stats.record_put(Datatype::Set, None);
        stats.record_merge(Datatype::Counter, 5);
        let sets = stats.snapshot(Datatype::Set).expect("sets");
        assert_eq!(sets.total(DataTypeCounter::Puts), 2);
        assert_eq!(sets.summary(DataTypeDistribution::PutTimeUs).count, 1, "a failure has no time");
        assert_eq!(sets.total(DataTypeCounter::Merges), 0);
        let counters = stats.snapshot(Datatype::Counter).expect("counters");
        assert_eq!(counters.summary(DataTypeDistribution::MergeTimeUs).max, 5);
        assert!(stats.snapshot(Datatype::Map).is_none());
    }

    #[test]
    fn what_an_operation_leaves_is_measured() {
        let stats = DataTypeStats::default();
        stats.record_update(Datatype::Hll, 9, &Object::default());
        let figures = stats.snapshot(Datatype::Hll).expect("one");
        assert_eq!(figures.total(DataTypeCounter::Updates), 1);
        assert_eq!(figures.summary(DataTypeDistribution::UpdateTimeUs).mean, 9);
        assert_eq!(figures.summary(DataTypeDistribution::Actors).max, 0);
    }
}

//! Bugs that the crash tests must find. Outside of tests there are none of them.

/// A bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Planted {
    /// Records of a batch count although the batch is not whole.
    AcceptsTornBatches,
    /// A merge forgets removals without looking for older writes of their keys.
    ForgetsRemovals,
    /// A merge removes segments without telling the index where their records went.
    LeavesIndexBehind,
    /// A merge removes segments before what replaced their records is durable.
    RetiresTooEarly,
    /// A snapshot is taken for durable although what it refers to is not.
    SnapshotsUnsynced,
    /// A start relies on what records say of the ones before them although those are lost.
    IgnoresGaps,
    /// A start does not read the segments that were begun while the snapshot was written.
    ForgetsYoungSegments,
    /// Index entries go to the tree before the records that wrote them are durable.
    MovesEntriesUnsynced,
    /// The tree is taken for complete although entries wait in memory.
    ForgetsEntries,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug for what this thread does from now on.
#[cfg(test)]
pub(super) fn plant(bug: Option<Planted>) {
    PLANTED.set(bug);
}

/// Whether this bug is planted.
#[cfg(test)]
pub(super) fn has(bug: Planted) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether this bug is planted: no.
#[cfg(not(test))]
pub(super) const fn has(_bug: Planted) -> bool {
    false
}

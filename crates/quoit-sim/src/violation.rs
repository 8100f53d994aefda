//! Violations: promises of the store that a run has found broken.

use std::fmt;

/// Kind of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViolationKind {
    /// A read found a value that no client wrote, or whose write the store had refused.
    Fabricated,
    /// An acknowledged write is neither found nor replaced.
    Lost,
    /// An acknowledged write is on fewer disks than promised, or was acknowledged by a node with a wrong
    /// clock.
    Unsynced,
    /// Some majority of the primaries would not show an acknowledged write, or would show a deleted
    /// value.
    Outvoted,
    /// A value was shown or stored although an acknowledged write had replaced or deleted it, or was shown
    /// although it had expired.
    Resurrected,
    /// Two writes have the same event: actor and counter.
    SameEvent,
    /// A read found two values of which one had replaced the other, or several where readers see only
    /// one.
    FalseSiblings,
    /// Two acknowledged conditional writes have not replaced one another in the order of their times.
    NotInOrder,
    /// Replicas of a key differ after all faults were repaired.
    Diverged,
    /// A request fails after all faults were repaired.
    Unanswered,
    /// A member uses a retired layout, or a partition moved before all members used the new layout.
    Outdated,
    /// An engine does not hold the records that were written to it, or that it has called durable.
    WrongRecords,
    /// An acknowledged change of the cluster was undone.
    Undone,
    /// A listing lacks keys, or has keys that do not exist, or has a key twice.
    WrongListing,
    /// A feature became active although some member does not know it.
    TooNew,
    /// A node applies outdated permissions and does not report that it is cut off.
    StaleRights,
    /// A node reports a wrong time for which it has been cut off, or accepts or refuses logins wrongly.
    WrongCutOff,
    /// A collection grows without bound, or work never ends.
    Grows,
    /// A machine could not start, or a task panicked.
    Broken,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Kind of the violation.
    pub fault: ViolationKind,
    /// Description for people: where and how the promise was broken.
    pub text: String,
}

impl Violation {
    /// Creates a violation with a description.
    #[must_use]
    pub fn new(fault: ViolationKind, text: impl Into<String>) -> Self {
        Self { fault, text: text.into() }
    }

    /// Returns this violation with the machine's name in front of the description.
    #[must_use]
    pub fn of(self, machine: &str) -> Self {
        Self { text: format!("{machine} {}", self.text), ..self }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {}", self.fault, self.text)
    }
}

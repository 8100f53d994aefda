//! Promises that were broken.

use std::fmt;

/// Kind of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A read found a value that no client wrote, or that was refused.
    Fabricated,
    /// An acknowledged write is neither there nor replaced.
    Lost,
    /// An acknowledged write was on fewer disks than it had asked for.
    Unsynced,
    /// Some majority of the primaries would not show what was acknowledged, or would show what was deleted.
    Outvoted,
    /// A value came back, or stayed, that an acknowledged write had replaced.
    Resurrected,
    /// Two writes were made under one event.
    SameEvent,
    /// Two values stand side by side although one replaced the other, or where only one may be shown.
    FalseSiblings,
    /// Two acknowledged conditional writes have not replaced one another in the order of their times.
    NotInOrder,
    /// Replicas of a key differ though nothing disturbs them any more.
    Diverged,
    /// A request fails though nothing is wrong any more.
    Unanswered,
    /// A member goes by layouts that the others have taken out of use.
    Outdated,
    /// An engine does not hold the records that it was given, or that it has called durable.
    WrongRecords,
    /// An acknowledged change of the cluster was undone.
    Undone,
    /// A listing lacks keys, or has keys that do not exist.
    WrongListing,
    /// A feature may be used that some member would misunderstand.
    TooNew,
    /// A node keeps rights that were changed, and does not say that it is cut off.
    StaleRights,
    /// A node does not say how long it has been cut off, or takes or refuses logins where it should not.
    WrongCutOff,
    /// Something grows without bound.
    Grows,
    /// A machine could not start, or a thread panicked.
    Broken,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Kind of the violation.
    pub fault: Fault,
    /// Where and how, for people.
    pub text: String,
}

impl Violation {
    /// A violation in words.
    #[must_use]
    pub fn new(fault: Fault, text: impl Into<String>) -> Self {
        Self { fault, text: text.into() }
    }

    /// The same of a machine, which it names.
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

//! Checkers: is what clients were answered what a store that keeps its promises would have answered?
//!
//! They look at the history of a run alone, after its end, and know nothing of how the store works: no
//! clocks, no layouts. The values that a write replaces follow from those that its writer was shown.

mod causes;
mod listings;
mod reads;
#[cfg(test)]
mod tests;

use crate::history::{History, KeyNumber, Reader};
use causes::Causes;
use listings::check_listing;
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

/// Checks every read and every listing of a history against all that is known at its end.
///
/// # Errors
///
/// The first violation: of acknowledgements and listings by time, then of reads by key and time.
pub fn check(history: &History) -> Result<(), Violation> {
    if let Some(broken) = history.broken_promises.first() {
        return Err(broken.clone());
    }
    history.listings.iter().try_for_each(|listing| check_listing(history, listing))?;
    let twice = history.made_by.iter().find(|(_, writes)| writes.len() > 1);
    if let Some(((key, (_, counter)), writes)) = twice {
        let text = format!("key {}: the event {counter} of one actor made {writes:?}", key.0);
        return Err(Violation::new(Fault::SameEvent, text));
    }
    let causes = Causes::of(history);
    for key in (0..history.keys.len() as u32).map(KeyNumber) {
        for (_, read) in history.reads_of(key) {
            causes.check_read(read).map_err(|violation| {
                let by = match read.reader {
                    Reader::Client => "a client's read".to_owned(),
                    Reader::Strict => "a read of a majority of the primaries".to_owned(),
                    Reader::Majority => "a read of a majority".to_owned(),
                    Reader::Writer(number) => format!("what {number} was shown of its write"),
                    Reader::Final => "the read after the faults".to_owned(),
                    Reader::Union => "a look into all nodes after the faults".to_owned(),
                };
                let (policy, at_ms) = (history.keys[key.0 as usize], read.end_us / 1_000);
                let found = &read.found;
                let text = format!(
                    "key {} ({policy:?}), {by} at {at_ms} ms found {found:?}: {}\n{}",
                    key.0,
                    violation.text,
                    story(history, key),
                );
                Violation { text, ..violation }
            })?;
        }
    }
    Ok(())
}

/// The writes of a key, for people.
fn story(history: &History, key: KeyNumber) -> String {
    let mut text = String::from("  writes of the key:");
    for (number, write) in history.writes_of(key) {
        let knew = write.context.map_or("nothing".to_owned(), |context| {
            format!("{:?}", history.reads[context.0 as usize].found)
        });
        let end_ms = match write.end_us {
            u64::MAX => "never".to_owned(),
            end_us => format!("{} ms", end_us / 1_000),
        };
        text.push_str(&format!(
            "\n    {number} {:?} {:?} from {} ms to {end_ms}, dw={}, strict={}, knew {knew}",
            write.kind,
            write.outcome,
            write.start_us / 1_000,
            write.dw,
            write.is_strict,
        ));
    }
    text
}

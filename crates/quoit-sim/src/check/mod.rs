//! Checkers of the history of a run: were all answers those of a store that keeps its promises?
//!
//! The checkers run after the end of the run and know only the history. They know nothing of version
//! vectors or layouts: which values a write replaces follows from the values that its writer had been
//! shown.

mod causes;
mod listings;
mod reads;
#[cfg(test)]
mod tests;

use crate::history::{History, KeyNumber, Reader};
use crate::violation::{Violation, ViolationKind};
use causes::Causes;
use listings::check_listing;

/// Checks every listing and every read of a history.
///
/// # Errors
///
/// The first violation, in this order: violations found during the run, listings, events that were used
/// twice, reads by key and time.
pub fn check(history: &History) -> Result<(), Violation> {
    if let Some(broken) = history.broken_promises.first() {
        return Err(broken.clone());
    }
    history.listings.iter().try_for_each(|listing| check_listing(history, listing))?;
    let twice = history.made_by.iter().find(|(_, writes)| writes.len() > 1);
    if let Some(((key, (_, counter)), writes)) = twice {
        let text = format!("key {}: the event {counter} of one actor made {writes:?}", key.0);
        return Err(Violation::new(ViolationKind::SameEvent, text));
    }
    let causes = Causes::of(history);
    for key in history.key_numbers() {
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

/// Describes the writes of a key, for people.
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

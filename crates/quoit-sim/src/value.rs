//! Values that tell who wrote them.

use crate::history::{Found, History, WriteNumber};
use bytes::Bytes;
use quoit_model::object::{Object, Sibling};

/// The value of a write, of about so many bytes. All of it follows from its beginning.
#[must_use]
pub fn value_of(number: WriteNumber, size_bytes: usize) -> Bytes {
    let mut text = format!("{number}:{size_bytes}:");
    let fill =
        (0_u8..26).map(|letter| char::from(b'a' + letter)).cycle().skip(number.0 as usize % 26);
    text.extend(fill.take(size_bytes));
    text.into()
}

/// The write that a value is of; `None` when the bytes are not exactly those of one.
fn number_of(value: &[u8]) -> Option<WriteNumber> {
    let text = std::str::from_utf8(value).ok()?;
    let mut parts = text.split(':');
    let number = WriteNumber(parts.next()?.strip_prefix('w')?.parse().ok()?);
    let size_bytes = parts.next()?.parse().ok()?;
    (size_bytes <= value.len() && value_of(number, size_bytes) == value).then_some(number)
}

/// The value of a sibling.
#[must_use]
pub fn found_in(sibling: &Sibling) -> Found {
    match (&sibling.dot, sibling.deleted) {
        (Some(dot), true) => Found::Tombstone(dot.actor.0.to_vec(), dot.counter),
        (None, true) => Found::Foreign("a tombstone without an event".to_owned()),
        (_, false) => number_of(&sibling.value).map_or_else(
            || {
                let start = &sibling.value[..sibling.value.len().min(40)];
                let text = String::from_utf8_lossy(start);
                Found::Foreign(format!("{} bytes: {text}", sibling.value.len()))
            },
            Found::Value,
        ),
    }
}

impl History {
    /// Notes the event that a value is stored under.
    pub fn note_event(&mut self, sibling: &Sibling) {
        let (Found::Value(number), Some(dot)) = (found_in(sibling), &sibling.dot) else { return };
        let Some(write) = self.writes.get(number.0 as usize) else { return };
        let (key, event) = (write.key, (dot.actor.0.to_vec(), dot.counter));
        self.events.entry(number).or_default().insert(event.clone());
        self.made_by.entry((key, event)).or_default().insert(number);
    }
}

/// How often a value counts that was found under several events: a write that was passed on twice, because
/// the first node fell silent with it, may have two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Events {
    /// The value counts once.
    OfOneWriteCountOnce,
    /// The value counts for each event.
    CountEach,
}

/// The values that a read found, in an order of their own.
#[must_use]
pub fn found_in_object(object: Option<&Object>, events: Events) -> Vec<Found> {
    let siblings = object.map_or(&[][..], |object| &object.siblings).iter();
    // What stays of an expired value is nothing to a client, and no delete's tombstone.
    let shown =
        siblings.filter(|sibling| !sibling.deleted || sibling.meta.expires_at_secs.is_none());
    let mut found: Vec<Found> = shown.map(found_in).collect();
    found.sort();
    if events == Events::OfOneWriteCountOnce {
        found.dedup();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_names_its_write_and_a_changed_one_nobody() {
        let value = value_of(WriteNumber(31), 50);
        assert_eq!(number_of(&value), Some(WriteNumber(31)));
        for place in 0..value.len() {
            let mut changed = value.to_vec();
            changed[place] ^= 1;
            assert_eq!(number_of(&changed), None, "byte {place}");
        }
        assert_eq!(number_of(&value[..value.len() - 1]), None);
    }
}

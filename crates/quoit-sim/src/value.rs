//! Values from which the checkers read which write stored them.

use crate::history::{FoundValue, History, WriteNumber};
use bytes::Bytes;
use quoit_model::object::{Object, Sibling};
use std::str::FromStr;

/// Letters with which values are filled, repeated as often as needed.
const LETTERS: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";

/// Returns the value of a write: its number, `size_bytes`, and a filling of `size_bytes` bytes. The
/// beginning of a value determines all of it, so a damaged value is recognized.
#[must_use]
pub fn value_of(number: WriteNumber, size_bytes: usize) -> Bytes {
    let mut value = format!("{number}:{size_bytes}:").into_bytes();
    let whole_bytes = value.len() + size_bytes;
    value.extend_from_slice(&LETTERS[first_letter(number)..]);
    while value.len() < whole_bytes {
        value.extend_from_slice(LETTERS);
    }
    value.truncate(whole_bytes);
    value.into()
}

/// Position in the alphabet at which the filling of a write's value begins.
const fn first_letter(number: WriteNumber) -> usize {
    number.0 as usize % LETTERS.len()
}

/// Returns the write whose value this is; `None` if the bytes are not exactly the value of a write.
fn number_of(value: &[u8]) -> Option<WriteNumber> {
    let mut parts = value.splitn(3, |byte| *byte == b':');
    let mut next = || parts.next();
    let (number, size, filling) = (next()?.strip_prefix(b"w")?, next()?, next()?);
    let number = WriteNumber(decimal(number)?);
    if filling.len() != decimal::<usize>(size)? {
        return None;
    }
    let (begun, rest) = filling.split_at((LETTERS.len() - first_letter(number)).min(filling.len()));
    let mut pieces = rest.chunks(LETTERS.len());
    let is_filled = LETTERS[first_letter(number)..].starts_with(begun)
        && pieces.all(|piece| LETTERS.starts_with(piece));
    is_filled.then_some(number)
}

/// Parses a decimal number as values contain it: only digits, without a leading zero.
fn decimal<T: FromStr>(text: &[u8]) -> Option<T> {
    let is_plain =
        text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || !text.starts_with(b"0"));
    std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

/// Returns what a sibling shows to a client.
#[must_use]
pub fn found_in(sibling: &Sibling) -> FoundValue {
    match (&sibling.dot, sibling.deleted) {
        (Some(dot), true) => FoundValue::Tombstone(dot.actor.0.to_vec(), dot.counter),
        (None, true) => FoundValue::Foreign("a tombstone without an event".to_owned()),
        (_, false) => number_of(&sibling.value).map_or_else(
            || {
                let start = &sibling.value[..sibling.value.len().min(40)];
                let text = String::from_utf8_lossy(start);
                FoundValue::Foreign(format!("{} bytes: {text}", sibling.value.len()))
            },
            FoundValue::Value,
        ),
    }
}

impl History {
    /// Records the event under which a value is stored.
    pub fn note_event(&mut self, sibling: &Sibling) {
        let (FoundValue::Value(number), Some(dot)) = (found_in(sibling), &sibling.dot) else {
            return;
        };
        let Some(write) = self.writes.get(number.0 as usize) else { return };
        let (key, event) = (write.key, (dot.actor.0.to_vec(), dot.counter));
        self.events.entry(number).or_default().insert(event.clone());
        self.made_by.entry((key, event)).or_default().insert(number);
    }
}

/// Treatment of a value that was found under several events. A node forwards a write again when the first
/// receiver does not answer, so both receivers may make the write, each under an event of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Events {
    /// A value counts once, whatever the number of its events.
    OfOneWriteCountOnce,
    /// A value counts once for each of its events.
    CountEach,
}

/// Returns the values of an object that a client would see, sorted.
#[must_use]
pub fn found_in_object(object: Option<&Object>, events: Events) -> Vec<FoundValue> {
    let siblings = object.map_or(&[][..], |object| &object.siblings).iter();
    // Clients do not see what is left of an expired value, which is not the tombstone of a delete either.
    let shown =
        siblings.filter(|sibling| !sibling.deleted || sibling.meta.expires_at_secs.is_none());
    let mut found: Vec<FoundValue> = shown.map(found_in).collect();
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

    #[test]
    fn values_of_all_sizes_are_filled_with_the_alphabet_from_some_letter_on() {
        assert_eq!(value_of(WriteNumber(27), 4), "w27:4:bcde");
        for (number, size_bytes) in [(0, 0), (0, 26), (25, 1), (25, 27), (13, 1_000)] {
            let number = WriteNumber(number);
            let value = value_of(number, size_bytes);
            assert_eq!(value.len(), format!("{number}:{size_bytes}:").len() + size_bytes);
            assert_eq!(number_of(&value), Some(number));
        }
        assert_eq!(number_of(b"w01:2:bc"), None);
        assert_eq!(number_of(b"w1:+2:bc"), None);
    }
}

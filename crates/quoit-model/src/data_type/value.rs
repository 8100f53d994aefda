//! Values that clients read.

use super::FieldName;
use super::content::{Content, MapField, Totals};
use bytes::Bytes;

/// The value of a data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Sum of all increments and decrements.
    Counter(i128),
    /// The elements of a set, grow-only or not, sorted.
    Set(Vec<Bytes>),
    /// The value assigned last; empty if there was no assignment.
    Register(Bytes),
    /// True if the flag is enabled.
    Flag(bool),
    /// The fields of a map, sorted.
    Map(Vec<(FieldName, Value)>),
    /// Estimated number of different elements.
    Hll(u64),
}

/// The value of a content. Walks over all of it; the value shares its bytes.
pub(super) fn value_of(content: &Content) -> Value {
    match content {
        Content::Counter(item) => {
            let mut sum = Totals::default();
            item.newest().for_each(|write| sum.add(write.payload));
            Value::Counter(sum.value())
        }
        Content::Set(elements) => {
            let live = elements.iter().filter(|(_, item)| item.is_live());
            Value::Set(live.map(|(element, _)| element.clone()).collect())
        }
        Content::Register(item) => {
            let latest = item.live().iter().map(|write| &write.payload).max();
            Value::Register(latest.map_or_else(Bytes::new, |latest| latest.value.clone()))
        }
        Content::Flag(item) => Value::Flag(item.is_live()),
        Content::Map(fields) => {
            let live = fields.iter().filter(|(_, field)| field.is_live());
            let value =
                |(name, field): (&FieldName, &MapField)| (name.clone(), value_of(&field.content));
            Value::Map(live.map(value).collect())
        }
        Content::Hll(item) => {
            let mut live = item.live().iter().map(|write| &write.payload);
            let Some(first) = live.next() else { return Value::Hll(0) };
            let mut sum = (**first).clone();
            live.for_each(|other| sum.merge(other));
            Value::Hll(sum.estimate())
        }
        Content::Branch(_) => unreachable!("what is shown was opened"),
    }
}

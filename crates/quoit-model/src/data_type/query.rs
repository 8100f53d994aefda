//! Queries of parts of a data type, which need not read the rest.

use super::content::Content;
use super::pages::ItemHash;
use super::value::value_of;
use super::{FieldKind, FieldName, State, Value};
use crate::props::Datatype;
use bytes::Bytes;
use thiserror::Error;

/// A query of a record, or of a set or map in one of its fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Path of the field, the outermost first; empty for the record itself.
    pub path: Vec<FieldName>,
    /// The query itself.
    pub query: Query,
}

/// A query of a data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// Number of elements of a set, or of fields of a map.
    Size,
    /// Membership of an element in a set.
    Contains(Bytes),
    /// The value of one field of a map.
    Field(FieldName),
    /// Some elements of a set or fields of a map, in the order of their hashes. This order does not
    /// change when others are added or removed.
    Page {
        /// Hash at which the page begins: 0, or the end of the previous page.
        from: u64,
        /// Approximate number of items, at least 1. Items with equal hashes are never separated.
        count: usize,
    },
}

/// The answer to a [`Query`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Answer to [`Query::Size`].
    Size(u64),
    /// Answer to [`Query::Contains`].
    Contains(bool),
    /// Answer to [`Query::Field`]; `None` if the map has no such field.
    Field(Option<Value>),
    /// Answer to [`Query::Page`].
    Page {
        /// A set or map of the page's items.
        value: Value,
        /// Cursor of the next page; `None` after the last one.
        next: Option<u64>,
    },
}

/// Error of a query that no stored state can answer.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum QueryError {
    /// The data type has no such part.
    #[error(
        "a {} has no such part: sets have elements and sizes, maps have fields and sizes",
        .datatype.as_str()
    )]
    NoSuchPart {
        /// The type.
        datatype: Datatype,
    },
    /// The path leads to a field that has no elements or fields.
    #[error("field {field} is not a set or map; ask for the field itself")]
    NoItems {
        /// The field.
        field: FieldName,
    },
}

impl From<Query> for Question {
    /// Makes a query about the record itself.
    fn from(query: Query) -> Self {
        Self { path: Vec::new(), query }
    }
}

impl Question {
    /// The data type that is queried, in records of data type `record`.
    ///
    /// # Errors
    ///
    /// Returns an error if records of this data type can't have the path, or the data type at its
    /// end does not have the part.
    pub fn datatype_in(&self, record: Datatype) -> Result<Datatype, QueryError> {
        let mut datatype = record;
        for name in &self.path {
            if datatype != Datatype::Map {
                return Err(QueryError::NoSuchPart { datatype });
            }
            let inner = datatype_of(name.kind);
            datatype = inner.ok_or_else(|| QueryError::NoItems { field: name.clone() })?;
        }
        match self.query.suits(datatype) {
            true => Ok(datatype),
            false => Err(QueryError::NoSuchPart { datatype }),
        }
    }

    /// The part of the data type at the path from which the query can be answered.
    #[must_use]
    pub fn wanted(&self) -> WantedPart {
        let seed = seed_of(&self.path);
        match &self.query {
            Query::Size => WantedPart::Size,
            Query::Contains(element) => WantedPart::Item(ItemHash::of_element_in(element, seed)),
            Query::Field(field) => WantedPart::Item(ItemHash::of_field_in(field, seed)),
            Query::Page { from, count } => {
                WantedPart::Items { from: ItemHash(*from), count: (*count).max(1) }
            }
        }
    }
}

impl Query {
    /// True if data types of this type can answer the query.
    const fn suits(&self, datatype: Datatype) -> bool {
        let is_set = matches!(datatype, Datatype::Set | Datatype::Gset);
        let is_map = matches!(datatype, Datatype::Map);
        match self {
            Self::Size | Self::Page { .. } => is_set || is_map,
            Self::Contains(_) => is_set,
            Self::Field(_) => is_map,
        }
    }
}

/// Seed of the hashes of the items of a field; 0 for the items of the record.
fn seed_of(path: &[FieldName]) -> u64 {
    path.iter().fold(0, |seed, name| ItemHash::of_field_in(name, seed).0)
}

/// The data type that corresponds to a kind of field; `None` for kinds without items.
pub(super) const fn datatype_of(kind: FieldKind) -> Option<Datatype> {
    match kind {
        FieldKind::Set => Some(Datatype::Set),
        FieldKind::Map => Some(Datatype::Map),
        FieldKind::Counter | FieldKind::Register | FieldKind::Flag => None,
    }
}

/// A part of a data type that is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WantedPart {
    /// The number of items alone.
    Size,
    /// One item.
    Item(ItemHash),
    /// The first `count` items from a hash on, and the one after them.
    Items {
        /// Lowest hash of the items.
        from: ItemHash,
        /// Number of items.
        count: usize,
    },
}

/// A part of a record, or of a set or map in a field: its items in a range of hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemRange {
    /// The state with only these items. For a field, its content is represented as a record.
    pub state: State,
    /// Last hash of the range.
    pub last: ItemHash,
    /// Number of live elements or fields of the whole set or map.
    pub size: u64,
}

impl ItemRange {
    /// The whole data type at a path in a state; `None` if it is absent.
    #[must_use]
    pub fn whole(state: State, path: &[FieldName]) -> Option<Self> {
        let mut datatype = state.datatype();
        let mut field = state.record;
        for name in path {
            let Content::Map(mut fields) = field.content else { return None };
            datatype = datatype_of(name.kind)?;
            field = fields.remove(name)?;
        }
        if !field.is_live() {
            return None;
        }
        let mut size = 0;
        field.content.each_item(0, |_, is_live| size += u64::from(is_live));
        let state = State::from_record(datatype, field);
        Some(Self { state, last: ItemHash(u64::MAX), size })
    }

    /// Answers the question to which this part belongs; returns `None` if the question does not
    /// suit the data type.
    #[must_use]
    pub fn answer(&self, question: &Question) -> Option<Answer> {
        let query = &question.query;
        if !query.suits(self.state.datatype()) {
            return None;
        }
        let content = &self.state.record.content;
        Some(match query {
            Query::Size => Answer::Size(self.size),
            Query::Contains(element) => {
                let item = content.as_set().and_then(|elements| elements.get(element));
                Answer::Contains(item.is_some_and(|item| item.is_live()))
            }
            Query::Field(name) => {
                let field = content.as_map().and_then(|fields| fields.get(name));
                let live = field.filter(|field| field.is_live());
                Answer::Field(live.map(|field| value_of(&field.content)))
            }
            Query::Page { from, count } => {
                self.page(seed_of(&question.path), ItemHash(*from), (*count).max(1))
            }
        })
    }

    fn page(&self, seed: u64, from: ItemHash, count: usize) -> Answer {
        let hashes = self.state.record.content.live_hashes(seed, from);
        let mut end = None;
        if let Some(after) = hashes.get(count) {
            // Items with equal hashes stay together: on this page if it begins with them, else on
            // the next.
            let is_first = hashes.first() == Some(after);
            end = hashes.iter().find(|hash| if is_first { *hash > after } else { *hash == after });
        }
        let is_in = |hash: ItemHash| hash >= from && end.is_none_or(|end| hash < *end);
        let value = match value_of(&self.state.record.content) {
            Value::Set(mut elements) => {
                let hash_of = |element: &Bytes| ItemHash::of_element_in(element, seed);
                elements.retain(|element| is_in(hash_of(element)));
                elements.sort_by_key(hash_of);
                Value::Set(elements)
            }
            Value::Map(mut fields) => {
                let hash_of = |name: &FieldName| ItemHash::of_field_in(name, seed);
                fields.retain(|(name, _)| is_in(hash_of(name)));
                fields.sort_by_key(|(name, _)| hash_of(name));
                Value::Map(fields)
            }
            other => other,
        };
        let next = end.map_or_else(|| self.last.0.checked_add(1), |end| Some(end.0));
        Answer::Page { value, next }
    }
}

impl Content {
    /// Hashes of the live items, sorted, from `from` on.
    pub(super) fn live_hashes(&self, seed: u64, from: ItemHash) -> Vec<ItemHash> {
        let mut hashes = Vec::new();
        self.each_item(seed, |item, is_live| {
            if is_live && item >= from {
                hashes.push(item);
            }
        });
        hashes.sort_unstable();
        hashes
    }
}

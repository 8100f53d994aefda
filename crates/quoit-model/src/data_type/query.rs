//! Questions about parts of a data type, which need not read the rest.

use super::content::Content;
use super::pages::ItemHash;
use super::value::value_of;
use super::{FieldKind, FieldName, State, Value};
use crate::props::Datatype;
use bytes::Bytes;
use thiserror::Error;

/// A query of a record, or of a set or map in a field of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The field and those around it, the outermost first; empty for the record itself.
    pub path: Vec<FieldName>,
    /// The query itself.
    pub query: Query,
}

/// A query of a data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// How many elements a set has, or fields a map.
    Size,
    /// Whether an element is in a set.
    Contains(Bytes),
    /// The value of one field of a map.
    Field(FieldName),
    /// Some elements of a set or fields of a map, in an order that stays the same while others come and go:
    /// that of hashes.
    Page {
        /// Where to begin: 0, or where another page ended.
        from: u64,
        /// About how many, 1 at least: all of one hash stay together.
        count: usize,
    },
}

/// The answer to a [`Query`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// To [`Query::Size`].
    Size(u64),
    /// To [`Query::Contains`].
    Contains(bool),
    /// To [`Query::Field`]; `None` when the map has no such field.
    Field(Option<Value>),
    /// To [`Query::Page`].
    Page {
        /// A set or map of those elements or fields.
        value: Value,
        /// Where the next page begins; `None` after the last.
        next: Option<u64>,
    },
}

/// Why something can't be asked, whatever is stored.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum QueryError {
    /// Data types of this type have no such part.
    #[error(
        "a {} has no such part: sets have elements and sizes, maps have fields and sizes",
        .datatype.as_str()
    )]
    NoSuchPart {
        /// The type.
        datatype: Datatype,
    },
    /// It is asked of what is in a field that nothing is in.
    #[error("field {field} is not a set or map; ask for the field itself")]
    NoItems {
        /// The field.
        field: FieldName,
    },
}

impl From<Query> for Question {
    /// Of the record itself.
    fn from(query: Query) -> Self {
        Self { path: Vec::new(), query }
    }
}

impl Question {
    /// The type of what is asked about, in records of type `record`.
    ///
    /// # Errors
    ///
    /// When there can be no such thing in records of this type, or it has no part that is asked for.
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

    /// The part that has the answer, of what is at the path.
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
    /// Whether it can be asked of data types of this type.
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

/// Seed of the hashes of a field's items; 0 for those of the record.
fn seed_of(path: &[FieldName]) -> u64 {
    path.iter().fold(0, |seed, name| ItemHash::of_field_in(name, seed).0)
}

/// The type of a record with what a field of a kind holds; `None` for those that have no items.
pub(super) const fn datatype_of(kind: FieldKind) -> Option<Datatype> {
    match kind {
        FieldKind::Set => Some(Datatype::Set),
        FieldKind::Map => Some(Datatype::Map),
        FieldKind::Counter | FieldKind::Register | FieldKind::Flag => None,
    }
}

/// Which part of a data type is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WantedPart {
    /// None of the items: only how many there are.
    Size,
    /// One item.
    Item(ItemHash),
    /// The first items, and one more.
    Items {
        /// The lowest hash of an item.
        from: ItemHash,
        /// Items from that hash on.
        count: usize,
    },
}

/// A part of a record, or of a set or map in a field of one: its items in a range of hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemRange {
    /// The state without the other items; of what is in a field, as if it were a record.
    pub state: State,
    /// The last hash of the range.
    pub last: ItemHash,
    /// Elements or fields of the whole that count.
    pub size: u64,
}

impl ItemRange {
    /// All of what is at a path in a state; `None` when that is not there.
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

    /// Answers a question for whose part this is; `None` when it does not suit the type.
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
            // All of one hash go together: into this page if it begins with them, else into the next.
            let is_first = hashes[0] == *after;
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
    /// The hashes of the items that count, sorted, from one on.
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

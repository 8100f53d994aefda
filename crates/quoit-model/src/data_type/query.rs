//! Questions about parts of a data type, which need not read the rest.

use super::pages::{ItemHash, Loaded, PageRange, PagedObject, Pages, Wanted};
use super::value::value_of;
use super::{FieldName, State, Value};
use crate::props::Datatype;
use bytes::Bytes;

/// What is asked of a data type.
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
        /// About how many: all of one hash stay together.
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

impl Query {
    /// Whether it can be asked of data types of this type.
    #[must_use]
    pub const fn suits(&self, datatype: Datatype) -> bool {
        let is_set = matches!(datatype, Datatype::Set | Datatype::Gset);
        let is_map = matches!(datatype, Datatype::Map);
        match self {
            Self::Size | Self::Page { .. } => is_set || is_map,
            Self::Contains(_) => is_set,
            Self::Field(_) => is_map,
        }
    }

    /// The part of a data type that has the answer.
    #[must_use]
    pub fn wanted(&self) -> WantedPart {
        match self {
            Self::Size => WantedPart::Size,
            Self::Contains(element) => WantedPart::Item(ItemHash::of_element(element)),
            Self::Field(field) => WantedPart::Item(ItemHash::of_field(field)),
            Self::Page { from, count } => {
                WantedPart::Items { from: ItemHash(*from), count: *count }
            }
        }
    }
}

/// Which part of a data type is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WantedPart {
    /// None of the items: only how many there are.
    Size,
    /// One item.
    Item(ItemHash),
    /// What is stored with the first item, and on, until that has more items than wanted.
    Items {
        /// The hash of the first item.
        from: ItemHash,
        /// Items from that hash on.
        count: usize,
    },
}

/// A part of a data type: its items in a range of hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The state without the other items.
    pub state: State,
    /// The last hash of the range.
    pub last: ItemHash,
    /// Elements or fields of the whole that count.
    pub size: u64,
}

impl From<State> for Part {
    /// All of a state.
    fn from(state: State) -> Self {
        let mut size = 0;
        state.record.content.each_item(0, |_, is_live| size += u64::from(is_live));
        Self { state, last: ItemHash(u64::MAX), size }
    }
}

impl PagedObject {
    /// Reads a part: no more pages than are wanted.
    ///
    /// # Errors
    ///
    /// When a page can't be read.
    pub fn part<P: Pages>(&self, wanted: WantedPart, pages: &mut P) -> Result<Part, P::Error> {
        let root = self.root().clone();
        let size = root.item_count();
        let (loaded, last) = match wanted {
            WantedPart::Size => {
                (Loaded::read_items(root, &Wanted::default(), pages)?, ItemHash(u64::MAX))
            }
            WantedPart::Item(item) => {
                (Loaded::read_items(root, &Wanted::whole(item), pages)?, item)
            }
            WantedPart::Items { from, count } => {
                let ranges = self.pages_with(from, count, pages)?;
                let last = ranges.last().map_or(from, |range| range.last());
                let firsts: Vec<ItemHash> = ranges.into_iter().map(PageRange::first).collect();
                (Loaded::read_pages(root, &firsts, |_| true, pages)?, last)
            }
        };
        let mut state = loaded.into_state();
        if let WantedPart::Item(item) = wanted {
            // What waits for events was read, too, but not what is in it.
            state.record.content = state.record.content.extract(0, |hash| hash == item);
        }
        Ok(Part { state, last, size })
    }

    /// The page of an item and as many after it as have more than `count` items from that one on.
    fn pages_with<P: Pages>(
        &self,
        from: ItemHash,
        count: usize,
        pages: &mut P,
    ) -> Result<Vec<PageRange>, P::Error> {
        let table = self.root().table();
        let mut ranges = Vec::new();
        let mut next = Some(table.page_of(from));
        let mut found = 0;
        while let Some(range) = next {
            ranges.push(range);
            if let Some(stored) = pages.read(self.root().trunk_page(range))? {
                let content = State::decode_page(&stored)?.record.content;
                content.each_item(0, |item, is_live| found += usize::from(is_live && item >= from));
            }
            next = table.page_after(range).filter(|_| found <= count);
        }
        Ok(ranges)
    }
}

impl Part {
    /// Answers a query for whose part this is; `None` when it does not suit the type.
    #[must_use]
    pub fn answer(&self, query: &Query) -> Option<Answer> {
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
            Query::Page { from, count } => self.page(ItemHash(*from), (*count).max(1)),
        })
    }

    fn page(&self, from: ItemHash, count: usize) -> Answer {
        let mut hashes = Vec::new();
        self.state.record.content.each_item(0, |item, is_live| {
            if is_live && item >= from {
                hashes.push(item);
            }
        });
        hashes.sort_unstable();
        let mut end = None;
        if let Some(after) = hashes.get(count) {
            // All of one hash go together: into this page if it begins with them, else into the next.
            let is_first = hashes[0] == *after;
            end = hashes.iter().find(|hash| if is_first { *hash > after } else { *hash == after });
        }
        let is_in = |hash: ItemHash| hash >= from && end.is_none_or(|end| hash < *end);
        let value = match value_of(&self.state.record.content) {
            Value::Set(mut elements) => {
                elements.retain(|element| is_in(ItemHash::of_element(element)));
                elements.sort_by_key(|element| ItemHash::of_element(element));
                Value::Set(elements)
            }
            Value::Map(mut fields) => {
                fields.retain(|(name, _)| is_in(ItemHash::of_field(name)));
                fields.sort_by_key(|(name, _)| ItemHash::of_field(name));
                Value::Map(fields)
            }
            other => other,
        };
        let next = end.map_or_else(|| self.last.0.checked_add(1), |end| Some(end.0));
        Answer::Page { value, next }
    }
}

//! Objects whose state is in pages.

use super::open::OpenSelection;
use super::{ItemHash, Loaded, PageName, Pages, Root};
use crate::cursor::{Cursor, put_varint};
use crate::data_type::content::Content;
use crate::data_type::object::{RecordTimes, StateSummary};
use crate::data_type::value::value_of;
use crate::data_type::{
    CausalClock, Delta, EventOrigin, FieldName, Operation, State, StoredFormError, UpdateError,
    Value,
};
use crate::object::{Object, Sibling};
use crate::plain::PlainObject;
use crate::props::Datatype;
use bytes::Bytes;

/// First byte of the stored form. The form of whole objects begins with
/// [`OBJECT_FORMAT_1`](crate::codec::OBJECT_FORMAT_1).
pub const PAGED_FORMAT_1: u8 = 0x70;

/// Size in bytes of the stored form above which a state is divided into pages.
const DIVIDE_BYTES: usize = 2_048;

/// Size in bytes of all pages below which a state becomes one record again. It is far below
/// [`DIVIDE_BYTES`], so that a record whose size goes up and down is not converted all the time.
const JOIN_BYTES: u64 = 1_024;

/// An item of a set or map, as clients read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShownItem<'a> {
    /// An element of a set.
    Element(&'a [u8]),
    /// A field of a map.
    Field(&'a FieldName, &'a Value),
}

/// An object with the root of a state that is in pages.
///
/// The stored form is [`PAGED_FORMAT_1`], the generation (varint), and the stored form of the
/// object, in which the root takes the place of the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PagedObject {
    generation: u64,
    /// The value of the state's sibling is a stored root, which may be older than `root`.
    object: Object,
    root: Root,
}

impl PagedObject {
    /// True if a stored form is that of an object with pages.
    #[must_use]
    pub fn is_paged(stored: &[u8]) -> bool {
        stored.first() == Some(&PAGED_FORMAT_1)
    }

    /// True if a stored object may have to be divided. For most other objects this is decided by
    /// their first bytes.
    #[must_use]
    pub fn may_need_pages(stored: &[u8]) -> bool {
        stored.len() > DIVIDE_BYTES && PlainObject::read(stored).is_none()
    }

    /// True if an object holds a state that should be divided. A state that expires is not divided,
    /// since no node would remove its pages.
    #[must_use]
    pub fn needs_pages(object: &Object) -> bool {
        let is_large = |sibling: &Sibling| {
            sibling.is_data_type()
                && sibling.dot.is_some()
                && sibling.value.len() > DIVIDE_BYTES
                && State::datatype_of(&sibling.value).is_some_and(has_items)
        };
        object.siblings.iter().any(is_large) && object.expires_at_secs().is_none()
    }

    /// Number that distinguishes these pages from earlier pages of the record; it is part of their
    /// names.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Changes the generation, for a store that keeps the pages of another store under names of its
    /// own.
    #[must_use]
    pub fn with_generation(self, generation: u64) -> Self {
        Self { generation, ..self }
    }

    /// Root of the state.
    #[must_use]
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// The object, without its state.
    #[must_use]
    pub const fn object(&self) -> &Object {
        &self.object
    }

    /// True if the state should become one record again: it is small, or no update of it counts any
    /// more. In the second case its digest must cover all deferred events, which needs the whole
    /// state.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.root.page_bytes() < JOIN_BYTES || self.root.presence().is_none()
    }

    /// Divides an object's state into pages. Returns `None` if the object has no state that can be
    /// divided.
    ///
    /// # Errors
    ///
    /// Returns an error if the state is damaged, or a page can't be written.
    pub fn divide<P: Pages>(
        object: &Object,
        generation: u64,
        pages: &mut P,
    ) -> Result<Option<Self>, P::Error> {
        let Some(state) = object.data_type()?.filter(|state| has_items(state.datatype())) else {
            return Ok(None);
        };
        let root = Loaded::from_state(state).store(pages)?;
        let mut paged = Self { generation, object: object.clone(), root };
        paged.write_root();
        Ok(Some(paged))
    }

    /// Reads the whole object.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be read, or the pages do not match the root.
    pub fn whole<P: Pages>(&self, pages: &mut P) -> Result<Object, P::Error> {
        let state = Loaded::read_all(self.root.clone(), pages)?.into_state();
        let mut object = self.object.clone();
        let clock = object.causal_clock()?;
        if let Some(place) = object.siblings.iter().position(Sibling::is_data_type) {
            let life = object.siblings.remove(place).life();
            object.push_state(&state, &clock, life);
        }
        Ok(object)
    }

    /// Calls `look` with each element of a set or field of a map, page by page. Memory holds one
    /// page.
    ///
    /// The record may be written meanwhile. If `is_exact` is true, the pages are checked against
    /// the root's digest. Otherwise, for a set, only the total size and the number of elements are
    /// checked, which is cheaper. Maps are always checked exactly, since their fields belong
    /// together.
    ///
    /// # Errors
    ///
    /// As [`PagedObject::whole`]. After an error the caller must discard the items shown so far.
    pub fn each_item<P: Pages>(
        &self,
        is_exact: bool,
        pages: &mut P,
        look: &mut dyn FnMut(ShownItem<'_>),
    ) -> Result<(), P::Error> {
        let is_exact = is_exact || self.root.datatype() == Datatype::Map;
        let mut trunk = self.root.trunk.clone();
        let (mut item_count, mut page_bytes) = (0, 0);
        for range in self.root.table().pages() {
            if is_exact {
                if let Some((content, stored)) = trunk.take_page(0, range, pages)? {
                    page_bytes += stored.len() as u64;
                    item_count += each_live(content, pages, look)?;
                }
            } else if let Some(stored) = pages.read(trunk.name_of(range.first()))? {
                page_bytes += stored.len() as u64;
                item_count += State::each_stored_element(&stored, &mut |element| {
                    look(ShownItem::Element(element));
                })?;
            }
        }
        let is_all = (item_count, page_bytes)
            == (self.root.item_count(), self.root.trunk.page_bytes)
            && (!is_exact || trunk.counts_nothing());
        if is_all {
            return Ok(());
        }
        Err(StoredFormError::BadForm { what: "other pages than its root knows of", at: 0 }.into())
    }

    /// Replaces this object by a changed whole object; writes the pages that differ. If the new
    /// object has no state that should be divided, removes all pages and returns `None`.
    ///
    /// # Errors
    ///
    /// As [`PagedObject::whole`]; also returns an error if a page can't be written.
    pub fn replace<P: Pages>(
        self,
        object: &Object,
        pages: &mut P,
    ) -> Result<Option<Self>, P::Error> {
        let state = object.data_type()?.filter(|state| state.datatype() == self.root.datatype());
        let Some(state) = state.filter(|_| Self::needs_pages(object)) else {
            self.remove_pages(pages)?;
            return Ok(None);
        };
        let mut loaded = Loaded::read_all(self.root, pages)?;
        *loaded.state_mut() = state;
        let root = loaded.store(pages)?;
        let mut paged = Self { generation: self.generation, object: object.clone(), root };
        paged.write_root();
        Ok(Some(paged))
    }

    /// Removes all pages by their names. Reads only the pages that may contain branches, one at a
    /// time.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be removed, or a page that has to be read can't be.
    pub fn remove_pages<P: Pages>(&self, pages: &mut P) -> Result<(), P::Error> {
        self.root.trunk.remove_pages(1, pages)
    }

    /// Calls `look` with the names of all pages that may exist. Pages of branches are left out if
    /// the page that refers to the branch can't be read.
    pub fn each_page_name<P: Pages + ?Sized>(&self, pages: &mut P, look: &mut dyn FnMut(PageName)) {
        // Unreadable pages are skipped.
        let _ = self.root.trunk.each_name(1, pages, false, look);
    }

    /// As [`Object::update_data_type`]; reads and writes only the pages of the items that the
    /// operation names. Returns the delta for the other replicas.
    ///
    /// # Errors
    ///
    /// The outer result is an error if a page can't be read or written. The inner result is an
    /// error if the operation can't be applied; nothing is written then.
    pub fn update<P: Pages>(
        self,
        operation: &Operation,
        context: Option<&CausalClock>,
        coordinator: EventOrigin<'_>,
        pages: &mut P,
    ) -> Result<Result<(Self, Delta), UpdateError>, P::Error> {
        let Self { generation, mut object, root } = self;
        let (stored, bucket) = (root.datatype(), operation.datatype());
        if stored != bucket {
            return Ok(Err(UpdateError::OtherType { stored, bucket }));
        }
        let mut clock = object.causal_clock()?;
        let mut loaded = Loaded::read_items(root, &operation.wanted(), pages)?;
        let applied = loaded.state_mut().apply(&mut clock, operation, context, coordinator);
        let delta = match applied {
            Ok(delta) => delta,
            Err(fault) => return Ok(Err(fault.into())),
        };
        let root = loaded.store(pages)?;
        let life = RecordTimes { last_modified_us: coordinator.now_us, expires_at_secs: None };
        replace_root(&mut object, &root, &clock, life);
        Ok(Ok((Self { generation, object, root }, delta)))
    }

    /// As [`Object::join_data_type`]; reads and writes only the pages of the items that the delta
    /// changes.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be read or written.
    pub fn join<P: Pages>(
        self,
        delta: &Delta,
        last_modified_us: u64,
        pages: &mut P,
    ) -> Result<Option<Self>, P::Error> {
        let Self { generation, mut object, root } = self;
        if root.datatype() != delta.datatype() || !object.siblings.iter().all(Sibling::is_data_type)
        {
            return Ok(None);
        }
        let mut clock = object.causal_clock()?;
        let mut loaded = Loaded::read_items(root, &delta.wanted(), pages)?;
        if loaded.state_mut().join(&mut clock, delta).is_err() {
            return Ok(None);
        }
        let root = loaded.store(pages)?;
        let life = RecordTimes { last_modified_us, expires_at_secs: None };
        let life = object.siblings.first().map_or(life, |sibling| sibling.life().merge(life));
        replace_root(&mut object, &root, &clock, life);
        Ok(Some(Self { generation, object, root }))
    }

    pub(super) fn into_parts(self) -> (u64, Object, Root) {
        (self.generation, self.object, self.root)
    }

    pub(super) const fn from_parts(generation: u64, object: Object, root: Root) -> Self {
        Self { generation, object, root }
    }

    /// Stores the root as the value of the state's sibling.
    fn write_root(&mut self) {
        let mut value = Vec::new();
        self.root.encode_into(&mut value);
        let mut siblings = self.object.siblings.iter_mut();
        if let Some(sibling) = siblings.find(|sibling| sibling.is_data_type()) {
            sibling.value = value.into();
        }
    }

    /// Appends the stored form.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(PAGED_FORMAT_1);
        put_varint(out, self.generation);
        self.object.encode_into(out);
    }

    /// Decodes the stored form.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are cut off, have another format, or hold something that no
    /// encoder writes.
    pub fn decode(stored: &Bytes) -> Result<Self, StoredFormError> {
        let mut cursor = Cursor::new(stored);
        let format = cursor.u8()?;
        if format != PAGED_FORMAT_1 {
            return Err(StoredFormError::UnknownFormat { format, expected: PAGED_FORMAT_1 });
        }
        let generation = cursor.varint()?;
        let at = cursor.at();
        let bad = |what| StoredFormError::BadForm { what, at };
        let object = Object::decode(&stored.slice(at..));
        let object = object.map_err(|_| bad("a damaged object around its root"))?;
        let mut siblings = object.siblings.iter();
        let sibling = siblings.find(|sibling| sibling.is_data_type());
        let sibling = sibling.ok_or_else(|| bad("no root"))?;
        let root = Root::decode(&sibling.value)?;
        Ok(Self { generation, object, root })
    }
}

/// Calls `look` with each live element of a page of a set, or each live field of a page of a map
/// with all its content. Returns their number.
fn each_live<P: Pages + ?Sized>(
    content: Content,
    pages: &mut P,
    look: &mut dyn FnMut(ShownItem<'_>),
) -> Result<u64, P::Error> {
    let mut live_count = 0;
    let fields = match content {
        Content::Map(fields) => fields,
        Content::Set(elements) => {
            for (element, _) in elements.iter().filter(|(_, item)| item.is_live()) {
                look(ShownItem::Element(element));
                live_count += 1;
            }
            return Ok(live_count);
        }
        _ => return Err(StoredFormError::BadForm { what: "no set or map", at: 0 }.into()),
    };
    for (name, mut field) in fields {
        if field.is_live() {
            field.content.open(ItemHash::of_field(&name).0, OpenSelection::All, 2, pages)?;
            look(ShownItem::Field(&name, &value_of(&field.content)));
            live_count += 1;
        }
    }
    Ok(live_count)
}

/// Replaces the stored root, and tombstones, which the operation has seen.
pub(super) fn replace_root(
    object: &mut Object,
    root: &Root,
    clock: &CausalClock,
    life: RecordTimes,
) {
    object.clock = clock.vector().clone();
    object.siblings.retain(|sibling| !sibling.deleted && !sibling.is_data_type());
    let described = StateSummary {
        datatype: root.datatype(),
        is_live: root.is_live(),
        // While a record has a root, its sibling must stay.
        is_void: false,
        presence: root.presence().cloned(),
    };
    object.push_described(described, clock, life, |value| root.encode_into(value));
}

const fn has_items(datatype: Datatype) -> bool {
    matches!(datatype, Datatype::Set | Datatype::Gset | Datatype::Map)
}

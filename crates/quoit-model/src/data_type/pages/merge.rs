//! Merges another copy of a record into one that lies in pages, a page at a time.
//!
//! The rules are those of [`State::merge`]. Both clocks stay as they are until all items are merged, so that
//! each item can be merged by itself: a page is read, merged with what the other copy has in its range of
//! hashes, and written if it differs. So memory holds a page of each copy for every map around it, and what
//! was written.

use super::branch::Branch;
use super::open::{OpenBranch, Opening, less_than_known};
use super::source::Source;
use super::written::Closing;
use super::{ItemHash, PagedObject, Pages, Root};
use crate::clock::{Dot, VersionVector};
use crate::data_type::content::{Content, MapField};
use crate::data_type::object::{Described, Life};
use crate::data_type::{CausalClock, EventSet, FieldName, MAP_DEPTH_MAX, State, StoredFormError};
use crate::merge::{NewValue, WritePolicy};
use crate::object::{Object, Sibling};
use std::collections::BTreeMap;

/// The copy with which a record in pages is merged. Either way its items are taken by ranges of
/// hashes.
pub enum OtherCopy<'o, E> {
    /// A whole object.
    Whole(&'o Object),
    /// A record in pages of its own, of any generation and number, which are only read.
    Paged(&'o PagedObject, &'o mut dyn Pages<Error = E>),
}

/// Result of merging a record in pages.
#[expect(clippy::large_enum_variant, reason = "there is one for each merge of a large record")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PagesMerged {
    /// It had seen all of the other copy: nothing was written.
    Known,
    /// The other copy has seen all of it, and is the merge. Nothing was written: the pages are to be removed,
    /// and the other copy to be put there.
    Other,
    /// It lies in pages as before; those that differ were written. There may be little left in them
    /// ([`PagedObject::is_small`]).
    Paged(Box<PagedObject>),
    /// There is nothing left of the state, nor any page.
    Whole(Object),
    /// The two hold different data types, or a damaged one: only whole objects can become one. Nothing was
    /// written.
    NeedsWhole,
}

/// A copy of which the state is apart.
struct Split {
    /// The object without it.
    rest: Object,
    clock: CausalClock,
    life: Option<Life>,
}

impl Split {
    /// `None` when the events that the copy has seen can't be read.
    fn of(object: &Object) -> Option<Self> {
        let clock = object.causal_clock().ok()?;
        let mut rest = object.clone();
        let place = rest.siblings.iter().position(Sibling::is_data_type);
        let life = place.map(|place| rest.siblings.remove(place).life());
        Some(Self { rest, clock, life })
    }
}

impl PagedObject {
    /// As [`Object::merge`], page by page. A whole object that is large enough for pages is merged also where
    /// it has seen all of this one: what does not differ stays as it is written.
    ///
    /// # Errors
    ///
    /// When a page of one of the two can't be read, they are not those that belong to their root, or one
    /// can't be written.
    pub fn merge<P: Pages>(
        &self,
        other: OtherCopy<'_, P::Error>,
        pages: &mut P,
    ) -> Result<PagesMerged, P::Error> {
        let (object, is_divided) = match &other {
            OtherCopy::Whole(object) => (*object, Self::should_be(object)),
            OtherCopy::Paged(paged, _) => (paged.object(), false),
        };
        if self.object().has_all_of(object) {
            return Ok(PagesMerged::Known);
        }
        let is_behind = object.has_all_of(self.object());
        if is_behind && !is_divided {
            return Ok(PagesMerged::Other);
        }
        let (Some(ours), Some(theirs)) = (Split::of(self.object()), Split::of(object)) else {
            return Ok(PagesMerged::NeedsWhole);
        };
        let datatype = self.root().datatype();
        let (state, others) = match other {
            OtherCopy::Paged(paged, others) => (Some(paged.root().unread()), Some(others)),
            OtherCopy::Whole(object) => match object.data_type() {
                Ok(state) => (state, None),
                Err(_) => return Ok(PagesMerged::NeedsWhole),
            },
        };
        let state = state.unwrap_or_else(|| State::empty(datatype));
        if state.datatype() != datatype {
            return Ok(PagesMerged::NeedsWhole);
        }
        let mut merging = Merging::new(self, &ours.clock, &theirs.clock, others, pages);
        let root = merging.record(self.root(), state.record)?;
        let life = match (ours.life, theirs.life) {
            (Some(_), Some(theirs)) if is_behind => theirs,
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            (life, None) | (None, life) => life.unwrap_or_default(),
        };
        let mut clock = ours.clock;
        clock.merge(&theirs.clock);
        Ok(self.become_of(ours.rest.merge(&theirs.rest), root, &clock, life))
    }

    /// As [`Object::write`], page by page: what the writer had seen of the state goes.
    ///
    /// # Errors
    ///
    /// As [`PagedObject::merge`].
    pub fn write<P: Pages>(
        &self,
        context: &VersionVector,
        new: NewValue,
        dot: Dot,
        policy: WritePolicy,
        pages: &mut P,
    ) -> Result<PagesMerged, P::Error> {
        let Some(Split { rest, mut clock, life }) = Split::of(self.object()) else {
            return Ok(PagesMerged::NeedsWhole);
        };
        let seen = CausalClock::from(context.clone());
        let nothing = State::empty(self.root().datatype());
        let mut merging = Merging::new(self, &clock, &seen, None, pages);
        let root = merging.record(self.root(), nothing.record)?;
        let object = Object::write(Some(&rest), context, new, dot, policy);
        clock.merge(&seen);
        // The new event, and what the writer's context closes gaps with.
        clock.merge(&CausalClock::from(object.clock.clone()));
        Ok(self.become_of(object, root, &clock, life.unwrap_or_default()))
    }

    /// As [`Object::merge_last_write_wins`]: one of the two copies' values stays, and nothing is read.
    ///
    /// # Errors
    ///
    /// When a page can't be removed.
    pub fn merge_last_write_wins<P: Pages>(
        &self,
        other: &Object,
        pages: &mut P,
    ) -> Result<PagesMerged, P::Error> {
        if self.object().is_as_late_as(other) {
            // The states themselves decide.
            return Ok(PagesMerged::NeedsWhole);
        }
        let latest = self.object().merge_last_write_wins(other);
        if latest == *self.object() {
            return Ok(PagesMerged::Known);
        }
        let is_own =
            |sibling: &Sibling| sibling.is_data_type() && self.object().siblings.contains(sibling);
        if latest.siblings.iter().any(is_own) {
            let root = self.root().clone();
            return Ok(PagesMerged::Paged(Box::new(Self::from_parts(
                self.generation(),
                latest,
                root,
            ))));
        }
        self.remove_pages(pages)?;
        Ok(PagesMerged::Whole(latest))
    }

    /// The smaller object that tells other replicas of a write by [`PagedObject::write`] that this is the
    /// outcome of: an object that has seen what the writer had seen, and all plain values that this store has
    /// written. `None` where only the whole object tells it.
    ///
    /// The object claims all plain values that this store has written to the record, which `dot` is the last
    /// of. `earlier` is the counter of the last one before it, 0 without any. A writer that had not read that
    /// one says nothing of what its writer had seen, and replaced: a replica that the object reached first
    /// would count the earlier write as known, and keep what that had replaced.
    #[must_use]
    pub fn told_of_write(
        &self,
        context: &VersionVector,
        dot: &Dot,
        earlier: u64,
    ) -> Option<Object> {
        if earlier > context.counter(&dot.actor) {
            return None;
        }
        let mut clock = context.clone();
        clock.advance(dot);
        let plain = || self.object().siblings.iter().filter(|sibling| !sibling.is_data_type());
        if !plain().all(|sibling| sibling.dot.is_some()) {
            return None;
        }
        let is_known =
            |sibling: &&Sibling| sibling.dot.as_ref().is_some_and(|dot| clock.contains(dot));
        let siblings = plain().filter(is_known).cloned().collect();
        Some(Object { clock, siblings })
    }

    /// The outcome with another root, and these siblings beside it.
    fn become_of(
        &self,
        mut object: Object,
        root: Root,
        clock: &CausalClock,
        life: Life,
    ) -> PagesMerged {
        object.clock = clock.vector().clone();
        let described = Described {
            datatype: root.datatype(),
            is_live: root.is_live(),
            is_void: root.is_void(),
            presence: root.presence().cloned(),
        };
        object.push_described(described, clock, life, |value| root.encode_into(value));
        if !object.has_data_type() {
            return PagesMerged::Whole(object);
        }
        PagesMerged::Paged(Box::new(Self::from_parts(self.generation(), object, root)))
    }
}

impl Root {
    /// The state, with a branch for all of its items.
    fn unread(&self) -> State {
        let mut record = self.shell.record.clone();
        record.content = Content::Branch(Box::new(self.trunk.clone()));
        State::from_record(self.datatype(), record)
    }
}

/// Merges the state of another copy into that of one in pages.
struct Merging<'m, 'o, P: Pages> {
    closing: Closing<'m, P>,
    /// Events that each copy had seen, and those of both together.
    clock: CausalClock,
    other_clock: CausalClock,
    joined: CausalClock,
    /// The pages of the other copy, where it has some.
    others: Option<&'o mut (dyn Pages<Error = P::Error> + 'o)>,
}

impl<'m, 'o, P: Pages> Merging<'m, 'o, P> {
    fn new(
        paged: &PagedObject,
        clock: &CausalClock,
        other_clock: &CausalClock,
        others: Option<&'o mut (dyn Pages<Error = P::Error> + 'o)>,
        pages: &'m mut P,
    ) -> Self {
        let mut joined = clock.clone();
        joined.merge(other_clock);
        let closing = Closing { pages, last_branch: paged.root().last_branch };
        let (clock, other_clock) = (clock.clone(), other_clock.clone());
        Self { closing, clock, other_clock, joined, others }
    }

    /// Merges the record's state; the root that it then has.
    fn record(&mut self, root: &Root, other: MapField) -> Result<Root, P::Error> {
        let datatype = root.datatype();
        let mut record = root.unread().record;
        self.field(&mut record, other, &EventSet::default(), 0, 1)?;
        let content = std::mem::replace(&mut record.content, Content::of_record(datatype));
        let Content::Branch(trunk) = content else {
            unreachable!("a record's items stay a branch")
        };
        // Where none is left, there are no pages of one.
        let last_branch = if trunk.inner_bytes > 0 { self.closing.last_branch } else { 0 };
        Ok(Root { shell: State::from_record(datatype, record), trunk: *trunk, last_branch })
    }

    /// As [`MapField::merge`]. Of `around`, which fields around it have been undone of, nothing counts in it;
    /// `depth` is that of its content, should it be a map.
    fn field(
        &mut self,
        own: &mut MapField,
        other: MapField,
        around: &EventSet,
        seed: u64,
        depth: usize,
    ) -> Result<(), P::Error> {
        own.presence.merge(&self.clock, &other.presence, &self.other_clock);
        own.deferred.merge(&other.deferred);
        let mut undone = own.deferred.clone();
        undone.merge(around);
        own.presence.undo(&undone);
        own.presence.settle(&self.joined);
        self.content(&mut own.content, other.content, &undone, seed, depth)?;
        own.deferred.subtract(&self.joined);
        Ok(())
    }

    fn content(
        &mut self,
        own: &mut Content,
        other: Content,
        undone: &EventSet,
        seed: u64,
        depth: usize,
    ) -> Result<(), P::Error> {
        let bad = |what| StoredFormError::BadForm { what, at: 0 };
        if depth > MAP_DEPTH_MAX + 1 {
            return Err(bad("maps nested too deeply").into());
        }
        match (own, other) {
            (own @ Content::Branch(_), other) => self.branches(own, other, undone, seed, depth),
            (own, other @ Content::Branch(_)) => self.branches(own, other, undone, seed, depth),
            (Content::Map(own), Content::Map(other)) => {
                self.fields(own, other, undone, seed, depth)
            }
            (own, other) if std::mem::discriminant(own) == std::mem::discriminant(&other) => {
                own.merge(&self.clock, &other, &self.other_clock);
                own.undo(undone);
                own.settle(&self.joined);
                Ok(())
            }
            _ => Err(bad("items of another kind than their field").into()),
        }
    }

    fn fields(
        &mut self,
        own: &mut BTreeMap<FieldName, MapField>,
        mut others: BTreeMap<FieldName, MapField>,
        undone: &EventSet,
        seed: u64,
        depth: usize,
    ) -> Result<(), P::Error> {
        let none = |name: &FieldName| MapField::empty(Content::empty(name.kind));
        for (name, field) in own.iter_mut() {
            let other = others.remove(name).unwrap_or_else(|| none(name));
            let hash = ItemHash::of_field_in(name, seed);
            self.field(field, other, undone, hash.0, depth + 1)?;
        }
        for (name, other) in others {
            let mut field = none(&name);
            let hash = ItemHash::of_field_in(&name, seed);
            self.field(&mut field, other, undone, hash.0, depth + 1)?;
            own.insert(name, field);
        }
        own.retain(|_, field| !field.is_void());
        Ok(())
    }

    /// Merges items of which those of one copy at least have pages of their own.
    fn branches(
        &mut self,
        own: &mut Content,
        mut other: Content,
        undone: &EventSet,
        seed: u64,
        depth: usize,
    ) -> Result<(), P::Error> {
        let none = own.no_items();
        let branch = match std::mem::replace(own, none) {
            Content::Branch(branch) => *branch,
            items if self.closing.pages.can_have_branches() => {
                self.closing.branch_of(items, seed)?
            }
            // Records with names as long as this have no branches: there is no bound to their fields.
            items => {
                *own = items;
                if let Some(others) = self.others.as_deref_mut() {
                    other.open(seed, Opening::All, depth, others)?;
                }
                return self.content(own, other, undone, seed, depth);
            }
        };
        let mut source = Source::new(other, seed);
        let branch = self.closing.widen(branch, source.page_count() / 2, seed)?;
        let branch = self.pages(branch, &mut source, undone, seed, depth)?;
        *own = self.closing.settle_branch(branch, seed)?;
        Ok(())
    }

    /// Merges page by page what the other copy has in their ranges.
    fn pages(
        &mut self,
        mut branch: Branch,
        source: &mut Source,
        undone: &EventSet,
        seed: u64,
        depth: usize,
    ) -> Result<Branch, P::Error> {
        let table = branch.table;
        let mut unread = branch.clone();
        for range in table.pages() {
            let mut open = OpenBranch::new(branch);
            let none = open.branch.no_items();
            let before = open.branch.clone();
            let mut items = open.read_page(seed, range, self.closing.pages)?.unwrap_or(none);
            unread.take_what_went(&before, &open.branch);
            let theirs = source.take_until(range.last(), self.others.as_deref_mut())?;
            self.content(&mut items, theirs, undone, seed, depth)?;
            branch = self.closing.put_back(items, open, seed)?;
        }
        if unread.is_bare() && source.is_read() {
            Ok(branch)
        } else {
            Err(less_than_known().into())
        }
    }
}

//! Merge of another copy of a record into one that is in pages, one page at a time.
//!
//! The rules are those of [`State::merge`]. Both clocks stay unchanged until all items are merged,
//! so that each item can be merged by itself: a page is read, merged with the other copy's items in
//! its range of hashes, and written if it differs. Memory holds one page of each copy for every
//! enclosing map.

use super::branch::Branch;
use super::open::{OpenBranch, OpenSelection, missing_items_error};
use super::source::Source;
use super::written::BranchCloser;
use super::{ItemHash, PagedObject, Pages, Root};
use crate::clock::{Dot, VersionVector};
use crate::data_type::content::{Content, MapField};
use crate::data_type::object::{RecordTimes, StateSummary};
use crate::data_type::{CausalClock, EventSet, FieldName, MAP_DEPTH_MAX, State, StoredFormError};
use crate::merge::{NewValue, WritePolicy};
use crate::object::{Object, Sibling};
use std::collections::BTreeMap;

/// The copy that is merged into a record in pages. Its items are taken by ranges of hashes.
pub enum OtherCopy<'o, E> {
    /// A whole object.
    Whole(&'o Object),
    /// A record in pages, of any generation and number of pages, which are only read.
    Paged(&'o PagedObject, &'o mut dyn Pages<Error = E>),
}

/// Result of merging into a record in pages.
#[expect(clippy::large_enum_variant, reason = "there is one for each merge of a large record")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PagesMerged {
    /// This copy had seen all events of the other. Nothing was written.
    Known,
    /// The other copy has seen all events of this one, and is the result. Nothing was written: the
    /// caller removes the pages and stores the other copy.
    Other,
    /// The result is in pages, as before; pages that differ were written. It may have become small
    /// ([`PagedObject::is_small`]).
    Paged(Box<PagedObject>),
    /// Nothing is left of the state, and no page.
    Whole(Object),
    /// The two copies hold different data types, or one is damaged. Only whole objects can be
    /// merged. Nothing was written.
    NeedsWhole,
}

/// A copy, separated from its state.
struct SplitCopy {
    /// The object without its state.
    rest: Object,
    clock: CausalClock,
    life: Option<RecordTimes>,
}

impl SplitCopy {
    /// Separates a copy; returns `None` if its events can't be read.
    fn of(object: &Object) -> Option<Self> {
        let clock = object.causal_clock().ok()?;
        let mut rest = object.clone();
        let place = rest.siblings.iter().position(Sibling::is_data_type);
        let life = place.map(|place| rest.siblings.remove(place).life());
        Some(Self { rest, clock, life })
    }
}

impl PagedObject {
    /// As [`Object::merge`], page by page. If the other copy is a whole object that is large enough
    /// for pages, the pages are merged even if it has seen all events of this one; pages that do
    /// not differ are then not written.
    ///
    /// # Errors
    ///
    /// Returns an error if a page of one of the copies can't be read, the pages do not match their
    /// root, or a page can't be written.
    pub fn merge<P: Pages>(
        &self,
        other: OtherCopy<'_, P::Error>,
        pages: &mut P,
    ) -> Result<PagesMerged, P::Error> {
        let (object, is_divided) = match &other {
            OtherCopy::Whole(object) => (*object, Self::needs_pages(object)),
            OtherCopy::Paged(paged, _) => (paged.object(), false),
        };
        if self.object().has_all_of(object) {
            return Ok(PagesMerged::Known);
        }
        let is_behind = object.has_all_of(self.object());
        if is_behind && !is_divided {
            return Ok(PagesMerged::Other);
        }
        let (Some(ours), Some(theirs)) = (SplitCopy::of(self.object()), SplitCopy::of(object))
        else {
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
        Ok(self.merged_into(ours.rest.merge(&theirs.rest), root, &clock, life))
    }

    /// As [`Object::write`], page by page: the writer's context removes what the writer had seen of
    /// the state.
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
        let Some(SplitCopy { rest, mut clock, life }) = SplitCopy::of(self.object()) else {
            return Ok(PagesMerged::NeedsWhole);
        };
        let seen = CausalClock::from(context.clone());
        let nothing = State::empty(self.root().datatype());
        let mut merging = Merging::new(self, &clock, &seen, None, pages);
        let root = merging.record(self.root(), nothing.record)?;
        let object = Object::write(Some(&rest), context, new, dot, policy);
        clock.merge(&seen);
        // Adds the new event, and the events of the writer's context, which may close gaps.
        clock.merge(&CausalClock::from(object.clock.clone()));
        Ok(self.merged_into(object, root, &clock, life.unwrap_or_default()))
    }

    /// As [`Object::merge_last_write_wins`]: the value of one of the two copies stays. No page is
    /// read.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be removed.
    pub fn merge_last_write_wins<P: Pages>(
        &self,
        other: &Object,
        pages: &mut P,
    ) -> Result<PagesMerged, P::Error> {
        if self.object().is_as_late_as(other) {
            // The bytes of the states have to be compared.
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

    /// Returns a smaller object that is enough to replicate a plain write; `self` is the result of that
    /// [`PagedObject::write`]. Returns `None` if the replicas need the whole object.
    ///
    /// The small object's clock has the events that the writer had seen and, through the entry of
    /// the dot's actor, all plain values that this store has written to the record up to `dot`.
    /// `earlier` is the counter of the store's previous plain write to the record; 0 if there is
    /// none. If the writer had not read that previous write, the small object does not say which
    /// events that write replaced. A replica that receives the small object first would then count
    /// the previous write as known and keep the values that it replaced, so `None` is returned.
    #[must_use]
    pub fn replication_object(
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

    /// Makes the result from a root and the siblings beside the state.
    fn merged_into(
        &self,
        mut object: Object,
        root: Root,
        clock: &CausalClock,
        life: RecordTimes,
    ) -> PagesMerged {
        object.clock = clock.vector().clone();
        let described = StateSummary {
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
    /// The state, with a branch in place of all items.
    fn unread(&self) -> State {
        let mut record = self.shell.record.clone();
        record.content = Content::Branch(Box::new(self.trunk.clone()));
        State::from_record(self.datatype(), record)
    }
}

/// Merge of another copy's state into a copy in pages.
struct Merging<'m, 'o, P: Pages> {
    closer: BranchCloser<'m, P>,
    /// Events that this copy had seen; `other_clock` has those of the other copy, `joined` those of
    /// both.
    clock: CausalClock,
    other_clock: CausalClock,
    joined: CausalClock,
    /// The pages of the other copy, if it has pages.
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
        let closer = BranchCloser { pages, last_branch: paged.root().last_branch };
        let (clock, other_clock) = (clock.clone(), other_clock.clone());
        Self { closer, clock, other_clock, joined, others }
    }

    /// Merges the record's state; returns the new root.
    fn record(&mut self, root: &Root, other: MapField) -> Result<Root, P::Error> {
        let datatype = root.datatype();
        let mut record = root.unread().record;
        self.field(&mut record, other, &EventSet::default(), 0, 1)?;
        let content = std::mem::replace(&mut record.content, Content::of_record(datatype));
        let Content::Branch(trunk) = content else {
            unreachable!("a record's items stay a branch")
        };
        // Without a branch, the record has no pages of branches.
        let last_branch = if trunk.inner_bytes > 0 { self.closer.last_branch } else { 0 };
        Ok(Root { shell: State::from_record(datatype, record), trunk: *trunk, last_branch })
    }

    /// As [`MapField::merge`]. `around` has the events that enclosing fields have undone; their
    /// writes do not count here. `depth` is that of the content if it is a map.
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

    /// Merges items if at least one of the copies has them in pages.
    fn branches(
        &mut self,
        own: &mut Content,
        mut other: Content,
        undone: &EventSet,
        seed: u64,
        depth: usize,
    ) -> Result<(), P::Error> {
        let none = own.empty_like();
        let branch = match std::mem::replace(own, none) {
            Content::Branch(branch) => *branch,
            items if self.closer.pages.can_have_branches() => self.closer.branch_of(items, seed)?,
            // A record with a very long name has no branches, so its fields may have any size.
            items => {
                *own = items;
                if let Some(others) = self.others.as_deref_mut() {
                    other.open(seed, OpenSelection::All, depth, others)?;
                }
                return self.content(own, other, undone, seed, depth);
            }
        };
        let mut source = Source::new(other, seed);
        let branch = self.closer.widen(branch, source.page_count() / 2, seed)?;
        let branch = self.pages(branch, &mut source, undone, seed, depth)?;
        *own = self.closer.settle_branch(branch, seed)?;
        Ok(())
    }

    /// Merges the pages one by one with the other copy's items in their ranges.
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
            let none = open.branch.empty_like();
            let before = open.branch.clone();
            let mut items = open.read_page(seed, range, self.closer.pages)?.unwrap_or(none);
            unread.subtract_difference(&before, &open.branch);
            let theirs = source.take_until(range.last(), self.others.as_deref_mut())?;
            self.content(&mut items, theirs, undone, seed, depth)?;
            branch = self.closer.put_back(items, open, seed)?;
        }
        if unread.counts_nothing() && source.is_read() {
            Ok(branch)
        } else {
            Err(missing_items_error().into())
        }
    }
}

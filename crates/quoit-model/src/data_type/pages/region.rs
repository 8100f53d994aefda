//! Regions: selections of a record's items in which two copies are made equal. A region is a set of
//! ranges of hashes, and may select ranges within fields.

use super::open::{OpenBranch, OpenSelection};
use super::ranges::{HashRange, RangeFigures, pages_of, place_of};
use super::{ItemHash, PagedObject, Pages};
use crate::data_type::content::{Content, MapField};
use crate::data_type::{CausalClock, EventSet, FieldName, MAP_DEPTH_MAX, StoredFormError};
use std::collections::BTreeMap;

/// Items in ranges of hashes. Some fields among them can be narrowed to ranges of their own items.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Region {
    /// In order.
    ranges: Vec<HashRange>,
    /// Narrowed fields: of these, the region has the presence and the items of the inner region.
    fields: BTreeMap<FieldName, Self>,
}

impl From<Vec<HashRange>> for Region {
    /// The region of all items in some ranges, which are in order.
    fn from(ranges: Vec<HashRange>) -> Self {
        Self { ranges, fields: BTreeMap::new() }
    }
}

impl Region {
    /// Narrows a field to some ranges of its items, which are in order. Enclosing fields that were
    /// not narrowed before keep all their other items.
    pub fn narrow(&mut self, path: &[FieldName], ranges: Vec<HashRange>) {
        let mut region = self;
        for name in path {
            let whole = || Self::from(vec![HashRange::ALL]);
            region = region.fields.entry(name.clone()).or_insert_with(whole);
        }
        region.ranges = ranges;
    }

    /// Calls `look` with the path and the ranges of the record and of each narrowed field,
    /// enclosing fields first.
    pub fn each(&self, look: &mut dyn FnMut(&[FieldName], &[HashRange])) {
        self.each_in(&mut Vec::new(), look);
    }

    fn each_in(&self, path: &mut Vec<FieldName>, look: &mut dyn FnMut(&[FieldName], &[HashRange])) {
        look(path, &self.ranges);
        for (name, region) in &self.fields {
            path.push(name.clone());
            region.each_in(path, look);
            path.pop();
        }
    }

    /// Number of all ranges, including those of fields.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.ranges.len() + self.fields.values().map(Self::range_count).sum::<usize>()
    }

    pub(super) fn ranges(&self) -> &[HashRange] {
        &self.ranges
    }

    pub(super) fn has(&self, item: ItemHash) -> bool {
        place_of(&self.ranges, item).is_some()
    }

    /// The region within a field; `None` if the field is not narrowed.
    pub(super) fn within(&self, name: &FieldName) -> Option<&Self> {
        self.fields.get(name)
    }
}

impl Content {
    /// Takes the items of a region out of the content. The branches in the region must be open.
    pub(super) fn take_region(&mut self, seed: u64, region: &Region) -> Self {
        let Self::Map(fields) = self else { return self.extract(seed, |item| region.has(item)) };
        let mut taken = BTreeMap::new();
        fields.retain(|name, field| {
            let hash = ItemHash::of_field_in(name, seed);
            if !region.has(hash) {
                return true;
            }
            let none = MapField::empty(Self::empty(name.kind));
            let mut part = std::mem::replace(field, none);
            if let Some(inner) = region.within(name) {
                let sent = part.content.take_region(hash.0, inner);
                field.content = std::mem::replace(&mut part.content, sent);
            }
            if !part.is_void() {
                taken.insert(name.clone(), part);
            }
            !field.is_void()
        });
        Self::Map(taken)
    }

    /// Puts back the rest that [`Content::take_region`] left.
    pub(super) fn join_region(&mut self, rest: Self) {
        match (self, rest) {
            (Self::Map(own), Self::Map(rest)) => {
                for (name, left) in rest {
                    match own.get_mut(&name) {
                        Some(field) => field.content.join_region(left.content),
                        None => {
                            own.insert(name, left);
                        }
                    }
                }
            }
            (own, rest) => own.append(rest),
        }
    }

    /// True if all items are in the region.
    pub(super) fn is_in(&self, seed: u64, region: &Region) -> bool {
        let mut is_in = true;
        self.each_item(seed, |item, _| is_in &= region.has(item));
        let Self::Map(fields) = self else { return is_in };
        is_in
            && region.fields.iter().all(|(name, inner)| {
                let hash = ItemHash::of_field_in(name, seed);
                fields.get(name).is_none_or(|field| field.content.is_in(hash.0, inner))
            })
    }
}

impl MapField {
    /// True if the field, or a field in it that the region narrows, defers any of these events.
    pub(super) fn defers_any(&self, region: &Region, events: &EventSet) -> bool {
        let Content::Map(fields) = &self.content else { return self.deferred.meets(events) };
        self.deferred.meets(events)
            || region.fields.iter().any(|(name, inner)| {
                fields.get(name).is_some_and(|field| field.defers_any(inner, events))
            })
    }
}

/// Divides a copy into the items of a region and the sum of the digests of all other items.
pub(super) struct CopySplitter<'p, P: ?Sized> {
    pub(super) pages: &'p mut P,
    /// The copy's clock.
    pub(super) clock: &'p CausalClock,
    /// True if the items of the region are wanted, not only the sum.
    pub(super) wants_items: bool,
}

impl<P: Pages + ?Sized> CopySplitter<'_, P> {
    /// Returns the items of the region, if they are wanted, and the sum of the digests of all
    /// others.
    pub(super) fn split(
        &mut self,
        content: Content,
        seed: u64,
        region: &Region,
        depth: usize,
    ) -> Result<(Content, u64), P::Error> {
        match content {
            Content::Branch(branch) => {
                let mut open = OpenBranch::new(*branch);
                let mut items = open.branch.empty_like();
                // Without deferred events, the sum of the others is what remains of the branch's
                // digest.
                let is_all_read = open.branch.waiting_count > 0;
                let all = [HashRange::ALL];
                let ranges = if is_all_read { &all[..] } else { region.ranges() };
                open.read_ranges(seed, ranges, &mut items, self.pages)?;
                let others = open.branch.digest;
                let (sent, rest) = self.split_items(items, seed, region, depth)?;
                Ok((sent, rest.wrapping_add(others)))
            }
            content => self.split_items(content, seed, region, depth),
        }
    }

    fn split_items(
        &mut self,
        mut content: Content,
        seed: u64,
        region: &Region,
        depth: usize,
    ) -> Result<(Content, u64), P::Error> {
        if depth > MAP_DEPTH_MAX + 1 {
            return Err(StoredFormError::BadForm { what: "maps nested too deeply", at: 0 }.into());
        }
        let Content::Map(fields) = &mut content else {
            let sent = content.extract(seed, |item| region.has(item));
            return Ok((sent, content.digest_of_all(self.clock, seed)));
        };
        let (mut sent, mut rest_of_parts) = (BTreeMap::new(), 0u64);
        let taken = fields.extract_if(.., |name, _| region.has(ItemHash::of_field_in(name, seed)));
        for (name, mut field) in taken {
            let hash = ItemHash::of_field_in(&name, seed);
            if let Some(inner) = region.within(&name) {
                let (items, rest) = self.split(field.content, hash.0, inner, depth + 1)?;
                rest_of_parts = rest_of_parts.wrapping_add(rest);
                field.content = items;
            } else if self.wants_items {
                field.content.open(hash.0, OpenSelection::All, depth + 1, self.pages)?;
            }
            if !field.is_void() {
                sent.insert(name, field);
            }
        }
        content.open_fields(
            seed,
            OpenSelection::Waiting,
            depth,
            self.pages,
            &mut BTreeMap::new(),
        )?;
        let rest = content.digest_of_all(self.clock, seed).wrapping_add(rest_of_parts);
        Ok((Content::Map(sent), rest))
    }
}

impl PagedObject {
    /// Reads a field, and the hash that seeds the hashes of its items. An empty path stands for the
    /// record. Returns `None` if the field is absent.
    pub(super) fn at_path<P: Pages + ?Sized>(
        &self,
        path: &[FieldName],
        pages: &mut P,
    ) -> Result<Option<(MapField, u64)>, P::Error> {
        let mut field = self.root().shell.record.clone();
        field.content = Content::Branch(Box::new(self.root().trunk.clone()));
        let mut seed = 0;
        for name in path {
            let mut content = field.content;
            let hash = ItemHash::of_field_in(name, seed);
            if let Content::Branch(branch) = content {
                let mut open = OpenBranch::new(*branch);
                content = open.branch.empty_like();
                open.read_items(seed, &[hash], &mut content, pages)?;
            }
            let Content::Map(mut fields) = content else { return Ok(None) };
            let Some(inner) = fields.remove(name) else { return Ok(None) };
            (field, seed) = (inner, hash.0);
        }
        Ok(Some((field, seed)))
    }

    /// Calls `look` with each page of a record or field that touches some ranges. A page may have
    /// items outside the ranges. Returns the number of live items of the record or field.
    fn each_page_in<P: Pages + ?Sized>(
        &self,
        path: &[FieldName],
        ranges: &[HashRange],
        pages: &mut P,
        mut look: impl FnMut(&mut Content, u64, &mut P) -> Result<(), P::Error>,
    ) -> Result<u64, P::Error> {
        let Some((field, seed)) = self.at_path(path, pages)? else { return Ok(0) };
        let mut content = field.content;
        let Content::Branch(branch) = &mut content else {
            let mut live_count = 0;
            content.each_item(seed, |_, is_live| live_count += u64::from(is_live));
            look(&mut content, seed, pages)?;
            return Ok(live_count);
        };
        let item_count = branch.item_count;
        for page in pages_of(branch.table, ranges) {
            let Some((mut content, _)) = branch.take_page(seed, page, pages)? else { continue };
            look(&mut content, seed, pages)?;
        }
        Ok(item_count)
    }

    /// Number of live items of a field, or of the record if the path is empty, and the figures of
    /// some ranges of its items, which are in order. Reads the pages that they touch.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be read.
    pub fn range_figures<P: Pages + ?Sized>(
        &self,
        path: &[FieldName],
        ranges: &[HashRange],
        pages: &mut P,
    ) -> Result<(u64, Vec<RangeFigures>), P::Error> {
        let clock = self.causal_clock()?;
        let mut figures = vec![RangeFigures::default(); ranges.len()];
        let item_count = self.each_page_in(path, ranges, pages, |content, seed, pages| {
            content.open_fields(seed, OpenSelection::Waiting, 1, pages, &mut BTreeMap::new())?;
            content.each_item_digest(&clock, seed, |hash, digest, is_live| {
                if let Some(figures) =
                    place_of(ranges, hash).and_then(|place| figures.get_mut(place))
                {
                    figures.digest = figures.digest.wrapping_add(digest);
                    figures.item_count += u64::from(is_live);
                }
            });
            Ok(())
        })?;
        Ok((item_count, figures))
    }

    /// Paths of the large fields in some ranges of a field, or of the record if the path is empty;
    /// at most `count_max`. Large fields inside other large fields are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be read.
    pub fn large_fields<P: Pages + ?Sized>(
        &self,
        path: &[FieldName],
        ranges: &[HashRange],
        count_max: usize,
        pages: &mut P,
    ) -> Result<Vec<Vec<FieldName>>, P::Error> {
        let mut found = Vec::new();
        if !self.root().has_branches() {
            return Ok(found);
        }
        let mut path = path.to_vec();
        self.each_page_in(&path.clone(), ranges, pages, |content, seed, _| {
            let Content::Map(fields) = content else { return Ok(()) };
            for (name, field) in fields {
                if place_of(ranges, ItemHash::of_field_in(name, seed)).is_some() {
                    path.push(name.clone());
                    field.content.find_branches(&mut path, &mut found);
                    path.pop();
                }
            }
            Ok(())
        })?;
        found.truncate(count_max);
        Ok(found)
    }
}

impl Content {
    fn find_branches(&self, path: &mut Vec<FieldName>, found: &mut Vec<Vec<FieldName>>) {
        match self {
            Self::Branch(_) => found.push(path.clone()),
            Self::Map(fields) => {
                for (name, field) in fields {
                    path.push(name.clone());
                    field.content.find_branches(path, found);
                    path.pop();
                }
            }
            _ => {}
        }
    }
}

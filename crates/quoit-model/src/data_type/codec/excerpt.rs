//! Excerpts of stored sets and maps: some entries are decoded, changed and put back, without
//! decoding the others.

use super::read::StateReader;
use super::write::{put_element, put_named_field};
use super::{IS_BRANCH, STATE_FORMAT_1, bad, field_kind_number, read_end, read_format};
use crate::clock::Actor;
use crate::cursor::put_varint;
use crate::data_type::content::{Content, MapField};
use crate::data_type::pages::ItemHash;
use crate::data_type::{FieldName, State, StoredFormError};
use bytes::Bytes;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::Range;

/// Maximum number of actors for which a bit set is kept. If a state has more, all its entries are
/// decoded.
const ACTORS_MAX: usize = 64;

/// A stored set or map from which some entries were taken out. The record has no presence and no
/// deferred events of its own.
#[derive(Clone, Debug)]
pub(in crate::data_type) struct Excerpt {
    stored: Bytes,
    actors: SmallVec<[Actor; 4]>,
    /// Bit set of the actors that have writes in the entries that were left.
    used: u64,
    /// Offset in bytes of the number of entries.
    count_at: usize,
    /// Entries that were left, in stored order.
    left: Vec<Entry>,
}

/// Position of an entry in the stored form.
#[derive(Clone, Debug)]
struct Entry {
    all: Range<usize>,
    /// Its element or field name. For a field, the next byte has its kind and the flag of a branch.
    name: Range<usize>,
}

/// Facts about a skipped item or field.
#[derive(Clone, Copy, Default)]
pub(super) struct SkippedItem {
    /// True if a write counts.
    pub(super) is_live: bool,
    /// Bit set of the actors of the writes, up to actor 63.
    pub(super) used: u64,
    /// True if there are deferred events.
    pub(super) has_deferred: bool,
}

impl SkippedItem {
    pub(super) const fn add(&mut self, other: Self) {
        self.is_live |= other.is_live;
        self.used |= other.used;
        self.has_deferred |= other.has_deferred;
    }
}

impl State {
    /// Takes entries out of a stored set or map: those that `is_wanted`, by their hashes with this
    /// seed, and those with deferred events. `is_wanted` is called once for each entry.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are cut off, have another format, are not a set or map, or
    /// have a presence or deferred events of their own.
    pub(in crate::data_type) fn take_entries(
        stored: &Bytes,
        seed: u64,
        mut is_wanted: impl FnMut(ItemHash) -> bool,
    ) -> Result<(Content, Excerpt), StoredFormError> {
        let mut reader = StateReader::of_page(stored);
        let datatype = read_format(&mut reader.cursor, STATE_FORMAT_1)?;
        reader.actors()?;
        let is_everything_wanted = reader.actors.len() > ACTORS_MAX;
        if !reader.skip_to_content()? {
            return Err(bad(&reader.cursor, "more than entries"));
        }
        let count_at = reader.cursor.at();
        let count = reader.cursor.count()?;
        let mut excerpt = Excerpt {
            stored: stored.clone(),
            actors: SmallVec::new(),
            used: 0,
            count_at,
            left: Vec::with_capacity(count.min(256)),
        };
        let mut content = Content::of_record(datatype);
        for _ in 0..count {
            let start = reader.cursor.at();
            let name = reader.cursor.counted_slice()?;
            let name_end = reader.cursor.at();
            let is_map = matches!(content, Content::Map(_));
            let kind = if is_map { Some(reader.kind(1)?) } else { None };
            let hash = match kind {
                Some((kind, _)) => ItemHash::of_field_named(name, kind, seed),
                None => ItemHash::of_element_in(name, seed),
            };
            let mut is_taken = is_wanted(hash) | is_everything_wanted;
            let after_name = reader.cursor.at();
            if !is_taken {
                let skipped = match kind {
                    Some((kind, branch)) => reader.skip_field(kind, branch, 2)?,
                    None => reader.skip_item::<()>()?,
                };
                is_taken = skipped.has_deferred;
                if !is_taken {
                    excerpt.used |= skipped.used;
                    let name = name_end - name.len()..name_end;
                    excerpt.left.push(Entry { all: start..reader.cursor.at(), name });
                    continue;
                }
            }
            reader.cursor.go_to(after_name);
            let name = stored.slice(name_end - name.len()..name_end);
            match (&mut content, kind) {
                (Content::Map(fields), Some((kind, branch))) => {
                    let field = reader.field_or_branch(kind, branch, 2)?;
                    fields.insert(FieldName { name, kind }, field);
                }
                (Content::Set(elements), _) => {
                    elements.insert(name, reader.item()?);
                }
                _ => return Err(bad(&reader.cursor, "neither a set nor a map")),
            }
        }
        read_end(&reader.cursor)?;
        excerpt.actors = reader.actors.into_iter().map(|(actor, _)| actor).collect();
        Ok((content, excerpt))
    }
}

impl Excerpt {
    /// The unchanged stored form.
    pub(in crate::data_type) const fn stored(&self) -> &Bytes {
        &self.stored
    }

    /// Number of entries that were left.
    pub(in crate::data_type) const fn left_count(&self) -> usize {
        self.left.len()
    }

    /// Encodes the stored form with `content` in place of the entries that were taken out. The
    /// bytes equal those of [`State::encode_into`] for all entries. Returns `None` if the table of
    /// actors would change.
    pub(in crate::data_type) fn put_back(&self, content: &Content) -> Option<Vec<u8>> {
        let mut used = self.used;
        let is_other = content.find_dot(&mut |dot| match self.actors.binary_search(&dot.actor) {
            Ok(place) if place < ACTORS_MAX => {
                used |= 1 << place;
                false
            }
            _ => true,
        });
        if is_other || used.count_ones() as usize != self.actors.len() {
            return None;
        }
        let actors = self.actors.iter().collect();
        let mut out = Vec::with_capacity(self.stored.len() + 256);
        out.extend_from_slice(self.stored_at(0..self.count_at));
        put_varint(&mut out, (self.left.len() + content.item_count()) as u64);
        let mut done = 0;
        match content {
            Content::Set(elements) => {
                for (element, item) in elements {
                    done = self.put_until(done, element, None, &mut out);
                    put_element(element, item, &actors, &mut out);
                }
            }
            Content::Map(fields) => {
                for (name, field) in fields {
                    let kind = field_kind_number(name.kind);
                    done = self.put_until(done, &name.name, Some(kind), &mut out);
                    put_named_field(name, field, &actors, &mut out);
                }
            }
            _ => unreachable!("an excerpt is of a set or map"),
        }
        self.put_range(done..self.left.len(), &mut out);
        Some(out)
    }

    /// Decodes all entries, with `content` in place of those that were taken out.
    ///
    /// # Errors
    ///
    /// As [`State::decode`].
    pub(in crate::data_type) fn whole(&self, content: Content) -> Result<Content, StoredFormError> {
        let mut whole = State::decode_page(&self.stored)?.record.content;
        match &mut whole {
            Content::Set(elements) => {
                elements.retain(|element, _| self.place_of(element, None).is_ok());
            }
            Content::Map(fields) => fields.retain(|name, _: &mut MapField| {
                self.place_of(&name.name, Some(field_kind_number(name.kind))).is_ok()
            }),
            _ => unreachable!("an excerpt is of a set or map"),
        }
        whole.append(content);
        Ok(whole)
    }

    fn place_of(&self, name: &[u8], kind: Option<u8>) -> Result<usize, usize> {
        self.left.binary_search_by(|entry| {
            let named = self.stored_at(entry.name.clone()).cmp(name);
            named.then_with(|| {
                let end = entry.name.end;
                let stored = || self.stored_at(end..end + 1).first().map(|byte| byte & !IS_BRANCH);
                kind.map_or(Ordering::Equal, |kind| stored().cmp(&Some(kind)))
            })
        })
    }

    /// Appends the entries that were left before an entry, from number `done` on. Returns the new
    /// number.
    fn put_until(&self, done: usize, name: &[u8], kind: Option<u8>, out: &mut Vec<u8>) -> usize {
        let place = self.place_of(name, kind).unwrap_or_else(|place| place);
        self.put_range(done..place, out);
        place
    }

    #[expect(clippy::indexing_slicing, reason = "the places are numbers of entries, in order")]
    fn put_range(&self, places: Range<usize>, out: &mut Vec<u8>) {
        let mut run = 0..0;
        for entry in &self.left[places] {
            if entry.all.start != run.end {
                out.extend_from_slice(self.stored_at(run));
                run = entry.all.clone();
            }
            run.end = entry.all.end;
        }
        out.extend_from_slice(self.stored_at(run));
    }

    #[expect(clippy::indexing_slicing, reason = "`take_entries` read all places in these bytes")]
    fn stored_at(&self, place: Range<usize>) -> &[u8] {
        &self.stored[place]
    }
}

//! The order in which clients see siblings, which is the order of Riak's Erlang terms.
//!
//! Riak orders siblings by value and then by metadata. The metadata is an Erlang `dict` of 16
//! slots, compared by the number of its entries and then slot by slot. The slot of an entry is the
//! hash of its name (`erlang:phash(Name, 16)`), so the order of the parts below is fixed. An absent
//! part sorts before a present one.

use crate::object::{IndexEntry, Link, Object, Sibling, UserMeta, UserMetaForm};
use std::cmp::Ordering;

/// Metadata by slot number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct MetadataSlots<'a> {
    /// Slot 3.
    links: &'a [Link],
    /// Slot 4.
    content_encoding: Option<&'a [u8]>,
    /// Slot 5: actor, counter and time of the dot.
    dot: Option<(&'a [u8], u64, u64)>,
    /// Slot 11, with the content type before the entity tag.
    content_type: Option<&'a [u8]>,
    vtag: &'a [u8],
    /// Slot 12.
    indexes: &'a [IndexEntry],
    /// Slot 13.
    deleted: bool,
    /// Slot 14.
    last_modified_us: u64,
    /// Slot 16, with the character set before user metadata. A slot with only user metadata comes
    /// before a slot with both, since `X-Riak-Meta` sorts before `charset`.
    last: (u8, Option<&'a [u8]>, Vec<UserPair<'a>>),
    /// Entries for which [`Sibling`] has no field.
    other: &'a [(bytes::Bytes, bytes::Bytes)],
}

/// A pair of user metadata as a term. Strings, which are lists in Erlang, sort before binaries.
type UserPair<'a> = (bool, &'a [u8], Option<&'a [u8]>);

/// Compares two siblings of an object.
fn compare(one: &Sibling, other: &Sibling) -> Ordering {
    one.value
        .cmp(&other.value)
        .then_with(|| entry_count(one).cmp(&entry_count(other)))
        .then_with(|| slots(one).cmp(&slots(other)))
}

/// Sorts the siblings of an object as Riak shows them: by value, then by the number of metadata
/// entries, then by these entries.
pub fn sort_for_clients(object: &mut Object) {
    if object.siblings.len() > 1 {
        object.siblings.sort_by(compare);
    }
}

/// Number of metadata entries that not every sibling has. Index entries are not counted, because
/// Riak stores an entry for them even if there are none.
fn entry_count(sibling: &Sibling) -> usize {
    let meta = &sibling.meta;
    let given = [&meta.content_type, &meta.charset, &meta.content_encoding];
    given.into_iter().flatten().count()
        + usize::from(!meta.links.is_empty())
        + usize::from(!meta.user_meta.is_empty())
        + usize::from(!sibling.vtag.is_empty())
        + usize::from(sibling.last_modified_us > 0)
        + usize::from(sibling.deleted)
        + usize::from(sibling.dot.is_some())
        + meta.other.len()
}

fn slots(sibling: &Sibling) -> MetadataSlots<'_> {
    let meta = &sibling.meta;
    let charset = meta.charset.as_deref();
    let last_rank = match (charset, meta.user_meta.is_empty()) {
        (None, true) => 0,
        (None, false) => 1,
        (Some(_), _) => 2,
    };
    MetadataSlots {
        links: &meta.links,
        content_encoding: meta.content_encoding.as_deref(),
        dot: sibling.dot.as_ref().map(|dot| (dot.actor.0.as_ref(), dot.counter, dot.time_secs)),
        content_type: meta.content_type.as_deref(),
        vtag: &sibling.vtag,
        indexes: &meta.indexes,
        deleted: sibling.deleted,
        last_modified_us: sibling.last_modified_us,
        last: (last_rank, charset, meta.user_meta.iter().map(user_pair).collect()),
        other: &meta.other,
    }
}

fn user_pair(pair: &UserMeta) -> UserPair<'_> {
    (pair.form == UserMetaForm::Binary, &pair.name, pair.value.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Actor, Dot};
    use bytes::Bytes;

    /// A sibling with the tag `name`, changed by `change`.
    fn sibling(name: &'static str, change: impl FnOnce(&mut Sibling)) -> Sibling {
        let mut sibling = Sibling { value: "v".into(), vtag: name.into(), ..Sibling::default() };
        change(&mut sibling);
        sibling
    }

    fn shown(mut siblings: Vec<Sibling>) -> Vec<Bytes> {
        siblings.reverse();
        let mut object = Object { siblings: siblings.into_iter().collect(), ..Object::default() };
        sort_for_clients(&mut object);
        object.siblings.iter().map(|sibling| sibling.vtag.clone()).collect()
    }

    fn text(text: &'static str) -> Option<Bytes> {
        Some(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn values_come_first_then_the_number_of_entries() {
        let siblings = vec![
            sibling("3", |_| {}),
            sibling("4", |_| {}),
            sibling("2", |it| it.meta.content_type = text("text/plain")),
            sibling("1", |it| it.value = "w".into()),
        ];
        assert_eq!(shown(siblings), ["3", "4", "2", "1"]);
    }

    #[test]
    fn slots_decide_from_the_first_to_the_last() {
        let link = Link { bucket: "b".into(), key: "k".into(), tag: "t".into() };
        let pair = UserMeta { name: "n".into(), value: text("v"), form: UserMetaForm::Binary };
        let dot = |actor: &[u8], counter| {
            let actor = Actor(actor.iter().copied().collect());
            Some(Dot { actor, counter, time_secs: 0 })
        };
        // Each sibling has one entry besides the tag. A present entry in a later slot is less than
        // one in an earlier slot.
        let siblings = vec![
            sibling("f", |it| it.meta.user_meta.push(pair)),
            sibling("e", |it| it.meta.charset = text("utf-8")),
            sibling("d", |it| it.last_modified_us = 7),
            sibling("c", |it| it.deleted = true),
            sibling("b", |it| it.meta.content_type = text("a/b")),
            sibling("9", |it| it.dot = dot(b"a", 2)),
            sibling("8", |it| it.dot = dot(b"b", 1)),
            sibling("7", |it| it.meta.content_encoding = text("gzip")),
            sibling("6", |it| it.meta.links.push(link)),
        ];
        // The tag and the content type share a slot; the parts of later slots sort after it.
        assert_eq!(shown(siblings), ["c", "d", "e", "f", "b", "9", "8", "7", "6"]);
    }

    #[test]
    fn index_entries_decide_where_all_before_them_is_equal() {
        let with = |value: u64, field: &'static str| {
            sibling("t", move |it| {
                it.last_modified_us = value;
                let term = crate::object::IndexTerm::integer(1);
                it.meta.indexes.push(IndexEntry { field: field.into(), term });
            })
        };
        let mut object = Object {
            siblings: vec![with(1, "b_int"), with(2, "a_int")].into(),
            ..Object::default()
        };
        sort_for_clients(&mut object);
        assert_eq!(object.siblings[0].last_modified_us, 2);
    }
}

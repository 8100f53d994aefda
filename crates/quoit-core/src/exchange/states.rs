//! States of single tags on the two sides of an exchange, and the encoding of tags.

use quoit_planted::planted;
use quoit_store::compare::{Leaf, salted};
use quoit_store::index::Tag;
use std::cmp::Ordering;
use thiserror::Error;

/// A message that contradicts itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("its lists contradict each other")]
pub(super) struct MalformedMessage;

/// State of the records that one side has under a tag, mostly a single one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TagState {
    pub(super) tag: Tag,
    /// Sum of the salted digests of the live records under the tag. If there are none, the sum of those
    /// of its tombstones.
    pub(super) state: u32,
    /// True if at least one of the records is live, which means not a tombstone.
    pub(super) live: bool,
}

/// A tag in which the two sides differ. `None` stands for a side without records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TagDifference {
    pub(super) tag: Tag,
    pub(super) ours: Option<TagState>,
    pub(super) theirs: Option<TagState>,
}

/// Returns the states of leaves, which come in ascending order of tags.
pub(super) fn states(leaves: &[Leaf], salt: u64) -> Vec<TagState> {
    let mut states: Vec<TagState> = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        let state = salted(leaf.digest, salt);
        match states.last_mut().filter(|last| last.tag == leaf.tag) {
            Some(last) if last.live && leaf.tombstone => {}
            Some(last) if last.live != leaf.tombstone => {
                last.state = last.state.wrapping_add(state)
            }
            Some(last) => (last.state, last.live) = (state, true),
            None => states.push(TagState { tag: leaf.tag, state, live: !leaf.tombstone }),
        }
    }
    states
}

/// Returns the tags in which two sides differ. A tombstone on one side and nothing on the other are not a
/// difference, since both mean that there is no record. Two tombstones are not one, either.
pub(super) fn differences(ours: &[TagState], theirs: &[TagState]) -> Vec<TagDifference> {
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    let mut found = Vec::new();
    loop {
        let order = match (ours.peek(), theirs.peek()) {
            (None, None) => return found,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(our), Some(their)) => our.tag.cmp(&their.tag),
        };
        let our = if order.is_le() { ours.next().copied() } else { None };
        let their = if order.is_ge() { theirs.next().copied() } else { None };
        let is_live = |state: Option<TagState>| state.is_some_and(|state| state.live);
        let is_delete = our.is_some() && their.is_some() && is_live(our) != is_live(their);
        let is_passed_over = planted!(PassesOverDeletes) && is_delete;
        if our != their && (is_live(our) || is_live(their)) && !is_passed_over {
            let tag = our.or(their).map_or(Tag::MIN, |state| state.tag);
            found.push(TagDifference { tag, ours: our, theirs: their });
        }
    }
}

/// Encodes tags, which come in ascending order, as the distances between them, with a bit for each.
pub(super) fn write_tags(tags: impl Iterator<Item = (Tag, bool)>, out: &mut Vec<u64>) {
    let (mut before, mut is_first) = (0, true);
    for (tag, bit) in tags {
        debug_assert!(is_first || before < tag.number(), "tags come in ascending order");
        is_first = false;
        out.push((tag.number() - before) << 1 | u64::from(bit));
        before = tag.number();
    }
}

/// Decodes `count` tags that [`write_tags`] encoded, and removes them from `written`.
pub(super) fn read_tags(
    written: &mut &[u64],
    count: usize,
) -> Result<Vec<(Tag, bool)>, MalformedMessage> {
    let (these, rest) = written.split_at_checked(count).ok_or(MalformedMessage)?;
    *written = rest;
    let mut before = 0u64;
    let mut tags = Vec::with_capacity(count);
    for (place, each) in these.iter().enumerate() {
        let number = before.checked_add(each >> 1).filter(|number| *number <= Tag::MAX.number());
        let number =
            number.filter(|number| place == 0 || *number > before).ok_or(MalformedMessage)?;
        tags.push((Tag::from_number(number), each & 1 == 1));
        before = number;
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn leaves() -> impl Strategy<Value = Vec<Leaf>> {
        let leaf = (0..12u64, 0..3u64, any::<bool>()).prop_map(|(tag, digest, tombstone)| Leaf {
            tag: Tag::from_number(tag * 1_000),
            digest: digest << 1 | u64::from(tombstone),
            tombstone,
        });
        prop::collection::vec(leaf, 0..12).prop_map(|mut leaves| {
            leaves.sort_unstable();
            leaves.dedup();
            leaves
        })
    }

    fn by_tag(leaves: &[Leaf]) -> BTreeMap<Tag, Vec<Leaf>> {
        let mut by_tag: BTreeMap<Tag, Vec<Leaf>> = BTreeMap::new();
        leaves.iter().for_each(|leaf| by_tag.entry(leaf.tag).or_default().push(*leaf));
        by_tag
    }

    proptest! {
        #[test]
        fn tags_differ_where_live_records_do(
            ours in leaves(), theirs in leaves(), salt: u64,
        ) {
            let found = differences(&states(&ours, salt), &states(&theirs, salt));
            let found: Vec<Tag> = found.iter().map(|difference| difference.tag).collect();
            let (ours, theirs) = (by_tag(&ours), by_tag(&theirs));
            let live = |leaves: Option<&Vec<Leaf>>| -> Vec<Leaf> {
                leaves.into_iter().flatten().filter(|leaf| !leaf.tombstone).copied().collect()
            };
            let tags = (0..12).map(|number| Tag::from_number(number * 1_000));
            let expected: Vec<Tag> =
                tags.filter(|tag| live(ours.get(tag)) != live(theirs.get(tag))).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn tags_survive_being_written_down(
            tags in prop::collection::btree_map(0..1u64 << 40, any::<bool>(), 0..50),
        ) {
            let tags: Vec<_> =
                tags.into_iter().map(|(tag, bit)| (Tag::from_number(tag), bit)).collect();
            let mut written = Vec::new();
            write_tags(tags.iter().copied(), &mut written);
            let mut rest = &written[..];
            prop_assert_eq!(read_tags(&mut rest, tags.len()), Ok(tags));
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn tags_out_of_order_or_beyond_the_last_are_nonsense() {
        for written in [&[4u64, 1][..], &[1 << 42], &[u64::MAX, u64::MAX], &[1 << 41, 2]] {
            assert_eq!(
                read_tags(&mut &written[..], written.len()),
                Err(MalformedMessage),
                "{written:?}"
            );
        }
        assert_eq!(read_tags(&mut &[2u64][..], 2), Err(MalformedMessage));
    }
}

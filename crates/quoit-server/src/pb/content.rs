//! Conversion of objects to messages and of messages to metadata.

use crate::erlang_text;
use crate::index_entries::{self};
use bytes::Bytes;
use quoit_model::object::{Link, Metadata, Object, Sibling, UserMeta, UserMetaForm};
use quoit_model::sibling_order::sort_for_clients;
use quoit_number::saturating_u32;
use quoit_wire::messages::{RpbContent, RpbLink, RpbPair};

const US_PER_SEC: u64 = 1_000_000;

/// The siblings of an object as message contents; without their values if `head` is true.
pub(super) fn contents(mut object: Object, head: bool) -> Vec<RpbContent> {
    sort_for_clients(&mut object);
    object.siblings.into_iter().map(|sibling| content(sibling, head)).collect()
}

fn content(sibling: Sibling, head: bool) -> RpbContent {
    let meta = sibling.meta;
    let (last_mod, last_mod_usecs) = modified(sibling.last_modified_us);
    let pair = |key, value| RpbPair { key, value };
    RpbContent {
        value: if head { Bytes::new() } else { sibling.value },
        content_type: meta.content_type,
        charset: meta.charset,
        content_encoding: meta.content_encoding,
        vtag: (!sibling.vtag.is_empty()).then_some(sibling.vtag),
        links: meta.links.into_iter().map(link_out).collect(),
        last_mod,
        last_mod_usecs,
        usermeta: meta.user_meta.into_iter().map(|each| pair(each.name, each.value)).collect(),
        indexes: meta
            .indexes
            .into_iter()
            .map(|each| pair(each.field, Some(index_entries::term_text(&each.term))))
            .collect(),
        deleted: sibling.deleted.then_some(true),
    }
}

/// Seconds and microseconds of a time of change; `None` if the time is unknown. Messages have 32 bits for the
/// seconds. Later times, such as those of imported records that a node with a wrong clock wrote, are shown as
/// the last second that fits.
pub(super) fn modified(last_modified_us: u64) -> (Option<u32>, Option<u32>) {
    let known_us = (last_modified_us > 0).then_some(last_modified_us);
    let secs = known_us.map(|time_us| saturating_u32(time_us / US_PER_SEC));
    (secs, known_us.map(|time_us| (time_us % US_PER_SEC) as u32))
}

/// Converts a link. Parts that a link lacks are stored empty and left out of messages.
fn link_out(link: Link) -> RpbLink {
    let part = |part: Bytes| (!part.is_empty()).then_some(part);
    RpbLink { bucket: part(link.bucket), key: part(link.key), tag: part(link.tag) }
}

/// Takes the metadata of a value out of a put message.
///
/// # Errors
///
/// The text for the client, if index entries are invalid.
pub(super) fn metadata(content: &mut RpbContent) -> Result<Metadata, String> {
    let pairs = std::mem::take(&mut content.indexes).into_iter();
    let pairs = pairs.map(|pair| (pair.key, pair.value.unwrap_or_default()));
    let indexes = index_entries::parse_all(pairs).map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(erlang_text::index_fault).collect();
        format!("{{precommit_fail,[{}]}}", faults.join(","))
    })?;
    Ok(Metadata {
        content_type: content.content_type.take(),
        charset: content.charset.take(),
        content_encoding: content.content_encoding.take(),
        links: std::mem::take(&mut content.links).into_iter().map(link_in).collect(),
        user_meta: std::mem::take(&mut content.usermeta)
            .into_iter()
            .map(|pair| UserMeta { name: pair.key, value: pair.value, form: UserMetaForm::Binary })
            .collect(),
        indexes,
        ..Metadata::default()
    })
}

fn link_in(link: RpbLink) -> Link {
    Link {
        bucket: link.bucket.unwrap_or_default(),
        key: link.key.unwrap_or_default(),
        tag: link.tag.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_change_beyond_32_bits_of_seconds_are_shown_as_the_last_second() {
        let last_us = u64::from(u32::MAX) * US_PER_SEC + 7;
        assert_eq!(modified(last_us), (Some(u32::MAX), Some(7)));
        for later_secs in [1, 1_000, 1 << 32] {
            let shown = modified(last_us + later_secs * US_PER_SEC);
            assert_eq!(shown, (Some(u32::MAX), Some(7)), "{later_secs}");
        }
    }

    #[test]
    fn an_unknown_time_of_change_is_not_shown() {
        assert_eq!(modified(0), (None, None));
        assert_eq!(modified(1), (Some(0), Some(1)));
    }
}

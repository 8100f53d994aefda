//! Conversion of objects to messages and of messages to metadata.

use crate::erlang_text;
use crate::index_entries::{self};
use bytes::Bytes;
use quoit_model::object::{Link, Metadata, Object, Sibling, UserMeta, UserMetaForm};
use quoit_model::sibling_order::sort_for_clients;
use quoit_wire::messages::{RpbContent, RpbLink, RpbPair};

pub(super) const US_PER_SEC: u64 = 1_000_000;

/// The siblings of an object as message contents; without their values if `head` is true.
pub(super) fn contents(mut object: Object, head: bool) -> Vec<RpbContent> {
    sort_for_clients(&mut object);
    object.siblings.into_iter().map(|sibling| content(sibling, head)).collect()
}

fn content(sibling: Sibling, head: bool) -> RpbContent {
    let meta = sibling.meta;
    let written = sibling.last_modified_us;
    let pair = |key, value| RpbPair { key, value };
    RpbContent {
        value: if head { Bytes::new() } else { sibling.value },
        content_type: meta.content_type,
        charset: meta.charset,
        content_encoding: meta.content_encoding,
        vtag: (!sibling.vtag.is_empty()).then_some(sibling.vtag),
        links: meta.links.into_iter().map(link_out).collect(),
        last_mod: (written > 0).then_some((written / US_PER_SEC) as u32),
        last_mod_usecs: (written > 0).then_some((written % US_PER_SEC) as u32),
        usermeta: meta.user_meta.into_iter().map(|each| pair(each.name, each.value)).collect(),
        indexes: meta
            .indexes
            .into_iter()
            .map(|each| pair(each.field, Some(index_entries::term_text(&each.term))))
            .collect(),
        deleted: sibling.deleted.then_some(true),
    }
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

//! Strict checks of the names in certificates. The parser silently skips parts that it cannot read.

use x509_parser::asn1_rs::{Any, FromDer, Tag};
use x509_parser::prelude::X509Name;

/// Returns true if the name is a sequence of sets of pairs, each an attribute type and a
/// value, and nothing else.
pub(crate) fn is_sound(name: &X509Name<'_>) -> bool {
    let Some(name) = elements(name.as_raw()) else { return false };
    let [name] = name.as_slice() else { return false };
    inside(name, Tag::Sequence).is_some_and(|sets| sets.iter().all(is_set))
}

fn is_set(element: &Any<'_>) -> bool {
    inside(element, Tag::Set).is_some_and(|pairs| !pairs.is_empty() && pairs.iter().all(is_pair))
}

fn is_pair(element: &Any<'_>) -> bool {
    let Some(pair) = inside(element, Tag::Sequence) else { return false };
    let [attribute, _value] = pair.as_slice() else { return false };
    attribute.header.tag() == Tag::Oid && !attribute.data.is_empty()
}

/// Returns the elements inside an element, if it has this tag.
fn inside<'a>(element: &Any<'a>, tag: Tag) -> Option<Vec<Any<'a>>> {
    (element.header.tag() == tag).then(|| elements(element.data))?
}

/// Returns the consecutive elements of `bytes`; `None` if some bytes are not an element.
fn elements(mut bytes: &[u8]) -> Option<Vec<Any<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (rest, element) = Any::from_der(bytes).ok()?;
        found.push(element);
        bytes = rest;
    }
    Some(found)
}

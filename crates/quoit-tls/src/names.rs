//! The structure of names in certificates, of which the parser passes over what it can't read.

use x509_parser::asn1_rs::{Any, FromDer, Tag};
use x509_parser::prelude::X509Name;

/// Whether the name is a sequence of sets of pairs of an attribute's type and its value, and nothing else.
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

/// The elements inside of an element with this tag.
fn inside<'a>(element: &Any<'a>, tag: Tag) -> Option<Vec<Any<'a>>> {
    (element.header.tag() == tag).then(|| elements(element.data))?
}

/// The elements one behind the other in `bytes`; `None` where something else stands.
fn elements(mut bytes: &[u8]) -> Option<Vec<Any<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (rest, element) = Any::from_der(bytes).ok()?;
        found.push(element);
        bytes = rest;
    }
    Some(found)
}

//! An object as a node returns it: a single value, or siblings as the parts of a multipart body.

use crate::api::Reply;
use anyhow::{Result, bail};
use serde_json::{Value, json};

/// The values of an object and its causal context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Causal context in base64. A write that replaces the values that were read sends it back.
    pub context: String,
    /// Values; at least one.
    pub siblings: Vec<Sibling>,
}

/// One of the values of an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sibling {
    /// Media type.
    pub content_type: String,
    /// Time of the write, in HTTP's date format.
    pub last_modified: String,
    /// Tag of the version (`X-Riak-VTag`).
    pub vtag: String,
    /// True if it is a tombstone.
    pub is_deleted: bool,
    /// Headers of index entries, user metadata and links; the names are in lower case.
    pub meta: Vec<(String, String)>,
    /// The value.
    pub value: Vec<u8>,
}

/// Prefixes of the names of headers that belong to a value.
const META: [&str; 2] = ["x-riak-index-", "x-riak-meta-"];

impl Object {
    /// Reads a reply of status 200 or 300.
    ///
    /// # Errors
    ///
    /// The reply has siblings whose multipart format cannot be read.
    pub fn of(reply: &Reply) -> Result<Self> {
        let context = reply.header("x-riak-vclock").to_owned();
        let content_type = reply.header("content-type");
        if reply.status != 300 {
            let mut sibling = Sibling { value: reply.body.clone(), ..Sibling::default() };
            for (name, value) in &reply.headers {
                let value = &String::from_utf8_lossy(value.as_bytes());
                sibling.take_header(HeaderField { name: name.as_str(), value });
            }
            return Ok(Self { context, siblings: vec![sibling] });
        }
        let Some((_, boundary)) = content_type.split_once("boundary=") else {
            bail!("the node's answer has siblings without a boundary: content type {content_type}");
        };
        let siblings = parts(&reply.body, boundary.trim_matches('"'));
        if siblings.is_empty() {
            bail!("the node's answer has no siblings that can be read");
        }
        Ok(Self { context, siblings })
    }
}

/// A header of an answer or of one of its parts.
struct HeaderField<'a> {
    name: &'a str,
    value: &'a str,
}

impl Sibling {
    fn take_header(&mut self, header: HeaderField<'_>) {
        let HeaderField { name, value } = header;
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "content-type" => self.content_type = value.to_owned(),
            "last-modified" => self.last_modified = value.to_owned(),
            "etag" => self.vtag = value.trim_matches('"').to_owned(),
            "x-riak-deleted" => self.is_deleted = true,
            // Each answer contains a link to the bucket itself, which is left out.
            "link" => {
                let links = value.split(", ").filter(|link| !link.contains("rel=\"up\""));
                self.meta.extend(
                    links
                        .filter(|link| !link.is_empty())
                        .map(|link| (name.clone(), link.to_owned())),
                );
            }
            _ if META.iter().any(|start| name.starts_with(start)) => {
                self.meta.push((name, value.to_owned()));
            }
            _ => {}
        }
    }

    /// The value as text that can be shown on a terminal; `None` if it can't be shown.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.value).ok()?;
        let is_shown = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t' | '\r');
        text.chars().all(is_shown).then_some(text)
    }

    /// The object's JSON form: the value is in `value` if it is UTF-8, otherwise in `value_hex`.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "the document is an object")]
    pub fn json(&self) -> Value {
        let mut document = json!({
            "content_type": self.content_type,
            "last_modified": self.last_modified,
            "vtag": self.vtag,
            "deleted": self.is_deleted,
            "size_bytes": self.value.len(),
        });
        for (start, member) in
            [("x-riak-index-", "indexes"), ("x-riak-meta-", "metadata"), ("link", "links")]
        {
            let found = self
                .meta
                .iter()
                .filter_map(|(name, value)| Some((name.strip_prefix(start)?, value)));
            document[member] = match member {
                "links" => found.map(|(_, value)| json!(value)).collect(),
                _ => found.map(|(name, value)| json!([name, value])).collect(),
            };
        }
        match std::str::from_utf8(&self.value) {
            Ok(text) => document["value"] = text.into(),
            Err(_) => {
                let digits = self.value.iter().map(|byte| format!("{byte:02x}"));
                document["value_hex"] = digits.collect::<String>().into();
            }
        }
        document
    }
}

/// Splits a multipart body into its parts.
fn parts(body: &[u8], boundary: &str) -> Vec<Sibling> {
    let mark = format!("\r\n--{boundary}");
    let mut siblings = Vec::new();
    let mut starts = find_all(body, &mark);
    let Some(mut start) = starts.next() else { return siblings };
    for end in starts {
        let part = body.get(start + mark.len()..end).unwrap_or_default();
        siblings.extend(part.strip_prefix(b"\r\n").and_then(sibling));
        start = end;
    }
    siblings
}

/// Positions at which `mark` occurs, without overlaps.
fn find_all<'b>(body: &'b [u8], mark: &'b str) -> impl Iterator<Item = usize> + 'b {
    let (mark, mut from) = (mark.as_bytes(), 0);
    std::iter::from_fn(move || {
        let rest = body.get(from..)?;
        let place = from + rest.windows(mark.len()).position(|window| window == mark)?;
        from = place + mark.len();
        Some(place)
    })
}

/// Parses a part: headers, an empty line, the value.
fn sibling(part: &[u8]) -> Option<Sibling> {
    let (head, value) = match part.strip_prefix(b"\r\n") {
        Some(value) => (&[][..], value),
        None => {
            let place = find_all(part, "\r\n\r\n").next()?;
            let (head, rest) = part.split_at_checked(place)?;
            (head, rest.strip_prefix(b"\r\n\r\n")?)
        }
    };
    let mut sibling = Sibling { value: value.to_vec(), ..Sibling::default() };
    for line in String::from_utf8_lossy(head).split("\r\n") {
        if let Some((name, value)) = line.split_once(':') {
            sibling.take_header(HeaderField { name: name.trim(), value: value.trim() });
        }
    }
    Some(sibling)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BODY: &[u8] = b"\r\n--Xy\r\nContent-Type: text/plain\r\nLink: </buckets/b>; rel=\"up\"\r\nEtag: \
     t1\r\n\
        Last-Modified: Tue, 24 Nov 2026 06:00:00 GMT\r\nx-riak-index-age_int: 7\r\n\r\napples\r\n--Xy\r\n\
        Content-Type: text/plain\r\nEtag: t2\r\nX-Riak-Deleted: true\r\n\r\n\r\n--Xy--\r\n";

    #[test]
    fn siblings_are_the_parts_of_one_body() {
        let [first, second] = parts(BODY, "Xy").try_into().expect("two parts");
        assert_eq!(
            (first.text(), first.vtag.as_str(), first.is_deleted),
            (Some("apples"), "t1", false)
        );
        assert_eq!(first.meta, [("x-riak-index-age_int".to_owned(), "7".to_owned())]);
        assert_eq!((second.value.len(), second.vtag.as_str(), second.is_deleted), (0, "t2", true));
        assert_eq!(first.json()["indexes"], json!([["age_int", "7"]]));
    }

    #[test]
    fn a_value_that_is_no_text_is_hexadecimal() {
        let sibling = Sibling { value: vec![0xff, 1], ..Sibling::default() };
        assert_eq!((sibling.text(), &sibling.json()["value_hex"]), (None, &json!("ff01")));
        let bell = Sibling { value: b"\x07".to_vec(), ..Sibling::default() };
        assert_eq!(bell.text(), None, "a terminal would obey it");
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(cut in 0..BODY.len(), at in 0..BODY.len(), byte in any::<u8>()) {
            let mut body = BODY[cut..].to_vec();
            if let Some(place) = body.get_mut(at) {
                *place = byte;
            }
            let _ = parts(&body, "Xy");
        }
    }
}

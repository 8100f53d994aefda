//! JSON of folds. Binary parts are base64, written as a list of character codes, as Riak's encoder does
//! with strings.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

/// A name that JSON can't hold.
#[derive(Debug, thiserror::Error)]
#[error(
    "{member} {name:?} is no UTF-8, which JSON needs; ask over Protocol Buffers, or leave it out by key_range"
)]
pub(super) struct Undecodable {
    member: &'static str,
    name: String,
}

/// Appends bytes as the character codes of their base64 text.
pub(super) fn put_codes(out: &mut String, bytes: &[u8]) {
    out.push('[');
    for (place, code) in STANDARD.encode(bytes).bytes().enumerate() {
        if place > 0 {
            out.push(',');
        }
        let _ = write!(out, "{code}");
    }
    out.push(']');
}

/// Appends a member whose value is a name.
pub(super) fn put_text(
    out: &mut String,
    member: &'static str,
    name: &[u8],
) -> Result<(), Undecodable> {
    let text = std::str::from_utf8(name)
        .map_err(|_| Undecodable { member, name: String::from_utf8_lossy(name).into_owned() })?;
    let _ = write!(out, "\"{member}\":{}", serde_json::Value::from(text));
    Ok(())
}

/// Builder of a document with one member, a list.
pub(super) struct JsonList {
    text: String,
    is_empty: bool,
}

impl JsonList {
    pub(super) fn new(member: &str) -> Self {
        Self { text: format!("{{\"{member}\":["), is_empty: true }
    }

    /// Prepares the next item and returns the text to append it to.
    pub(super) fn item(&mut self) -> &mut String {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(',');
        }
        &mut self.text
    }

    /// Ends the document.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("]}");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_items_and_bytes_are_codes_of_base64() {
        let mut list = JsonList::new("keys");
        for key in [&b"a\"b"[..], b"c"] {
            let item = list.item();
            item.push('{');
            put_text(item, "key", key).expect("UTF-8");
            item.push_str(",\"clock\":");
            put_codes(item, &[0]);
            item.push('}');
        }
        let expected =
            r#"{"keys":[{"key":"a\"b","clock":[65,65,61,61]},{"key":"c","clock":[65,65,61,61]}]}"#;
        assert_eq!(list.finish(), expected);
        assert_eq!(JsonList::new("keys").finish(), r#"{"keys":[]}"#);
        assert!(put_text(&mut String::new(), "key", &[0xff]).is_err());
    }
}

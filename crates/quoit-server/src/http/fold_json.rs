//! JSON of folds: binary parts are lists of the character codes of their Base64 text, as Riak's encoder makes
//! them of strings.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

/// A name that JSON has no text for.
#[derive(Debug, thiserror::Error)]
#[error(
    "{member} {name:?} is no UTF-8, which JSON needs; ask over Protocol Buffers, or leave it out by key_range"
)]
pub(super) struct Undecodable {
    member: &'static str,
    name: String,
}

/// Appends the codes of the Base64 text of some bytes.
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

/// A document with one member, a list that grows.
pub(super) struct JsonList {
    text: String,
    is_empty: bool,
}

impl JsonList {
    pub(super) fn new(member: &str) -> Self {
        Self { text: format!("{{\"{member}\":["), is_empty: true }
    }

    /// Where the next item goes.
    pub(super) fn item(&mut self) -> &mut String {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(',');
        }
        &mut self.text
    }

    /// The document.
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

//! Reading of JSON documents.

use serde_json::Value;

/// Returns the value at a JSON pointer (RFC 6901); null if the document has no such value.
#[must_use]
pub fn value_at<'a>(document: &'a Value, pointer: &str) -> &'a Value {
    document.pointer(pointer).unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use super::value_at;
    use serde_json::{Value, json};

    #[test]
    fn members_that_are_missing_are_null() {
        let document = json!({"members": [{"name": "one"}], "ready": true});
        assert_eq!(value_at(&document, "/members/0/name"), "one");
        assert_eq!(value_at(&document, "/ready"), true);
        for missing in ["/name", "/members/1", "/members/0/name/first", "/ready/since"] {
            assert_eq!(*value_at(&document, missing), Value::Null, "{missing}");
        }
        assert_eq!(*value_at(&json!("text"), "/ready"), Value::Null);
    }
}

//! JSON documents whose objects keep the order of members and duplicate members. Both have a meaning in
//! operations.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt::{self, Write};

/// A JSON document as it was written.
#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A number without fraction or exponent that fits `i64`.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// The members of an object in order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a document.
    ///
    /// # Errors
    ///
    /// Malformed JSON, with the position.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }
}

impl fmt::Display for Json {
    /// Writes compact JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(boolean) => boolean.fmt(f),
            Self::Integer(integer) => integer.fmt(f),
            Self::Float(float) => serde_json::Value::from(*float).fmt(f),
            Self::Text(text) => write_text(f, text),
            Self::List(items) => {
                f.write_char('[')?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { "," })?;
                }
                f.write_char(']')
            }
            Self::Object(members) => {
                f.write_char('{')?;
                for (index, (name, value)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    write_text(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?)
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Builder)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Json, E> {
        Ok(Json::Boolean(boolean))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<Json, E> {
        Ok(Json::Integer(integer))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<Json, E> {
        Ok(i64::try_from(integer).map_or(Json::Float(integer as f64), Json::Integer))
    }

    fn visit_f64<E>(self, float: f64) -> Result<Json, E> {
        Ok(Json::Float(float))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_shown_as_they_were_written() {
        for text in [
            "null",
            "true",
            "-9223372036854775808",
            "1.5",
            r#""a\"b""#,
            r#"{"b":1,"a":[{},[],"x"],"b":false}"#,
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_no_integers() {
        let parsed = Json::parse(b"9223372036854775808").unwrap();
        assert_eq!(parsed, Json::Float(9_223_372_036_854_775_808.0));
        assert_eq!(Json::parse(b"1e2").unwrap(), Json::Float(100.0));
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(Json::parse("[".repeat(100_000).as_bytes()).is_err());
    }
}

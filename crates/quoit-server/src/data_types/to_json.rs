//! Data type values in JSON.

use super::cursor_of;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use quoit_model::data_type::{Answer, FieldKind, FieldName, Query, Value};
use quoit_model::props::Datatype;
use std::io::Write;
use thiserror::Error;

/// A part of a value is not UTF-8, which JSON can't represent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "{what} of the value is not UTF-8 text, which JSON can't represent; fetch the value by Protocol Buffers\n"
)]
pub struct NotUtf8 {
    what: &'static str,
}

/// Appends the value of a record of this data type, and its causal context if there is one.
///
/// # Errors
///
/// When an element, a register or the name of a field is not UTF-8. The appended text is incomplete then.
pub fn append_value(
    out: &mut Vec<u8>,
    datatype: Datatype,
    value: &Value,
    context: Option<&[u8]>,
) -> Result<(), NotUtf8> {
    append_type(out, datatype);
    out.extend_from_slice(b",\"value\":");
    append_inner(out, value)?;
    append_end(out, context);
    Ok(())
}

fn append_inner(out: &mut Vec<u8>, value: &Value) -> Result<(), NotUtf8> {
    match value {
        Value::Counter(number) => append_number(out, number),
        Value::Hll(estimate) => append_number(out, estimate),
        Value::Flag(is_enabled) => append_number(out, is_enabled),
        Value::Register(bytes) => append_bytes(out, bytes, "a register")?,
        Value::Set(elements) => append_elements(out, elements)?,
        Value::Map(entries) => append_entries(out, entries)?,
    }
    Ok(())
}

/// Appends the answer to a query for a part of a record of this data type.
///
/// # Errors
///
/// Like [`append_value`].
pub fn append_answer(
    out: &mut Vec<u8>,
    datatype: Datatype,
    query: &Query,
    answer: &Answer,
) -> Result<(), NotUtf8> {
    out.extend_from_slice(b"{\"type\":");
    append_text(out, datatype.as_str());
    match answer {
        Answer::Size(size) => {
            out.extend_from_slice(b",\"size\":");
            append_number(out, size);
        }
        Answer::Contains(contains) => {
            out.extend_from_slice(b",\"contains\":");
            append_number(out, contains);
        }
        Answer::Field(value) => {
            out.extend_from_slice(b",\"value\":");
            let name = if let Query::Field(name) = query { Some(name.clone()) } else { None };
            let fields: Vec<_> = name.zip(value.clone()).into_iter().collect();
            append_entries(out, &fields)?;
        }
        Answer::Page { value, next } => {
            out.extend_from_slice(b",\"value\":");
            append_inner(out, value)?;
            if let Some(place) = next {
                out.extend_from_slice(b",\"cursor\":");
                append_text(out, &URL_SAFE_NO_PAD.encode(cursor_of(*place)));
            }
        }
    }
    out.push(b'}');
    Ok(())
}

/// Appends the document for a value that does not exist.
pub fn append_missing(out: &mut Vec<u8>, datatype: Datatype) {
    out.extend_from_slice(b"{\"type\":");
    append_text(out, datatype.as_str());
    out.extend_from_slice(b",\"error\":\"notfound\"}");
}

fn append_number(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    write!(out, "{number}").expect("a vector takes everything");
}

pub(super) fn append_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("texts are JSON and a vector takes everything");
}

pub(super) fn append_bytes(
    out: &mut Vec<u8>,
    bytes: &[u8],
    what: &'static str,
) -> Result<(), NotUtf8> {
    append_text(out, std::str::from_utf8(bytes).map_err(|_| NotUtf8 { what })?);
    Ok(())
}

fn append_elements<T: AsRef<[u8]>>(out: &mut Vec<u8>, elements: &[T]) -> Result<(), NotUtf8> {
    out.push(b'[');
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        append_bytes(out, element.as_ref(), "an element")?;
    }
    out.push(b']');
    Ok(())
}

fn append_entries(out: &mut Vec<u8>, entries: &[(FieldName, Value)]) -> Result<(), NotUtf8> {
    out.push(b'{');
    for (index, (FieldName { name, kind }, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        append_entry(out, name, *kind, value)?;
    }
    out.push(b'}');
    Ok(())
}

pub(super) fn append_entry(
    out: &mut Vec<u8>,
    name: &[u8],
    kind: FieldKind,
    value: &Value,
) -> Result<(), NotUtf8> {
    let what = "the name of a field";
    let name = std::str::from_utf8(name).map_err(|_| NotUtf8 { what })?;
    append_text(out, &format!("{name}_{}", kind.as_str()));
    out.push(b':');
    append_inner(out, value)
}

pub(super) fn append_type(out: &mut Vec<u8>, datatype: Datatype) {
    out.extend_from_slice(b"{\"type\":");
    append_text(out, datatype.as_str());
}

/// Appends the members that follow the value.
pub(super) fn append_end(out: &mut Vec<u8>, context: Option<&[u8]>) {
    if let Some(context) = context {
        out.extend_from_slice(b",\"context\":");
        append_text(out, &STANDARD.encode(context));
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn check(datatype: Datatype, value: &Value, context: Option<&[u8]>, expected: &str) {
        let mut out = Vec::new();
        append_value(&mut out, datatype, value, context).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn values_have_their_type_and_sets_and_maps_a_context() {
        check(Datatype::Counter, &Value::Counter(-5), None, r#"{"type":"counter","value":-5}"#);
        check(Datatype::Hll, &Value::Hll(123), None, r#"{"type":"hll","value":123}"#);
        let elements = Value::Set(vec!["a".into(), "q\"".into()]);
        check(Datatype::Gset, &elements, None, r#"{"type":"gset","value":["a","q\""]}"#);
        let expected = r#"{"type":"set","value":["a","q\""],"context":"AP+A"}"#;
        check(Datatype::Set, &elements, Some(b"\x00\xff\x80"), expected);
        let entry = |name: &'static str, kind, value| (FieldName::new(name, kind), value);
        let inner = vec![entry("s", FieldKind::Set, Value::Set(Vec::new()))];
        let map = Value::Map(vec![
            entry("c", FieldKind::Counter, Value::Counter(0)),
            entry("f", FieldKind::Flag, Value::Flag(true)),
            entry("m", FieldKind::Map, Value::Map(inner)),
            entry("r_x", FieldKind::Register, Value::Register("v".into())),
        ]);
        let expected = concat!(
            r#"{"type":"map","value":{"c_counter":0,"f_flag":true,"#,
            r#""m_map":{"s_set":[]},"r_x_register":"v"}}"#
        );
        check(Datatype::Map, &map, None, expected);
    }

    #[test]
    fn bytes_that_are_no_text_are_told() {
        let bytes = || Bytes::from_static(b"\xff");
        let entry =
            |name: Bytes, kind, value| Value::Map(vec![(FieldName::new(name, kind), value)]);
        for (value, what) in [
            (Value::Set(vec![bytes()]), "an element"),
            (entry(bytes(), FieldKind::Flag, Value::Flag(true)), "the name of a field"),
            (entry("r".into(), FieldKind::Register, Value::Register(bytes())), "a register"),
        ] {
            let fault = append_value(&mut Vec::new(), Datatype::Map, &value, None).unwrap_err();
            let text = fault.to_string();
            assert!(text.starts_with(&format!("{what} of the value is not UTF-8 text")), "{text}");
        }
    }

    #[test]
    fn what_is_missing_has_its_type_too() {
        let mut out = Vec::new();
        append_missing(&mut out, Datatype::Map);
        assert_eq!(out, br#"{"type":"map","error":"notfound"}"#);
    }
}

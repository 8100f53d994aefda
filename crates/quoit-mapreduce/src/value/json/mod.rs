//! JSON values and Riak's terms for them: strings are binaries, objects are `{struct, [{Name, Value}]}`,
//! and `true`, `false` and `null` are atoms.

mod read;

pub(crate) use read::{read_bytes_max, term_from_text};

use super::datum::Datum;
use super::input::Input;
use bytes::Bytes;
use quoit_model::etf::Term;
use serde_json::Value;
use std::fmt;
use std::io::Write;
use thiserror::Error;

/// Converts a JSON value to a term. Integers that fit into 64 bits remain integers; other numbers become
/// floats.
#[must_use]
pub fn term_from_json(value: &Value) -> Term {
    match value {
        Value::Null => Term::Atom(Bytes::from_static(b"null")),
        Value::Bool(true) => Term::Atom(Bytes::from_static(b"true")),
        Value::Bool(false) => Term::Atom(Bytes::from_static(b"false")),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Term::Integer(integer.into()),
            (None, Some(integer)) => Term::Integer(integer.into()),
            (None, None) => Term::Float(number.as_f64().unwrap_or(0.0)),
        },
        Value::String(text) => text_term(text),
        Value::Array(elements) => Term::List(elements.iter().map(term_from_json).collect()),
        Value::Object(members) => {
            let pair = |(name, value): (&String, &Value)| {
                Term::Tuple(vec![text_term(name), term_from_json(value)])
            };
            object_term(members.iter().map(pair).collect())
        }
    }
}

fn text_term(text: &str) -> Term {
    Term::Binary(Bytes::copy_from_slice(text.as_bytes()))
}

/// Creates an object from its members, each a tuple of name and value.
fn object_term(members: Vec<Term>) -> Term {
    Term::Tuple(vec![Term::Atom(Bytes::from_static(b"struct")), Term::List(members)])
}

/// Shows a term as JSON in messages, or in Erlang's notation if it contains bytes that are not UTF-8.
pub(crate) struct DisplayJson<'t>(pub(crate) &'t Term);

impl fmt::Display for DisplayJson<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut json = Vec::new();
        match append_term(&mut json, self.0) {
            Ok(()) => formatter.write_str(&String::from_utf8_lossy(&json)),
            Err(NotUtf8) => formatter.write_str(&crate::print_term(self.0)),
        }
    }
}

/// The term that stands for a missing argument.
pub(crate) const fn no_argument() -> Term {
    Term::Atom(Bytes::from_static(b"null"))
}

/// Members of a term that represents a JSON object; `None` for other terms.
pub(crate) fn members(term: &Term) -> Option<&[Term]> {
    match term {
        Term::Tuple(parts) => match parts.as_slice() {
            [tag, Term::List(pairs)] if tag.is_atom(b"struct") => Some(pairs),
            _ => None,
        },
        _ => None,
    }
}

/// Value of a member of a JSON object, or of an entry of an Erlang property list.
pub(crate) fn member<'t>(term: &'t Term, name: &[u8]) -> Option<&'t Term> {
    let pairs = members(term).or_else(|| term.as_list())?;
    pairs.iter().find_map(|pair| match pair {
        Term::Tuple(parts) => match parts.as_slice() {
            [Term::Binary(found) | Term::Atom(found), value] if **found == *name => Some(value),
            _ => None,
        },
        _ => None,
    })
}

/// Takes a value out of a JSON object or an Erlang property list, and leaves `null` in its place.
pub(crate) fn take_member(term: &mut Term, name: &[u8]) -> Option<Term> {
    let pairs = match term {
        Term::Tuple(parts) => match parts.as_mut_slice() {
            [_, Term::List(pairs)] => pairs,
            _ => return None,
        },
        Term::List(pairs) => pairs,
        _ => return None,
    };
    pairs.iter_mut().find_map(|pair| match pair {
        Term::Tuple(parts) => match parts.as_mut_slice() {
            [Term::Binary(found) | Term::Atom(found), value] if **found == *name => {
                Some(std::mem::replace(value, no_argument()))
            }
            _ => None,
        },
        _ => None,
    })
}

/// Error: an output contains bytes that are not UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "an output is not UTF-8, which JSON can't hold; ask with application/x-erlang-binary over Protocol \
     Buffers"
)]
pub struct NotUtf8;

/// Appends an output as JSON.
///
/// # Errors
///
/// The output contains bytes that are not UTF-8. The bytes appended until then are incomplete JSON.
pub fn append_json(out: &mut Vec<u8>, datum: &Datum) -> Result<(), NotUtf8> {
    match datum {
        Datum::Term(term) => append_term(out, term),
        Datum::Key(input) => append_key(out, input),
        Datum::Object(found) => found.append_json(out),
    }
}

/// Appends bytes as a JSON string.
pub(crate) fn append_text(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), NotUtf8> {
    let text = std::str::from_utf8(bytes).map_err(|_| NotUtf8)?;
    // Writing to a vector does not fail.
    let _ = serde_json::to_writer(out, text);
    Ok(())
}

fn append_key(out: &mut Vec<u8>, input: &Input) -> Result<(), NotUtf8> {
    out.push(b'[');
    append_text(out, &input.bucket)?;
    out.push(b',');
    append_text(out, &input.key)?;
    match (&input.key_data, input.is_typed()) {
        (None, false) => {}
        (data, is_typed) => {
            out.push(b',');
            match data {
                Some(data) => append_term(out, data)?,
                None => out.extend_from_slice(b"null"),
            }
            if is_typed {
                out.push(b',');
                append_text(out, &input.bucket_type)?;
            }
        }
    }
    out.push(b']');
    Ok(())
}

fn append_term(out: &mut Vec<u8>, term: &Term) -> Result<(), NotUtf8> {
    match term {
        Term::Integer(integer) => {
            let _ = write!(out, "{integer}");
        }
        Term::BigInteger { .. } => {
            let _ = serde_json::to_writer(&mut *out, &crate::print_term(term));
        }
        Term::Float(float) => {
            // Infinity and NaN, which JSON does not have, become null.
            let _ = serde_json::to_writer(&mut *out, float);
        }
        Term::Atom(name) if [&b"true"[..], b"false", b"null"].contains(&&**name) => {
            out.extend_from_slice(name);
        }
        Term::Atom(name) if **name == *b"undefined" => out.extend_from_slice(b"null"),
        Term::Atom(bytes) | Term::Binary(bytes) => append_text(out, bytes)?,
        Term::Text(text) => append_list(out, text, |out, byte| {
            let _ = write!(out, "{byte}");
            Ok(())
        })?,
        Term::Tuple(parts) => return append_tuple(out, term, parts),
        Term::List(parts) => append_list(out, parts, append_term)?,
        Term::ImproperList(parts, tail) => {
            let all: Vec<&Term> = parts.iter().chain([&**tail]).collect();
            append_list(out, &all, |out, part| append_term(out, part))?;
        }
        Term::Map(pairs) => append_members(out, pairs.iter().map(|(name, value)| (name, value)))?,
    }
    Ok(())
}

fn append_list<T>(
    out: &mut Vec<u8>,
    parts: &[T],
    append: impl Fn(&mut Vec<u8>, &T) -> Result<(), NotUtf8>,
) -> Result<(), NotUtf8> {
    out.push(b'[');
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        append(out, part)?;
    }
    out.push(b']');
    Ok(())
}

/// Appends a tuple: as an object or a marker if it is one, else as a list, because JSON has no tuples.
fn append_tuple(out: &mut Vec<u8>, term: &Term, parts: &[Term]) -> Result<(), NotUtf8> {
    if let Some(pairs) = members(term) {
        let pairs = pairs.iter().filter_map(|pair| match pair {
            Term::Tuple(parts) => match parts.as_slice() {
                [name, value] => Some((name, value)),
                _ => None,
            },
            _ => None,
        });
        return append_members(out, pairs);
    }
    if let [tag, Term::Tuple(name), data] = parts
        && tag.is_atom(b"not_found")
        && let [bucket, key] = name.as_slice()
    {
        return append_marker(out, bucket, key, data);
    }
    append_list(out, parts, append_term)
}

fn append_members<'t>(
    out: &mut Vec<u8>,
    pairs: impl Iterator<Item = (&'t Term, &'t Term)>,
) -> Result<(), NotUtf8> {
    out.push(b'{');
    for (place, (name, value)) in pairs.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        match name {
            Term::Binary(bytes) | Term::Atom(bytes) | Term::Text(bytes) => append_text(out, bytes)?,
            other => append_text(out, crate::print_term(other).as_bytes())?,
        }
        out.push(b':');
        append_term(out, value)?;
    }
    out.push(b'}');
    Ok(())
}

/// Appends `{"not_found": {"bucket": ..., "key": ..., "keydata": ...}}`, with the bucket type if it is not
/// `default`.
fn append_marker(out: &mut Vec<u8>, bucket: &Term, key: &Term, data: &Term) -> Result<(), NotUtf8> {
    out.extend_from_slice(b"{\"not_found\":{");
    let typed = match bucket {
        Term::Tuple(parts) => parts.as_slice(),
        _ => &[],
    };
    let bucket = match typed {
        [bucket_type, bucket] => {
            out.extend_from_slice(b"\"bucket_type\":");
            append_term(out, bucket_type)?;
            out.push(b',');
            bucket
        }
        _ => bucket,
    };
    out.extend_from_slice(b"\"bucket\":");
    append_term(out, bucket)?;
    out.extend_from_slice(b",\"key\":");
    append_term(out, key)?;
    out.extend_from_slice(b",\"keydata\":");
    append_term(out, data)?;
    out.extend_from_slice(b"}}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::input::BucketName;
    use proptest::prelude::*;
    use serde_json::json;

    fn printed(datum: &Datum) -> Value {
        let mut out = Vec::new();
        append_json(&mut out, datum).expect("text");
        serde_json::from_slice(&out).expect("JSON")
    }

    #[test]
    fn keys_have_the_form_that_fits_what_they_carry() {
        let mut input = Input::new(BucketName::untyped("b"), "k".into());
        assert_eq!(printed(&Datum::Key(Box::new(input.clone()))), json!(["b", "k"]));
        input.key_data = Some(term_from_json(&json!({"x": 1})));
        assert_eq!(printed(&Datum::Key(Box::new(input.clone()))), json!(["b", "k", {"x": 1}]));
        let marker = json!({"not_found": {"bucket": "b", "key": "k", "keydata": {"x": 1}}});
        assert_eq!(printed(&Datum::Term(input.not_found())), marker);
        input.bucket_type = "t".into();
        assert_eq!(printed(&Datum::Key(Box::new(input.clone()))), json!(["b", "k", {"x": 1}, "t"]));
        input.key_data = None;
        assert_eq!(printed(&Datum::Key(Box::new(input.clone()))), json!(["b", "k", null, "t"]));
        let marker = printed(&Datum::Term(input.not_found()));
        assert_eq!(marker["not_found"]["bucket_type"], json!("t"));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let mut out = Vec::new();
        let datum = Datum::binary(Bytes::from_static(b"\xff"));
        assert_eq!(append_json(&mut out, &datum), Err(NotUtf8));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1_000_000..1_000_000i32).prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
            ".{0,8}".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_value_comes_back_from_its_term(value in value()) {
            prop_assert_eq!(printed(&Datum::Term(term_from_json(&value))), value);
        }
    }
}

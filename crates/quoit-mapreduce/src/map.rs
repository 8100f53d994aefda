//! Functions that map and link phases apply to one object.

use crate::DEPTH_MAX;
use crate::script::Script;
use crate::value::datum::Datum;
use crate::value::found::FoundObject;
use crate::value::input::Input;
use crate::value::json::{member, no_argument, term_from_json};
use bytes::Bytes;
use quoit_model::etf::{ETF_VERSION, Limits, Term};
use quoit_model::object::{Object, Sibling};
use std::sync::Arc;

/// Limits for parsing a value as a term.
const VALUE_LIMITS: Limits =
    Limits { depth_max: DEPTH_MAX, terms_max: 1_000_000, inflated_bytes_max: 64 << 20 };

/// Function of a map phase.
#[derive(Clone, PartialEq, Debug)]
pub enum MapFunction {
    /// Returns the object itself.
    Identity,
    /// Returns the object's value.
    ObjectValue(NotFoundPolicy),
    /// Returns the elements of the object's value, which must be a list.
    ObjectValueList(NotFoundPolicy),
    /// Calls a script with the object.
    Script(Script),
}

/// Outputs of a built-in map function for a missing object.
#[derive(Clone, PartialEq, Debug)]
pub enum NotFoundPolicy {
    /// The phase fails.
    Fail,
    /// No output.
    Nothing,
    /// A `not_found` marker that names the key.
    Marker,
    /// The key data of the input.
    KeyData,
    /// The given outputs.
    Outputs(Vec<Term>),
}

impl NotFoundPolicy {
    /// Reads the argument of a phase.
    #[must_use]
    pub fn of(argument: &Term) -> Self {
        let word = match argument {
            Term::Binary(word) | Term::Atom(word) | Term::Text(word) => Some(&**word),
            _ => None,
        };
        match (word, member(argument, b"sub"), argument) {
            (Some(b"filter_notfound"), ..) => Self::Nothing,
            (Some(b"include_notfound"), ..) => Self::Marker,
            (Some(b"include_keydata"), ..) => Self::KeyData,
            (_, Some(Term::List(outputs)), _) => Self::Outputs(outputs.clone()),
            (.., Term::Tuple(parts)) => match parts.as_slice() {
                [tag, Term::List(outputs)] if tag.is_atom(b"sub") => Self::Outputs(outputs.clone()),
                _ => Self::Fail,
            },
            _ => Self::Fail,
        }
    }

    /// Returns an argument that [`NotFoundPolicy::of`] reads as this value.
    pub(crate) fn to_argument(&self) -> Term {
        let word = |word: &'static str| Term::Binary(Bytes::from_static(word.as_bytes()));
        match self {
            Self::Fail => no_argument(),
            Self::Nothing => word("filter_notfound"),
            Self::Marker => word("include_notfound"),
            Self::KeyData => word("include_keydata"),
            Self::Outputs(outputs) => {
                let tag = Term::Atom(Bytes::from_static(b"sub"));
                Term::Tuple(vec![tag, Term::List(outputs.clone())])
            }
        }
    }

    fn outputs(&self, input: &Input) -> Result<Vec<Datum>, String> {
        Ok(match self {
            Self::Fail => return Err("notfound".into()),
            Self::Nothing => Vec::new(),
            Self::Marker => vec![Datum::Term(input.not_found())],
            Self::KeyData => {
                let undefined = || Term::Atom(Bytes::from_static(b"undefined"));
                vec![Datum::Term(input.key_data.clone().unwrap_or_else(undefined))]
            }
            Self::Outputs(outputs) => outputs.iter().cloned().map(Datum::Term).collect(),
        })
    }
}

impl MapFunction {
    /// True if the function needs the whole object. Otherwise the value is enough if the object has no
    /// siblings.
    #[must_use]
    pub const fn needs_object(&self) -> bool {
        matches!(self, Self::Identity | Self::Script(_))
    }

    /// Returns the outputs for one object, where `None` is a missing object. Scripts are not applied here,
    /// but by the script engine.
    ///
    /// # Errors
    ///
    /// Text of the error with which the phase fails.
    pub fn apply(&self, input: Input, object: Option<Object>) -> Result<Vec<Datum>, String> {
        match (self, object) {
            (Self::Identity, Some(object)) => {
                Ok(vec![Datum::Object(Arc::new(FoundObject { input, object }))])
            }
            (Self::Identity, None) => Ok(vec![Datum::Term(input.not_found())]),
            (Self::ObjectValue(missing) | Self::ObjectValueList(missing), None) => {
                missing.outputs(&input)
            }
            (Self::ObjectValue(_) | Self::ObjectValueList(_), Some(object)) => {
                let mut siblings = object.siblings;
                match (siblings.pop(), siblings.is_empty()) {
                    (Some(Sibling { value, .. }), true) => self.apply_to_value(value),
                    (None, _) => self.apply_to_value(Bytes::new()),
                    (Some(_), false) => Err(format!(
                        "badmatch: the object has {} siblings, and the function takes one value",
                        siblings.len() + 1
                    )),
                }
            }
            (Self::Script(_), _) => Err("a script is run by its engine".into()),
        }
    }

    /// Returns the outputs for the value of an object without siblings.
    ///
    /// # Errors
    ///
    /// Text of the error with which the phase fails.
    pub fn apply_to_value(&self, value: Bytes) -> Result<Vec<Datum>, String> {
        match self {
            Self::ObjectValueList(_) => elements(&value),
            _ => Ok(vec![Datum::binary(value)]),
        }
    }
}

/// Elements of a value that is a list, either as an external term or as JSON.
fn elements(value: &Bytes) -> Result<Vec<Datum>, String> {
    let term = match value.first() {
        Some(&ETF_VERSION) => {
            Term::decode(value, &VALUE_LIMITS).map_err(|fault| fault.to_string())?
        }
        _ => serde_json::from_slice(value).map(|value| term_from_json(&value)).map_err(|_| {
            "function_clause: the value is not a list, neither an external term nor JSON".to_owned()
        })?,
    };
    match term {
        Term::List(elements) => Ok(elements.into_iter().map(Datum::Term).collect()),
        Term::Text(text) => {
            Ok(text.iter().map(|byte| Datum::Term(Term::Integer((*byte).into()))).collect())
        }
        _ => Err("function_clause: the value is not a list".into()),
    }
}

/// The links that a link phase follows; `None` matches any bucket or tag.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkFilter<'a> {
    /// Bucket of the target.
    pub bucket: Option<&'a Bytes>,
    /// Tag of the link.
    pub tag: Option<&'a Bytes>,
}

/// Targets of an object's links that match. Each target has the link's tag as its key data.
#[must_use]
pub fn follow_links(object: Option<&Object>, followed: LinkFilter<'_>) -> Vec<Datum> {
    let LinkFilter { bucket, tag } = followed;
    let fits = |wanted: Option<&Bytes>, found: &Bytes| wanted.is_none_or(|wanted| wanted == found);
    let siblings = object.iter().flat_map(|object| &object.siblings);
    let links = siblings.flat_map(|sibling| &sibling.meta.links);
    let fitting = links.filter(|link| fits(bucket, &link.bucket) && fits(tag, &link.tag));
    let target = |parts: [&Bytes; 3]| {
        Datum::Term(Term::List(parts.map(|part| Term::Binary(part.clone())).into()))
    };
    fitting.map(|link| target([&link.bucket, &link.key, &link.tag])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::input::BucketName;
    use quoit_model::object::{Link, Metadata};
    use serde_json::json;

    fn input() -> Input {
        let key_data = Some(Term::Binary("data".into()));
        Input { key_data, ..Input::new(BucketName::untyped("b"), "k".into()) }
    }

    fn object(values: &[&'static str]) -> Object {
        let sibling =
            |value: &&'static str| Sibling { value: (*value).into(), ..Sibling::default() };
        Object { siblings: values.iter().map(sibling).collect(), ..Object::default() }
    }

    fn when_missing(argument: serde_json::Value) -> Result<Vec<Datum>, String> {
        let argument = term_from_json(&argument);
        MapFunction::ObjectValue(NotFoundPolicy::of(&argument)).apply(input(), None)
    }

    #[test]
    fn a_missing_object_fails_the_phase_unless_the_argument_says_otherwise() {
        for argument in [json!(null), json!("other"), json!({"sub": 1})] {
            assert_eq!(when_missing(argument), Err("notfound".into()));
        }
        assert_eq!(when_missing(json!("filter_notfound")), Ok(vec![]));
        assert_eq!(when_missing(json!("include_keydata")), Ok(vec![Datum::binary("data".into())]));
        let marker = Datum::Term(input().not_found());
        assert_eq!(when_missing(json!("include_notfound")), Ok(vec![marker]));
        assert_eq!(when_missing(json!({"sub": ["x"]})), Ok(vec![Datum::binary("x".into())]));
    }

    #[test]
    fn siblings_fail_what_takes_one_value() {
        let function = MapFunction::ObjectValue(NotFoundPolicy::Nothing);
        assert_eq!(
            function.apply(input(), Some(object(&["1"]))),
            Ok(vec![Datum::binary("1".into())])
        );
        assert!(function.apply(input(), Some(object(&["1", "2"]))).is_err());
        assert_eq!(function.apply(input(), Some(object(&[]))), Ok(vec![Datum::binary("".into())]));
    }

    #[test]
    fn a_list_is_an_external_term_or_json() {
        let function = MapFunction::ObjectValueList(NotFoundPolicy::Fail);
        let one = Ok(vec![Datum::Term(Term::Integer(1)), Datum::binary("a".into())]);
        assert_eq!(function.apply_to_value("[1,\"a\"]".into()), one);
        let term = b"\x83l\x00\x00\x00\x02a\x01m\x00\x00\x00\x01aj";
        assert_eq!(function.apply_to_value(Bytes::from_static(term)), one);
        for bad in ["{}", "x", "\u{83}"] {
            assert!(function.apply_to_value(bad.into()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_link_phase_gives_the_targets_that_fit() {
        let link =
            |tag: &'static str| Link { bucket: "b".into(), key: "x".into(), tag: tag.into() };
        let meta = Metadata { links: vec![link("friend"), link("foe")], ..Metadata::default() };
        let mut linked = object(&["v"]);
        linked.siblings[0].meta = meta;
        let friend = Datum::Term(term_from_json(&json!(["b", "x", "friend"])));
        let (tag, bucket) = (Bytes::from("friend"), Bytes::from("other"));
        let of_tag = LinkFilter { bucket: None, tag: Some(&tag) };
        assert_eq!(follow_links(Some(&linked), of_tag), [friend]);
        let of_bucket = LinkFilter { bucket: Some(&bucket), tag: None };
        assert_eq!(follow_links(Some(&linked), of_bucket), []);
        assert_eq!(follow_links(None, LinkFilter::default()), []);
    }
}

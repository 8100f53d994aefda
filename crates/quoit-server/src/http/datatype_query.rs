//! Queries for parts of data types, in query strings: an extension of Riak's interface.

use super::uri;
use crate::data_types::{place_of, read_field_name};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use quoit_model::data_type::{FieldName, Query, Question};

/// Parses `size=true`, `contains=ELEMENT`, `field=NAME_TYPE`, or `page_size=N` with an optional
/// `cursor=...`, and an `in=NAME_TYPE` for each enclosing map field, from the outermost on. `None` if there
/// is no such parameter: the request is for the whole value.
pub(super) fn parse_part_query(query: &[u8]) -> Result<Option<Question>, String> {
    let steps = uri::query_pairs(query).filter(|(name, _)| **name == *b"in");
    let path: Vec<FieldName> =
        steps.map(|(_, text)| named_field("in", &text)).collect::<Result<_, _>>()?;
    match part_query(query)? {
        Some(query) => Ok(Some(Question { path, query })),
        None if path.is_empty() => Ok(None),
        None => {
            Err("in query parameter needs one of size, contains, field and page_size beside it\n"
                .to_owned())
        }
    }
}

/// A parameter of the query, and the form that it must have.
struct QueryParameter {
    name: &'static str,
    expected: &'static str,
}

const SIZE: QueryParameter = QueryParameter { name: "size", expected: "true" };
const PAGE_SIZE: QueryParameter =
    QueryParameter { name: "page_size", expected: "a whole number from 1 on" };
const CURSOR: QueryParameter =
    QueryParameter { name: "cursor", expected: "that of the answer with the page before" };

impl QueryParameter {
    fn wrong(&self, text: &[u8]) -> String {
        let Self { name, expected } = self;
        let text = String::from_utf8_lossy(text);
        format!("{name} query parameter must be {expected}, {text} is invalid\n")
    }
}

fn named_field(parameter: &'static str, text: &[u8]) -> Result<FieldName, String> {
    let name = std::str::from_utf8(text).ok().and_then(read_field_name);
    let expected = "a name, an underscore and one of counter, set, register, flag, map";
    name.ok_or_else(|| QueryParameter { name: parameter, expected }.wrong(text))
}

fn part_query(query: &[u8]) -> Result<Option<Query>, String> {
    let value = |name| uri::query_value(query, name);
    let size = value("size").map(|text| match &*text {
        b"true" => Ok(Query::Size),
        _ => Err(SIZE.wrong(&text)),
    });
    let contains = value("contains").map(|element| Ok(Query::Contains(element.to_vec().into())));
    let field = value("field").map(|text| named_field("field", &text).map(Query::Field));
    let page = match (value("page_size"), value("cursor")) {
        (None, None) => None,
        (None, Some(_)) => Some(Err("cursor query parameter needs page_size beside it\n".into())),
        (Some(page_size), cursor) => Some(page_of(&page_size, cursor.as_deref())),
    };
    let mut asked = [size, contains, field, page].into_iter().flatten();
    match (asked.next(), asked.next()) {
        (first, None) => first.transpose(),
        (_, Some(_)) => {
            Err("ask for one of size, contains, field and page_size at a time\n".to_owned())
        }
    }
}

fn page_of(page_size: &[u8], cursor: Option<&[u8]>) -> Result<Query, String> {
    let count = std::str::from_utf8(page_size).ok().and_then(|text| text.parse::<u32>().ok());
    let count = count.filter(|count| *count > 0);
    let count = count.ok_or_else(|| PAGE_SIZE.wrong(page_size))?;
    let place = |cursor: &[u8]| place_of(&URL_SAFE_NO_PAD.decode(cursor).ok()?);
    let from = cursor.map_or(Some(0), place);
    let from = from.ok_or_else(|| CURSOR.wrong(cursor.unwrap_or_default()))?;
    Ok(Query::Page { from, count: count as usize })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_types::cursor_of;
    use quoit_model::data_type::{FieldKind, FieldName};

    #[test]
    fn one_question_is_read_and_anything_else_is_said() {
        let read = |query: &str| {
            let question = parse_part_query(query.as_bytes())?;
            assert!(question.iter().all(|question| question.path.is_empty()));
            Ok::<_, String>(question.map(|question| question.query))
        };
        assert_eq!(read("r=2&timeout=7"), Ok(None));
        assert_eq!(read("size=true&r=2"), Ok(Some(Query::Size)));
        assert_eq!(read("contains=a%20b"), Ok(Some(Query::Contains("a b".into()))));
        let field = FieldName::new("page_visits", FieldKind::Counter);
        assert_eq!(read("field=page_visits_counter"), Ok(Some(Query::Field(field))));
        let page = |from, count| Ok(Some(Query::Page { from, count }));
        assert_eq!(read("page_size=10"), page(0, 10));
        let cursor = URL_SAFE_NO_PAD.encode(cursor_of(77));
        assert_eq!(read(&format!("page_size=10&cursor={cursor}")), page(77, 10));
        for query in [
            "size=1",
            "field=visits",
            "field=x_gset",
            "page_size=0",
            "page_size=x",
            "page_size=99999999999",
            "cursor=AA",
            "page_size=1&cursor=garbage!",
            "size=true&contains=x",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }

    #[test]
    fn what_is_asked_about_is_named_from_the_outside() {
        let read = |query: &str| parse_part_query(query.as_bytes());
        let path = vec![
            FieldName::new("my profile", FieldKind::Map),
            FieldName::new("tags", FieldKind::Set),
        ];
        let asked = read("in=my%20profile_map&r=1&in=tags_set&contains=x");
        assert_eq!(asked, Ok(Some(Question { path, query: Query::Contains("x".into()) })));
        for query in ["in=tags_set", "in=tags&size=true", "in=x_gset&size=true", "in=&size=true"] {
            assert!(read(query).is_err(), "{query}");
        }
    }
}

use super::*;
use crate::value::json::term_from_json;
use proptest::prelude::*;
use quoit_model::key_bounds::KeyBounds;
use serde_json::{Value, json};

fn filter(steps: Value) -> Result<KeyFilter, FilterFault> {
    KeyFilter::from_term(&term_from_json(&steps))
}

fn accepts(steps: Value, key: &'static str) -> bool {
    filter(steps).expect("a filter").accepts(&key.into()).expect("it applies")
}

#[test]
fn keys_are_taken_apart_and_compared_as_numbers() {
    let above = |bound: Value| json!([["tokenize", "-", 2], ["string_to_int"], bound]);
    assert!(accepts(above(json!(["greater_than", 9])), "user-10"));
    assert!(!accepts(above(json!(["greater_than", 9])), "user-9"));
    assert!(accepts(above(json!(["between", 7, 9])), "admin--7"));
    assert!(!accepts(above(json!(["between", 7, 9, false])), "user-9"));
    assert!(accepts(above(json!(["less_than_eq", 9.0])), "user-9"));
    assert!(accepts(json!([["string_to_float"], ["less_than", 2]]), "1.5"));
}

#[test]
fn text_is_compared_as_text_whatever_it_was_changed_by() {
    assert!(accepts(json!([["to_lower"], ["eq", "guest"]]), "Guest"));
    assert!(accepts(json!([["urldecode"], ["eq", "a b"]]), "a%20b"));
    assert!(accepts(json!([["to_upper"], ["neq", "guest"]]), "guest"));
    assert!(accepts(json!([["set_member", "a", "b"]]), "b"));
    assert!(!accepts(json!([["string_to_int"], ["eq", "1"]]), "1"), "types are told apart");
    assert!(accepts(json!([["less_than", "b"]]), "a"));
    assert!(accepts(json!([["greater_than", 1_000]]), "a"), "text is above numbers");
}

#[test]
fn text_is_looked_into() {
    assert!(accepts(json!([["starts_with", "us"]]), "user"));
    assert!(accepts(json!([["ends_with", "er"]]), "user"));
    assert!(accepts(json!([["matches", "^u.e"]]), "user"));
    assert!(accepts(json!([["similar_to", "guest", 1]]), "Guest"));
    assert!(!accepts(json!([["similar_to", "guest", 0]]), "Guest"));
    assert!(accepts(json!([["string_to_int"], ["int_to_string"], ["eq", "7"]]), "007"));
}

#[test]
fn filters_of_filters_have_the_key_as_it_is_there() {
    let user = json!([["starts_with", "user"]]);
    let nine = json!([["ends_with", "9"]]);
    assert!(accepts(json!([["and", user, nine]]), "user-9"));
    assert!(!accepts(json!([["and", user, nine]]), "user-8"));
    assert!(accepts(json!([["or", user, nine]]), "x-9"));
    assert!(accepts(json!([["not", user]]), "x-9"));
    assert!(accepts(json!([["to_lower"], ["not", [["eq", "USER"]]]]), "USER"));
}

#[test]
fn what_is_no_filter_is_named() {
    let fault = filter(json!([["resembles", "x"]])).expect_err("no filter");
    assert_eq!(fault.to_string(), "{bad_filter,<<\"resembles\">>}");
    for bad in [
        json!([["tokenize", "-", 0]]),
        json!([["tokenize", "-"]]),
        json!([["matches", "("]]),
        json!([["matches", "(?=a)"]]),
        json!([["similar_to", "x", -1]]),
        json!([["similar_to", "x".repeat(2000), 1]]),
        json!([["between", 1]]),
        json!([["to_lower", 1]]),
        json!([["eq"]]),
        json!(["eq", "x"]),
        json!([[]]),
        json!({"eq": "x"}),
    ] {
        assert!(filter(bad.clone()).is_err(), "{bad}");
    }
    let mut deep = json!([["eq", "x"]]);
    for _ in 0..40 {
        deep = json!([["not", deep]]);
    }
    assert_eq!(filter(deep), Err(FilterFault::TooLarge));
}

#[test]
fn keys_that_do_not_fit_are_named_with_the_step() {
    let fault = |steps: Value| {
        let filter = filter(steps).expect("a filter");
        filter.accepts(&"user".into()).expect_err("it does not fit").to_string()
    };
    let text = fault(json!([["to_upper"], ["string_to_int"], ["eq", 1]]));
    assert!(text.contains("string_to_int") && text.contains("USER") && text.contains("\"user\""));
    assert!(fault(json!([["tokenize", "-", 2], ["eq", "x"]])).contains("tokenize"));
    assert!(fault(json!([["to_upper"]])).contains("predicate"));
    assert!(fault(json!([])).contains("predicate"));
}

proptest! {
    #[test]
    fn between_is_both_comparisons(number: i64, low: i64, high: i64) {
        let of = |step: Value| {
            let filter = filter(json!([["string_to_int"], step])).expect("a filter");
            filter.accepts(&number.to_string().into()).expect("a number")
        };
        let both = of(json!(["greater_than_eq", low])) && of(json!(["less_than_eq", high]));
        prop_assert_eq!(of(json!(["between", low, high])), both);
        let strictly = of(json!(["greater_than", low])) && of(json!(["less_than", high]));
        prop_assert_eq!(of(json!(["between", low, high, false])), strictly);
    }
}

/// Filters of one or two steps, and combinations of such filters.
fn any_filter() -> impl Strategy<Value = Value> {
    let text = || "[ab]{0,2}";
    let one = prop_oneof![
        text().prop_map(|text| json!([["starts_with", text]])),
        text().prop_map(|text| json!([["ends_with", text]])),
        text().prop_map(|text| json!([["eq", text]])),
        text().prop_map(|text| json!([["neq", text]])),
        (text(), text(), any::<bool>()).prop_map(|(low, high, is_inclusive)| {
            json!([["between", low, high, is_inclusive]])
        }),
        ("(greater|less)_than(_eq)?", text()).prop_map(|(name, text)| json!([[name, text]])),
        Just(json!([["less_than", 7]])),
        Just(json!([["string_to_int"], ["less_than", 7]])),
        text().prop_map(|text| json!([["to_upper"], ["eq", text]])),
        text().prop_map(|text| json!([["starts_with", text], ["eq", true]])),
    ];
    one.prop_recursive(2, 12, 3, |inner| {
        ("and|or|not", prop::collection::vec(inner, 1..3))
            .prop_map(|(name, filters)| json!([[Value::from(name), filters[0], filters.last()]]))
    })
}

proptest! {
    #[test]
    fn bounds_of_a_filter_have_all_keys_that_it_does_not_reject(
        steps in any_filter(),
        key in "[abA7]{0,3}",
    ) {
        let filter = filter(steps).expect("a filter");
        let key = Bytes::from(key);
        prop_assert!(filter.bounds().has(&key) || filter.accepts(&key) == Ok(false));
    }
}

#[test]
fn a_filter_with_a_prefix_has_its_bounds() {
    let of = |steps| filter(steps).expect("a filter").bounds();
    let prefix = KeyBounds::of_prefix("user-".into());
    let starts = json!([["starts_with", "user-"]]);
    assert_eq!(of(starts.clone()), prefix);
    assert_eq!(of(json!([["and", starts, [["matches", "9$"]]]])), prefix);
    assert_eq!(of(json!([["and", starts, [["string_to_int"]]]])), KeyBounds::ALL, "it may fail");
    assert_eq!(of(json!([["between", "a", "b"]])), KeyBounds::between("a".into(), b"b"));
}

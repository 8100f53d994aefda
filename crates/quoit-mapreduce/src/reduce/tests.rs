use super::*;
use crate::value::json::term_from_json;
use crate::{BucketName, Input};
use proptest::prelude::*;
use serde_json::{Value, json};

fn reduce(function: ReduceFunction, inputs: Value) -> Result<Value, String> {
    let mut reducer = Reducer::of(&function).expect("no script");
    let mut outputs = Vec::new();
    for input in inputs.as_array().expect("a list") {
        outputs.extend(reducer.push(Datum::Term(term_from_json(input)))?);
    }
    outputs.extend(reducer.finish());
    assert_eq!(reducer.held_bytes(), 0);
    let json = |datum: &Datum| {
        let mut out = Vec::new();
        crate::append_json(&mut out, datum).expect("text");
        serde_json::from_slice::<Value>(&out).expect("JSON")
    };
    Ok(outputs.iter().map(json).collect())
}

#[test]
fn without_inputs_there_are_the_results_that_clients_count_on() {
    for (function, expected) in [
        (ReduceFunction::Sum, json!([0])),
        (ReduceFunction::CountInputs, json!([0])),
        (ReduceFunction::Sort, json!([])),
        (ReduceFunction::SetUnion, json!([])),
        (ReduceFunction::PlistSum, json!([])),
        (ReduceFunction::Identity, json!([])),
        (ReduceFunction::StringToInteger, json!([])),
    ] {
        assert_eq!(reduce(function.clone(), json!([])), Ok(expected), "{function:?}");
    }
}

#[test]
fn numbers_are_added_and_everything_else_is_refused_by_name() {
    assert_eq!(reduce(ReduceFunction::Sum, json!([1, 2, 30])), Ok(json!([33])));
    assert_eq!(reduce(ReduceFunction::Sum, json!([1, 0.5])), Ok(json!([1.5])));
    let fault = reduce(ReduceFunction::Sum, json!([1, "2"])).expect_err("text");
    assert!(fault.contains("<<\"2\">>"), "{fault}");
    let mut sum = Reducer::of(&ReduceFunction::Sum).expect("no script");
    let huge = || Datum::Term(Term::Integer(i128::MAX));
    sum.push(huge()).expect("it fits");
    assert!(sum.push(huge()).is_err());
}

#[test]
fn markers_of_missing_objects_are_passed_over() {
    let marker = Input::new(BucketName::untyped("b"), "k".into()).not_found();
    for function in [ReduceFunction::Sum, ReduceFunction::StringToInteger] {
        let mut reducer = Reducer::of(&function).expect("no script");
        assert_eq!(reducer.push(Datum::Term(marker.clone())), Ok(None));
    }
}

#[test]
fn integers_are_partial_counts() {
    assert_eq!(reduce(ReduceFunction::CountInputs, json!(["a", [1], 10])), Ok(json!([12])));
}

#[test]
fn a_set_has_each_input_once_and_tells_types_apart() {
    let set = reduce(ReduceFunction::SetUnion, json!(["b", "a", "b", 1, 1.0, [1], [1]]));
    assert_eq!(set, Ok(json!([1, 1.0, [1], "a", "b"])));
    let set = reduce(ReduceFunction::SetUnion, json!([[1.0], [1], [[1.0]], [[1]], [1.0]]));
    assert_eq!(set, Ok(json!([[1], [1.0], [[1]], [[1.0]]])), "at each level");
}

#[test]
fn sums_go_by_name() {
    let sums = reduce(ReduceFunction::PlistSum, json!([["a", 1], [["b", 2], ["a", 3]], {"c": 4}]));
    assert_eq!(sums, Ok(json!([["a", 4], ["b", 2], ["c", 4]])));
    assert!(reduce(ReduceFunction::PlistSum, json!(["a"])).is_err());
}

#[test]
fn keys_lose_their_data_and_nothing_else_is_a_key() {
    let keys = reduce(ReduceFunction::Identity, json!([["b", "k", 1], ["b", "l"]]));
    assert_eq!(keys, Ok(json!([["b", "k"], ["b", "l"]])));
    assert!(reduce(ReduceFunction::Identity, json!([1])).is_err());
}

#[test]
fn decimal_text_becomes_numbers() {
    let numbers = reduce(ReduceFunction::StringToInteger, json!(["1", "-2", 3, "+4"]));
    assert_eq!(numbers, Ok(json!([1, -2, 3, 4])));
    for bad in ["", "x", "1.5", " 1"] {
        assert!(reduce(ReduceFunction::StringToInteger, json!([bad])).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn sorting_sorts(numbers: Vec<i64>, texts in prop::collection::vec(".{0,4}", 0..8)) {
        let inputs: Vec<Value> =
            texts.iter().cloned().map(Value::from).chain(numbers.iter().copied().map(Value::from)).collect();
        let (mut numbers, mut texts) = (numbers, texts);
        numbers.sort_unstable();
        texts.sort_unstable();
        let expected: Vec<Value> =
            numbers.into_iter().map(Value::from).chain(texts.into_iter().map(Value::from)).collect();
        prop_assert_eq!(reduce(ReduceFunction::Sort, Value::from(inputs)), Ok(Value::from(expected)));
    }
}

proptest! {
    #[test]
    fn parts_that_are_reduced_first_give_the_same_result(
        numbers in proptest::collection::vec(0..1_000i64, 0..60), cut in 1..20usize,
    ) {
        let texts: Vec<Value> = numbers.iter().map(|number| json!(number.to_string())).collect();
        let pairs: Vec<Value> = numbers.iter().map(|number| json!([number % 7, number])).collect();
        let numbers: Vec<Value> = numbers.iter().map(|number| json!(number)).collect();
        for (function, inputs) in [
            (ReduceFunction::Sum, numbers.clone()),
            (ReduceFunction::Sort, numbers),
            (ReduceFunction::SetUnion, texts.clone()),
            (ReduceFunction::CountInputs, texts.clone()),
            (ReduceFunction::StringToInteger, texts),
            (ReduceFunction::PlistSum, pairs),
        ] {
            let data = |inputs: &[Value]| -> Vec<Datum> {
                inputs.iter().map(|input| Datum::Term(term_from_json(input))).collect()
            };
            let reduced = |inputs: Vec<Datum>| {
                let mut reduction = function.begin().expect("no script");
                for input in inputs {
                    let pushed = match &input {
                        Datum::Term(Term::Binary(bytes)) => reduction.push_binary(bytes),
                        _ => reduction.push(input),
                    };
                    pushed.expect("it is reduced");
                }
                reduction.finish()
            };
            let parts = inputs.chunks(cut).flat_map(|part| reduced(data(part))).collect();
            prop_assert_eq!(reduced(parts), reduced(data(&inputs)), "{:?}", function);
        }
    }
}

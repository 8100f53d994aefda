//! Quorums, from the request's parameter to the number of replicas.

use super::*;
use crate::props::{DeleteParams, NValViolation, Quorum, ReadParams, WriteParams, WriteQuorums};
use proptest::prelude::*;
use serde_json::json;

#[test]
fn words_stand_for_numbers_of_replicas() {
    let resolved = |n_val| [Quorum::One, Quorum::Quorum, Quorum::All].map(|q| q.resolve(n_val));
    assert_eq!(resolved(1), [1, 1, 1]);
    assert_eq!(resolved(2), [1, 2, 2]);
    assert_eq!(resolved(3), [1, 2, 3]);
    assert_eq!(resolved(5), [1, 3, 5]);
    assert_eq!(Quorum::Count(7).resolve(3), 7);
}

#[test]
fn pb_numbers_are_those_of_the_protocol() {
    assert_eq!(Quorum::from_pb(4_294_967_294), Some(Quorum::One));
    assert_eq!(Quorum::from_pb(4_294_967_293), Some(Quorum::Quorum));
    assert_eq!(Quorum::from_pb(4_294_967_292), Some(Quorum::All));
    assert_eq!(Quorum::from_pb(4_294_967_291), None);
    assert_eq!(Quorum::from_pb(4_294_967_295), Some(Quorum::Count(u32::MAX)));
    assert_eq!(Quorum::from_pb(0), Some(Quorum::Count(0)));
    for quorum in [Quorum::One, Quorum::Quorum, Quorum::All, Quorum::Count(2)] {
        assert_eq!(Quorum::from_pb(quorum.to_pb()), Some(quorum));
        assert_eq!(Quorum::from_json(&quorum.to_json()), Some(quorum));
        assert_eq!(quorum.to_string().parse(), Ok(quorum));
    }
}

#[test]
fn default_is_no_value_of_a_property() {
    let given = Quorum::prop_value_from_pb(4_294_967_291);
    let refused = refusal(&BucketProps::untyped(), Scope::UntypedBucket, json!({"r": given}));
    assert_eq!(refused, "[{r,not_valid_quorum}]");
}

#[test]
fn text_that_is_no_quorum_is_named() {
    let error = "most".parse::<Quorum>().unwrap_err();
    assert!(error.to_string().contains("\"most\""), "{error}");
    for text in ["", "+", "-1", "++2", "+-2", " 2", "1.5", "ONE", "4294967296"] {
        assert!(text.parse::<Quorum>().is_err(), "{text:?}");
    }
}

#[test]
fn the_number_of_a_text_may_have_a_plus_sign() {
    for text in ["2", "+2", "+02"] {
        assert_eq!(text.parse(), Ok(Quorum::Count(2)), "{text:?}");
    }
}

#[test]
fn quorum_above_n_val_fails_the_request_and_not_the_update() {
    let props = accepted(&BucketProps::untyped(), Scope::UntypedBucket, json!({"r": 7}));
    let error = props.read_quorums(&ReadParams::default()).unwrap_err();
    assert_eq!(error.to_string(), "{n_val_violation,3}");
    let two = ReadParams { r: Some(Quorum::Count(2)), ..ReadParams::default() };
    assert_eq!(props.read_quorums(&two).unwrap().r, 2);
    assert!(props.write_quorums(&WriteParams::default()).is_ok());
}

#[test]
fn fewer_replicas_of_a_request_count_for_its_words() {
    let props = BucketProps::untyped();
    let one = ReadParams { n_val: Some(1), ..ReadParams::default() };
    assert_eq!(props.read_quorums(&one).unwrap().r, 1);
    let zero = Some(Quorum::Count(0));
    for bad in [0, 4] {
        let params = WriteParams { n_val: Some(bad), w: zero, dw: zero, ..WriteParams::default() };
        assert_eq!(props.write_quorums(&params), Err(NValViolation { n_val: bad }));
    }
}

#[test]
fn durable_quorum_of_zero_is_honoured() {
    let params = WriteParams { dw: Some(Quorum::Count(0)), ..WriteParams::default() };
    let quorums = BucketProps::untyped().write_quorums(&params).unwrap();
    let expected = WriteQuorums { n_val: 3, w: 2, dw: 0, pw: 0, node_confirms: 0 };
    assert_eq!(quorums, expected);
}

#[test]
fn node_confirms_above_n_val_fails_writes_and_is_left_to_reads() {
    let props = BucketProps::untyped();
    let four = Some(Quorum::Count(4));
    let write = WriteParams { node_confirms: four, ..WriteParams::default() };
    assert_eq!(props.write_quorums(&write), Err(NValViolation { n_val: 3 }));
    let read = ReadParams { node_confirms: four, ..ReadParams::default() };
    assert_eq!(props.read_quorums(&read).unwrap().node_confirms, 4);
}

#[test]
fn delete_uses_rw_for_the_halves_that_are_not_given() {
    let object = json!({"n_val": 5, "rw": 4, "r": 2, "w": 3});
    let props = accepted(&BucketProps::untyped(), Scope::UntypedBucket, object);
    let halves = |params: DeleteParams| {
        let quorums = props.delete_quorums(&params).unwrap();
        (quorums.read.r, quorums.write.w)
    };
    let count = |count| Some(Quorum::Count(count));
    assert_eq!(halves(DeleteParams::default()), (4, 4));
    assert_eq!(halves(DeleteParams { rw: count(1), ..DeleteParams::default() }), (1, 1));
    assert_eq!(halves(DeleteParams { r: count(5), ..DeleteParams::default() }), (5, 4));
    assert_eq!(halves(DeleteParams { w: count(5), ..DeleteParams::default() }), (2, 5));
}

fn any_quorum() -> impl Strategy<Value = Quorum> {
    prop_oneof![
        Just(Quorum::One),
        Just(Quorum::Quorum),
        Just(Quorum::All),
        (0u32..8).prop_map(Quorum::Count),
    ]
}

proptest! {
    #[test]
    fn effective_quorum_is_parameter_else_property(
        parameter in proptest::option::of(any_quorum()),
        property in any_quorum(),
        n_val in 1u32..8,
    ) {
        let stated = parameter.unwrap_or(property);
        let number = match stated {
            Quorum::One => 1,
            Quorum::Quorum => (f64::from(n_val) / 2.0).floor() as u32 + 1,
            Quorum::All => n_val,
            Quorum::Count(count) => count,
        };
        let expected = if number <= n_val { Ok(number) } else { Err(NValViolation { n_val }) };
        prop_assert_eq!(Quorum::effective(parameter, property, n_val), expected);
    }
}

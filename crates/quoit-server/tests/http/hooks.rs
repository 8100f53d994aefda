//! Buckets with a pre-commit hook that the server can't run: it refuses all writes to them.

use crate::binary::Binary;
use crate::fixture::{Answer, Node};
use bytes::Bytes;
use quoit_wire::messages::{
    CounterOp, DtOp, DtUpdateReq, GSetOp, HllOp, MapField, MapFieldType, MapOp, MapUpdate,
    RpbContent, RpbCounterUpdateReq, RpbDelReq, RpbDelResp, RpbPutReq, RpbPutResp, SetOp,
};
use serde_json::{Value, json};

/// The error over Protocol Buffers.
const TERM: &str = "{precommit_fail,{hook_crashed,{my_module,my_function,error,undef}}}";

fn set_props(node: &Node, bucket: &str, props: &Value) {
    let document = json!({ "props": props }).to_string();
    assert_eq!(node.send_json("PUT", &format!("{bucket}/props"), &document).status, 204);
}

fn hooks() -> Value {
    json!([{"mod": "my_module", "fun": "my_function"}])
}

/// Checks an answer over HTTP.
fn check_refused(answer: &Answer) {
    let text = answer.text();
    assert_eq!(answer.status, 500, "{text}");
    assert!(text.contains("my_module") && text.contains("my_function"), "{text}");
    assert!(text.contains("take the hook out of the property precommit"), "{text}");
}

fn put_of(key: Option<&'static str>) -> RpbPutReq {
    RpbPutReq {
        bucket: "b".into(),
        key: key.map(Bytes::from),
        content: RpbContent { value: "two".into(), ..RpbContent::default() },
        ..RpbPutReq::default()
    }
}

#[test]
fn puts_and_deletes_are_refused_over_both_protocols_until_the_hook_is_taken_out() {
    let node = Node::start();
    let mut client = Binary::connect(&node);
    node.put("/buckets/b/keys/there", "one");
    set_props(&node, "/buckets/b", &json!({"precommit": hooks()}));
    let delete = |key: &'static str| RpbDelReq {
        bucket: "b".into(),
        key: key.into(),
        ..RpbDelReq::default()
    };
    for key in [Some("there"), Some("new"), None] {
        assert_eq!(client.refusal(&put_of(key)), TERM, "{key:?}");
    }
    assert_eq!(client.refusal(&delete("there")), TERM);
    client.ask::<RpbDelResp>(&delete("new"));

    check_refused(&node.put("/buckets/b/keys/there", "two"));
    check_refused(&node.put("/buckets/b/keys/new", "two"));
    let plain = [("Content-Type", "text/plain")];
    check_refused(&node.connect().request("POST", "/buckets/b/keys", &plain, b"two"));
    let delete =
        |key: &str| node.connect().request("DELETE", &format!("/buckets/b/keys/{key}"), &[], b"");
    check_refused(&delete("there"));
    assert_eq!(delete("new").status, 404, "there is nothing to delete");

    assert_eq!(node.get("/buckets/b/keys/there").text(), "one");
    assert_eq!(node.get("/buckets/b/keys?keys=true").json()["keys"], json!(["there"]));
    set_props(&node, "/buckets/b", &json!({"precommit": []}));
    client.ask::<RpbPutResp>(&put_of(Some("there")));
    assert_eq!(node.get("/buckets/b/keys/there").text(), "two");
    assert_eq!(delete("there").status, 204);
}

/// An operation of each data type, as JSON and as a message.
fn operations() -> [(&'static str, &'static str, DtOp); 5] {
    let elements = || vec![Bytes::from_static(b"element")];
    let counter_op = || Some(CounterOp { increment: Some(1) });
    let set_op = Some(SetOp { adds: elements(), ..SetOp::default() });
    let gset_op = Some(GSetOp { adds: elements() });
    let hll_op = Some(HllOp { adds: elements() });
    let field = MapField { name: "visits".into(), kind: MapFieldType::Counter as i32 };
    let count = MapUpdate { field, counter_op: counter_op(), ..MapUpdate::default() };
    let map_op = Some(MapOp { updates: vec![count], ..MapOp::default() });
    let add = "{\"add\":\"element\"}";
    [
        ("counter", "{\"increment\":1}", DtOp { counter_op: counter_op(), ..DtOp::default() }),
        ("set", add, DtOp { set_op, ..DtOp::default() }),
        ("gset", add, DtOp { gset_op, ..DtOp::default() }),
        ("hll", add, DtOp { hll_op, ..DtOp::default() }),
        ("map", "{\"update\":{\"visits_counter\":1}}", DtOp { map_op, ..DtOp::default() }),
    ]
}

#[test]
fn updates_of_every_data_type_are_refused_over_both_protocols() {
    let node = Node::start();
    let mut client = Binary::connect(&node);
    for (datatype, document, op) in operations() {
        node.make_type(datatype, &json!({ "datatype": datatype }).to_string());
        let bucket = format!("/types/{datatype}/buckets/b");
        let post =
            |key: &str| node.send_json("POST", &format!("{bucket}/datatypes{key}"), document);
        let get = |key: &str| node.get(&format!("{bucket}/datatypes{key}"));
        assert_eq!(post("/there").status, 204, "{datatype}");
        let before = get("/there").json();
        set_props(&node, &bucket, &json!({"precommit": hooks()}));
        for key in [Some("there"), Some("new"), None] {
            let update = DtUpdateReq {
                bucket_type: datatype.into(),
                bucket: "b".into(),
                key: key.map(Bytes::from),
                op: op.clone(),
                ..DtUpdateReq::default()
            };
            assert_eq!(client.refusal(&update), TERM, "{datatype}, {key:?}");
        }
        for key in ["/there", "/new", ""] {
            check_refused(&post(key));
        }
        assert_eq!(get("/there").json(), before);
        assert_eq!(get("/new").status, 404, "{datatype}");
    }
}

#[test]
fn updates_of_counters_of_riak_1_4_are_refused_over_both_protocols() {
    let node = Node::start();
    set_props(&node, "/buckets/b", &json!({"allow_mult": true, "precommit": hooks()}));
    let update = RpbCounterUpdateReq {
        bucket: "b".into(),
        key: "k".into(),
        amount: 1,
        ..RpbCounterUpdateReq::default()
    };
    assert_eq!(Binary::connect(&node).refusal(&update), TERM);
    check_refused(&node.connect().request("POST", "/buckets/b/counters/k", &[], b"1"));
    assert_eq!(node.get("/buckets/b/counters/k").status, 404);
}

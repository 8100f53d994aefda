//! Data types, and the counters of Riak 1.4.

use crate::fixture::Node;
use serde_json::json;

const SET: &str = "/types/sets/buckets/b/datatypes/k";

fn node_with_types() -> Node {
    let node = Node::start();
    node.make_type("sets", "{\"datatype\":\"set\"}");
    node.make_type("counters", "{\"datatype\":\"counter\"}");
    node
}

#[test]
fn a_set_is_changed_and_shown() {
    let node = node_with_types();
    let missing = node.get(SET);
    assert_eq!(
        (missing.status, missing.json()),
        (404, json!({"type": "set", "error": "notfound"}))
    );
    let post = |body: &str| node.send_json("POST", SET, body);
    assert_eq!(post("{\"add_all\":[\"a\",\"b\"]}").status, 204);
    let seen = node.get(SET).json();
    assert_eq!((&seen["type"], &seen["value"]), (&json!("set"), &json!(["a", "b"])));
    let remove = json!({"remove": "a", "context": seen["context"]}).to_string();
    assert_eq!(post(&remove).status, 204);
    assert_eq!(
        node.get(&format!("{SET}?include_context=false")).json(),
        json!({"type": "set", "value": ["b"]})
    );
    let absent = post("{\"remove\":\"zz\"}");
    let text = "Error:\n{precondition,{not_present,<<\"zz\">>}}\n";
    assert_eq!((absent.status, absent.text()), (500, text));
}

/// The set is stored in pages, in the order of hashes.
#[test]
fn a_set_of_many_pages_is_shown_sorted() {
    let node = node_with_types();
    let elements: Vec<String> = (0..20_000).map(|number| format!("element {number:05}")).collect();
    let added = json!({"add_all": elements}).to_string();
    assert_eq!(node.send_json("POST", SET, &added).status, 204);
    assert_eq!(node.get(SET).json()["value"], json!(elements));
}

#[test]
fn a_key_is_made_where_none_is_given() {
    let node = node_with_types();
    let path = "/types/counters/buckets/b/datatypes?returnbody=true";
    let made = node.send_json("POST", path, "{\"increment\":5}");
    assert_eq!((made.status, made.json()), (201, json!({"type": "counter", "value": 5})));
    let location = made.header("location").expect("a location");
    let key = location.strip_prefix("/types/counters/buckets/b/keys/").expect("its place");
    let found = node.get(&format!("/types/counters/buckets/b/datatypes/{key}"));
    assert_eq!(found.json()["value"], json!(5));
}

#[test]
fn what_json_cannot_show_is_said() {
    let node = node_with_types();
    let binary = node.send_json("POST", SET, "{\"add\":\"\\u00ff\"}");
    assert_eq!(binary.status, 204, "text beyond ASCII is text");
    assert_eq!(node.get(SET).json()["value"], json!(["\u{ff}"]));
    let bad = node.connect().request(
        "POST",
        SET,
        &[("Content-Type", "application/json")],
        b"{\"add\":\"\xff\"}",
    );
    assert_eq!((bad.status, bad.text()), (400, "Malformed JSON submitted, invalid UTF-8"));
}

#[test]
fn faults_have_the_words_that_clients_match() {
    let node = node_with_types();
    node.make_type("plain", "{\"allow_mult\":true}");
    node.make_type("alone", "{\"allow_mult\":false}");
    let check = |path: &str, status: u16, text: &str| {
        let answer = node.get(path);
        assert_eq!((answer.status, answer.text()), (status, text), "{path}");
    };
    check("/types/none/buckets/b/datatypes/k", 404, "Unknown bucket type: none\n");
    check("/types/alone/buckets/b/datatypes/k", 403, "Bucket must be allow_mult=true\n");
    let text = "Bucket datatype 'undefined' is not a supported type.\n";
    check("/types/plain/buckets/b/datatypes/k", 403, text);
    let text = "Specified w/dw/pw/node_confirms values invalid for bucket n value of 3\n";
    check(&format!("{SET}?r=4"), 400, text);
    let text = "timeout query parameter must be an integer greater than 0, x is invalid\n";
    check(&format!("{SET}?timeout=x"), 400, text);
    let garbage = node.send_json("POST", SET, "{\"remove\":\"a\",\"context\":\"Z2FyYmFnZQ==\"}");
    assert_eq!(garbage.status, 400);
    assert!(garbage.text().contains("context of 7 bytes"), "{}", garbage.text());
    let bad = node.send_json("POST", SET, "{\"increment\":1}");
    let text = "Invalid operation on datatype 'set': {\"increment\":1}\n";
    assert_eq!((bad.status, bad.text()), (400, text));
    assert_eq!(node.connect().request("POST", SET, &[], b"{}").status, 406);
    assert_eq!(node.connect().request("PUT", SET, &[], b"").status, 405);
    assert_eq!(node.get(&format!("{SET}?r=x")).status, 400);
}

#[test]
fn counters_of_old_have_their_own_resource() {
    let node = node_with_types();
    let path = "/buckets/b/counters/k";
    let post = |query: &str, body: &[u8]| {
        node.connect().request("POST", &format!("{path}{query}"), &[], body)
    };
    let refused = post("", b"1");
    let text = "Counters require bucket property 'allow_mult=true'";
    assert_eq!((refused.status, refused.text()), (409, text));
    node.send_json("PUT", "/buckets/b/props", "{\"props\":{\"allow_mult\":true}}");
    assert_eq!(node.get(path).status, 404);
    assert_eq!(post("", b"7").status, 204);
    let shown = post("?returnvalue=true", b"-9");
    assert_eq!((shown.status, shown.text()), (200, "-2"));
    assert_eq!(node.get(path).text(), "-2");
    for bad in [&b"x"[..], b"", b"1.5"] {
        assert_eq!(post("", bad).status, 400);
    }
    let answer = node.get("/types/default/buckets/b/datatypes/k");
    assert_eq!((answer.status, answer.header("location")), (301, Some(path)));
}

#[test]
fn parts_of_large_fields_are_told_without_the_rest() {
    let node = node_with_types();
    node.make_type("maps", "{\"datatype\":\"map\"}");
    let map = "/types/maps/buckets/b/datatypes/k";
    let elements: Vec<String> = (0..1_000).map(|number| format!("element {number}")).collect();
    let inner = json!({"tags_set": {"add_all": elements}, "visits_counter": 3});
    let update = json!({"update": {"my profile_map": {"update": inner}}}).to_string();
    assert_eq!(node.send_json("POST", map, &update).status, 204);
    let ask = |query: &str| node.get(&format!("{map}?in=my%20profile_map&{query}")).json();
    assert_eq!(ask("size=true"), json!({"type": "map", "size": 2}));
    let expected = json!({"type": "map", "value": {"visits_counter": 3}});
    assert_eq!(ask("field=visits_counter"), expected);
    let size = json!({"type": "set", "size": 1000});
    assert_eq!(ask("in=tags_set&size=true"), size);
    for (element, contains) in [("element+7", true), ("x", false)] {
        let expected = json!({"type": "set", "contains": contains});
        assert_eq!(ask(&format!("in=tags_set&contains={element}")), expected);
    }
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = ask(&format!("in=tags_set&page_size=300{cursor}"));
        let some = page["value"].as_array().expect("elements");
        assert!(some.len() <= 300);
        found.extend(some.iter().map(|element| element.as_str().expect("text").to_owned()));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    found.sort_by_key(|element| element[8..].parse::<u32>().expect("a number"));
    assert_eq!(found, elements);
    let missing = node.get(&format!("{map}?in=tags_set&size=true"));
    let expected = json!({"type": "set", "error": "notfound"});
    assert_eq!((missing.status, missing.json()), (404, expected));
    for (query, text) in [
        ("in=my%20profile_map", "in query parameter needs one of size, contains"),
        ("in=tags&size=true", "in query parameter must be a name, an underscore"),
        ("in=x_counter&size=true", "field x_counter is not a set or map"),
        ("in=tags_set&in=x_set&size=true", "a set has no such part"),
        ("in=my%20profile_map&contains=x", "a map has no such part"),
    ] {
        let refused = node.get(&format!("{map}?{query}"));
        assert_eq!(refused.status, 400, "{query}");
        assert!(refused.text().starts_with(text), "{query}: {}", refused.text());
    }
}

#[test]
fn parts_of_large_sets_and_maps_are_told_without_the_rest() {
    let node = node_with_types();
    node.make_type("maps", "{\"datatype\":\"map\"}");
    let elements: Vec<String> = (0..1_000).map(|number| format!("element {number}")).collect();
    let missing = node.get(&format!("{SET}?size=true"));
    assert_eq!(
        (missing.status, missing.json()),
        (404, json!({"type": "set", "error": "notfound"}))
    );
    let add = json!({"add_all": elements}).to_string();
    assert_eq!(node.send_json("POST", SET, &add).status, 204);
    let ask = |query: &str| node.get(&format!("{SET}?{query}")).json();
    assert_eq!(ask("size=true"), json!({"type": "set", "size": 1000}));
    assert_eq!(ask("contains=element%207"), json!({"type": "set", "contains": true}));
    assert_eq!(ask("contains=element"), json!({"type": "set", "contains": false}));
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = ask(&format!("page_size=300{cursor}"));
        let some = page["value"].as_array().expect("elements");
        found.extend(some.iter().map(|element| element.as_str().expect("text").to_owned()));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    found.sort_by_key(|element| element[8..].parse::<u32>().expect("a number"));
    assert_eq!(found, elements);
    let map = "/types/maps/buckets/b/datatypes/k";
    let update = "{\"update\":{\"visits_counter\":3,\"name_register\":\"Ann\"}}";
    assert_eq!(node.send_json("POST", map, update).status, 204);
    let field = |name: &str| node.get(&format!("{map}?field={name}")).json();
    let expected = json!({"type": "map", "value": {"visits_counter": 3}});
    assert_eq!(field("visits_counter"), expected);
    assert_eq!(field("visits_set"), json!({"type": "map", "value": {}}));
    for (path, text) in [
        (format!("{map}?contains=x"), "a map has no such part"),
        (format!("{SET}?field=x_counter"), "a set has no such part"),
        (format!("{SET}?field=x"), "field query parameter must be a name, an underscore"),
        (format!("{SET}?page_size=5&cursor=garbage"), "cursor query parameter must be"),
    ] {
        let refused = node.get(&path);
        assert_eq!(refused.status, 400, "{path}");
        assert!(refused.text().starts_with(text), "{path}: {}", refused.text());
    }
}

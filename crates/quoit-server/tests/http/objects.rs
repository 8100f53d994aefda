//! Objects.

use crate::fixture::{Answer, Node};

const TEXT: (&str, &str) = ("Content-Type", "text/plain");

/// Creates two siblings.
fn siblings(node: &Node) {
    node.make_type("sibs", "{}");
    node.put("/types/sibs/buckets/b/keys/k", "one");
    node.put("/types/sibs/buckets/b/keys/k", "two");
}

fn get_with(node: &Node, path: &str, name: &str, value: &str) -> Answer {
    node.connect().request("GET", path, &[(name, value)], b"")
}

#[test]
fn a_value_comes_back_with_everything_that_describes_it() {
    let node = Node::start();
    let headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Encoding", "x-none"),
        ("X-Riak-Meta-Colour", "blue"),
        ("X-Riak-Index-f_bin", "y, x"),
        ("Link", "</buckets/b2/keys/k%2F2>; riaktag=\"t\""),
    ];
    let answer = node.connect().request("PUT", "/buckets/b/keys/k", &headers, b"hello");
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    let answer = node.get("/buckets/b/keys/k");
    assert_eq!((answer.status, answer.text()), (200, "hello"));
    for (name, value) in [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Encoding", "x-none"),
        ("X-Riak-Meta-Colour", "blue"),
        ("X-Riak-Index-f_bin", "x, y"),
        ("Link", "</buckets/b>; rel=\"up\", </buckets/b2/keys/k%2F2>; riaktag=\"t\""),
        ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert!(answer.header("x-riak-vclock").is_some() && answer.header("etag").is_some());
    let head = node.connect().request("HEAD", "/buckets/b/keys/k", &[], b"");
    assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
}

#[test]
fn siblings_are_a_list_of_tags_or_parts_and_a_write_resolves_them() {
    let node = Node::start();
    siblings(&node);
    let path = "/types/sibs/buckets/b/keys/k";
    let list = node.get(path);
    assert_eq!(list.status, 300);
    let tags: Vec<_> = list.text().lines().skip(1).collect();
    assert_eq!((list.text().lines().next(), tags.len()), (Some("Siblings:"), 2));
    let one = node.get(&format!("{path}?vtag={}", tags[0]));
    assert_eq!((one.status, one.text()), (200, "one"));
    assert_eq!(node.get(&format!("{path}?vtag=other")).status, 404);

    let parts = get_with(&node, path, "Accept", "multipart/mixed");
    let media = parts.header("content-type").expect("a media type");
    let boundary = media.strip_prefix("multipart/mixed; boundary=").expect("a boundary");
    let expected_start = format!("\r\n--{boundary}\r\nContent-Type: text/plain\r\nLink: ");
    assert!(parts.text().starts_with(&expected_start), "{}", parts.text());
    assert!(parts.text().ends_with(&format!("\r\n\r\ntwo\r\n--{boundary}--\r\n")));
    assert!(parts.text().contains("\r\n\r\none\r\n--"));
    assert_eq!(get_with(&node, path, "Accept", "application/json").status, 406);

    let clock = list.header("x-riak-vclock").expect("a clock");
    let headers = [TEXT, ("X-Riak-Vclock", clock)];
    assert_eq!(node.connect().request("PUT", path, &headers, b"merged").status, 204);
    assert_eq!(node.get(path).text(), "merged");
}

#[test]
fn a_delete_that_knew_of_one_value_only_is_a_sibling_with_a_mark() {
    let node = Node::start();
    node.make_type("sibs", "{}");
    let path = "/types/sibs/buckets/b/keys/k";
    let first = node.put(&format!("{path}?returnbody=true"), "one");
    let clock = [("X-Riak-Vclock", first.header("x-riak-vclock").expect("a clock"))];
    node.put(path, "two");
    assert_eq!(node.connect().request("DELETE", path, &clock, b"").status, 204);
    let list = node.get(path);
    let marks: Vec<_> = list
        .text()
        .lines()
        .skip(1)
        .map(|tag| node.get(&format!("{path}?vtag={tag}")).header("x-riak-deleted").is_some())
        .collect();
    // Sorted by value: a tombstone has an empty one.
    assert_eq!(marks, [true, false]);
    let parts = get_with(&node, path, "Accept", "multipart/mixed");
    assert_eq!(parts.text().matches("X-Riak-Deleted: true\r\n").count(), 1);
}

#[test]
fn a_write_may_return_the_object() {
    let node = Node::start();
    let answer = node.put("/buckets/b/keys/k?returnbody=true", "v");
    assert_eq!((answer.status, answer.text()), (200, "v"));
    let answer = node.connect().request("POST", "/riak/b?returnbody=true", &[TEXT], b"w");
    let location = answer.header("location").expect("a location").to_owned();
    assert_eq!((answer.status, answer.text()), (201, "w"));
    assert!(location.starts_with("/riak/b/"), "{location}");
    assert_eq!(node.get(&location).text(), "w");
    siblings(&node);
    let path = "/types/sibs/buckets/b/keys/k?returnbody=true";
    for accept in ["multipart/mixed", "*/*"] {
        let headers = [TEXT, ("Accept", accept)];
        let answer = node.connect().request("PUT", path, &headers, b"three");
        assert_eq!(answer.status, 300, "{accept}");
        assert!(answer.text().contains("\r\n\r\nthree\r\n"), "{accept}");
    }
    let answer = node.put(path, "four");
    assert_eq!((answer.status, answer.text().lines().next()), (300, Some("Siblings:")));
}

#[test]
fn a_deleted_object_is_missing_and_keeps_its_clock() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "v");
    let delete = |path| node.connect().request("DELETE", path, &[], b"");
    assert_eq!(delete("/buckets/b/keys/k").status, 204);
    let answer = node.get("/buckets/b/keys/k");
    assert_eq!((answer.status, answer.text()), (404, "not found\n"));
    assert_eq!(answer.header("x-riak-deleted"), Some("true"));
    assert!(answer.header("x-riak-vclock").is_some());
    assert_eq!(delete("/buckets/b/keys/k").status, 404);
    let never = node.get("/buckets/b/keys/never");
    assert_eq!((never.status, never.header("x-riak-deleted")), (404, None));
}

#[test]
fn conditions_decide_before_anything_is_written() {
    let node = Node::start();
    let path = "/buckets/b/keys/k";
    let first = node.put(&format!("{path}?returnbody=true"), "one");
    let (etag, clock) =
        (first.header("etag").expect("an etag"), first.header("x-riak-vclock").expect("a clock"));
    let put = |path: &str, name: &str, value: &str| {
        node.connect().request("PUT", path, &[TEXT, (name, value)], b"two").status
    };
    assert_eq!(put(path, "If-None-Match", "*"), 412);
    assert_eq!(put(path, "If-None-Match", etag), 412);
    assert_eq!(put(path, "If-Match", "\"other\""), 412);
    assert_eq!(put(path, "If-Unmodified-Since", "Mon, 01 Jan 2001 00:00:00 GMT"), 412);
    assert_eq!(put("/buckets/b/keys/new", "If-Match", "*"), 412);
    assert_eq!(put("/buckets/b/keys/new", "X-Riak-If-Not-Modified", clock), 409);
    assert_eq!(put(path, "X-Riak-If-Not-Modified", "bm90IGEgY2xvY2s="), 400);
    assert_eq!(node.get(path).text(), "one", "nothing was written");
    let with_type = |media, condition| {
        let headers = [("Content-Type", media), condition];
        node.connect().request("PUT", path, &headers, b"no").status
    };
    assert_eq!(with_type("banana", ("If-Match", "\"other\"")), 412, "conditions come first");
    assert_eq!(with_type("banana", ("If-Match", etag)), 415);
    assert_eq!(node.get(path).text(), "one", "nothing was written");
    assert_eq!(get_with(&node, path, "If-None-Match", etag).status, 304);
    assert_eq!(put(path, "X-Riak-If-Not-Modified", clock), 204);
    assert_eq!(put(path, "X-Riak-If-Not-Modified", clock), 409);
    assert_eq!(put(path, "If-Match", "*"), 204);
    assert_eq!(put("/buckets/b/keys/new", "If-None-Match", "*"), 204);
    let headers = [("If-Match", "\"other\"")];
    assert_eq!(node.connect().request("DELETE", path, &headers, b"").status, 412);
    let headers = [TEXT, ("X-Riak-If-Not-Modified", clock)];
    assert_eq!(node.connect().request("POST", path, &headers, b"new").status, 204, "PUT alone");
}

#[test]
fn what_a_client_accepts_does_not_keep_it_from_deleting() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "one");
    let headers = [("Accept", "application/json")];
    let answer = node.connect().request("DELETE", "/buckets/b/keys/k", &headers, b"");
    assert_eq!(answer.status, 204);
    assert_eq!(node.get("/buckets/b/keys/k").status, 404);
}

#[test]
fn a_media_type_is_stored_as_it_is_spelled_and_found_in_any_spelling() {
    let node = Node::start();
    let path = "/buckets/b/keys/k";
    let headers = [("Content-Type", "Application/JSON")];
    assert_eq!(node.connect().request("PUT", path, &headers, b"{}").status, 204);
    let answer = get_with(&node, path, "Accept", "application/json");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("Application/JSON")));
}

#[test]
fn faulty_requests_are_refused_in_the_order_of_the_checks() {
    let node = Node::start();
    let put = |path: &str, headers: &[(&str, &str)]| {
        let answer = node.connect().request("PUT", path, headers, b"v");
        (answer.status, answer.text().to_owned())
    };
    let path = "/types/none/buckets/b/keys/k?timeout=x&r=x";
    let foreign = ("Referer", "http://evil.example/");
    let (status, text) = put(path, &[foreign]);
    assert_eq!((status, text.as_str()), (400, "Missing Content-Type request header"));
    assert_eq!(put(path, &[TEXT, foreign]), (400, "Bad timeout value \"x\"\n".into()));
    let (status, text) = put("/types/none/buckets/b/keys/k?r=x", &[TEXT, foreign]);
    assert_eq!((status, &text[..2]), (400, "r "));
    let link = ("Link", "nonsense");
    assert_eq!(put("/types/none/buckets/b/keys/k", &[TEXT, foreign, link]).0, 400);
    assert_eq!(put("/types/none/buckets/b/keys/k", &[TEXT, foreign]).0, 403);
    let (status, text) = put("/types/none/buckets/b/keys/k", &[("Content-Type", "banana")]);
    assert_eq!((status, text.as_str()), (404, "Unknown bucket type: none"));
    assert_eq!(put("/buckets/b/keys/k", &[("Content-Type", "banana")]).0, 415);
    assert_eq!(put("/buckets/b/keys/k", &[TEXT, ("X-Riak-Vclock", "!!!")]).0, 400);
    assert_eq!(put("/buckets/b/keys/k?w=4", &[TEXT]).0, 400);
    assert_eq!(node.get("/buckets/b/keys/k").status, 404, "nothing was written");
}

#[test]
fn a_damaged_body_is_refused() {
    let node = Node::start();
    let put = |md5| {
        let headers = [TEXT, ("Content-MD5", md5)];
        node.connect().request("PUT", "/buckets/b/keys/k", &headers, b"hello").status
    };
    assert_eq!(put("XUFAKrxLKna5cZ2REBfFkg=="), 204);
    assert_eq!(put("AAAAAAAAAAAAAAAAAAAAAA=="), 400);
    assert_eq!(put("nonsense"), 400);
}

#[test]
fn an_object_expires_when_its_writer_said_so() {
    let node = Node::start();
    let headers = [TEXT, ("X-Quoit-Ttl", "60")];
    node.connect().request("PUT", "/buckets/b/keys/k", &headers, b"v");
    assert_eq!(node.get("/buckets/b/keys/k").status, 200);
    node.clock.advance_us(61_000_000);
    assert_eq!(node.get("/buckets/b/keys/k").status, 404);
}

#[test]
fn walks_follow_links_by_tag() {
    let node = Node::start();
    let put = |key: &str, links: &str| {
        let path = format!("/buckets/b/keys/{key}");
        let headers = [TEXT, ("Link", links)];
        assert_eq!(node.connect().request("PUT", &path, &headers, key.as_bytes()).status, 204);
    };
    put("a", "</buckets/b/keys/b>; riaktag=\"friend\", </buckets/b/keys/none>; riaktag=\"friend\"");
    put("b", "</buckets/b/keys/c>; riaktag=\"friend\", </buckets/b/keys/a>; riaktag=\"foe\"");
    node.put("/buckets/b/keys/c", "c");
    let answer = node.get("/buckets/b/keys/a/_,friend,1/_,friend,1");
    let places: Vec<_> =
        answer.text().lines().filter_map(|line| line.strip_prefix("Location: ")).collect();
    assert_eq!((answer.status, places), (200, vec!["/buckets/b/keys/b", "/buckets/b/keys/c"]));
    let answer = node.get("/buckets/b/keys/a/_,friend,0/_,friend,1");
    assert_eq!(answer.text().matches("Location: ").count(), 1, "the first step is not kept");
    node.connect().request("DELETE", "/buckets/b/keys/c", &[], b"");
    let answer = node.get("/buckets/b/keys/b/_,friend,1");
    assert_eq!((answer.status, answer.text().contains("Location: ")), (200, false));
    assert_eq!(node.get("/buckets/b/keys/a/x").status, 400);
    assert_eq!(node.get("/buckets/b/keys/none/_,_,1").status, 404);
    let post = |path: &str| node.connect().request("POST", path, &[], b"").status;
    assert_eq!(post("/buckets/b/keys/a/_,_,1"), 204, "nothing is done");
    assert_eq!(post("/buckets/b/keys/none/_,_,1"), 404);
    assert_eq!(post("/buckets/b/keys/a/x"), 400);
    assert_eq!(post("/types/t/buckets/b/keys/a/_,_,1"), 403);
    let typed = node.get("/types/t/buckets/b/keys/a/_,_,1");
    assert_eq!(typed.status, 403);
}

#[test]
fn a_walk_to_siblings_gives_one_of_them_and_names_the_others() {
    let node = Node::start();
    node.send_json("PUT", "/buckets/sibs/props", "{\"props\":{\"allow_mult\":true}}");
    node.put("/buckets/sibs/keys/k", "two");
    node.put("/buckets/sibs/keys/k", "one");
    let list = node.get("/buckets/sibs/keys/k");
    let tags: Vec<_> = list.text().lines().skip(1).collect();
    let link = "</buckets/sibs/keys/k>; riaktag=\"s\", </buckets/sibs/keys/k>; riaktag=\"t\"";
    let headers = [TEXT, ("Link", link)];
    node.connect().request("PUT", "/buckets/b/keys/a", &headers, b"a");
    let answer = node.get("/buckets/b/keys/a/_,t,1");
    let header = |name: &str| answer.text().lines().find_map(|line| line.strip_prefix(name));
    let location = format!("/buckets/sibs/keys/k?vtag={}", tags[0]);
    assert_eq!(header("Location: "), Some(location.as_str()));
    assert_eq!(header("X-Riak-Sibling-VTags: "), Some(tags[1]));
    assert!(answer.text().contains("\r\n\r\none\r\n") && !answer.text().contains("two"));
    let both = node.get("/buckets/b/keys/a/_,_,_");
    assert_eq!(both.text().matches("Location: ").count(), 2, "one for each tag");
}

/// A list may be split over several header lines.
#[test]
fn lines_of_one_header_are_one_list() {
    let node = Node::start();
    let stored = node.put("/buckets/b/keys/k", "v").status;
    assert_eq!(stored, 204);
    let etag = node.get("/buckets/b/keys/k").header("etag").unwrap().to_owned();
    let mut client = node.connect();
    let mut of = |method: &str, name: &str, values: [&str; 2]| {
        let headers = [("Content-Type", "text/plain"), (name, values[0]), (name, values[1])];
        client.request(method, "/buckets/b/keys/k", &headers, b"").status
    };
    assert_eq!(of("GET", "If-None-Match", ["\"x\"", &etag]), 304);
    assert_eq!(of("PUT", "If-None-Match", ["\"x\"", &etag]), 412);
    assert_eq!(of("GET", "If-Match", ["\"x\"", &etag]), 200);
    assert_eq!(of("GET", "Accept", ["application/json", "text/plain"]), 200);
    assert_eq!(of("GET", "Accept", ["application/json", "image/png"]), 406);
}

#[test]
fn parameters_end_with_an_ampersand_or_a_semicolon() {
    let node = Node::start();
    let mut client = node.connect();
    let headers = [("Content-Type", "text/plain")];
    let path = "/buckets/b/keys/k?w=1;returnbody=true";
    let answer = client.request("PUT", path, &headers, b"v");
    assert_eq!((answer.status, answer.text()), (200, "v"));
}

/// Riak changes the case of short names only.
#[test]
fn a_long_name_of_user_metadata_stays_as_it_was_sent() {
    let node = Node::start();
    let long = "X-Riak-Meta-ABCdefGHIjklMNOpqrSTUvwxYZAbcDEFghiJKLmnoPQR";
    let headers = [("Content-Type", "text/plain"), (long, "1"), ("x-riak-meta-SHORT", "2")];
    let stored = node.connect().request("PUT", "/buckets/b/keys/k", &headers, b"v");
    assert_eq!(stored.status, 204);
    let names = node.get("/buckets/b/keys/k").headers.into_iter().map(|(name, _)| name);
    let names: Vec<_> = names.filter(|name| name.starts_with("X-Riak-Meta")).collect();
    assert!(names.contains(&long.to_owned()) && names.contains(&"X-Riak-Meta-Short".to_owned()));
}

#[test]
fn answers_that_depend_on_the_accepted_media_types_say_so() {
    let node = Node::start();
    node.send_json("PUT", "/buckets/s/props", r#"{"props": {"allow_mult": true}}"#);
    node.put("/buckets/s/keys/k", "one");
    node.put("/buckets/s/keys/k", "two");
    for path in ["/", "/stats", "/buckets/s/keys/k"] {
        let headers = node.get(path).headers;
        let varies = headers.iter().any(|(name, value)| name == "Vary" && value == "Accept");
        assert!(varies, "{path}: {headers:?}");
    }
}

//! Large values over both protocols, byte by byte: sizes around the limits from which on they are sent
//! from their own buffers, pipelined requests, and clients that send and read slowly.

use crate::binary::Binary;
use crate::fixture::{Client, Node};
use bytes::Bytes;
use quoit_wire::SHARED_BYTES_MIN;
use quoit_wire::frame::append_message;
use quoit_wire::messages::{
    Body, RpbContent, RpbGetReq, RpbGetResp, RpbPair, RpbPutReq, RpbPutResp,
};

/// Sizes around the limits of shared values, of pieces that are written at once, and of read buffers.
const SIZES: [usize; 10] = [
    1,
    1024,
    SHARED_BYTES_MIN - 100,
    SHARED_BYTES_MIN - 1,
    SHARED_BYTES_MIN,
    SHARED_BYTES_MIN + 1,
    128 * 1024,
    256 * 1024 + 1,
    1_000_000,
    3_000_001,
];

const TEXT: (&str, &str) = ("Content-Type", "application/octet-stream");

fn value_of(size: usize) -> Bytes {
    (0..size).map(|place| (place * place / 7 + size) as u8).collect()
}

fn get_of(key: &str) -> RpbGetReq {
    let key = Bytes::copy_from_slice(key.as_bytes());
    RpbGetReq { bucket: "b".into(), key, ..RpbGetReq::default() }
}

fn put_of(key: &str, value: Bytes) -> RpbPutReq {
    RpbPutReq {
        bucket: "b".into(),
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        content: RpbContent { value, ..RpbContent::default() },
        ..RpbPutReq::default()
    }
}

fn frame_of(message: &impl Body) -> Vec<u8> {
    let mut frame = Vec::new();
    append_message(&mut frame, message).unwrap();
    frame
}

fn path(key: &str) -> String {
    format!("/buckets/b/keys/{key}")
}

/// Reads an answer to a get, checks that its bytes are those of the plain encoder, and returns its value.
fn got(client: &mut Binary) -> Bytes {
    let frame = client.frame();
    let (code, body) = (frame.code, frame.body.clone());
    let answer: RpbGetResp = frame.decode().expect("the answer to a get");
    let again = frame_of(&answer);
    assert!(again[4] == code && again[5..] == body, "the fields are in order, with their lengths");
    assert_eq!(answer.content.len(), 1);
    answer.content[0].value.clone()
}

#[test]
fn values_of_all_sizes_are_the_same_over_both_protocols() {
    let node = Node::start();
    let (mut binary, mut http) = (Binary::connect(&node), node.connect());
    for size in SIZES {
        let value = value_of(size);
        binary.ask::<RpbPutResp>(&put_of("pb", value.clone()));
        assert_eq!(http.request("PUT", &path("http"), &[TEXT], &value).status, 204);
        for key in ["pb", "http"] {
            assert!(binary.send(&frame_of(&get_of(key))));
            assert!(got(&mut binary) == value, "{size} bytes of {key}");
            let answer = http.request("GET", &path(key), &[], b"");
            assert_eq!(answer.status, 200);
            assert!(answer.body == value, "{size} bytes of {key}");
            let head = http.request("HEAD", &path(key), &[], b"");
            assert_eq!(head.header("content-length"), Some(&*size.to_string()));
            let head = RpbGetReq { head: Some(true), ..get_of(key) };
            assert!(binary.ask::<RpbGetResp>(&head).content[0].value.is_empty());
        }
    }
}

#[test]
fn large_values_are_returned_by_the_puts_that_store_them() {
    let node = Node::start();
    let (mut binary, mut http) = (Binary::connect(&node), node.connect());
    for size in SIZES {
        let value = value_of(size);
        let pair = RpbPair { key: "name".into(), value: Some("meta".into()) };
        let mut put = RpbPutReq { return_body: Some(true), ..put_of("pb", value.clone()) };
        put.content.usermeta = vec![pair.clone()];
        let stored: RpbPutResp = binary.ask(&put);
        assert!(stored.content[0].value == value && stored.content[0].usermeta == [pair], "{size}");
        let got: RpbGetResp = binary.ask(&get_of("pb"));
        assert_eq!(got.vclock, stored.vclock);
        assert!(got.content == stored.content, "{size} bytes");
        let generated = RpbPutReq { key: None, ..put };
        let stored: RpbPutResp = binary.ask(&generated);
        assert!(stored.key.is_some() && stored.content[0].value == value, "{size} bytes");
        let answer =
            http.request("PUT", &format!("{}?returnbody=true", path("h")), &[TEXT], &value);
        assert_eq!(answer.status, 200);
        assert!(answer.body == value, "{size} bytes");
        let answer = http.request("POST", "/buckets/b/keys?returnbody=true", &[TEXT], &value);
        assert!(answer.status == 201 && answer.header("location").is_some());
        assert!(answer.body == value, "{size} bytes");
    }
}

#[test]
fn siblings_of_which_some_are_large_are_sent_in_order() {
    let node = Node::start();
    node.make_type("sibs", "{\"allow_mult\":true}");
    let mut binary = Binary::connect(&node);
    let bucket_type = Some(Bytes::from_static(b"sibs"));
    let sizes = [300_000, 10, SHARED_BYTES_MIN, SHARED_BYTES_MIN - 1];
    for size in sizes {
        let put = RpbPutReq { bucket_type: bucket_type.clone(), ..put_of("k", value_of(size)) };
        binary.ask::<RpbPutResp>(&put);
    }
    let get = RpbGetReq { bucket_type, ..get_of("k") };
    assert!(binary.send(&frame_of(&get)));
    let frame = binary.frame();
    let body = frame.body.clone();
    let answer: RpbGetResp = frame.decode().expect("the answer to a get");
    assert!(frame_of(&answer)[5..] == body, "the fields are in order, with their lengths");
    assert_eq!(answer.content.len(), sizes.len());
    for size in sizes {
        let value = value_of(size);
        assert!(answer.content.iter().any(|content| content.value == value), "{size} bytes");
    }
    let vtag = answer.content.iter().find(|content| content.value.len() == 300_000);
    let vtag = std::str::from_utf8(vtag.unwrap().vtag.as_ref().unwrap()).unwrap();
    let path = format!("/types/sibs/buckets/b/keys/k?vtag={vtag}");
    assert!(node.get(&path).body == value_of(300_000));
}

#[test]
fn pipelined_requests_with_large_values_are_answered_in_order() {
    let node = Node::start();
    let mut binary = Binary::connect(&node);
    let sizes = [10, 200_000, 20, SHARED_BYTES_MIN, 1_000_000, 30];
    let mut requests = Vec::new();
    for size in sizes {
        requests.extend(frame_of(&put_of(&format!("k{size}"), value_of(size))));
        requests.extend(frame_of(&get_of(&format!("k{size}"))));
    }
    let mut reader = binary.reader();
    let sender = std::thread::spawn(move || assert!(binary.send(&requests)));
    for size in sizes {
        reader.frame().decode::<RpbPutResp>().expect("the answer to a put");
        assert!(got(&mut reader) == value_of(size), "{size} bytes");
    }
    sender.join().unwrap();
    let mut http = node.connect();
    let gets: String = sizes
        .map(|size| format!("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", path(&format!("k{size}"))))
        .concat();
    http.send(gets.as_bytes());
    for size in sizes {
        assert!(http.read("GET").body == value_of(size), "{size} bytes");
    }
}

#[test]
fn a_large_request_in_pieces_of_any_size_is_stored_whole() {
    let node = Node::start();
    for piece_bytes in [997, 8 * 1024, 64 * 1024 + 1] {
        for size in [SHARED_BYTES_MIN, 300_000, 1_100_000] {
            let value = value_of(size);
            let mut binary = Binary::connect(&node);
            let frame = frame_of(&put_of("k", value.clone()));
            frame.chunks(piece_bytes).for_each(|piece| assert!(binary.send(piece)));
            binary.frame().decode::<RpbPutResp>().expect("the answer to a put");
            assert!(node.get(&path("k")).body == value, "{size} bytes in pieces of {piece_bytes}");
            let mut http = node.connect();
            let head = format!(
                "PUT {} HTTP/1.1\r\nContent-Type: a/b\r\nContent-Length: {size}\r\n\r\n",
                path("h")
            );
            http.send(head.as_bytes());
            value.chunks(piece_bytes).for_each(|piece| http.send(piece));
            assert_eq!(http.read("PUT").status, 204);
            assert!(http.request("GET", &path("h"), &[], b"").body == value, "{size} bytes");
        }
    }
}

/// Sends a body in chunks, and all bytes in pieces of `piece_bytes`.
fn send_chunks(client: &mut Client, value: &[u8], chunk_bytes: usize, piece_bytes: usize) {
    let head = format!(
        "PUT {} HTTP/1.1\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n",
        path("c")
    );
    let mut request = head.into_bytes();
    for chunk in value.chunks(chunk_bytes) {
        request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    // The next request of the connection follows at once.
    request.extend_from_slice(b"GET /ping HTTP/1.1\r\n\r\n");
    request.chunks(piece_bytes).for_each(|piece| client.send(piece));
}

#[test]
fn a_body_in_chunks_of_any_size_is_stored_whole() {
    let node = Node::start();
    let value = value_of(700_001);
    for chunk_bytes in [1_000, 16 * 1024, 16 * 1024 + 1, 100_000, 700_001] {
        for piece_bytes in [1_001, 50_000, 1 << 20] {
            let mut client = node.connect();
            send_chunks(&mut client, &value, chunk_bytes, piece_bytes);
            assert_eq!(client.read("PUT").status, 204);
            assert_eq!(client.read("GET").text(), "OK", "the next request is intact");
            let stored = node.get(&path("c")).body;
            assert!(stored == value, "chunks of {chunk_bytes} in pieces of {piece_bytes}");
        }
    }
}

#[test]
fn memory_of_large_values_goes_back_when_they_are_sent() {
    let node = Node::start();
    let (mut binary, mut http) = (Binary::connect(&node), node.connect());
    let value = value_of(3_000_001);
    binary.ask::<RpbPutResp>(&put_of("k", value.clone()));
    // Now only the allowances of connections and listeners are used.
    assert_eq!(http.request("GET", "/ping", &[], b"").status, 200);
    binary.ask::<RpbGetResp>(&get_of("none"));
    let idle_bytes = node.context.memory.figures().used_bytes;
    for _ in 0..3 {
        assert!(binary.send(&frame_of(&get_of("k"))));
        assert!(got(&mut binary) == value);
        assert!(http.request("GET", &path("k"), &[], b"").body == value);
        assert_eq!(http.request("GET", "/ping", &[], b"").status, 200);
        binary.ask::<RpbGetResp>(&get_of("none"));
        assert_eq!(node.context.memory.figures().used_bytes, idle_bytes);
    }
}

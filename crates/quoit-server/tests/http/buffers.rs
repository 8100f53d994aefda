//! Requests of many connections that share the buffers of one thread.

use crate::binary::Binary;
use crate::fixture::Node;
use quoit_wire::frame::append_message;
use quoit_wire::messages::{Body, RpbContent, RpbGetReq, RpbGetResp, RpbPutReq, RpbPutResp};

/// Sizes of values: in one read, in several reads, and with memory of the budget.
const VALUE_BYTES: [usize; 4] = [10, 3_000, 11_000, 300_000];

fn frame_of(message: &impl Body) -> Vec<u8> {
    let mut frame = Vec::new();
    append_message(&mut frame, message).unwrap();
    frame
}

/// The value of a connection, which no other connection has.
fn value_of(connection: usize, value_bytes: usize) -> Vec<u8> {
    vec![b'a' + u8::try_from(connection).expect("few connections"); value_bytes]
}

fn put_of(connection: usize, value_bytes: usize) -> RpbPutReq {
    RpbPutReq {
        bucket: "b".into(),
        key: Some(format!("k{connection}").into()),
        content: RpbContent {
            value: value_of(connection, value_bytes).into(),
            ..RpbContent::default()
        },
        ..RpbPutReq::default()
    }
}

fn get_of(connection: usize) -> RpbGetReq {
    RpbGetReq { bucket: "b".into(), key: format!("k{connection}").into(), ..RpbGetReq::default() }
}

#[test]
fn frames_of_several_connections_that_arrive_in_parts_are_not_mixed_up() {
    let node = Node::start();
    let mut clients: Vec<_> = (0..4).map(|_| Binary::connect(&node)).collect();
    for value_bytes in VALUE_BYTES {
        let frames: Vec<_> = (0..4).map(|place| frame_of(&put_of(place, value_bytes))).collect();
        // The last connection sends nothing yet, and is served between the parts of the others.
        for part in 0..3 {
            for (client, frame) in clients.iter_mut().zip(&frames).take(3) {
                let length = frame.len().div_ceil(3);
                let end = frame.len().min((part + 1) * length);
                assert!(client.send(&frame[part * length..end]));
            }
            clients[3].ask::<RpbPutResp>(&put_of(3, value_bytes));
        }
        for client in clients.iter_mut().take(3) {
            client.frame().decode::<RpbPutResp>().expect("it is stored");
        }
        for (place, client) in clients.iter_mut().enumerate().rev() {
            let found: RpbGetResp = client.ask(&get_of(place));
            assert_eq!(found.content.len(), 1);
            assert!(found.content[0].value == value_of(place, value_bytes), "{value_bytes} bytes");
        }
    }
}

#[test]
fn pipelined_requests_before_a_part_of_one_are_answered_in_order() {
    let node = Node::start();
    let mut client = Binary::connect(&node);
    let mut other = Binary::connect(&node);
    // Answers of more bytes would have to be read before all requests are sent.
    for value_bytes in VALUE_BYTES.into_iter().filter(|value_bytes| *value_bytes < 20_000) {
        let mut requests = Vec::new();
        for place in 0..3 {
            requests.extend(frame_of(&put_of(place, value_bytes)));
            requests.extend(frame_of(&get_of(place)));
        }
        let last = frame_of(&put_of(3, 10 * value_bytes));
        let (front, rest) = last.split_at(last.len() / 2);
        requests.extend_from_slice(front);
        assert!(client.send(&requests));
        for place in 0..3 {
            client.frame().decode::<RpbPutResp>().expect("it is stored");
            let found: RpbGetResp = client.frame().decode().expect("it is found");
            assert!(found.content[0].value == value_of(place, value_bytes), "{value_bytes} bytes");
        }
        other.ask::<RpbPutResp>(&put_of(4, value_bytes));
        assert!(client.send(rest));
        client.frame().decode::<RpbPutResp>().expect("it is stored");
        let found: RpbGetResp = other.ask(&get_of(3));
        assert!(found.content[0].value == value_of(3, 10 * value_bytes), "{value_bytes} bytes");
    }
}

#[test]
fn http_requests_of_several_connections_that_arrive_in_parts_are_not_mixed_up() {
    let node = Node::start();
    let mut clients: Vec<_> = (0..4).map(|_| node.connect()).collect();
    for value_bytes in VALUE_BYTES {
        let request = |place: usize| {
            let mut request = format!(
                "PUT /buckets/b/keys/k{place} HTTP/1.1\r\nContent-Type: text/plain\r\n\
                 Content-Length: {value_bytes}\r\n\r\n"
            )
            .into_bytes();
            request.extend(value_of(place, value_bytes));
            request
        };
        let (first, rest): (Vec<_>, Vec<_>) = (0..4)
            .map(request)
            .map(|whole| (whole[..whole.len() / 2].to_vec(), whole[whole.len() / 2..].to_vec()))
            .unzip();
        clients.iter_mut().zip(&first).for_each(|(client, bytes)| client.send(bytes));
        for (client, bytes) in clients.iter_mut().zip(&rest).rev() {
            client.send(bytes);
            assert_eq!(client.read("PUT").status, 204);
        }
        for (place, client) in clients.iter_mut().enumerate() {
            let found = client.request("GET", &format!("/buckets/b/keys/k{place}"), &[], b"");
            assert!(found.body == value_of(place, value_bytes), "{value_bytes} bytes");
        }
    }
}

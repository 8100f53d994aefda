//! Records over Protocol Buffers, and records written by one protocol and read by the other.

use crate::fixture::Node;
use bytes::{Bytes, BytesMut};
use quoit_wire::frame::{Frame, FrameDecoder, append_message};
use quoit_wire::messages::{
    Body, RpbContent, RpbDelReq, RpbErrorResp, RpbGetReq, RpbGetResp, RpbLink, RpbPair, RpbPutReq,
    RpbPutResp,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A Protocol Buffers connection.
pub(crate) struct Binary {
    stream: TcpStream,
    input: BytesMut,
}

impl Binary {
    pub(crate) fn connect(node: &Node) -> Self {
        let stream = TcpStream::connect(node.pb_address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, input: BytesMut::new() }
    }

    fn send_bytes(&mut self, bytes: &[u8]) -> Frame {
        self.stream.write_all(bytes).unwrap();
        self.frame()
    }

    /// Reads the next frame of any code.
    pub(crate) fn frame(&mut self) -> Frame {
        loop {
            if let Some(frame) = FrameDecoder::new(1 << 30).next_frame(&mut self.input).unwrap() {
                return frame;
            }
            let mut piece = [0; 16 * 1024];
            let count = self.stream.read(&mut piece).unwrap();
            assert!(count > 0, "the connection has ended");
            self.input.extend_from_slice(&piece[..count]);
        }
    }

    pub(crate) fn ask<A: Body>(&mut self, request: &impl Body) -> A {
        let mut bytes = BytesMut::new();
        append_message(&mut bytes, request).unwrap();
        self.send_bytes(&bytes).decode().expect("the answer asked for")
    }

    /// Sends raw bytes. Returns true if the socket took all of them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The same connection, for reading.
    pub(crate) fn reader(&self) -> Self {
        Self { stream: self.stream.try_clone().unwrap(), input: BytesMut::new() }
    }

    /// Reads until the server closes the connection. Returns the number of bytes.
    pub(crate) fn drain(mut self) -> usize {
        let mut piece = vec![0; 64 * 1024];
        let mut total = 0;
        while let Ok(count @ 1..) = self.stream.read(&mut piece) {
            total += count;
        }
        total
    }

    /// Sends a request and closes the connection.
    pub(crate) fn leave(mut self, request: &impl Body) {
        let mut bytes = BytesMut::new();
        append_message(&mut bytes, request).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    /// Sends a request and returns the text of the error that answers it.
    pub(crate) fn refusal(&mut self, request: &impl Body) -> String {
        let mut bytes = BytesMut::new();
        append_message(&mut bytes, request).unwrap();
        self.stream.write_all(&bytes).unwrap();
        self.error()
    }

    /// Reads the next answer, which must be an error, and returns its text.
    pub(crate) fn error(&mut self) -> String {
        let answer: RpbErrorResp = self.frame().decode().expect("an error");
        String::from_utf8(answer.errmsg.to_vec()).unwrap()
    }

    /// True if the server has closed the connection and no bytes remain.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(fault) => fault.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

fn get_of(key: &'static str) -> RpbGetReq {
    RpbGetReq { bucket: "b".into(), key: key.into(), ..RpbGetReq::default() }
}

fn put_of(key: &'static str, value: &'static str) -> RpbPutReq {
    RpbPutReq {
        bucket: "b".into(),
        key: Some(key.into()),
        content: RpbContent { value: value.into(), ..RpbContent::default() },
        ..RpbPutReq::default()
    }
}

#[test]
fn a_value_that_is_still_the_same_is_unchanged_and_a_tombstone_is_not_found() {
    let node = Node::start();
    let mut client = Binary::connect(&node);
    let stored: RpbPutResp =
        client.ask(&RpbPutReq { return_body: Some(true), ..put_of("k", "one") });
    let same = RpbGetReq { if_modified: stored.vclock, ..get_of("k") };
    assert_eq!(client.ask::<RpbGetResp>(&same).unchanged, Some(true));

    let delete = RpbDelReq { bucket: "b".into(), key: "k".into(), ..RpbDelReq::default() };
    client.ask::<quoit_wire::messages::RpbDelResp>(&delete);
    let with_clock = RpbGetReq { deletedvclock: Some(true), ..get_of("k") };
    let tombstone: RpbGetResp = client.ask(&with_clock);
    let if_modified = tombstone.vclock.clone();
    let found: RpbGetResp = client.ask(&RpbGetReq { if_modified, ..with_clock });
    assert_eq!((found.unchanged, found.vclock), (None, tombstone.vclock.clone()));
    let if_modified = tombstone.vclock;
    let found: RpbGetResp = client.ask(&RpbGetReq { if_modified, ..get_of("k") });
    assert_eq!(found, RpbGetResp::default());
}

#[test]
fn a_link_without_a_tag_comes_back_without_and_reads_as_an_empty_one() {
    let node = Node::start();
    let mut client = Binary::connect(&node);
    let link = RpbLink { bucket: Some("b2".into()), key: Some("k2".into()), tag: None };
    let mut put = put_of("k", "one");
    put.content.links.push(link.clone());
    client.ask::<RpbPutResp>(&put);
    let found: RpbGetResp = client.ask(&get_of("k"));
    assert_eq!(found.content[0].links, [link]);
    let shown = "</buckets/b>; rel=\"up\", </buckets/b2/keys/k2>; riaktag=\"\"";
    assert_eq!(node.get("/buckets/b/keys/k").header("link"), Some(shown));
}

#[test]
fn of_both_conditions_the_one_that_nothing_is_there_counts() {
    let node = Node::start();
    let mut client = Binary::connect(&node);
    let both =
        RpbPutReq { if_none_match: Some(true), if_not_modified: Some(true), ..put_of("k", "one") };
    assert_eq!(client.ask::<RpbPutResp>(&both), RpbPutResp::default());
    assert_eq!(client.refusal(&both), "match_found");
}

#[test]
fn a_frame_without_a_code_ends_the_connection_without_a_word() {
    let node = Node::start();
    let mut client = Binary::connect(&node);
    client.stream.write_all(&[0, 0, 0, 0, 0, 0, 0, 1, 1]).unwrap();
    let mut answers = Vec::new();
    let ended = client.stream.read_to_end(&mut answers);
    assert!(ended.is_ok_and(|count| count == 0), "{answers:?}");
}

#[test]
fn of_several_faults_of_a_put_the_one_of_its_index_entries_is_told_last() {
    let node = Node::start();
    node.put("/buckets/b/keys/there", "one");
    let mut client = Binary::connect(&node);
    let mut faulty = RpbPutReq {
        bucket: Bytes::new(),
        vclock: Some("garbage".into()),
        if_none_match: Some(true),
        bucket_type: Some("none".into()),
        w: Some(4),
        ..put_of("there", "two")
    };
    faulty.content.indexes.push(RpbPair { key: "f_int".into(), value: Some("x".into()) });
    assert_eq!(client.refusal(&faulty), "Bucket cannot be zero-length");
    faulty.bucket = "b".into();
    assert!(client.refusal(&faulty).starts_with("vector clock of 7 bytes"));
    faulty.vclock = None;
    assert_eq!(client.refusal(&faulty), "no_type");
    faulty.bucket_type = None;
    assert_eq!(client.refusal(&faulty), "match_found");
    faulty.if_none_match = None;
    assert_eq!(client.refusal(&faulty), "{n_val_violation,3}");
    faulty.w = None;
    let index = "{precommit_fail,[{field_parsing_failed,{<<\"f_int\">>,<<\"x\">>}}]}";
    assert_eq!(client.refusal(&faulty), index);
    assert_eq!(node.get("/buckets/b/keys/there").text(), "one", "nothing was written");
}

#[test]
fn codes_that_no_service_has_are_unknown_and_the_connection_goes_on() {
    let node = Node::start();
    let mut client = Binary::connect(&node);
    for code in [0, 42, 90, 199, 253, 254] {
        let frame = client.send_bytes(&[0, 0, 0, 1, code]);
        let answer: RpbErrorResp = frame.decode().expect("an error");
        let expected = format!("Unknown message code: {code}");
        assert_eq!(answer.errmsg, Bytes::from(expected));
    }
}

#[test]
fn more_nodes_than_there_are_have_the_words_of_each_protocol() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "one");
    let mut client = Binary::connect(&node);
    let term = "{insufficient_nodes,1,need,2}";
    let confirmed = RpbGetReq { node_confirms: Some(2), ..get_of("k") };
    assert_eq!(client.refusal(&confirmed), term);
    let answer = node.get("/buckets/b/keys/k?node_confirms=2");
    assert_eq!((answer.status, answer.text()), (500, format!("Error:\n{term}\n").as_str()));
    let answer = node.put("/buckets/b/keys/k?node_confirms=2", "two");
    let text = "node_confirms-value unsatisfied: 1/2\n";
    assert_eq!((answer.status, answer.text()), (503, text));
}

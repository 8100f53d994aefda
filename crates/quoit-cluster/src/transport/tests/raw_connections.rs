//! A peer whose frames are written by hand: newer than this node, or violating the protocol.

use super::*;
use bytes::BytesMut;
use quoit_wire::internode::{
    FLAG_LAST, FLAG_STREAM, FrameKind, FramePrefix, Hello, InternodeDecoder, InternodeFrame,
    append_frame, append_hello,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A connection to node 2, which believes that node 9 is at the other end.
struct RawConnection {
    stream: Stream,
    input: BytesMut,
}

impl RawConnection {
    async fn connect(network: &MemoryNetwork) -> RawConnection {
        let stream = network.host("n9").connect("n2:1").await.unwrap();
        let mut by_hand = RawConnection { stream, input: BytesMut::new() };
        let hello = Hello {
            version_min: 1,
            version_max: 5,
            cluster_id: Bytes::copy_from_slice(&CLUSTER.0),
            node_id: Bytes::copy_from_slice(&id(9).0),
            expected_node_id: Bytes::copy_from_slice(&id(2).0),
            features: u64::MAX,
            frame_bytes_max: 100_000,
            stream_window_bytes: 10,
            ..Hello::default()
        };
        let mut bytes = Vec::new();
        append_hello(&mut bytes, &hello).unwrap();
        by_hand.write(&bytes).await;
        let answer = by_hand.frame().await.unwrap();
        assert_eq!(answer.prefix.kind, FrameKind::Hello as u8);
        by_hand
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.writer.write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, kind: u8, flags: u8, method: u16, call: u32, header: u64) {
        let mut bytes = Vec::new();
        let prefix = FramePrefix { kind, flags, method, call };
        append_frame(&mut bytes, prefix, &header, b"").unwrap();
        self.write(&bytes).await;
    }

    /// Reads the next frame; `None` if the node has closed the connection.
    async fn frame(&mut self) -> Option<InternodeFrame> {
        loop {
            let decoder = InternodeDecoder::new(1_000_000);
            if let Some(frame) = decoder.next_frame(&mut self.input).unwrap() {
                return Some(frame);
            }
            let reading = self.stream.reader.read_buf(&mut self.input);
            match timeout(Duration::from_secs(1), reading).await.expect("not within a second") {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

const REQUEST: u8 = FrameKind::Request as u8;

#[tokio::test(start_paused = true)]
async fn kinds_flags_and_features_of_newer_nodes_are_skipped() {
    let network = MemoryNetwork::default();
    let _two = node(&network, 2).await;
    let mut newer = RawConnection::connect(&network).await;
    newer.send(200, 0xff, 7, 7, 7).await;
    newer.send(REQUEST, 0xf0, ECHO, 41, 5).await;
    let answer = newer.frame().await.unwrap();
    let last = FramePrefix { flags: FLAG_LAST, ..FramePrefix::new(FrameKind::Answer, 41) };
    assert_eq!(answer.prefix, last);
}

#[tokio::test(start_paused = true)]
async fn frames_out_of_place_end_the_connection() {
    let network = MemoryNetwork::default();
    let _two = node(&network, 2).await;
    for kind in [
        FrameKind::Hello,
        FrameKind::Answer,
        FrameKind::Refusal,
        FrameKind::Pong,
        FrameKind::Goodbye,
    ] {
        let mut odd = RawConnection::connect(&network).await;
        odd.send(kind as u8, 0, 0, 1, 0).await;
        assert_eq!(odd.frame().await, None, "{kind:?}");
    }
    let mut odd = RawConnection::connect(&network).await;
    odd.send(FrameKind::Window as u8, 0, 0, 1, 0).await;
    assert_eq!(odd.frame().await, None, "a window without its number");
}

#[tokio::test(start_paused = true)]
async fn who_sends_more_than_the_window_is_cut_off() {
    let network = MemoryNetwork::default();
    let mut narrow = settings(2);
    narrow.limits.window_calls = 10;
    let _two = node_with(&network, "n2", narrow).await;
    let mut greedy = RawConnection::connect(&network).await;
    for call in 0..10 {
        greedy.send(REQUEST, 0, ECHO_LATER, call, 100).await;
    }
    assert_eq!(greedy.frame().await.unwrap().prefix.call, 0, "as many as the window allows");
    for call in 10..30 {
        greedy.send(REQUEST, 0, ECHO_LATER, call, 900).await;
    }
    while greedy.frame().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn one_number_for_two_streams_ends_the_connection() {
    let network = MemoryNetwork::default();
    let _two = node(&network, 2).await;
    let mut odd = RawConnection::connect(&network).await;
    odd.send(REQUEST, FLAG_STREAM, COUNT, 1, 100).await;
    odd.send(REQUEST, FLAG_STREAM, COUNT, 1, 100).await;
    while odd.frame().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn cancels_and_windows_of_calls_that_are_over_do_nothing() {
    let network = MemoryNetwork::default();
    let _two = node(&network, 2).await;
    let mut late = RawConnection::connect(&network).await;
    late.send(FrameKind::Cancel as u8, 0, 0, 77, 0).await;
    let mut window = Vec::new();
    let prefix = FramePrefix::new(FrameKind::Window, 77);
    append_frame(&mut window, prefix, &(), &u32::MAX.to_be_bytes()).unwrap();
    late.write(&window).await;
    late.send(REQUEST, 0, ECHO, 1, 0).await;
    assert_eq!(late.frame().await.unwrap().prefix.call, 1);
}

#[tokio::test(start_paused = true)]
async fn requests_that_waited_while_the_node_stood_still_are_not_served() {
    let network = MemoryNetwork::default();
    let _two = node(&network, 2).await;
    for (stands_still_s, is_served) in [(29, true), (31, false)] {
        let mut late = RawConnection::connect(&network).await;
        sleep(Duration::from_millis(100)).await;
        late.send(REQUEST, 0, ECHO, 1, 0).await;
        // Time passes before the node's tasks run, as for a process that was suspended.
        tokio::time::advance(Duration::from_secs(stands_still_s)).await;
        assert_eq!(late.frame().await.is_some(), is_served, "after {stands_still_s} s");
    }
}

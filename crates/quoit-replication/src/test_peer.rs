//! A node of another cluster, for tests.

use crate::address::PeerAddress;
use bytes::BytesMut;
use quoit_wire::messages::RpbErrorResp;
use quoit_wire::{Body, Frame, FrameDecoder, append_message};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Starts a peer that answers requests over Protocol Buffers with the frames that `answer` returns.
pub(crate) async fn start_peer<A: Future<Output = BytesMut> + Send + 'static>(
    answer: impl Fn(Frame) -> A + Clone + Send + 'static,
) -> PeerAddress {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer.clone()));
        }
    });
    format!("{address}:pb").parse().expect("an address of a peer")
}

async fn serve<A: Future<Output = BytesMut>>(mut stream: TcpStream, answer: impl Fn(Frame) -> A) {
    let (decoder, mut bytes) = (FrameDecoder::default(), BytesMut::new());
    while stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
        while let Some(frame) = decoder.next_frame(&mut bytes).expect("a frame") {
            if stream.write_all(&answer(frame).await).await.is_err() {
                return;
            }
        }
    }
}

/// The frame of a message.
pub(crate) fn frame_of<M: Body>(message: &M) -> BytesMut {
    let mut frame = BytesMut::new();
    append_message(&mut frame, message).expect("a small message");
    frame
}

/// The answer of a peer that does not know a request.
pub(crate) fn unknown_request(frame: &Frame) -> BytesMut {
    let errmsg = format!("Unknown message code: {}", frame.code).into();
    frame_of(&RpbErrorResp { errmsg, errcode: 0 })
}

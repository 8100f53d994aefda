//! Processor time of the client for a read, compared with bare sockets that transfer the same bytes.
//!
//! Run with `cargo bench -p quoit-client`. The server is a thread that always sends the same answer. Each
//! figure is the lowest on-CPU time of the client's thread over several rounds, system calls included.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool that prints figures")]

use bytes::Bytes;
use quoit_client::wire::append_message;
use quoit_client::wire::messages::{RpbContent, RpbGetReq, RpbGetResp};
use quoit_client::{Bucket, Client, Connection};
use std::io::{Read, Write};
use std::net::TcpListener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ROUNDS: u32 = 7;
const CALLS_PER_ROUND: u32 = 20_000;
const PIPELINED: u32 = 16;

/// On-CPU time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

/// Runs several rounds and prints the lowest time per call.
async fn measure(name: &str, mut round: impl AsyncFnMut(u32)) {
    let mut least_ns = u64::MAX;
    for _ in 0..ROUNDS {
        let start_ns = cpu_ns();
        round(CALLS_PER_ROUND).await;
        least_ns = least_ns.min((cpu_ns() - start_ns) / u64::from(CALLS_PER_ROUND));
    }
    println!("{name:<40} {least_ns:>6} ns");
}

/// Answers every `request_size_bytes` bytes with the same frame.
fn serve(request_size_bytes: usize, answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                let mut owed_bytes = 0;
                while let Ok(size_bytes @ 1..) = stream.read(&mut buffer) {
                    owed_bytes += size_bytes;
                    let answers = answer.repeat(owed_bytes / request_size_bytes);
                    owed_bytes %= request_size_bytes;
                    stream.write_all(&answers).unwrap();
                }
            });
        }
    });
    address
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run());
}

async fn run() {
    let request = RpbGetReq {
        bucket: Bytes::from_static(b"bucket"),
        key: Bytes::from_static(b"user:0000012345"),
        ..Default::default()
    };
    let content = RpbContent {
        value: Bytes::from(vec![b'x'; 1024]),
        content_type: Some(Bytes::from_static(b"application/octet-stream")),
        vtag: Some(Bytes::from_static(b"4ZqXSCrBG5ywOpT2MGWVqG")),
        last_mod: Some(1_700_000_000),
        last_mod_usecs: Some(123_456),
        ..Default::default()
    };
    let vclock = Some(Bytes::from(vec![7; 30]));
    let answer = RpbGetResp { content: vec![content], vclock, unchanged: None };
    let (mut request_frame, mut answer_frame) = (Vec::new(), Vec::new());
    append_message(&mut request_frame, &request).unwrap();
    append_message(&mut answer_frame, &answer).unwrap();
    let address = serve(request_frame.len(), answer_frame.clone());

    let mut socket = TcpStream::connect(&address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let mut buffer = vec![0; answer_frame.len()];
    measure("bare socket", async |calls| {
        for _ in 0..calls {
            socket.write_all(&request_frame).await.unwrap();
            socket.read_exact(&mut buffer).await.unwrap();
        }
    })
    .await;

    let mut connection = Connection::connect(&address).await.unwrap();
    measure("Connection::call", async |calls| {
        for _ in 0..calls {
            connection.call::<_, RpbGetResp>(&request).await.unwrap();
        }
    })
    .await;
    measure("Connection, 16 queued at a time", async |calls| {
        for _ in 0..calls / PIPELINED {
            (0..PIPELINED).for_each(|_| connection.queue(&request).unwrap());
            connection.flush().await.unwrap();
            for _ in 0..PIPELINED {
                connection.receive().await.unwrap().decode::<RpbGetResp>().unwrap();
            }
        }
    })
    .await;

    let client = Client::connect_to(address).unwrap();
    let location = Bucket::new("bucket").key("user:0000012345");
    measure("Client::get", async |calls| {
        for _ in 0..calls {
            client.get(&location).await.unwrap().unwrap();
        }
    })
    .await;
}

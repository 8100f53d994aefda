//! Listing of the keys and buckets of a node with many keys, alone and concurrent with gets.

use crate::CommonOptions;
use crate::drive::{Load, Measured, drive};
use crate::processes::resident_bytes;
use crate::protocol::{Exchange, key};
use crate::servers::{self, Running};
use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use quoit_wire::MessageCode;
use quoit_wire::frame::{Frame, FrameDecoder, append_message};
use quoit_wire::messages::{
    RpbContent, RpbListBucketsReq, RpbListBucketsResp, RpbListKeysReq, RpbListKeysResp, RpbPutReq,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// Number of buckets over which the keys are distributed.
const BUCKET_COUNT: u64 = 10;
/// Number of requests that are sent before their answers are read.
const PIPELINE: u64 = 256;
/// Longest frame of an answer, in bytes.
const FRAME_BYTES_MAX: u32 = 64 << 20;
/// Gets per second, without and with a concurrent listing.
const GET_RATE: f64 = 5_000.0;

struct ListingConnection {
    stream: TcpStream,
    input: BytesMut,
    piece: Vec<u8>,
}

impl ListingConnection {
    fn new(node: &Running) -> Result<Self> {
        let stream = TcpStream::connect(node.address).context("connecting")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: BytesMut::new(), piece: vec![0; 256 << 10] })
    }

    fn frame(&mut self) -> Result<Frame> {
        loop {
            let frames = FrameDecoder::new(FRAME_BYTES_MAX);
            if let Some(frame) = frames.next_frame(&mut self.input)? {
                let said = String::from_utf8_lossy(&frame.body);
                ensure!(frame.code != MessageCode::ErrorResp as u8, "the node said {said}");
                return Ok(frame);
            }
            let count = self.stream.read(&mut self.piece)?;
            ensure!(count > 0, "the node closed the connection");
            self.input.extend_from_slice(&self.piece[..count]);
        }
    }
}

fn bucket(number: u64) -> Bytes {
    format!("bucket{}", number % BUCKET_COUNT).into()
}

fn fill(node: &Running, key_count: u64, value_bytes: usize) -> Result<()> {
    let mut connection = ListingConnection::new(node)?;
    let value = Bytes::from(vec![b'v'; value_bytes]);
    let (mut sent, mut answered) = (0, 0);
    while answered < key_count {
        let mut out = BytesMut::new();
        while sent < key_count && sent - answered < PIPELINE {
            let put = RpbPutReq {
                bucket: bucket(sent),
                key: Some(Bytes::copy_from_slice(&key(sent))),
                content: RpbContent { value: value.clone(), ..RpbContent::default() },
                dw: Some(0),
                ..RpbPutReq::default()
            };
            append_message(&mut out, &put)?;
            sent += 1;
        }
        connection.stream.write_all(&out)?;
        while answered < sent {
            connection.frame()?;
            answered += 1;
        }
    }
    Ok(())
}

/// Lists the keys of all buckets. Returns their number and the time.
fn list_keys(node: &Running) -> Result<(u64, Duration)> {
    let mut connection = ListingConnection::new(node)?;
    let begun = Instant::now();
    let mut key_count = 0;
    for number in 0..BUCKET_COUNT {
        let request = RpbListKeysReq { bucket: bucket(number), ..RpbListKeysReq::default() };
        let mut out = BytesMut::new();
        append_message(&mut out, &request)?;
        connection.stream.write_all(&out)?;
        loop {
            let answer: RpbListKeysResp = connection.frame()?.decode()?;
            key_count += answer.keys.len() as u64;
            if answer.done == Some(true) {
                break;
            }
        }
    }
    Ok((key_count, begun.elapsed()))
}

fn list_buckets(node: &Running) -> Result<(usize, Duration)> {
    let mut connection = ListingConnection::new(node)?;
    let begun = Instant::now();
    let mut out = BytesMut::new();
    append_message(&mut out, &RpbListBucketsReq::default())?;
    connection.stream.write_all(&out)?;
    let answer: RpbListBucketsResp = connection.frame()?.decode()?;
    Ok((answer.buckets.len(), begun.elapsed()))
}

fn gets(common: &CommonOptions, node: &Running, duration: Duration) -> Result<Measured> {
    let load = Load {
        exchange: Exchange::PbGet,
        connections: 8,
        operations: quoit_number::whole(GET_RATE * duration.as_secs_f64()),
        value_bytes: common.value_bytes,
        first_key: 0,
        key_count: common.keys.min(10_000),
        sequential: false,
        rate: Some(GET_RATE),
        sleeps: common.sleeping_driver,
        seed: 11,
    };
    drive(&node.target(), &load)
}

/// Fills a node, lists its buckets and keys, and repeats the listing beside gets.
pub(crate) fn listing(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let (node, _) = servers::quoit(common.program(), &dir.path().join("data"))?;
    fill(&node, common.keys, common.value_bytes)?;
    // The records that gets read are in another bucket.
    let mut of_gets = common.clone();
    of_gets.keys = common.keys.min(10_000);
    of_gets.fill(&node, node.address, of_gets.put(Some(0)))?;
    println!("{} keys of 16 bytes in {BUCKET_COUNT} buckets", common.keys);
    for _ in 0..common.rounds {
        let (count, took) = list_buckets(&node)?;
        ensure!(count as u64 == BUCKET_COUNT + 1, "{count} buckets were listed");
        let before = resident_bytes(node.pid())?;
        let (keys, whole) = list_keys(&node)?;
        ensure!(keys == common.keys, "{keys} keys were listed");
        let grown = resident_bytes(node.pid())?.saturating_sub(before);
        println!(
            "buckets in {:.1} ms; keys: {:.0} a second, memory grown by {:.1} MB",
            took.as_secs_f64() * 1e3,
            keys as f64 / whole.as_secs_f64(),
            grown as f64 / 1e6
        );
        let alone = gets(common, &node, Duration::from_secs(5))?;
        let beside = thread::scope(|scope| {
            let lists = scope.spawn(|| -> Result<u64> {
                let (begun, mut count) = (Instant::now(), 0);
                while begun.elapsed() < Duration::from_secs(5) {
                    list_keys(&node)?;
                    count += 1;
                }
                Ok(count)
            });
            let beside = gets(common, &node, Duration::from_secs(5));
            let listed = lists.join().map_err(|_| anyhow::anyhow!("the lister panicked"))?;
            listed.and_then(|count| Ok((beside?, count)))
        })?;
        let (beside, list_count) = beside;
        println!(
            "p99 of {GET_RATE} gets a second: {} us alone, {} us beside {list_count} listings: {:.2}x",
            alone.percentile_us(0.99),
            beside.percentile_us(0.99),
            f64::from(beside.percentile_us(0.99)) / f64::from(alone.percentile_us(0.99))
        );
    }
    node.stop()
}

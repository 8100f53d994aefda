//! Server processor time of gets and puts of large values, compared with an echo of the same bytes.
//!
//! One connection has one request in flight, and blocks: a driver of many connections would wait for one
//! while the server waits for another, because large requests and answers fill the buffers of sockets.

use crate::CommonOptions;
use crate::drive::{Measured, Target, incompressible};
use crate::echo::Sizes;
use crate::processors;
use crate::protocol::{find_bytes, key};
use crate::report::{median, spread};
use crate::servers::{self, Running};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use clap::Args;
use quoit_wire::MessageCode;
use quoit_wire::frame::encode_message;
use quoit_wire::messages::{RpbContent, RpbGetReq, RpbPutReq};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Sizes of the values, in bytes.
const VALUE_BYTES: [usize; 2] = [64 * 1024, 1_000_000];
/// Number of keys of each size.
const KEY_COUNT: u64 = 64;
/// Time without any answer after which the server counts as failed.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// Longest head of an answer over HTTP, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Options of `large`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LargeOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Bytes of values that each measurement moves.
    #[arg(long, default_value_t = 1_000_000_000)]
    bytes: u64,
}

impl LargeOptions {
    pub(crate) const fn common(&self) -> &CommonOptions {
        &self.common
    }
}

/// One kind of exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LargeExchange {
    Echo(Sizes),
    PbGet,
    /// Without waiting for a sync.
    PbPut,
    HttpGet,
    /// Without waiting for a sync.
    HttpPut,
}

/// One line of a comparison.
struct LargeRow {
    name: String,
    exchange: LargeExchange,
    target: Target,
    runs: Vec<Measured>,
}

/// A blocking connection.
struct LargeClient {
    stream: TcpStream,
    /// The last answer.
    answer: Vec<u8>,
}

impl LargeExchange {
    /// The request for a key.
    fn request(self, number: u64, value: &Bytes) -> Result<Vec<u8>> {
        let (bucket, key) = (Bytes::from_static(b"large"), Bytes::copy_from_slice(&key(number)));
        let path = format!("/buckets/large/keys/{}", String::from_utf8_lossy(&key));
        Ok(match self {
            Self::Echo(sizes) => vec![b'q'; sizes.request],
            Self::PbGet => encode_message(&RpbGetReq { bucket, key, ..RpbGetReq::default() })?,
            Self::PbPut => encode_message(&RpbPutReq {
                bucket,
                key: Some(key),
                content: RpbContent {
                    value: value.clone(),
                    content_type: Some(Bytes::from_static(b"application/octet-stream")),
                    ..RpbContent::default()
                },
                dw: Some(0),
                ..RpbPutReq::default()
            })?,
            Self::HttpGet => {
                format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n")
                    .into_bytes()
            }
            Self::HttpPut => {
                let head = format!(
                    "PUT {path}?dw=0 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: \
                     application/octet-stream\r\nContent-Length: {}\r\n\r\n",
                    value.len()
                );
                [head.as_bytes(), value].concat()
            }
        })
    }
}

impl LargeClient {
    fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_LIMIT))?;
        Ok(Self { stream, answer: Vec::new() })
    }

    /// Sends a request and reads its answer. Fails unless the answer is a success.
    fn ask(&mut self, exchange: LargeExchange, request: &[u8], value_bytes: usize) -> Result<()> {
        self.stream.write_all(request).context("sending a request")?;
        self.answer.clear();
        match exchange {
            LargeExchange::Echo(sizes) => self.read_up_to(sizes.response),
            LargeExchange::PbGet => self.read_frame(MessageCode::GetResp, value_bytes),
            LargeExchange::PbPut => self.read_frame(MessageCode::PutResp, 0),
            LargeExchange::HttpGet => self.read_http("HTTP/1.1 200", value_bytes),
            LargeExchange::HttpPut => self.read_http("HTTP/1.1 204", 0),
        }
    }

    /// Reads until the answer has this many bytes.
    fn read_up_to(&mut self, size: usize) -> Result<()> {
        let known = self.answer.len();
        if known < size {
            self.answer.resize(size, 0);
            self.stream.read_exact(&mut self.answer[known..]).context("reading an answer")?;
        }
        Ok(())
    }

    fn read_frame(&mut self, code: MessageCode, value_bytes: usize) -> Result<()> {
        self.read_up_to(4)?;
        let length = self.answer.first_chunk().map_or(0, |length| u32::from_be_bytes(*length));
        self.read_up_to(4 + length as usize)?;
        let is_wanted = self.answer.get(4) == Some(&(code as u8));
        ensure!(is_wanted && self.answer.len() > value_bytes, "{} is no answer", self.shown());
        Ok(())
    }

    fn read_http(&mut self, status: &str, value_bytes: usize) -> Result<()> {
        let mut buffer = [0; 4096];
        let head_bytes = loop {
            if let Some(at) = find_bytes(&self.answer, b"\r\n\r\n") {
                break at + 4;
            }
            ensure!(self.answer.len() <= HEAD_BYTES_MAX, "{} has no end", self.shown());
            let count = self.stream.read(&mut buffer).context("reading an answer")?;
            if count == 0 {
                bail!("the server closed the connection");
            }
            self.answer.extend_from_slice(&buffer[..count]);
        };
        self.read_up_to(head_bytes + value_bytes)?;
        let is_wanted = self.answer.starts_with(status.as_bytes());
        let is_whole = self.answer.len() == head_bytes + value_bytes;
        ensure!(is_wanted && is_whole, "{} is no answer", self.shown());
        Ok(())
    }

    /// The beginning of the answer as text.
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.answer[..self.answer.len().min(100)]).into_owned()
    }
}

/// Makes `operations` exchanges on one connection.
fn run(row: &LargeRow, value: &Bytes, operations: u64) -> Result<Measured> {
    let address = row.target.addresses.first().context("a server has an address")?;
    let mut client = LargeClient::connect(*address)?;
    let requests: Vec<Vec<u8>> =
        (0..KEY_COUNT).map(|number| row.exchange.request(number, value)).collect::<Result<_>>()?;
    let mut latencies_us = Vec::new();
    let (cpu_before, started) = (row.target.cpu()?, Instant::now());
    std::thread::scope(|scope| {
        let driver = scope.spawn(|| -> Result<()> {
            processors::pin_to_driver_cpu()?;
            let places = requests.iter().cycle().zip(0..operations);
            for (request, _) in places {
                let sent = Instant::now();
                client.ask(row.exchange, request, value.len())?;
                let us = sent.elapsed().as_micros();
                latencies_us.push(u32::try_from(us).unwrap_or(u32::MAX));
            }
            Ok(())
        });
        driver.join().expect("the driver does not panic")
    })?;
    let elapsed = started.elapsed();
    let server_cpu = row.target.cpu()?.saturating_sub(cpu_before);
    latencies_us.sort_unstable();
    let operations_of_connections = vec![operations];
    Ok(Measured { elapsed, operations, server_cpu, latencies_us, operations_of_connections })
}

/// The sizes of an exchange, as the server answers it now.
fn sizes(exchange: LargeExchange, address: SocketAddr, value: &Bytes) -> Result<Sizes> {
    let mut client = LargeClient::connect(address)?;
    let request = exchange.request(0, value)?;
    client.ask(exchange, &request, value.len())?;
    Ok(Sizes { request: request.len(), response: client.answer.len() })
}

/// Compares an exchange with an echo of its sizes, and prints both.
fn compare(
    options: &LargeOptions,
    node: &Running,
    (name, exchange): (&str, LargeExchange),
    value: &Bytes,
) -> Result<()> {
    let address = match exchange {
        LargeExchange::HttpGet | LargeExchange::HttpPut => {
            node.http.context("the node's HTTP address")?
        }
        _ => node.address,
    };
    let sizes = sizes(exchange, address, value)?;
    let echo = servers::echo(sizes, None)?;
    let row =
        |name: String, exchange, target| LargeRow { name, exchange, target, runs: Vec::new() };
    let mut rows = [
        row(format!("echo, sizes of {name}"), LargeExchange::Echo(sizes), echo.target()),
        row(name.to_owned(), exchange, node.at(address)),
    ];
    let operations = (options.bytes / value.len() as u64).max(10);
    for row in &rows {
        run(row, value, (operations / 10).max(1))?;
    }
    for round in 0..options.common.rounds {
        for turn in 0..rows.len() {
            let place = (round + turn) % rows.len();
            let measured = run(&rows[place], value, operations)?;
            rows[place].runs.push(measured);
        }
    }
    print(&rows, value.len());
    Ok(())
}

/// Prints an echo and what was compared with it.
fn print(rows: &[LargeRow; 2], value_bytes: usize) {
    let [echo, _] = rows;
    let cpu_us = |row: &LargeRow| -> Vec<f64> { row.runs.iter().map(Measured::cpu_us).collect() };
    for row in rows {
        let ratios: Vec<f64> =
            cpu_us(row).iter().zip(cpu_us(echo)).map(|(mine, theirs)| mine / theirs).collect();
        let at = |share: f64| {
            median(row.runs.iter().map(|run| f64::from(run.percentile_us(share))).collect())
        };
        println!(
            "| {value_bytes} | {} | {:.0} ({}) | {:.2} ({}) | {:.0} | {:.0} |",
            row.name,
            median(cpu_us(row)),
            spread(&cpu_us(row)),
            median(ratios.clone()),
            spread(&ratios),
            at(0.50),
            at(0.99),
        );
    }
}

/// Prints the processor time of gets and puts of large values, over both protocols.
pub(crate) fn large(options: &LargeOptions) -> Result<()> {
    let common = &options.common;
    let dir = tempfile::tempdir_in(&common.dir)?;
    let (node, _) = servers::quoit(common.program(), &dir.path().join("data"))?;
    println!("| value bytes | what | CPU us/op | vs. echo | p50 us | p99 us |");
    println!("|---|---|---|---|---|---|");
    for value_bytes in VALUE_BYTES {
        let value = incompressible(value_bytes);
        let mut client = LargeClient::connect(node.address)?;
        for number in 0..KEY_COUNT {
            let put = LargeExchange::PbPut;
            client.ask(put, &put.request(number, &value)?, value.len()).context("filling")?;
        }
        for (name, exchange) in [
            ("PB get", LargeExchange::PbGet),
            ("HTTP get", LargeExchange::HttpGet),
            ("PB put dw=0", LargeExchange::PbPut),
            ("HTTP put dw=0", LargeExchange::HttpPut),
        ] {
            compare(options, &node, (name, exchange), &value)?;
        }
    }
    Ok(())
}

//! Server cost of operations on data types, which should not depend on the size of the data type.

use crate::CommonOptions;
use crate::data_exchange::{DataExchange, DataTypeOperation};
use crate::drive::{Load, Target, drive};
use crate::processes::resident_bytes;
use crate::protocol::{Exchange, key};
use crate::report::{median, spread};
use crate::servers::{self, Running};
use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use quoit_model::props::Datatype;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// Sizes of sets and maps, and the names of the records that have them.
const SIZES: [(u64, &str); 3] = [(10, "small"), (10_000, "middle"), (1_000_000, "large")];
const MAP_SIZES: [(u64, &str); 2] = [(10, "small"), (100_000, "large")];
/// Sizes of sets in maps, and the names of the maps.
const INNER_SIZES: [(u64, &str); 2] = [(10, "around small"), (100_000, "around large")];

/// Number of elements or fields in one request while a record is filled.
const FILL_COUNT: usize = 1_000;

/// Number of reads of the large set in one round.
const READ_COUNT: u64 = 40;

/// Size of the value that a counter is compared with, in bytes.
const NUMBER_BYTES: usize = 8;

/// One line of the table.
struct Line {
    name: String,
    exchange: Exchange,
    key_count: u64,
    value_bytes: usize,
    cpu_us: Vec<f64>,
    written_bytes: Vec<f64>,
}

impl Line {
    fn data(name: String, asked: DataTypeOperation, record: &'static str, key_count: u64) -> Self {
        Self::new(name, Exchange::Data(DataExchange { asked, record }), key_count, 0)
    }

    const fn new(name: String, exchange: Exchange, key_count: u64, value_bytes: usize) -> Self {
        Self {
            name,
            exchange,
            key_count,
            value_bytes,
            cpu_us: Vec::new(),
            written_bytes: Vec::new(),
        }
    }
}

/// Fills records of several sizes, runs the operations in interleaved rounds, and prints the cost of each.
pub(crate) fn data_types(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let data = dir.path().join("data");
    let (node, _) = servers::quoit(common.program(), &data)?;
    let types = [("sets", Datatype::Set), ("maps", Datatype::Map), ("counters", Datatype::Counter)];
    for (name, datatype) in types {
        make_type(common, &node, name, datatype)?;
    }
    for (size, record) in SIZES {
        fill(&node, DataExchange { asked: DataTypeOperation::Add, record }, size)?;
    }
    for (size, record) in MAP_SIZES {
        fill(&node, DataExchange { asked: DataTypeOperation::CountField, record }, size)?;
    }
    for (size, record) in INNER_SIZES {
        fill(&node, DataExchange { asked: DataTypeOperation::AddInMap, record }, size)?;
    }
    let mut lines = lines();
    let target = node.target();
    for line in &lines {
        // The records must exist before they are read.
        let first = Load { sequential: true, ..load(common, line, line.key_count.min(20_000)) };
        if matches!(line.exchange, Exchange::PbPut { .. }) {
            drive(&target, &first)?;
        }
    }
    for _ in 0..common.rounds {
        for line in &mut lines {
            measure(common, line, &target, &data)?;
        }
    }
    print(&lines);
    read_whole(common, &node)
}

fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for (size, record) in SIZES {
        lines.push(Line::data(
            format!("add to a set of {size}"),
            DataTypeOperation::Add,
            record,
            size,
        ));
    }
    for (size, record) in MAP_SIZES {
        let name = format!("count a field of {size}");
        lines.push(Line::data(name, DataTypeOperation::CountField, record, size));
    }
    for (size, record) in INNER_SIZES {
        let name = format!("add to a set of {size} in a map");
        lines.push(Line::data(name, DataTypeOperation::AddInMap, record, size));
    }
    for (size, record) in SIZES {
        let name = format!("is it in a set of {size}");
        lines.push(Line::data(name, DataTypeOperation::Contains, record, size));
    }
    for (size, record) in SIZES {
        lines.push(Line::data(
            format!("size of a set of {size}"),
            DataTypeOperation::Size,
            record,
            size,
        ));
    }
    lines.push(Line::data("count a counter".to_owned(), DataTypeOperation::Count, "", 1_000));
    let put = |value_bytes| Exchange::PbPut { value_bytes, dw: Some(0) };
    let name = format!("put {NUMBER_BYTES} bytes");
    lines.push(Line::new(name, put(NUMBER_BYTES), 1_000, NUMBER_BYTES));
    lines.push(Line::data("fetch a set of 10".to_owned(), DataTypeOperation::Fetch, "small", 10));
    let set_bytes = 10 * (crate::protocol::KEY_BYTES + 3);
    lines.push(Line::new(format!("put {set_bytes} bytes"), put(set_bytes), 1_000, set_bytes));
    lines.push(Line::new(format!("get {set_bytes} bytes"), Exchange::PbGet, 1_000, 1));
    lines
}

fn load(common: &CommonOptions, line: &Line, operations: u64) -> Load {
    Load {
        exchange: line.exchange.clone(),
        connections: 4,
        operations,
        value_bytes: line.value_bytes,
        first_key: 0,
        key_count: line.key_count,
        sequential: false,
        rate: None,
        sleeps: common.sleeping_driver,
        seed: 7,
    }
}

fn measure(common: &CommonOptions, line: &mut Line, target: &Target, data: &Path) -> Result<()> {
    let before = bytes_of(data)?;
    let measured = drive(target, &load(common, line, common.operations))?;
    line.cpu_us.push(measured.cpu_us());
    let written = bytes_of(data)?.saturating_sub(before);
    line.written_bytes.push(written as f64 / common.operations as f64);
    Ok(())
}

fn print(lines: &[Line]) {
    println!("| operation | CPU us | spread | bytes written |\n|---|---|---|---|");
    for line in lines {
        let (cpu_us, written) = (median(line.cpu_us.clone()), median(line.written_bytes.clone()));
        println!("| {} | {cpu_us:.1} | {} | {written:.0} |", line.name, spread(&line.cpu_us));
    }
    let ratio = |name: &str, others: &[&str]| {
        let find = |name: &str| lines.iter().find(|line| line.name == name);
        let cpu_us = |name: &str| find(name).map_or(f64::NAN, |line| median(line.cpu_us.clone()));
        let sum: f64 = others.iter().map(|name| cpu_us(name)).sum();
        println!("{name} / {}: {:.2}", others.join(" + "), cpu_us(name) / sum);
    };
    println!();
    ratio("add to a set of 1000000", &["add to a set of 10"]);
    ratio("count a field of 100000", &["count a field of 10"]);
    ratio("add to a set of 100000 in a map", &["add to a set of 10 in a map"]);
    ratio("is it in a set of 1000000", &["is it in a set of 10"]);
    ratio("size of a set of 1000000", &["size of a set of 10"]);
    ratio("count a counter", &["put 8 bytes"]);
    ratio("add to a set of 10", &["get 190 bytes", "put 190 bytes"]);
    ratio("fetch a set of 10", &["get 190 bytes"]);
}

/// Reads the whole large set in one request.
fn read_whole(common: &CommonOptions, node: &Running) -> Result<()> {
    let (size, record) = SIZES[2];
    let exchange = Exchange::Data(DataExchange { asked: DataTypeOperation::Fetch, record });
    let line = Line::new(String::new(), exchange, size, 0);
    // Resets the peak, so that it only covers the reads.
    std::fs::write(format!("/proc/{}/clear_refs", node.pid()), "5").context("resetting VmHWM")?;
    let before = resident_bytes(node.pid())?;
    let mut rates = Vec::new();
    let mut reply_bytes = 0;
    for _ in 0..common.rounds {
        let asked = crate::drive::ask(node.address, &line.exchange, 0, 0)?;
        reply_bytes = asked.len();
        let one = Load { connections: 1, ..load(common, &line, READ_COUNT) };
        let measured = drive(&node.target(), &one)?;
        rates.push(reply_bytes as f64 / measured.cpu_us());
    }
    let grown = resident_peak_bytes(node.pid())?.saturating_sub(before);
    println!(
        "\nall of a set of {size}: {:.0} MB/s of answer a core ({}), answer of {reply_bytes} bytes, \
         memory at most {:.2} times that",
        median(rates.clone()),
        spread(&rates),
        grown as f64 / reply_bytes as f64
    );
    Ok(())
}

fn resident_peak_bytes(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).context("reading /proc")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.context("VmHWM in /proc/PID/status")? * 1024)
}

fn make_type(common: &CommonOptions, node: &Running, name: &str, datatype: Datatype) -> Result<()> {
    let url = format!("http://{}", node.http.context("a node has an HTTP listener")?);
    let props = format!("{{\"props\":{{\"datatype\":\"{}\"}}}}", datatype.as_str());
    for arguments in [&["create", name, &props][..], &["activate", name]] {
        let status = Command::new(&common.quoit)
            .args(["admin", "--url", &url, "bucket-type"])
            .args(arguments)
            .stdout(Stdio::null())
            .status()?;
        ensure!(status.success(), "bucket type {name} could not be made");
    }
    Ok(())
}

/// Adds that many elements or fields to a record.
fn fill(node: &Running, exchange: DataExchange, count: u64) -> Result<()> {
    let mut stream = TcpStream::connect(node.address)?;
    let names: Vec<_> = (0..count).map(key).collect();
    for some in names.chunks(FILL_COUNT) {
        let mut request = BytesMut::new();
        let some: Vec<&[u8]> = some.iter().map(<[u8; 16]>::as_slice).collect();
        exchange.update(&some, &mut request);
        stream.write_all(&request)?;
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let (length, code) = head.split_at(4);
        let length = u32::from_be_bytes(length.try_into()?);
        let mut body = vec![0; (length as usize).saturating_sub(1)];
        stream.read_exact(&mut body)?;
        ensure!(code[0] == exchange.answer_code(), "{}", String::from_utf8_lossy(&body));
    }
    Ok(())
}

/// Total size of all files below a directory, in bytes.
fn bytes_of(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // Files may be deleted while they are counted.
        let Ok(meta) = entry.metadata() else { continue };
        sum += if meta.is_dir() { bytes_of(&entry.path())? } else { meta.len() };
    }
    Ok(sum)
}

//! How fast directories of Riak's are read and written into a node: MB/s and objects/s on one processor.
//!
//! `bench_import [RECORDS] [VALUE_BYTES] [URL]` makes a Bitcask directory of three copies of each record in a
//! temporary folder, reads it, and with a URL imports it into the node there.
#![allow(clippy::print_stdout, clippy::print_stderr)] // It is a program for people.

use anyhow::{Context, Result};
use clap::Parser;
use quoit_import::ImportCommand;
use quoit_model::bitcask_key::encode_bitcask_key;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::key::BucketRef;
use quoit_model::object::{Metadata, Object, Sibling};
use quoit_model::riak_object::encode_riak_object;
use quoit_riak_files::{Seen, discover};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

/// Copies of each record, in partitions that follow each other.
const COPIES: usize = 3;
/// Indexes of a ring of eight.
const PARTITIONS: [&str; 8] = [
    "0",
    "182687704666362864775460604089535377456991567872",
    "365375409332725729550921208179070754913983135744",
    "548063113999088594326381812268606132370974703616",
    "730750818665451459101842416358141509827966271488",
    "913438523331814323877303020447676887284957839360",
    "1096126227998177188652763624537212264741949407232",
    "1278813932664540053428224228626747642198940975104",
];

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: ImportCommand,
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let record_count: usize = words.next().map_or(Ok(300_000), |word| word.parse())?;
    let value_bytes: usize = words.next().map_or(Ok(100), |word| word.parse())?;
    let url = words.next();
    let folder = std::env::temp_dir().join(format!("bench-import-{}", std::process::id()));
    let outcome = bench(&folder, record_count, value_bytes, url.as_deref());
    std::fs::remove_dir_all(&folder).context("the temporary folder can't be removed")?;
    outcome
}

fn bench(folder: &Path, record_count: usize, value_bytes: usize, url: Option<&str>) -> Result<()> {
    let file_bytes = write(folder, record_count, value_bytes)?;
    let began = Instant::now();
    let mut seen = 0;
    for partition in discover(folder)?.partitions {
        partition.read(0, &mut |one| {
            seen += usize::from(matches!(one, Seen::Record(_)));
            ControlFlow::Continue(())
        })?;
    }
    tell("read", seen, file_bytes, began);
    if let Some(url) = url {
        let began = Instant::now();
        let (journal, folder) = (folder.join("journal"), folder.display().to_string());
        let journal = journal.display().to_string();
        let line = [
            "import",
            "run",
            &folder,
            "--to",
            url,
            "--journal",
            &journal,
            "--no-verify",
            "--format",
            "json",
        ];
        quoit_import::run(&Line::parse_from(line).command)?;
        tell("imported", seen, file_bytes, began);
    }
    Ok(())
}

fn tell(what: &str, count: usize, bytes: u64, began: Instant) {
    let secs = began.elapsed().as_secs_f64();
    println!(
        "{what} {count} copies, {:.0} MB in {secs:.2} s: {:.0} MB/s, {:.0} objects/s",
        bytes as f64 / 1e6,
        bytes as f64 / 1e6 / secs,
        count as f64 / secs
    );
}

/// Writes the directory; the size of its files.
fn write(folder: &Path, record_count: usize, value_bytes: usize) -> Result<u64> {
    let mut files = Vec::new();
    for index in PARTITIONS {
        let directory = folder.join("bitcask").join(index);
        std::fs::create_dir_all(&directory)?;
        files.push(BufWriter::new(File::create(directory.join("1.bitcask.data"))?));
    }
    let mut written = 0;
    for number in 0..record_count {
        let record = record(number, value_bytes);
        for copy in 0..COPIES {
            files[(number + copy) % PARTITIONS.len()].write_all(&record)?;
            written += record.len() as u64;
        }
    }
    for mut file in files {
        file.flush()?;
    }
    Ok(written)
}

/// A record of a data file.
fn record(number: usize, value_bytes: usize) -> Vec<u8> {
    let actor = Actor(b"bench-import"[..].into());
    let dot = Dot { actor, counter: 1, time_secs: 63_800_000_000 };
    let sibling = Sibling {
        last_modified_us: 1_600_000_000_000_000,
        meta: Metadata { content_type: Some("text/plain".into()), ..Metadata::default() },
        value: vec![b'v'; value_bytes].into(),
        ..Sibling::default()
    };
    let object = Object {
        clock: VersionVector::from_entries([dot]),
        siblings: [sibling].into_iter().collect(),
    };
    let (mut value, mut key) = (Vec::new(), Vec::new());
    encode_riak_object(&object, &mut value);
    let name = format!("key-{number:010}");
    encode_bitcask_key(BucketRef::untyped(b"bench").key(name.as_bytes()), &mut key);
    let mut record = vec![0; 4];
    record.extend_from_slice(&1_600_000_000u32.to_be_bytes());
    record.extend_from_slice(&(key.len() as u16).to_be_bytes());
    record.extend_from_slice(&(value.len() as u32).to_be_bytes());
    record.extend_from_slice(&key);
    record.extend_from_slice(&value);
    let checksum = crc32fast::hash(&record[4..]);
    record[..4].copy_from_slice(&checksum.to_be_bytes());
    record
}

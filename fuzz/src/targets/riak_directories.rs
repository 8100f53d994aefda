//! Directories of a partition of Riak, with arbitrary files that need not fit together. A walk can also be
//! resumed, with the log of its first pass.

use crate::Target;
use quoit_riak_files::{Engine, Finding, Partition, Position};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const TARGET: Target = Target { name: "riak-directories", run, seeds };

/// The files that an input may contain, by engine. The last one is the log of the first pass.
const BITCASK: &[&str] = &[
    "1.bitcask.data",
    "1.bitcask.hint",
    "2.bitcask.data",
    "2.bitcask.hint",
    "bitcask.write.lock",
    "index",
];
const LEVELDB: &[&str] = &["CURRENT", "MANIFEST-000002", "sst_0/000001.sst", "000003.log", "index"];
const LEVELED: &[&str] = &[
    "journal/journal_manifest/0.man",
    "journal/journal_manifest/1.man",
    "journal/journal_files/0_a.cdb",
    "journal/journal_files/1_b.pnd",
    "journal/journal_files/post_compact/2_c.cdb",
    "index",
];

/// Most findings of one walk; each finding stands for at least one byte of a file.
const FINDINGS_MAX: usize = 1 << 20;

/// Names of files with their contents.
type Files<'i> = Vec<(&'static str, &'i [u8])>;

/// Splits an input into files. The first byte chooses the engine. Each file has a byte for its name, its
/// length (16 bits, little-endian) and its content.
fn files(input: &[u8]) -> Option<(Engine, Files<'_>)> {
    let (choice, mut left) = input.split_first()?;
    let (engine, names) = match choice % 3 {
        0 => (Engine::Bitcask, BITCASK),
        1 => (Engine::LevelDb, LEVELDB),
        _ => (Engine::Leveled, LEVELED),
    };
    let mut found = Vec::new();
    while let [name, low, high, rest @ ..] = left {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (content, behind) = rest.split_at(len);
        found.push((names[usize::from(*name) % names.len()], content));
        left = behind;
    }
    Some((engine, found))
}

/// Checks that a walk ends, and that a walk resumed in the middle finds no more records than the whole
/// walk.
fn run(input: &[u8]) {
    let Some((engine, files)) = files(input) else { return };
    let folder = Folder::new();
    for (name, content) in files {
        let path = folder.0.join(name);
        let written = std::fs::create_dir_all(path.parent().expect("a file is in a folder"))
            .and_then(|()| std::fs::write(&path, content));
        written.expect("the folder for temporary files takes some bytes");
    }
    let partition = Partition {
        index: "0".to_owned(),
        engine,
        directory: folder.0.clone(),
        slow_directory: None,
    };
    let log = folder.0.join("index");
    let whole = walk(&partition, &Position::default(), &log);
    let middle = whole.get(whole.len() / 2).cloned().unwrap_or_default();
    let rest = walk(&partition, &middle, &log);
    assert!(rest.len() <= whole.len(), "a walk that goes on shows more than the whole");
}

/// The positions behind each record of a walk.
fn walk(partition: &Partition, from: &Position, log: &Path) -> Vec<Position> {
    let mut positions = Vec::new();
    let mut findings = 0;
    let walked = partition.read(from, Some(log), &mut |seen, position| {
        findings += 1;
        assert!(findings < FINDINGS_MAX, "a walk without an end");
        if let Finding::Record(_) = seen {
            positions.push(position.clone());
        }
        ControlFlow::Continue(())
    });
    // An error, for example because of a folder in place of a file, is permitted.
    drop(walked);
    positions
}

/// A folder that is deleted when its value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("quoit-fuzz-{}-{number}", std::process::id());
        // Files in memory, if the system has a place for them, are twenty times as fast.
        let memory = PathBuf::from("/dev/shm");
        let above = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let path = above.join(name);
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that can't be deleted stays among the system's temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Encodes an input of these files, each given by the number of its name and its content.
fn input(engine: u8, files: &[(u8, &[u8])]) -> Vec<u8> {
    let mut made = vec![engine];
    for (name, content) in files {
        let len = u16::try_from(content.len()).expect("a small file");
        made.push(*name);
        made.extend_from_slice(&len.to_le_bytes());
        made.extend_from_slice(content);
    }
    made
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// A sound directory of each engine, as far as the seeds of the other targets permit, and one with the log
/// of a first pass.
fn seeds() -> Vec<Vec<u8>> {
    static SEEDS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let make = || {
        let record = bytes("67458a6300000001000500000001020001626b76");
        let hint = bytes(
            "000000010005000000140000000000000000020001626b0000000000007a8a45307fffffffffffffff",
        );
        let manifest = bytes(
            "56f9b8f81c0001011a6c6576656c64622e42797465776973\
             65436f6d70617261746f72a49c8bbe08000102030900030404",
        );
        let mut journal = vec![0; 2048];
        journal.extend(bytes("2900000004000000"));
        journal.extend(bytes(
            "836803610164000473746e6468046400056f5f726b766d00000001626d000000016b6400046e756c6c",
        ));
        let twice = record.repeat(2);
        vec![
            input(0, &[(0, &record), (1, &hint)]),
            input(0, &[(0, &twice), (2, &record), (4, b"1 2.bitcask.data\n")]),
            input(0, &[(0, &record), (5, &bytes("08000000"))]),
            input(1, &[(0, b"MANIFEST-000002\n"), (1, &manifest), (3, b"")]),
            input(2, &[(2, &journal)]),
            input(2, &[(0, &bytes("836a")), (3, &journal)]),
        ]
    };
    SEEDS.get_or_init(make).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_directory_shows_its_record() {
        let folder = Folder::new();
        let seed = &seeds()[0];
        let (engine, files) = files(seed).unwrap();
        for (name, content) in files {
            std::fs::write(folder.0.join(name), content).unwrap();
        }
        let directory = folder.0.clone();
        let partition =
            Partition { index: "0".to_owned(), engine, directory, slow_directory: None };
        let log = folder.0.join("index");
        assert_eq!(walk(&partition, &Position::default(), &log).len(), 1);
    }
}

//! Directories that a real Riak node wrote have the content that the node reported, and damage to
//! their files loses no more than the damaged pieces.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::read::GzDecoder;
use quoit_model::bitcask_key::BitcaskKey;
use quoit_model::data_type::Value as DataType;
use quoit_model::data_type::clock_in_riak;
use quoit_model::etf::Limits;
use quoit_model::object::{Object, Sibling};
use quoit_model::props::Datatype;
use quoit_model::riak_clock::decode_riak_clock;
use quoit_model::riak_object::decode_riak_object;
use quoit_riak_files::{Damage, Finding, Partition, Position, discover, join_tiers};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ARCHIVES: [&str; 6] =
    ["bitcask", "bitcask-data-types", "bitcask-killed", "leveldb", "leveldb-data-types", "leveled"];

type Objects = BTreeMap<BitcaskKey, Object>;
/// File and offset of each copy, by its partition's directory and its key.
type Copies = BTreeMap<(PathBuf, BitcaskKey), (PathBuf, u64)>;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/riak-data")
}

fn unpacked(name: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let archive = File::open(golden().join(format!("{name}.tar.gz"))).expect("the archive");
    tar::Archive::new(GzDecoder::new(archive)).unpack(directory.path()).expect("a tar archive");
    directory
}

fn expected(name: &str) -> Value {
    let file =
        File::open(golden().join(format!("{name}.expected.json.gz"))).expect("the node's answers");
    serde_json::from_reader(GzDecoder::new(file)).expect("JSON")
}

/// Reads all partitions. Returns the objects, merged from their replicas, and all damage.
fn read(directory: &Path) -> (Objects, Vec<Damage>) {
    read_all(discover(directory).expect("a directory of Riak's").partitions)
}

fn read_all(partitions: Vec<Partition>) -> (Objects, Vec<Damage>) {
    let mut objects = Objects::new();
    let mut damages = Vec::new();
    for partition in partitions {
        partition
            .read(&Position::default(), None, &mut |seen, _| {
                match seen {
                    Finding::Record(record) => match decode_riak_object(&record.object) {
                        Ok(object) => {
                            objects
                                .entry(record.key)
                                .and_modify(|known| *known = known.merge(&object))
                                .or_insert(object);
                        }
                        Err(fault) => panic!("{:?}: {fault}", record.key),
                    },
                    Finding::Damage(damage) | Finding::Torn(damage) => damages.push(damage),
                    Finding::Nothing => {}
                }
                ControlFlow::Continue(())
            })
            .expect("readable files");
    }
    (objects, damages)
}

fn part(record: &Value, name: &str) -> Option<Bytes> {
    record[name].as_str().map(|text| STANDARD.decode(text).expect("base64").into())
}

fn name_of(record: &Value) -> BitcaskKey {
    BitcaskKey {
        bucket_type: part(record, "type").unwrap_or(Bytes::from_static(b"default")),
        bucket: part(record, "bucket").expect("a bucket"),
        key: part(record, "key").expect("a key"),
    }
}

fn holds(sibling: &Sibling, told: &Value) -> bool {
    let value = match told["value"].as_str() {
        Some(text) => sibling.value == STANDARD.decode(text).expect("base64"),
        None => told["value_len"].as_u64() == Some(sibling.value.len() as u64),
    };
    value
        && told["vtag"].as_str().unwrap_or_default().as_bytes() == sibling.vtag
        && told["last_mod"].as_u64() == Some(sibling.last_modified_us / 1_000_000)
        && told["indexes"].as_array().map_or(0, Vec::len) == sibling.meta.indexes.len()
        && told["deleted"].as_bool().unwrap_or(false) == sibling.deleted
}

/// The value of a data type as Riak's HTTP interface shows it.
fn shown(value: &DataType) -> Value {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    match value {
        DataType::Counter(sum) => json!(i64::try_from(*sum).expect("a small number")),
        DataType::Set(elements) => elements.iter().map(text).collect(),
        DataType::Register(value) => text(value).into(),
        DataType::Flag(enabled) => json!(enabled),
        DataType::Hll(estimate) => json!(estimate),
        DataType::Map(fields) => {
            fields.iter().map(|(name, value)| (name.to_string(), shown(value))).collect()
        }
    }
}

fn check_objects(objects: &Objects, expected: &Value) {
    for record in expected["objects"].as_array().expect("objects") {
        let name = name_of(record);
        let told = record["siblings"].as_array().expect("siblings");
        let Some(object) = objects.get(&name) else {
            assert!(told.is_empty(), "{name:?} is missing");
            continue;
        };
        if let Some(clock) = part(record, "clock") {
            let clock = decode_riak_clock(&clock, &Limits::STORED).expect("a clock");
            assert_eq!(object.clock, clock, "{name:?}");
        }
        let live: Vec<_> = object.siblings.iter().filter(|_| !object.is_tombstone()).collect();
        assert_eq!(live.len(), told.len(), "{name:?}");
        for told in told {
            assert!(
                live.iter().any(|sibling| holds(sibling, told)),
                "{name:?}: {told} in {live:?}"
            );
        }
    }
}

fn check_data_types(objects: &Objects, expected: &Value) {
    let datatypes = [
        ("counters", Datatype::Counter),
        ("sets", Datatype::Set),
        ("gsets", Datatype::Gset),
        ("maps", Datatype::Map),
        ("hlls", Datatype::Hll),
    ];
    let told = expected["data_types"].as_array().expect("data types");
    assert!(told.len() > 40, "{}", told.len());
    for record in told {
        let text = |name: &str| Bytes::from(record[name].as_str().expect("text").to_owned());
        let name =
            BitcaskKey { bucket_type: text("type"), bucket: text("bucket"), key: text("key") };
        let before = objects.get(&name).unwrap_or_else(|| panic!("{name:?} is missing"));
        let mut object = before.clone();
        let (_, datatype) =
            datatypes.iter().find(|(word, _)| *word == name.bucket_type).expect("a type");
        assert_eq!(object.adopt_riak_data_type(Some(*datatype)), Ok(true), "{name:?}");
        assert_eq!(clock_in_riak(&object.clock), before.clock, "{name:?}");
        let state = object.data_type().expect("undamaged").expect("a state");
        let told = &record["value"]["value"];
        match state.value() {
            // The registers are the same, but Riak corrects its estimate by tables and Quoit does
            // not.
            DataType::Hll(estimate) => {
                let told = told.as_u64().expect("an estimate");
                assert!(estimate.abs_diff(told) <= told / 100, "{name:?}: {estimate}, not {told}");
            }
            value => assert_eq!(shown(&value), *told, "{name:?}"),
        }
    }
}

fn check(name: &str) {
    let directory = unpacked(name);
    let (objects, damages) = read(directory.path());
    assert_eq!(damages, [], "{name}");
    let expected = expected(name);
    check_objects(&objects, &expected);
    check_data_types(&objects, &expected);
}

#[test]
fn directories_of_a_ring_of_64_hold_what_the_node_answered() {
    check("bitcask");
    check("leveldb");
}

#[test]
fn a_bitcask_directory_holds_what_the_node_answered() {
    check("bitcask-data-types");
}

#[test]
fn a_bitcask_directory_of_a_killed_node_holds_what_the_node_had_acknowledged() {
    check("bitcask-killed");
}

#[test]
fn a_leveldb_directory_holds_what_the_node_answered() {
    check("leveldb-data-types");
}

#[test]
fn a_leveled_directory_holds_what_the_node_answered() {
    check("leveled");
}

/// All files below a directory.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        if entry.path().is_dir() { files(&entry.path(), found) } else { found.push(entry.path()) }
    }
    found.sort();
}

/// A pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}

/// Kinds of files in a directory of Riak.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileKind {
    /// A file whose full size is known, from its end or from another file.
    Complete,
    /// A file that the end of the process may have cut off.
    StillWritten,
    /// A file that only helps to find records.
    Helper,
    Other,
}

fn kind_of(path: &Path) -> FileKind {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let ends = |kinds: &[&str]| kinds.iter().any(|kind| name.ends_with(kind));
    // A hint file is whole if its last entry is the end entry.
    let hint = std::fs::read(path.with_extension("hint")).unwrap_or_default();
    let is_listed = hint.ends_with(&0x7fff_ffff_ffff_ffff_u64.to_be_bytes());
    if ends(&[".sst", ".cdb"]) || (ends(&[".data"]) && is_listed) {
        return FileKind::Complete;
    }
    if ends(&[".data", ".pnd", ".log"]) {
        return FileKind::StillWritten;
    }
    let is_helper = ends(&[".hint", ".man"]) || name.starts_with("MANIFEST") || name == "CURRENT";
    if is_helper { FileKind::Helper } else { FileKind::Other }
}

#[test]
fn damage_is_reported_and_loses_nothing_else() {
    let mut numbers = Random(7);
    for name in ARCHIVES {
        let directory = unpacked(name);
        let (whole, _) = copies(directory.path());
        let mut lost = 0;
        let mut all = Vec::new();
        files(directory.path(), &mut all);
        // Tables, journals and logs have records; hint files and manifests only help to find them.
        all.retain(|path| {
            path.metadata().expect("a file").len() > 0 && kind_of(path) != FileKind::Other
        });
        for round in 0..18u64 {
            let path = &all[numbers.below(all.len() as u64) as usize];
            let before = std::fs::read(path).expect("a file");
            let mut damaged = before.clone();
            let at = numbers.below(before.len() as u64) as usize;
            match round % 3 {
                0 => damaged[at] ^= 1 << numbers.below(8),
                1 => damaged.truncate(at),
                _ => damaged.clear(),
            }
            std::fs::write(path, &damaged).expect("a file");
            let (left, damages) = copies(directory.path());
            let is_there = |key: &BitcaskKey| left.keys().any(|(_, there)| there == key);
            for (copy, place) in whole.iter().filter(|(copy, _)| !left.contains_key(*copy)) {
                let is_told = damages.iter().any(|damage| is_in(place, damage, damaged.len()));
                // The original size of a file that is still written is unknown once its end is
                // gone.
                let is_untold = kind_of(path) == FileKind::StillWritten
                    && place.0 == *path
                    && place.1 >= damaged.len() as u64;
                assert!(
                    is_told || is_untold,
                    "{name}, round {round}: {copy:?} at {place:?}: {damages:?}"
                );
                // Another partition has a copy of nearly every record.
                lost += usize::from(!is_there(&copy.1));
            }
            std::fs::write(path, &before).expect("a file");
        }
        assert!(lost * 20 < whole.len(), "{name}: {lost} copies of {} had no other", whole.len());
    }
}

/// The copies of each partition, with file and offset of each, and all damage.
fn copies(directory: &Path) -> (Copies, Vec<Damage>) {
    let (mut found, mut damages) = (Copies::new(), Vec::new());
    for partition in discover(directory).expect("a directory of Riak's").partitions {
        partition
            .read(&Position::default(), None, &mut |seen, _| {
                match seen {
                    Finding::Record(record) => {
                        let place = (record.file.to_path_buf(), record.offset);
                        found.insert((partition.directory.clone(), record.key), place);
                    }
                    Finding::Damage(damage) | Finding::Torn(damage) => damages.push(damage),
                    Finding::Nothing => {}
                }
                ControlFlow::Continue(())
            })
            .expect("readable files");
    }
    (found, damages)
}

/// True if reported damage covers an offset of a file that has `left_bytes` bytes left.
fn is_in(place: &(PathBuf, u64), damage: &Damage, left_bytes: usize) -> bool {
    let end = damage.offset + damage.len;
    let is_covered = damage.offset <= place.1 && place.1 < end;
    let is_behind_the_end = place.1 >= left_bytes as u64 && end >= left_bytes as u64;
    let is_whole_file = damage.description.contains("all of the table");
    damage.file == place.0 && (is_covered || is_behind_the_end || is_whole_file)
}

#[test]
fn levels_on_another_path_are_told_and_joined_when_both_are_given() {
    let directory = unpacked("leveldb");
    let (whole, _) = read(directory.path());
    let slow = tempfile::tempdir().expect("a temporary directory");
    let mut moved = Vec::new();
    for partition in discover(directory.path()).expect("partitions").partitions {
        for level in 0..7 {
            let folder = partition.directory.join(format!("sst_{level}"));
            let has_tables =
                std::fs::read_dir(&folder).is_ok_and(|mut files| files.next().is_some());
            if has_tables {
                let to = slow.path().join("leveldb").join(&partition.index);
                std::fs::create_dir_all(&to).expect("a directory");
                let to = to.join(format!("sst_{level}"));
                std::fs::rename(&folder, &to).expect("moved");
                moved.push((folder, to));
            }
        }
    }
    assert!(!moved.is_empty(), "the archive has tables");
    let (_, damages) = read(directory.path());
    let is_told = damages.iter().all(|damage| damage.description.contains("leveldb.tiered"));
    assert!(!damages.is_empty() && is_told, "{damages:?}");
    let other = unpacked("leveldb-data-types");
    let mut partitions = Vec::new();
    // Another node has partitions with the same indexes, which lack no tables.
    for given in [other.path(), slow.path(), directory.path()] {
        partitions.extend(discover(given).expect("a directory of Riak's").partitions);
    }
    let count = partitions.len();
    let joined = join_tiers(partitions).expect("readable directories");
    let with_slow = joined.iter().filter(|partition| partition.slow_directory.is_some()).count();
    assert!(with_slow > 0 && joined.len() == count - with_slow, "{with_slow} of {count}");
    let of_this = |partition: &Partition| partition.directory.starts_with(directory.path());
    let (found, damages) = read_all(joined.into_iter().filter(of_this).collect());
    assert_eq!((damages, &found), (Vec::new(), &whole));
    for (folder, to) in moved {
        std::os::unix::fs::symlink(to, folder).expect("a link");
    }
    let (linked, damages) = read(directory.path());
    assert_eq!((damages, linked), (Vec::new(), whole));
}

/// The keys after a position, each with the position after it.
fn keys_behind(partition: &Partition, from: &Position) -> Vec<(BitcaskKey, Position)> {
    let mut keys = Vec::new();
    partition
        .read(from, None, &mut |seen, position| {
            if let Finding::Record(record) = seen {
                keys.push((record.key, position.clone()));
            }
            ControlFlow::Continue(())
        })
        .expect("readable files");
    keys
}

#[test]
fn a_walk_goes_on_behind_each_position_of_one_before() {
    for name in ARCHIVES {
        let directory = unpacked(name);
        let partition = discover(directory.path()).expect("partitions").partitions.remove(0);
        let all = keys_behind(&partition, &Position::default());
        assert!(all.len() > 5, "{name}");
        for (number, (_, position)) in all.iter().enumerate() {
            let kept = serde_json::to_string(position).expect("JSON");
            let from: Position = serde_json::from_str(&kept).expect("a position");
            let rest = keys_behind(&partition, &from);
            let of = |found: &[(BitcaskKey, Position)]| -> Vec<BitcaskKey> {
                found.iter().map(|(key, _)| key.clone()).collect()
            };
            assert_eq!(of(&rest), of(&all[number + 1..]), "{name}: {kept}");
        }
    }
}

/// A Bitcask record of the bucket `b` with a small value, or a deletion.
fn bitcask_record(key: u32, value: &[u8]) -> Vec<u8> {
    let mut name = vec![2, 0, 1, b'b'];
    name.extend_from_slice(&key.to_be_bytes());
    let mut body = 1u32.to_be_bytes().to_vec();
    body.extend_from_slice(&(name.len() as u16).to_be_bytes());
    body.extend_from_slice(&(value.len() as u32).to_be_bytes());
    body.extend_from_slice(&name);
    body.extend_from_slice(value);
    [&crc32fast::hash(&body).to_be_bytes()[..], &body].concat()
}

/// Findings in a partition with these data files: the keys, then the damage, then the torn ends,
/// each with file and length.
fn bitcask_findings(files: &[&[u8]], last_hint: Option<&[u8]>) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let directory = folder.path().join("bitcask").join("0");
    std::fs::create_dir_all(&directory).expect("a directory");
    for (number, bytes) in (1..).zip(files) {
        std::fs::write(directory.join(format!("{number}.bitcask.data")), bytes).expect("a file");
    }
    if let Some(hint) = last_hint {
        let name = format!("{}.bitcask.hint", files.len());
        std::fs::write(directory.join(name), hint).expect("a file");
    }
    let partition = discover(folder.path()).expect("a directory of Riak's").partitions.remove(0);
    let (mut records, mut damages, mut torn) = (0u32, Vec::new(), Vec::new());
    let told = |kind: &str, piece: &Damage| {
        let name = piece.file.file_name().expect("a name").to_string_lossy().into_owned();
        format!("{kind} {} {}", &name[..1], piece.len)
    };
    partition
        .read(&Position::default(), None, &mut |seen, _| {
            match seen {
                Finding::Record(_) => records += 1,
                Finding::Damage(damage) => damages.push(told("damaged", &damage)),
                Finding::Torn(end) => torn.push(told("torn", &end)),
                Finding::Nothing => {}
            }
            ControlFlow::Continue(())
        })
        .expect("readable files");
    [vec![records.to_string()], damages, torn].concat()
}

#[test]
fn the_torn_end_of_the_file_that_was_being_written_is_no_damage() {
    let (one, two) = (bitcask_record(1, b"value"), bitcask_record(2, b"value"));
    let whole = [&one[..], &two].concat();
    let torn = &whole[..whole.len() - 3];
    let left = format!("torn 1 {}", two.len() - 3);
    assert_eq!(bitcask_findings(&[torn], None), ["1", &left]);
    // The header is incomplete; and the file is longer than what was written.
    assert_eq!(bitcask_findings(&[&whole[..one.len() + 5]], None), ["1", "torn 1 5"]);
    for zeros in [1, 14, 15, 40, 4096] {
        let longer = [&one[..], &vec![0; zeros]].concat();
        assert_eq!(bitcask_findings(&[&longer], None), ["1", &format!("torn 1 {zeros}")]);
        let longer = [torn, &vec![0; 16 + zeros]].concat();
        let left = format!("torn 1 {}", two.len() - 3 + 16 + zeros);
        assert_eq!(bitcask_findings(&[&longer], None), ["1", &left]);
    }
    // Changed bytes, a file that is not the last one, and a file that its hint file lists.
    let mut changed = whole.clone();
    *changed.last_mut().expect("a byte") ^= 1;
    let left = format!("damaged 1 {}", two.len());
    assert_eq!(bitcask_findings(&[&changed], None), ["1", &left]);
    let left = format!("damaged 1 {}", two.len() - 3);
    assert_eq!(bitcask_findings(&[torn, &two], None), ["2", &left]);
    let mut hint = Vec::new();
    for (at, record) in [(0, &one), (one.len(), &two)] {
        let key = &record[14..record.len() - 5];
        hint.extend_from_slice(&1u32.to_be_bytes());
        hint.extend_from_slice(&(key.len() as u16).to_be_bytes());
        hint.extend_from_slice(&(record.len() as u32).to_be_bytes());
        hint.extend_from_slice(&(at as u64).to_be_bytes());
        hint.extend_from_slice(key);
    }
    let checksum = crc32fast::hash(&hint);
    hint.extend_from_slice(&[0; 6]);
    hint.extend_from_slice(&checksum.to_be_bytes());
    hint.extend_from_slice(&0x7fff_ffff_ffff_ffff_u64.to_be_bytes());
    assert_eq!(bitcask_findings(&[&whole], Some(&hint)), ["2"]);
    let cut_short = bitcask_findings(&[torn], Some(&hint));
    assert_eq!(cut_short, ["1", "damaged 1 0", &left]);
    let left = format!("torn 1 {}", two.len() - 3);
    assert_eq!(bitcask_findings(&[torn], Some(&hint[..hint.len() - 18])), ["1", &left]);
}

#[test]
fn a_first_pass_goes_on_where_a_kill_has_cut_its_log() {
    const KEYS: u32 = 200_000;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let directory = folder.path().join("bitcask").join("0");
    std::fs::create_dir_all(&directory).expect("a directory");
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for key in 0..KEYS {
        first.extend(bitcask_record(key, b"old"));
        match key % 10 {
            0 => second.extend(bitcask_record(key, b"bitcask_tombstone2\0\0\0\x01")),
            1 => second.extend(bitcask_record(key, b"new")),
            _ => {}
        }
    }
    std::fs::write(directory.join("1.bitcask.data"), first).expect("a file");
    std::fs::write(directory.join("2.bitcask.data"), second).expect("a file");
    let partition = discover(folder.path()).expect("a directory of Riak's").partitions.remove(0);
    let log = folder.path().join("index");
    let walk = || {
        let mut found = BTreeMap::new();
        partition
            .read(&Position::default(), Some(&log), &mut |seen, _| {
                if let Finding::Record(record) = seen {
                    assert!(found.insert(record.key.key, record.object).is_none(), "shown twice");
                }
                ControlFlow::Continue(())
            })
            .expect("readable files");
        found
    };
    let whole = walk();
    assert_eq!(whole.len() as u32, KEYS / 10 * 9);
    assert_eq!(whole.get(&1u32.to_be_bytes()[..]).map(|value| &value[..]), Some(&b"new"[..]));
    let logged = std::fs::read(&log).expect("a log");
    assert!(logged.len() > KEYS as usize * 28, "{} bytes", logged.len());
    let mut numbers = Random(11);
    for _ in 0..6 {
        let len = numbers.below(logged.len() as u64) as usize;
        std::fs::write(&log, &logged[..len]).expect("a file");
        assert!(walk() == whole, "cut at byte {len}");
    }
}

//! Key files: the keys of a segment, in order.

use std::sync::Arc;

use quoit_model::hash::{Identity, Partition};
use quoit_model::key::BucketRef;
use quoit_seam::FaultyDisk;
use quoit_store::engine::RecordMeta;
use quoit_store::keyfile::{FileCursor, KeyFile, KeyRunBuilder, KeyWrite, WriteKind};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "key-files", run, seeds };

const NAME: &str = "file";

/// Checks that a file that opens can be read to its end or to its first damage, and that lookups of its
/// keys do not panic.
fn run(input: &[u8]) {
    let disk = FaultyDisk::new(1);
    disk.put(NAME, input.to_vec());
    let Ok(file) = KeyFile::open(&disk, NAME) else { return };
    let file = Arc::new(file);
    let Ok(mut cursor) = FileCursor::first(&file) else { return };
    let mut entry_count = 0;
    while let Some(entry) = cursor.current() {
        entry_count += 1;
        assert!(entry_count <= input.len(), "more entries than bytes");
        let _ = file.find(entry.key, entry.facts.partition);
        if cursor.advance().is_err() {
            return;
        }
    }
}

/// An empty file, and a file with some keys.
fn seeds() -> Vec<Vec<u8>> {
    [0, 40].map(written).into()
}

fn written(key_count: u64) -> Vec<u8> {
    let mut run = KeyRunBuilder::default();
    for number in 0..key_count {
        let name = format!("key-{number}");
        let encoded = BucketRef::untyped(b"bucket").key(name.as_bytes()).encoded();
        let kind = if number % 7 == 0 { WriteKind::Remove } else { WriteKind::Put };
        let facts = KeyWrite {
            kind,
            identity: Identity(number << 40),
            partition: Partition((number % 8) as u16),
            sequence: 100 + number,
            offset_bytes: 16 * number,
            size_bytes: 100,
            meta: RecordMeta { digest: number, n_val_class: 3, ..RecordMeta::default() },
        };
        run.push(&encoded, &facts);
    }
    let disk = FaultyDisk::new(1);
    run.sort(1).write(&disk, NAME).expect("the disk is sound");
    disk.bytes(NAME).expect("the file was written")
}

//! Large values: they are written from the buffer in which they came, and read as they were written.

use crate::one_node::fixture::{Fixture, fixture_on, key};
use crate::watched_disk::{FileWatch, WatchedDisk};
use bytes::Bytes;
use quoit_core::{
    PlainWrite, PutRequest, ReadOptions, SHARED_BYTES_MIN, ShownObject, StoreSettings, WriteOptions,
};
use quoit_model::clock::VersionVector;
use quoit_model::key::KeyRef;
use quoit_model::object::{Link, Metadata};
use quoit_seam::{FaultyDisk, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::compressed::{CompressedEngine, CompressionChoice};
use quoit_store::engine::Engine;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Sizes of values around the limits from which on they are shared, and kept in buffers of threads.
const SIZES: [usize; 8] = [
    1,
    SHARED_BYTES_MIN - 200,
    SHARED_BYTES_MIN - 1,
    SHARED_BYTES_MIN,
    SHARED_BYTES_MIN + 1,
    300_000,
    1 << 20,
    3_000_001,
];

/// The places in memory of all bytes that were written to files.
#[derive(Default)]
struct WrittenPlaces(Mutex<BTreeSet<(usize, usize)>>);

impl FileWatch for WrittenPlaces {
    fn write(&self, bytes: &[u8]) {
        self.0.lock().unwrap().insert((bytes.as_ptr().addr(), bytes.len()));
    }
}

/// Compresses all values, or none.
struct Compresses(bool);

impl CompressionChoice for Compresses {
    fn compresses(&self, _: quoit_model::key::BucketRef<'_>) -> bool {
        self.0
    }
}

/// A store on Bitcask behind compression, and the places from which its files were written.
fn noted(compresses: bool) -> (Fixture, Arc<WrittenPlaces>) {
    let written = Arc::new(WrittenPlaces::default());
    let disk = Arc::new(WatchedDisk { disk: FaultyDisk::new(1), watch: Arc::clone(&written) });
    let fixture = fixture_on(StoreSettings::default(), |ring_size, clock| {
        let settings = BitcaskSettings { ring_size, ..BitcaskSettings::new(1) };
        let (engine, _) = BitcaskEngine::open(disk, clock, &Threads, settings).unwrap();
        Arc::new(CompressedEngine::new(Arc::new(engine), Arc::new(Compresses(compresses))))
    });
    (fixture, written)
}

/// A value that is no data type and does not compress to nothing.
fn value_of(size: usize) -> Bytes {
    (0..size).map(|place| (place * place / 7 + size) as u8).collect()
}

fn is_written_from(written: &WrittenPlaces, value: &Bytes) -> bool {
    written.0.lock().unwrap().contains(&(value.as_ptr().addr(), value.len()))
}

async fn put_in_place(fixture: &Fixture, at: KeyRef<'static>, value: &Bytes) {
    let write = PlainWrite {
        key: at,
        context: VersionVector::default(),
        content_type: Some(b"application/octet-stream"),
        value,
        shared: (value.len() >= SHARED_BYTES_MIN).then(|| value.clone()),
        options: WriteOptions::default(),
    };
    let pending = fixture.store.put_in_place(&write).unwrap().expect("the put is plain");
    fixture.store.finish(pending).await.unwrap();
}

/// Checks that a value is read whole, in place and in general.
async fn check(fixture: &Fixture, at: KeyRef<'static>, value: &Bytes) {
    let object = fixture.get(at).await.unwrap();
    assert!(object.siblings[0].value == *value, "{} bytes", value.len());
    let shown = fixture.store.get_in_place(at, &ReadOptions::default(), |found| match found {
        Some(ShownObject::Plain(plain)) => {
            assert!(plain.value.len() < SHARED_BYTES_MIN, "a large value can be shared");
            Bytes::copy_from_slice(plain.value)
        }
        Some(ShownObject::Large(plain, owner)) => {
            assert!(plain.value.len() >= SHARED_BYTES_MIN, "a small value is not shared");
            owner.slice_ref(plain.value)
        }
        Some(ShownObject::Whole(object)) => object.siblings[0].value.clone(),
        None => panic!("nothing is found"),
    });
    let Some(quoit_core::ReadInPlace::Answer(shown)) = shown.unwrap() else {
        panic!("one node needs no confirmation")
    };
    assert!(shown == *value, "{} bytes in place", value.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_value_is_written_from_the_buffer_in_which_it_came() {
    let (fixture, written) = noted(false);
    for size in SIZES {
        let value = value_of(size);
        for (at, is_in_place) in [(key("default", "k"), true), (key("default", "l"), false)] {
            // The second write replaces the value of the first one.
            for _ in 0..2 {
                written.0.lock().unwrap().clear();
                if is_in_place {
                    put_in_place(&fixture, at, &value).await;
                } else {
                    fixture.store.put(PutRequest::of(at, value.clone())).await.unwrap();
                }
                assert_eq!(is_written_from(&written, &value), size >= SHARED_BYTES_MIN, "{size}");
                check(&fixture, at, &value).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_values_with_metadata_and_siblings_are_read_as_written() {
    let (fixture, _) = noted(false);
    fixture.create_type("sibs", serde_json::json!({"allow_mult": true})).await;
    for size in SIZES {
        let link = Link { bucket: "b".into(), key: "k".into(), tag: "t".into() };
        let meta = Metadata { links: vec![link], ..Metadata::default() };
        let at = key("default", "linked");
        let put = PutRequest { meta: meta.clone(), ..PutRequest::of(at, value_of(size)) };
        fixture.store.put(put).await.unwrap();
        check(&fixture, at, &value_of(size)).await;
        assert_eq!(fixture.get(at).await.unwrap().siblings[0].meta.links, meta.links);
        let at = key("sibs", "k");
        let before = fixture.get(at).await.map_or(0, |object| object.siblings.len());
        fixture.store.put(PutRequest::of(at, value_of(size))).await.unwrap();
        let object = fixture.get(at).await.unwrap();
        assert_eq!(object.siblings.len(), before + 1);
        assert!(object.siblings.iter().any(|sibling| sibling.value == value_of(size)), "{size}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_values_are_read_as_written_where_they_are_compressed_or_in_memory() {
    let (compressing, written) = noted(true);
    let in_memory = fixture_on(StoreSettings::default(), |ring_size, clock| {
        let engine = MemoryEngine::new(MemorySettings::default(), ring_size, clock);
        Arc::new(engine) as Arc<dyn Engine>
    });
    for size in SIZES {
        // Every second value compresses well.
        let value = if size % 2 == 0 { value_of(size) } else { Bytes::from(vec![7; size]) };
        for fixture in [&compressing, &in_memory] {
            let (one, other) = (key("default", "k"), key("default", "l"));
            put_in_place(fixture, one, &value).await;
            check(fixture, one, &value).await;
            fixture.store.put(PutRequest::of(other, value.clone())).await.unwrap();
            check(fixture, other, &value).await;
        }
        assert!(!is_written_from(&written, &value), "a compressed value is written from a copy");
    }
}

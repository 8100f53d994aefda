//! Tests that objects from elsewhere are stored alike in a batch and one by one.

use crate::one_node::fixture::{Fixture, fixture};
use bytes::Bytes;
use proptest::prelude::*;
use quoit_core::{BegunBatch, ImportedInPlace, ImportedObject, PutRequest};
use quoit_model::bitcask_key::BitcaskKey;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::object::{Metadata, Object, Sibling};
use serde_json::json;

const TYPES: [&str; 4] = ["default", "sibs", "short", "fed"];
const KEYS: usize = 6;

/// An object of a batch: the index of its key, the event that made it, and whether it is a tombstone.
#[derive(Clone, Copy, Debug)]
struct Item {
    place: usize,
    actor: u8,
    counter: u64,
    is_tombstone: bool,
}

fn any_item() -> impl Strategy<Value = Item> {
    let parts = (0..TYPES.len() * KEYS, 0u8..3, 1u64..4);
    // An event always belongs to the same value.
    parts.prop_map(|(place, actor, counter)| Item {
        place,
        actor,
        counter,
        is_tombstone: actor == 2 && counter == 3,
    })
}

impl Item {
    fn key(self) -> BitcaskKey {
        BitcaskKey {
            bucket_type: TYPES[self.place % TYPES.len()].into(),
            bucket: "bucket".into(),
            key: format!("k{}", self.place / TYPES.len()).into(),
        }
    }

    fn object(self) -> Object {
        let actor = Actor([self.actor; 8].as_slice().into());
        let dot = Dot { actor, counter: self.counter, time_secs: 63_800_000_000 };
        let sibling = Sibling {
            deleted: self.is_tombstone,
            last_modified_us: 1_700_000_000_000_000 + self.counter,
            vtag: Bytes::from_static(b"tag"),
            meta: Metadata { content_type: Some("text/plain".into()), ..Metadata::default() },
            value: format!("{} {}", self.actor, self.counter).into(),
            ..Sibling::default()
        };
        Object {
            clock: VersionVector::from_entries([dot]),
            siblings: [sibling].into_iter().collect(),
        }
    }
}

async fn with_types() -> Fixture {
    let fixture = fixture();
    fixture.create_type("sibs", json!({"allow_mult": true})).await;
    fixture.create_type("short", json!({"ttl": 1000})).await;
    fixture.create_type("fed", json!({"change_feed": 3600})).await;
    fixture
}

fn batch(items: &[Item]) -> Vec<ImportedObject> {
    let numbered = items.iter().enumerate();
    numbered
        .map(|(number, item)| ImportedObject { number, key: item.key(), object: item.object() })
        .collect()
}

/// Stores a batch as the import does. Returns the numbers of the objects that were written together.
async fn store_batch(fixture: &Fixture, items: &[Item]) -> Vec<usize> {
    let BegunBatch { pending, left } = fixture.store.begin_import(batch(items)).await;
    for ImportedObject { key, object, .. } in left {
        match fixture.store.put_imported_in_place(key.as_key_ref(), object).unwrap() {
            ImportedInPlace::Stored => {}
            ImportedInPlace::Pending(pending) => fixture.store.finish(pending).await.unwrap(),
            ImportedInPlace::Declined(object) => panic!("{object:?} was declined by a node alone"),
        }
    }
    let Some(pending) = pending else { return Vec::new() };
    fixture.store.finish_import(&pending).await.unwrap();
    pending.numbers
}

async fn store_one(fixture: &Fixture, item: Item) {
    let key = item.key();
    let put = PutRequest::given(key.as_key_ref(), item.object());
    fixture.store.put(put).await.unwrap();
}

fn item(place: usize, actor: u8) -> Item {
    Item { place, actor, counter: 1, is_tombstone: false }
}

#[tokio::test]
async fn new_objects_are_written_together_and_known_ones_are_merged() {
    let fixture = with_types().await;
    let all: Vec<Item> = (0..TYPES.len() * KEYS).map(|place| item(place, 1)).collect();
    let mut together = store_batch(&fixture, &all).await;
    together.sort_unstable();
    let untold = all.iter().filter(|item| TYPES[item.place % TYPES.len()] != "fed").count();
    assert!(together.len() >= untold, "{together:?}");
    // Another version of each object, and a new key twice.
    let sibling = item(1, 2);
    let again = [sibling, item(0, 1)];
    assert_eq!(store_batch(&fixture, &again).await, [0; 0], "both are there already");
    let stored = fixture.get(sibling.key().as_key_ref()).await.unwrap();
    assert_eq!(stored.siblings.len(), 2, "siblings of a type that has them");
}

#[tokio::test]
async fn two_versions_of_a_new_record_in_a_batch_are_merged() {
    let fixture = with_types().await;
    let items = [item(1, 1), item(2, 1), item(1, 2)];
    let together = store_batch(&fixture, &items).await;
    assert_eq!(together.len(), 2, "{together:?}");
    let stored = fixture.get(items[0].key().as_key_ref()).await.unwrap();
    assert_eq!(stored.siblings.len(), 2);
}

async fn check_batches(batches: &[Vec<Item>]) {
    let (in_batches, singly) = (with_types().await, with_types().await);
    for items in batches {
        store_batch(&in_batches, items).await;
        for item in items {
            store_one(&singly, *item).await;
        }
    }
    for place in 0..TYPES.len() * KEYS {
        let key = item(place, 0).key();
        let one = in_batches.get(key.as_key_ref()).await.map(|object| object.digest());
        let other = singly.get(key.as_key_ref()).await.map(|object| object.digest());
        assert_eq!(one, other, "{key:?}");
    }
}

/// Values that expire, so that the result shows whether they have replaced others.
#[tokio::test]
async fn objects_of_one_name_are_stored_in_the_order_of_their_batch() {
    let value = |counter| Item { place: 2, actor: 0, counter, is_tombstone: false };
    let tombstone = Item { place: 2, actor: 2, counter: 3, is_tombstone: true };
    check_batches(&[vec![value(1), value(2), tombstone]]).await;
    check_batches(&[vec![tombstone, value(1), value(2)]]).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batches_store_what_single_puts_store(
        batches in prop::collection::vec(prop::collection::vec(any_item(), 1..12), 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
        runtime.unwrap().block_on(check_batches(&batches));
    }
}

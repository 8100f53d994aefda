//! Opening a control file: identity, names, ring sizes.

use super::*;
use crate::{Addresses, CAPACITY_DEFAULT, MemberStatus};
use flate2::read::GzDecoder;
use quoit_model::props::TypeState;
use quoit_model::store_opening::{LastOpening, StoreId};
use std::io::Read;

#[test]
fn identity_is_made_once() {
    let fixture = Fixture::new();
    assert_eq!(fixture.open().read().node_id(), NODE_ID);
    let other = Settings { new_node_id: NodeId([9; 16]), ..settings() };
    let control = ControlPlane::open(fixture.disk(), other).unwrap();
    assert_eq!(control.read().node_id(), NODE_ID);
    assert_eq!(NODE_ID.to_string(), "07".repeat(16));
}

#[test]
fn name_of_the_node_may_change() {
    let fixture = Fixture::new();
    fixture.open();
    let renamed = Settings { node_name: "other@host".to_owned(), ..settings() };
    let control = ControlPlane::open(fixture.disk(), renamed).unwrap();
    assert_eq!(control.read().node_name(), "other@host");
    for bad in [String::new(), "n".repeat(256)] {
        let bad = Settings { node_name: bad, ..settings() };
        let error = ControlPlane::open(fixture.disk(), bad).map(|_| ()).unwrap_err();
        assert!(matches!(error, OpenError::NodeName { .. }), "{error}");
    }
}

#[test]
fn ring_size_is_fixed_when_the_file_is_made() {
    let fixture = Fixture::new();
    fixture.open_with_ring(128).unwrap();
    assert_eq!(fixture.open().ring_size().get(), 128);
    let error = fixture.open_with_ring(64).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("ring_size is 64 in the configuration and 128 in"), "{error}");
    assert!(error.contains("control.redb"), "{error}");
}

#[test]
fn ring_of_a_node_without_settings_has_64_partitions() {
    let fixture = Fixture::new();
    assert_eq!(fixture.open().ring_size(), RingSize::DEFAULT);
}

#[test]
fn file_left_by_an_interrupted_start_is_made_anew() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path().with_extension("new"), b"half of a file").unwrap();
    fixture.open();
    assert!(!fixture.path().with_extension("new").exists());
}

#[test]
fn file_in_use_is_told() {
    let fixture = Fixture::new();
    let _open = fixture.open();
    let error = fixture.open_error();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
}

#[test]
fn directory_that_is_gone_is_told() {
    let fixture = Fixture::new();
    let disk = fixture.disk();
    std::fs::remove_dir(fixture.directory.path()).unwrap();
    let error = ControlPlane::open(disk, settings()).map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[tokio::test]
async fn node_alone_is_a_cluster_of_one_named_after_it() {
    let fixture = Fixture::new();
    let addresses = Addresses { node: "a:1".into(), pb: "a:2".into(), http: "a:3".into() };
    let settings = Settings { addresses: addresses.clone(), ..settings() };
    let control = ControlPlane::open(fixture.disk(), settings).unwrap();
    let state = control.read();
    assert_eq!(state.cluster_id().to_string(), NODE_ID.to_string());
    assert_eq!(state.members().count(), 1);
    let member = state.members().named("quoit@127.0.0.1").unwrap();
    assert_eq!((member.id, member.status), (NODE_ID, MemberStatus::Valid));
    assert_eq!((&member.addresses, member.capacity), (&addresses, CAPACITY_DEFAULT));
}

/// Returns the file of a version that knew only single nodes.
fn file_of_format_1() -> Vec<u8> {
    let packed = include_bytes!("fixtures/control-format-1.redb.gz");
    let mut file = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut file).unwrap();
    file
}

#[tokio::test]
async fn file_of_a_node_that_ran_alone_goes_on() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path(), file_of_format_1()).unwrap();
    for round in 0..2 {
        let other = Settings { new_node_id: NodeId([9; 16]), ..settings() };
        let control = ControlPlane::open(fixture.disk(), other).unwrap();
        let state = control.read();
        assert_eq!((state.node_id(), state.members().count()), (NODE_ID, 1), "round {round}");
        assert_eq!(control.bucket_props(typed("t", "x")).unwrap().n_val, 2);
        assert!(!control.bucket_props(typed("t", "b")).unwrap().allow_mult);
        assert_eq!(control.bucket_props(untyped("b")).unwrap().n_val, 4);
        assert_eq!(control.read().type_state(b"idle"), TypeState::Ready);
    }
    fixture.open().activate_type(b"idle").await.unwrap();
    assert_eq!(fixture.open().read().type_state(b"idle"), TypeState::Active);
}

#[tokio::test]
async fn the_last_opening_of_each_store_is_known_to_the_next_start() {
    let fixture = Fixture::new();
    let opening = |mark| LastOpening { store_id: StoreId(5), mark, incarnation: 2 };
    let first = fixture.open();
    assert_eq!(first.store_opening("bitcask").unwrap(), None);
    for mark in [1, 3] {
        first.note_store_opening("bitcask", opening(mark)).unwrap();
    }
    first.note_store_opening("", opening(9)).unwrap();
    first.stop().await;
    drop(first);
    let second = fixture.open();
    assert_eq!(second.store_opening("bitcask").unwrap(), Some(opening(3)));
    assert_eq!(second.store_opening("").unwrap(), Some(opening(9)));
}

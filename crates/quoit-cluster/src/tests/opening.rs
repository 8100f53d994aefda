//! Opening: identity, names, ring sizes.

use super::*;

#[test]
fn identity_is_made_once() {
    let fixture = Fixture::new();
    assert_eq!(fixture.open().read().node_id(), NODE_ID);
    let other = Settings { new_node_id: NodeId([9; 16]), ..settings() };
    let control = ControlPlane::open(&fixture.path(), other).unwrap();
    assert_eq!(control.read().node_id(), NODE_ID);
    assert_eq!(NODE_ID.to_string(), "07".repeat(16));
}

#[test]
fn name_of_the_node_may_change() {
    let fixture = Fixture::new();
    fixture.open();
    let renamed = Settings { node_name: "other@host".to_owned(), ..settings() };
    let control = ControlPlane::open(&fixture.path(), renamed).unwrap();
    assert_eq!(control.read().node_name(), "other@host");
    for bad in [String::new(), "n".repeat(256)] {
        let bad = Settings { node_name: bad, ..settings() };
        let error = ControlPlane::open(&fixture.path(), bad).map(|_| ()).unwrap_err();
        assert!(matches!(error, OpenError::NodeName { .. }), "{error}");
    }
}

#[test]
fn ring_size_is_fixed_when_the_file_is_made() {
    let fixture = Fixture::new();
    fixture.open_with_ring(128).unwrap();
    assert_eq!(fixture.open().layout().ring_size().get(), 128);
    let error = fixture.open_with_ring(64).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("ring_size is 64 in the configuration and 128 in"), "{error}");
    assert!(error.contains("control.redb"), "{error}");
}

#[test]
fn ring_of_a_node_without_settings_has_64_partitions() {
    let fixture = Fixture::new();
    assert_eq!(fixture.open().layout().ring_size(), RingSize::DEFAULT);
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
fn directory_that_is_not_there_is_told() {
    let fixture = Fixture::new();
    let path = fixture.directory.path().join("none").join("control.redb");
    let error = ControlPlane::open(&path, settings()).map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    let error = ControlPlane::open(fixture.directory.path(), settings()).map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

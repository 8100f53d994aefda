//! A disk that refuses writes, and then works again.

use super::*;
use redb::{Database, StorageBackend};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a disk refuses at the moment.
#[derive(Debug, Default)]
struct Faults {
    writes: AtomicBool,
    syncs: AtomicBool,
}

/// A file on a disk that may refuse writes or syncs.
#[derive(Debug)]
struct FaultyDisk {
    file: File,
    faults: Arc<Faults>,
}

fn refuse_if(fault: &AtomicBool) -> io::Result<()> {
    if fault.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

/// A control plane on such a disk, with the active type `t`.
fn on_faulty_disk(fixture: &Fixture) -> (ControlPlane, Arc<Faults>) {
    with_active_type(&fixture.open(), json!({"n_val": 1}));
    let faults = Arc::new(Faults::default());
    let of_disk = Arc::clone(&faults);
    let opener = Box::new(move |path: &Path| {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let faults = Arc::clone(&of_disk);
        Database::builder().create_with_backend(FaultyDisk { file, faults })
    });
    (ControlPlane::open_by(&fixture.path(), opener, settings()).unwrap(), faults)
}

impl StorageBackend for FaultyDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        refuse_if(&self.faults.writes)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        refuse_if(&self.faults.syncs)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        refuse_if(&self.faults.writes)?;
        self.file.write_all_at(data, offset)
    }
}

#[test]
fn change_that_cannot_be_written_is_refused_and_the_next_one_recovers() {
    let fixture = Fixture::new();
    let (control, faults) = on_faulty_disk(&fixture);

    faults.writes.store(true, Ordering::SeqCst);
    let change = updates(json!({"n_val": 2}));
    for _ in 0..2 {
        let failed = control.set_bucket_props(untyped("b"), &change).unwrap_err();
        assert!(failed.is_server_fault());
        let text = failed.to_string();
        assert!(text.contains("control.redb") && text.contains("disk has room"), "{text}");
        assert_eq!(control.bucket_props(untyped("b")).unwrap().n_val, 3);
        assert_eq!(control.bucket_props(typed("t", "b")).unwrap().n_val, 1);
    }

    faults.writes.store(false, Ordering::SeqCst);
    control.set_bucket_props(untyped("c"), &updates(json!({"n_val": 5}))).unwrap();
    assert_eq!(control.bucket_props(untyped("c")).unwrap().n_val, 5);
    assert_eq!(control.bucket_props(typed("t", "b")).unwrap().n_val, 1);
    drop(control);
    assert_eq!(fixture.open().bucket_props(untyped("c")).unwrap().n_val, 5);
}

#[test]
fn change_whose_sync_failed_is_as_the_file_has_it_once_that_is_known() {
    let fixture = Fixture::new();
    let (control, faults) = on_faulty_disk(&fixture);
    control.set_bucket_props(untyped("b"), &updates(json!({"n_val": 5}))).unwrap();

    faults.syncs.store(true, Ordering::SeqCst);
    let failed = control.reset_bucket_props(untyped("b")).unwrap_err();
    assert!(failed.is_server_fault());
    assert_eq!(control.bucket_props(untyped("b")).unwrap().n_val, 5);

    faults.syncs.store(false, Ordering::SeqCst);
    control.set_bucket_props(untyped("c"), &updates(json!({"n_val": 2}))).unwrap();
    let in_memory = control.bucket_props(untyped("b")).unwrap();
    assert_eq!(control.bucket_props(untyped("c")).unwrap().n_val, 2);
    drop(control);
    let reopened = fixture.open();
    assert_eq!(reopened.bucket_props(untyped("b")).unwrap(), in_memory);
    assert_eq!(reopened.bucket_props(untyped("c")).unwrap().n_val, 2);
}

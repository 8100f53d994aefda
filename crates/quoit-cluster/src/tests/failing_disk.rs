//! A disk that refuses writes, and then works again.

use super::*;
use redb::{Database, StorageBackend};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file whose writes and syncs fail as long as `full` is set.
#[derive(Debug)]
struct FillingDisk {
    file: File,
    full: Arc<AtomicBool>,
}

impl FillingDisk {
    fn check(&self) -> io::Result<()> {
        match self.full.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl StorageBackend for FillingDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write_all_at(data, offset)
    }
}

#[test]
fn change_that_cannot_be_written_is_refused_and_the_next_one_recovers() {
    let fixture = Fixture::new();
    with_active_type(&fixture.open(), json!({"n_val": 1}));
    let full = Arc::new(AtomicBool::new(false));
    let disk_full = Arc::clone(&full);
    let opener = Box::new(move |path: &std::path::Path| {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let full = Arc::clone(&disk_full);
        Database::builder().create_with_backend(FillingDisk { file, full })
    });
    let control = ControlPlane::open_by(&fixture.path(), opener, settings()).unwrap();

    full.store(true, Ordering::SeqCst);
    let change = updates(json!({"n_val": 2}));
    for _ in 0..2 {
        let failed = control.set_bucket_props(untyped("b"), &change).unwrap_err();
        assert!(failed.is_server_fault());
        let text = failed.to_string();
        assert!(text.contains("control.redb") && text.contains("disk has room"), "{text}");
        assert_eq!(control.bucket_props(untyped("b")).unwrap().n_val, 3);
        assert_eq!(control.bucket_props(typed("t", "b")).unwrap().n_val, 1);
    }

    full.store(false, Ordering::SeqCst);
    control.set_bucket_props(untyped("c"), &updates(json!({"n_val": 5}))).unwrap();
    assert_eq!(control.bucket_props(untyped("c")).unwrap().n_val, 5);
    assert_eq!(control.bucket_props(typed("t", "b")).unwrap().n_val, 1);
    drop(control);
    assert_eq!(fixture.open().bucket_props(untyped("c")).unwrap().n_val, 5);
}

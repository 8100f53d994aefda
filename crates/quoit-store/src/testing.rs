//! A data directory in memory, for tests of single files.

use crate::error::StoreError;
use crate::seam::{Disk, DiskFile, DiskLock, ReadAt};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Files in memory. They do what is asked of them and nothing else.
#[derive(Default)]
pub(crate) struct PlainDisk {
    files: Mutex<BTreeMap<String, Arc<PlainFile>>>,
}

#[derive(Default)]
struct PlainFile(Mutex<Vec<u8>>);

impl PlainDisk {
    /// The bytes of a file.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        self.files.lock()[name].0.lock().clone()
    }

    /// Makes or replaces a file.
    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) {
        self.files.lock().insert(name.to_owned(), Arc::new(PlainFile(Mutex::new(bytes))));
    }
}

fn missing(action: &'static str, name: &str) -> StoreError {
    StoreError::Io { action, path: name.to_owned(), reason: "no such file".to_owned() }
}

impl Disk for PlainDisk {
    fn open(&self, name: &str, create_new: bool) -> Result<Arc<dyn DiskFile>, StoreError> {
        let mut files = self.files.lock();
        match (files.get(name), create_new) {
            (Some(file), false) => Ok(Arc::clone(file) as Arc<dyn DiskFile>),
            (None, true) => Ok(Arc::clone(files.entry(name.to_owned()).or_default()) as _),
            (None, false) => Err(missing("open", name)),
            (Some(_), true) => Err(StoreError::Io {
                action: "create",
                path: name.to_owned(),
                reason: "the file exists".to_owned(),
            }),
        }
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.files.lock().remove(name).map(drop).ok_or_else(|| missing("remove", name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or_else(|| missing("rename", from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_directory(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn DiskLock>, StoreError> {
        struct Held;
        impl DiskLock for Held {}
        Ok(Box::new(Held))
    }

    fn path(&self) -> String {
        "memory".to_owned()
    }
}

impl DiskFile for PlainFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        let bytes = self.0.lock();
        let from = &bytes[bytes.len().min(offset as usize)..];
        let size = from.len().min(buffer.len());
        buffer[..size].copy_from_slice(&from[..size]);
        Ok(size)
    }

    fn read_at_nowait(&self, buffer: &mut [u8], offset: u64) -> Result<ReadAt, StoreError> {
        self.read_at(buffer, offset).map(ReadAt::Read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        let mut file = self.0.lock();
        let end = offset as usize + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.0.lock().len() as u64)
    }

    fn truncate(&self, len: u64) -> Result<(), StoreError> {
        self.0.lock().resize(len as usize, 0);
        Ok(())
    }
}

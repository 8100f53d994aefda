//! Small files that keep changes by command across restarts.

use quoit_seam::{Disk, replace_file};
use quoit_store::error::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::sync::Arc;

/// Maximum number of bytes that are read from a file.
const BYTES_MAX: u64 = 4 << 20;

/// A file with one value in JSON. Without a disk the value is kept in memory only.
pub(crate) struct JsonFile<T> {
    disk: Option<Arc<dyn Disk>>,
    name: &'static str,
    /// Remedy for a damaged file, for operators.
    remedy: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> JsonFile<T> {
    pub(crate) const fn new(
        name: &'static str,
        disk: Option<Arc<dyn Disk>>,
        remedy: &'static str,
    ) -> Self {
        Self { disk, name, remedy, value: PhantomData }
    }

    /// Reads the file; `None` if it does not exist or is damaged. A damaged file is reported and left
    /// unchanged.
    pub(crate) fn load(&self) -> Result<Option<T>, StoreError> {
        let Some(disk) = &self.disk else { return Ok(None) };
        if !disk.list()?.iter().any(|name| name == self.name) {
            return Ok(None);
        }
        let file = disk.open(self.name, false)?;
        let mut bytes = vec![0; file.size_bytes()?.min(BYTES_MAX) as usize];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(serde_json::from_slice(&bytes)
            .inspect_err(|fault| {
                let (path, name, remedy) = (disk.path(), self.name, self.remedy);
                tracing::error!(%fault, "{path}/{name} is damaged: {remedy}");
            })
            .ok())
    }

    /// Replaces the file durably.
    pub(crate) fn store(&self, value: &T) -> Result<(), StoreError> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let text = serde_json::to_vec_pretty(value).expect("names and numbers can be written");
        Ok(replace_file(&**disk, self.name, &text).map(drop)?)
    }
}

//! The file that names the engine whose data a directory has.
//!
//! It has three lines: `engine NAME`, `ring_size NUMBER`, `format NUMBER`. Directories of the Bitcask
//! engine have no such file.

use crate::error::StoreError;
use crate::file_names::are_of_bitcask;
use crate::output::Output;
use quoit_model::hash::RingSize;
use quoit_seam::{Disk, RealDisk};
use std::path::Path;

/// Name of the file.
const MARKER_NAME: &str = "ENGINE";

/// Name of the engine whose directories have no marker.
pub(crate) const UNMARKED_ENGINE: &str = "bitcask";

/// Names of the files or directories in which the other engines keep their data.
const ORDERED_DATA: [&str; 2] = ["lsm", "tree.redb"];

/// Format of the directories of ordered engines.
const FORMAT: u32 = 1;

/// Upper bound of the size of a marker file, in bytes.
const SIZE_BYTES_MAX: usize = 4_096;

/// Contents of a marker file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Marker {
    engine: String,
    ring_size: u16,
    format: u32,
}

impl Marker {
    fn text(&self) -> String {
        let Self { engine, ring_size, format } = self;
        format!("engine {engine}\nring_size {ring_size}\nformat {format}\n")
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        Some(Self {
            engine: value("engine")?.to_owned(),
            ring_size: value("ring_size")?.parse().ok()?,
            format: value("format")?.parse().ok()?,
        })
    }
}

/// Name of the engine whose data is in a directory; `None` if the directory has no data.
///
/// # Errors
///
/// If reading the directory fails, or the marker cannot be read.
pub fn engine_of(disk: &dyn Disk) -> Result<Option<String>, StoreError> {
    let names = disk.list()?;
    let marker = read(disk, &names)?;
    let unmarked = || are_of_bitcask(&names).then(|| UNMARKED_ENGINE.to_owned());
    Ok(marker.map(|marker| marker.engine).or_else(unmarked))
}

/// Like [`engine_of`], for a directory given by its path.
///
/// # Errors
///
/// As for [`engine_of`], and if the directory cannot be opened.
pub fn engine_in(directory: &Path) -> Result<Option<String>, StoreError> {
    engine_of(&RealDisk::open(directory)?)
}

/// Checks that a directory has no data or data of this engine. Returns true if it has data.
pub(crate) fn check(
    disk: &dyn Disk,
    engine: &str,
    ring_size: RingSize,
) -> Result<bool, StoreError> {
    let other = |found: String| {
        Err(StoreError::OtherEngine { path: disk.path(), found, wanted: engine.to_owned() })
    };
    let names = disk.list()?;
    let Some(marker) = read(disk, &names)? else {
        let is_there = |data: &&str| names.iter().any(|name| name == data);
        let data = ORDERED_DATA.into_iter().find(is_there);
        let is_unmarked = are_of_bitcask(&names);
        if let Some(data) = data.filter(|_| is_unmarked) {
            return Err(missing(disk, data));
        }
        return match (is_unmarked, engine == UNMARKED_ENGINE) {
            (true, false) => other(UNMARKED_ENGINE.to_owned()),
            (is_unmarked, _) => Ok(is_unmarked),
        };
    };
    if marker.engine != engine {
        return other(marker.engine);
    }
    if marker.format != FORMAT {
        let reason = format!(
            "format {}, this release reads {FORMAT}: start the release that wrote it",
            marker.format
        );
        return Err(damaged(disk, reason));
    }
    if marker.ring_size != ring_size.get() {
        let (stored, wanted) = (marker.ring_size, ring_size.get());
        return Err(StoreError::OtherRing { path: disk.path(), stored, wanted });
    }
    Ok(true)
}

/// Writes the marker of a directory that has no data yet, durably.
pub(crate) fn write(disk: &dyn Disk, engine: &str, ring_size: RingSize) -> Result<(), StoreError> {
    let marker = Marker { engine: engine.to_owned(), ring_size: ring_size.get(), format: FORMAT };
    let mut output = Output::create(disk, MARKER_NAME)?;
    output.push(marker.text().as_bytes())?;
    output.finish()
}

fn read(disk: &dyn Disk, names: &[String]) -> Result<Option<Marker>, StoreError> {
    if !names.iter().any(|name| name == MARKER_NAME) {
        return Ok(None);
    }
    let mut bytes = vec![0; SIZE_BYTES_MAX];
    let count = disk.open(MARKER_NAME, false)?.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    let text = std::str::from_utf8(&bytes).ok();
    let marker = text.and_then(Marker::read);
    let unreadable = || damaged(disk, "it does not say which engine's data this is".to_owned());
    marker.map(Some).ok_or_else(unreadable)
}

/// The error for a directory with data of an ordered engine but without a marker.
fn missing(disk: &dyn Disk, data: &str) -> StoreError {
    let reason =
        format!("it is missing although {data} exists; put it back from a copy if there is one");
    damaged(disk, reason)
}

fn damaged(disk: &dyn Disk, reason: String) -> StoreError {
    StoreError::Corrupt { path: format!("{}/{MARKER_NAME}", disk.path()), offset: 0, reason }
}

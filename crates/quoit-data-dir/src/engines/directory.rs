//! The directories of engines, and the detection of engines that have data.

use anyhow::{Context, Result, bail};
use quoit_config::Storage;
use quoit_store::engine_in;
use std::path::{Path, PathBuf};

/// The directory of an engine in the data directory.
pub(super) fn of(data_dir: &Path, storage: Storage) -> PathBuf {
    data_dir.join(storage.name())
}

/// Engines that have data in the data directory.
pub(super) fn with_data(data_dir: &Path) -> Result<Vec<Storage>> {
    let mut found = Vec::new();
    for storage in Storage::ALL {
        let directory = of(data_dir, storage);
        if storage != Storage::Memory && directory.exists() {
            let engine = engine_in(&directory);
            if engine.context("looking into the data directory")?.is_some() {
                found.push(storage);
            }
        }
    }
    Ok(found)
}

/// Refuses to start with data but without the control plane's file. A new file would give the data another
/// number of partitions and lose all bucket types, although the start would seem to succeed.
pub(crate) fn refuse_orphaned_data(data_dir: &Path, control_file: &str) -> Result<()> {
    if let Some(storage) = with_data(data_dir)?.first() {
        bail!(
            "{} has data, but {} is missing, which holds the node's identity, its ring_size and its bucket \
             types; restore it from a backup of the same node, or choose an empty data directory with \
             --data-dir and, in a cluster, another name, join it, and let it take this one's place: `quoit \
             admin cluster force-replace THIS-NODE NEW-NODE`",
            of(data_dir, *storage).display(),
            data_dir.join(control_file).display()
        );
    }
    Ok(())
}

/// Refuses to start if only other engines than the configured one have data. The configured engine would
/// begin empty, and the node would seem to have lost its data.
pub(super) fn refuse_other_engines(data_dir: &Path, wanted: Storage) -> Result<()> {
    let found = with_data(data_dir)?;
    let Some(other) = found.iter().find(|storage| **storage != wanted) else { return Ok(()) };
    let (other_dir, name) = (of(data_dir, *other), other.name());
    if found.contains(&wanted) {
        tracing::warn!(
            directory = %other_dir.display(),
            "there is data of the engine {name} as well, which is not used"
        );
        return Ok(());
    }
    let wanted_name = wanted.name();
    // The converter is only suggested if it would not refuse.
    let conversion = if is_convertible(*other) && is_convertible(wanted) {
        format!(
            "move the data to the other engine with quoit admin engine convert {wanted_name}, or "
        )
    } else {
        String::from("or ")
    };
    bail!(
        "{} has data of the engine {name}, and storage_backend = {wanted_name} would begin without it; set \
         storage_backend = {name}, {conversion}choose an empty data directory with --data-dir and let the \
         node get its data from the others",
        other_dir.display(),
    );
}

/// True if data of this engine can be converted, and converted to.
fn is_convertible(storage: Storage) -> bool {
    !matches!(storage, Storage::Memory | Storage::Multi)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn directory_with(names: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::create_dir_all(directory.path().join(name)).unwrap();
            let marker = format!("engine {name}\nring_size 64\nformat 1\n");
            std::fs::write(directory.path().join(name).join("ENGINE"), marker).unwrap();
        }
        directory
    }

    #[test]
    fn an_engine_that_would_begin_beside_anothers_data_is_refused() {
        let directory = directory_with(&["leveled"]);
        for wanted in [Storage::Bitcask, Storage::Innostore, Storage::Memory] {
            let text = refuse_other_engines(directory.path(), wanted).unwrap_err().to_string();
            assert!(text.contains("set storage_backend = leveled"), "{text}");
        }
        refuse_other_engines(directory.path(), Storage::Leveled).unwrap();
    }

    #[test]
    fn the_converter_is_named_where_it_can_help() {
        for (found, wanted, has_converter) in [
            ("leveled", Storage::Bitcask, true),
            ("bitcask", Storage::Innostore, true),
            ("leveled", Storage::Memory, false),
            ("leveled", Storage::Multi, false),
            ("multi", Storage::Leveled, false),
        ] {
            let directory = directory_with(&[found]);
            let text = refuse_other_engines(directory.path(), wanted).unwrap_err().to_string();
            assert_eq!(text.contains("engine convert"), has_converter, "{text}");
            assert!(text.contains("choose an empty data directory"), "{text}");
        }
    }

    #[test]
    fn data_that_is_left_over_beside_the_engines_own_is_no_hindrance() {
        let directory = directory_with(&["leveldb", "leveled"]);
        refuse_other_engines(directory.path(), Storage::Leveldb).unwrap();
        assert!(refuse_other_engines(directory.path(), Storage::Bitcask).is_err());
    }

    #[test]
    fn data_of_any_engine_without_its_control_file_is_refused() {
        for name in ["leveldb", "leveled", "innostore"] {
            let directory = directory_with(&[name]);
            let text = refuse_orphaned_data(directory.path(), "control.redb");
            let text = text.unwrap_err().to_string();
            assert!(text.contains(name) && text.contains("control.redb is missing"), "{text}");
        }
        refuse_orphaned_data(directory_with(&[]).path(), "control.redb").unwrap();
    }
}

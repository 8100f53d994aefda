//! Stores that can't be opened or can't continue: the recovery commands and their effects.

use super::{EngineDirectory, convert, directory, open_one};
use anyhow::{Context, Result, anyhow, bail};
use quoit_cluster::ControlPlane;
use quoit_config::{Settings, Storage};
use quoit_seam::{Clock, SystemClock};
use quoit_store::convert::note_loss;
use quoit_store::error::StoreError;
use quoit_store::ordered::{SalvageEvent, Salvaged, salvage};
use quoit_store::{OpenedStore, SalvageWork, engine_in, needs_salvage_to_finish, set_aside};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// True if other nodes may have copies of this node's records.
#[must_use]
pub fn is_in_cluster(control: &ControlPlane) -> bool {
    control.read().members().iter().nth(1).is_some()
}

/// True if an error means that files are damaged or missing. False, for example, if they belong to a newer
/// release.
fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Corrupt { reason, .. } => !reason.contains("release"),
        // EIO, for example from a bad sector.
        StoreError::Io { reason, .. } => reason.contains("os error 5)"),
        _ => false,
    }
}

/// The command that repairs a damaged store in an engine's directory, and its effect.
#[must_use]
pub fn remedy(directory: &Path, is_in_cluster: bool) -> String {
    let base = directory.parent().unwrap_or(directory);
    let is_one_of_several = base.file_name().is_some_and(|name| name == Storage::Multi.name());
    let (data_dir, engine) = match base.parent().filter(|_| is_one_of_several) {
        Some(data_dir) => (data_dir, directory.file_name().map(|name| name.to_string_lossy())),
        None => (base, None),
    };
    let engine = engine.map_or_else(String::new, |name| format!(" --engine {}", quoted(&name)));
    let at = format!("--data-dir {}{engine}", quoted(&data_dir.to_string_lossy()));
    if is_in_cluster {
        return format!(
            "to have the node filled by the others, run `quoit admin engine set-aside {at}` while it is \
             stopped, and start it again"
        );
    }
    format!(
        "to save what can be read, run `quoit admin engine salvage {at}` while the node is stopped, and \
         start it again"
    )
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,@:".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Adds the repair command to an error that means damage.
pub(super) fn with_remedy(
    error: anyhow::Error,
    directory: &Path,
    control: &ControlPlane,
) -> anyhow::Error {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>());
    match cause.is_some_and(is_damage) {
        true => anyhow!("{error:#}; {}", remedy(directory, is_in_cluster(control))),
        false => error,
    }
}

/// Refuses to open a store whose salvage has not completed.
pub(super) fn refuse_unfinished(directory: &Path, control: &ControlPlane) -> Result<()> {
    if needs_salvage_to_finish(directory) {
        // At this point the new store is complete. The command only has to finish its work.
        bail!(
            "the salvage of {} was stopped just before its end; finish it: {}",
            directory.display(),
            remedy(directory, is_in_cluster(control)).replace("set-aside", "salvage")
        );
    }
    Ok(())
}

/// The store of a stopped node that a command applies to.
pub struct DamagedStore<'s> {
    control: &'s ControlPlane,
    /// The directory of the store's engine.
    pub directory: PathBuf,
    storage: Storage,
    settings: Settings,
    /// True if it is one of several engines.
    is_one_of_several: bool,
}

impl<'s> DamagedStore<'s> {
    /// Finds the store. `named` selects one of several engines. The opened control plane ensures that no
    /// node is running on the data.
    ///
    /// # Errors
    ///
    /// If the node has no such store, if it has several and `named` selects none of them, or if a conversion
    /// is in progress.
    pub fn find(
        data_dir: &Path,
        named: Option<&str>,
        settings: &Settings,
        control: &'s ControlPlane,
    ) -> Result<Self> {
        let (directory, storage, settings) = match named {
            None => {
                let storage = only_storage(data_dir, settings)?;
                (directory::of(data_dir, storage), storage, settings.clone())
            }
            Some(name) => one_of_several(data_dir, name, settings)?,
        };
        let base = directory.parent().unwrap_or(data_dir);
        convert::refuse_converting(base)?;
        let is_one_of_several = named.is_some();
        Ok(Self { control, directory, storage, settings, is_one_of_several })
    }

    fn base(&self) -> &Path {
        self.directory.parent().unwrap_or(&self.directory)
    }

    /// Records that events may be lost, if the store is one of several engines.
    fn note_loss(&self) -> Result<()> {
        match self.is_one_of_several {
            true => note_loss(self.base()).context("noting that events may be lost"),
            false => Ok(()),
        }
    }

    /// Moves the store aside, and returns its new path.
    ///
    /// # Errors
    ///
    /// If the node is alone and `is_forced` is false, or the directory can't be renamed.
    pub fn set_aside(&self, is_forced: bool, time: &str) -> Result<PathBuf> {
        if !is_in_cluster(self.control) && !is_forced {
            let salvage = match self.storage {
                Storage::Bitcask => {
                    "bitcask reads around damage by itself when the node starts".into()
                }
                _ => remedy(&self.directory, false),
            };
            bail!(
                "the node is alone: no other one has its records, and it would go on without any; {salvage}; \
                 to go on without records all the same, add --force"
            );
        }
        self.note_loss()?;
        let ring_size = self.control.ring_size();
        Ok(set_aside(&self.directory, self.storage.name(), ring_size, time)?)
    }

    /// Salvages the store. Returns the result and the new path of the old store, or `None` if only the last
    /// step of an earlier salvage was left.
    ///
    /// # Errors
    ///
    /// If the engine needs no salvage, the new store can't be written, or `watch` returns an error. The old
    /// store is unchanged then.
    pub fn salvage(
        &self,
        time: &str,
        watch: &mut dyn FnMut(&SalvageEvent<'_>) -> Result<(), StoreError>,
    ) -> Result<Option<(Salvaged, PathBuf)>> {
        if needs_salvage_to_finish(&self.directory) {
            SalvageWork::finish(&self.directory)?;
            return Ok(None);
        }
        if self.storage == Storage::Bitcask {
            bail!(
                "{} has data of the engine bitcask, which reads around damage by itself: start the node, and \
                 look at its log",
                self.directory.display()
            );
        }
        let work = SalvageWork::begin(&self.directory)?;
        let salvaged = match self.fill(work.path(), watch) {
            Ok(salvaged) => salvaged,
            Err(error) => {
                work.abandon().context("removing the new data")?;
                return Err(error.context(format!("{} is as it was", self.directory.display())));
            }
        };
        if !salvaged.is_whole {
            self.note_loss()?;
        }
        let aside = work.switch(!salvaged.is_whole, time)?;
        Ok(Some((salvaged, aside)))
    }

    /// Creates a new store in a directory from the readable records.
    fn fill(
        &self,
        directory: &Path,
        watch: &mut dyn FnMut(&SalvageEvent<'_>) -> Result<(), StoreError>,
    ) -> Result<Salvaged> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let ring_size = self.control.ring_size();
        let place = EngineDirectory {
            directory,
            ring_size,
            is_expected: false,
            has_replicas: false,
            last_opening: None,
        };
        let OpenedStore { engine, .. } =
            open_one(self.storage, &place, &clock, &self.settings).context("making a new store")?;
        let salvaged = salvage(&self.directory, &*engine, ring_size, watch);
        let closed = engine.close();
        let salvaged = salvaged?;
        closed.context("closing the new store")?;
        Ok(salvaged)
    }
}

/// The engine whose data the node has: the configured one, or the only one.
fn only_storage(data_dir: &Path, settings: &Settings) -> Result<Storage> {
    let is_there = |storage: &Storage| {
        let directory = directory::of(data_dir, *storage);
        directory.is_dir() || needs_salvage_to_finish(&directory)
    };
    let found: Vec<Storage> = Storage::ALL.into_iter().filter(is_there).collect();
    let wanted = settings.storage();
    let is_configured = settings.origin("storage_backend").is_some() && found.contains(&wanted);
    match (is_configured, &found[..]) {
        (true, _) if wanted != Storage::Multi => Ok(wanted),
        (_, [Storage::Multi]) | (true, _) => bail!(
            "{} has several engines; say with --engine NAME which one is damaged",
            directory::of(data_dir, Storage::Multi).display()
        ),
        (false, [storage]) => Ok(*storage),
        (false, []) => bail!("{} has no data of any engine", data_dir.display()),
        (false, _) => bail!(
            "{} has data of several engines; say which one the node uses with --config FILE, or --set \
             storage_backend=ENGINE",
            data_dir.display()
        ),
    }
}

/// Directory, type and settings of one of several engines.
fn one_of_several(
    data_dir: &Path,
    name: &str,
    settings: &Settings,
) -> Result<(PathBuf, Storage, Settings)> {
    let directory = directory::of(data_dir, Storage::Multi).join(name);
    let is_there = directory.is_dir() || needs_salvage_to_finish(&directory);
    if !convert::is_plain(name) || !is_there {
        bail!(
            "there is no engine {name:?} in {}",
            directory::of(data_dir, Storage::Multi).display()
        );
    }
    if let Some(named) = settings.named_storages().into_iter().find(|named| named.name == name) {
        return Ok((directory, named.storage, named.settings));
    }
    let told = engine_in(&directory).ok().flatten();
    match told.as_deref().and_then(Storage::named) {
        Some(storage) => Ok((directory, storage, settings.clone())),
        None => bail!(
            "{} does not say which engine's data it has; name the node's configuration with --config FILE",
            directory.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_a_command_that_a_shell_takes() {
        let alone = remedy(Path::new("/var/lib/quoit/leveldb"), false);
        assert!(
            alone.contains("`quoit admin engine salvage --data-dir /var/lib/quoit`"),
            "{alone}"
        );
        let together = remedy(Path::new("/my data/multi/cold"), true);
        let command = "`quoit admin engine set-aside --data-dir '/my data' --engine cold`";
        assert!(together.contains(command), "{together}");
    }

    #[test]
    fn damage_is_told_from_what_no_command_helps_against() {
        let corrupt = |reason: &str| StoreError::Corrupt {
            path: "v3".into(),
            offset: 0,
            reason: reason.into(),
        };
        assert!(is_damage(&corrupt("its checksum is wrong")));
        assert!(!is_damage(&corrupt("format 2: start the release that wrote it")));
        assert!(!is_damage(&StoreError::Locked { path: "leveldb".into() }));
        let io = |reason: &str| StoreError::Io {
            action: "read",
            path: "v3".into(),
            reason: reason.into(),
        };
        assert!(is_damage(&io("Input/output error (os error 5)")));
        assert!(!is_damage(&io("Permission denied (os error 13)")));
    }
}

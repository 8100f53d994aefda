//! Converts the data of a stopped node from one storage engine to another.
//!
//! The new data is written beside the old data and replaces it at the end. The same command continues an
//! interrupted conversion, or abandons it. Until then the node refuses to start.

use super::{EngineDirectory, directory, open_one};
use anyhow::{Context, Result, bail};
use quoit_config::{Settings, Storage};
use quoit_model::hash::RingSize;
use quoit_seam::{Clock, SystemClock};
use quoit_store::convert::{
    Conversion, CopySettings, Progress, StartedConversion, note_loss, started_conversion,
};
use quoit_store::engine::Engine;
use quoit_store::{OpenedStore, engine_in};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Source, target and options of a conversion.
pub struct ConversionPlan<'p> {
    /// The data directory of the node.
    pub data_dir: &'p Path,
    /// The name of the engine to convert, if the node has several.
    pub named: Option<&'p str>,
    /// The new engine.
    pub to: Storage,
    /// Number of partitions of the cluster.
    pub ring_size: RingSize,
    /// The settings of the node, with those of both engines.
    pub settings: &'p Settings,
    /// True if the conversion leaves out damaged records. Otherwise a damaged record ends it.
    pub accepts_damage: bool,
    /// True if the conversion begins even if the disk may have too little space.
    pub ignores_room: bool,
    /// Function that returns the free space of a directory's disk: [`free_bytes`].
    pub free_bytes_of: fn(&Path) -> Result<u64>,
    /// Number of copied bytes after which the conversion records its progress.
    pub note_every_bytes: u64,
}

/// A completed conversion.
pub struct Converted {
    /// Name of the old engine.
    pub from: String,
    /// Name of the new engine.
    pub to: String,
    /// Number of records in the new engine.
    pub record_count: u64,
    /// True if damaged records were left out.
    pub lacks_records: bool,
    /// The setting that has to name the new engine now.
    pub setting: String,
    /// Former directory of the old data, unless the new data has the same one.
    pub removed_directory: Option<PathBuf>,
}

/// Refuses to open data that is being converted, because it belongs to neither engine.
pub(super) fn refuse_converting(base: &Path) -> Result<()> {
    let Some(started) = started_conversion(base).context("looking into the data directory")? else {
        return Ok(());
    };
    let give_up = if started.is_complete { "" } else { ", or give it up with --abandon" };
    bail!(
        "{} is being converted from {} to {}; finish that with: quoit admin engine convert {}{} \
         --data-dir ...{give_up}",
        base.join(&started.old_name).display(),
        started.from,
        started.to,
        started.to,
        engine_flag(&started)
    );
}

/// The option that selects one of several engines on the command line, with a leading space.
fn engine_flag(started: &StartedConversion) -> String {
    if started.old_name == started.new_name {
        format!(" --engine {}", started.old_name)
    } else {
        String::new()
    }
}

impl ConversionPlan<'_> {
    /// The directory that contains the directories of the old and the new engine.
    fn base(&self) -> PathBuf {
        match self.named {
            None => self.data_dir.to_owned(),
            Some(_) => directory::of(self.data_dir, Storage::Multi),
        }
    }

    /// Abandons the conversion in progress. Returns its description and the directory of the data.
    ///
    /// # Errors
    ///
    /// If no conversion, or another one, is in progress.
    pub fn abandon(&self) -> Result<(StartedConversion, PathBuf)> {
        let Some(conversion) = Conversion::resume(&self.base(), self.ring_size)? else {
            bail!("no conversion is under way in {}", self.base().display());
        };
        let started = self.check_is_requested(conversion.started())?;
        let data = conversion.old_path();
        conversion.abandon()?;
        Ok((started, data))
    }

    /// Converts, or continues a conversion in progress. Calls `observe` with the progress of the copying.
    ///
    /// # Errors
    ///
    /// If the conversion is refused, or stops at damage or a full disk; a later run continues it.
    pub fn run(&self, observe: &mut dyn FnMut(&Progress)) -> Result<Converted> {
        let base = self.base();
        let resumed = Conversion::resume(&base, self.ring_size)?;
        let started = match &resumed {
            Some(resumed) => self.check_is_requested(resumed.started())?,
            None => self.requested()?,
        };
        let from = stored(&started.from)?;
        let removed_directory =
            (started.old_name != started.new_name).then(|| base.join(&started.old_name));
        let conversion = match resumed {
            Some(resumed) if started.is_complete => resumed,
            resumed => self.copy(from, &started, resumed, observe)?,
        };
        let (record_count, lacks_records) = (conversion.record_count(), conversion.lacks_records());
        conversion.switch()?;
        let setting = match self.named {
            None => "storage_backend".to_owned(),
            Some(name) => format!("multi_backend.{name}.storage_backend"),
        };
        let StartedConversion { from, to, .. } = started;
        Ok(Converted { from, to, record_count, lacks_records, setting, removed_directory })
    }

    /// Copies all records and completes the conversion.
    fn copy(
        &self,
        from: Storage,
        started: &StartedConversion,
        resumed: Option<Conversion>,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<Conversion> {
        let base = self.base();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let settings = self.engine_settings();
        let open = |storage, path: &Path| {
            let (ring_size, is_expected) = (self.ring_size, false);
            let last_opening = None;
            let place = EngineDirectory {
                directory: path,
                ring_size,
                is_expected,
                has_replicas: false,
                last_opening,
            };
            open_one(storage, &place, &clock, &settings)
        };
        let OpenedStore { engine: old, created, clean, .. } =
            open(from, &base.join(&started.old_name)).context("opening the old data")?;
        if created || !clean {
            // Recorded before the store is closed: an orderly close would hide the loss from the next start,
            // however this run ends.
            note_loss(&base).context("noting that events may be lost")?;
        }
        let begun = resumed.map_or_else(|| self.begin(&base, started, &*old), Ok);
        let mut conversion = match begun {
            Ok(conversion) => conversion,
            Err(refused) => {
                // Without an orderly close, the next start would treat the old data like data after a crash.
                old.close().context("closing the old data")?;
                return Err(refused);
            }
        };
        let new = open(self.to, &conversion.new_path()).context("opening the new data")?.engine;
        let notes = CopySettings {
            every_bytes: self.note_every_bytes,
            clock: &*clock,
            accepts_damage: self.accepts_damage,
        };
        let copied = conversion.copy(&*old, &*new, &notes, observe);
        // If a killed run has left out index entries, the next start creates them in the background.
        let closed = new.close().and(old.close());
        copied?;
        closed?;
        drop((old, new));
        conversion.complete()?;
        Ok(conversion)
    }

    /// Begins to convert the data of an engine, if there is enough space.
    fn begin(
        &self,
        base: &Path,
        started: &StartedConversion,
        old: &dyn Engine,
    ) -> Result<Conversion> {
        if !self.ignores_room {
            self.check_room(base, old.stats().live_bytes())?;
        }
        Ok(Conversion::begin(base, self.ring_size, started.clone())?)
    }

    /// The settings of the engine to convert.
    fn engine_settings(&self) -> Settings {
        let named = self.settings.named_storages();
        let own = named.into_iter().find(|each| Some(each.name.as_str()) == self.named);
        own.map_or_else(|| self.settings.clone(), |own| own.settings)
    }

    /// The requested conversion.
    fn requested(&self) -> Result<StartedConversion> {
        let (from, old_name, new_name) = match self.named {
            Some(name) => (self.named_engine(name)?, name.to_owned(), name.to_owned()),
            None => {
                let from = self.only_engine()?;
                (from, from.name().to_owned(), self.to.name().to_owned())
            }
        };
        if from == self.to {
            bail!(
                "{} has data of the engine {} already",
                self.base().join(old_name).display(),
                from.name()
            );
        }
        let (from, to) = (from.name().to_owned(), self.to.name().to_owned());
        Ok(StartedConversion { from, to, old_name, new_name, is_complete: false })
    }

    /// Checks that the conversion in progress is the requested one.
    fn check_is_requested(&self, begun: &StartedConversion) -> Result<StartedConversion> {
        let is_same =
            begun.to == self.to.name() && self.named.is_none_or(|name| name == begun.old_name);
        if is_same {
            return Ok(begun.clone());
        }
        let StartedConversion { from, to, .. } = begun;
        bail!(
            "a conversion of {} from {from} to {to} is under way; finish it first, with: quoit admin engine \
             convert {to}{} --data-dir ...{}",
            self.base().join(&begun.old_name).display(),
            engine_flag(begun),
            if begun.is_complete { "" } else { "; or give it up with the same and --abandon" }
        );
    }

    /// The engine whose data the node has.
    fn only_engine(&self) -> Result<Storage> {
        let found = directory::with_data(self.data_dir)?;
        match found[..] {
            [] => bail!("{} has no data of any engine", self.data_dir.display()),
            [Storage::Multi] => bail!(
                "{} has several engines: convert one of them with --engine NAME, or let buckets choose \
                 another by the property backend",
                directory::of(self.data_dir, Storage::Multi).display()
            ),
            [from] => Ok(from),
            _ => {
                let wanted = self.settings.storage();
                let names: Vec<_> = found.iter().map(|storage| storage.name()).collect();
                if found.contains(&wanted) && wanted != self.to && wanted != Storage::Multi {
                    return Ok(wanted);
                }
                bail!(
                    "{} has data of several engines ({}), and storage_backend = {} does not say which is to \
                     be moved; move away what nobody needs",
                    self.data_dir.display(),
                    names.join(", "),
                    wanted.name()
                );
            }
        }
    }

    /// The engine with this name among several.
    fn named_engine(&self, name: &str) -> Result<Storage> {
        let path = self.base().join(name);
        let found = match is_plain(name) && path.is_dir() {
            true => engine_in(&path)?,
            false => None,
        };
        let Some(found) = found else {
            bail!(
                "there is no data of an engine {name:?} in {}; {}",
                self.base().display(),
                self.choice()
            );
        };
        stored(&found)
    }

    /// Text with the names that can be chosen among several engines.
    fn choice(&self) -> String {
        let is_engine =
            |path: &Path| path.is_dir() && engine_in(path).is_ok_and(|found| found.is_some());
        let entries = std::fs::read_dir(self.base()).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path()).filter(|path| is_engine(path));
        let mut names: Vec<_> = paths
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        names.sort_unstable();
        if names.is_empty() {
            return "no engine has any there: leave --engine out where the node has one engine"
                .to_owned();
        }
        format!("name one of: {}", names.join(", "))
    }

    /// Refuses to begin if the disk probably lacks space for the new data beside the old.
    fn check_room(&self, base: &Path, live_bytes: u64) -> Result<()> {
        let free_bytes = (self.free_bytes_of)(base)?;
        // Pages of a B+tree with random insertions are between half full and full.
        let times = if self.to == Storage::Innostore { 2 } else { 1 };
        let needed_bytes = live_bytes.saturating_mul(times) + live_bytes / 4;
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        bail!(
            "the disk of {} has {} MB free, and the new data may need {} MB beside the old; make room, or \
             begin all the same with --ignore-room: a conversion that runs out of room loses nothing, and \
             goes on when there is some",
            base.display(),
            free_bytes >> 20,
            (needed_bytes >> 20) + 1
        );
    }
}

/// Free space of the disk with a directory, in bytes.
///
/// # Errors
///
/// If the file system does not answer.
pub fn free_bytes(directory: &Path) -> Result<u64> {
    let room = rustix::fs::statvfs(directory).context("reading the free space of the disk")?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// The engine with this name, if it stores data in a directory of its own.
fn stored(name: &str) -> Result<Storage> {
    match Storage::named(name) {
        None => bail!("this release knows no storage engine {name}"),
        Some(Storage::Memory | Storage::Multi) => {
            bail!("data of the engine {name} can't be converted")
        }
        Some(storage) => Ok(storage),
    }
}

/// True if a name is a single path component, and does not lead outside of the directory.
pub(super) fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!(parts.next(), Some(Component::Normal(part)) if part == name) && parts.next().is_none()
}

#[cfg(test)]
mod tests;

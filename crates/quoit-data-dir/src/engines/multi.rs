//! Opens several engines behind one store.

use super::convert::refuse_converting;
use super::salvage::{is_in_cluster, with_remedy};
use super::{EngineDirectory, memory, open_noted};
use anyhow::{Context, Result, bail};
use quoit_cluster::ControlPlane;
use quoit_config::{NamedStorage, Settings, Storage};
use quoit_node::FoundLoss;
use quoit_seam::{Clock, RealDisk};
use quoit_store::multi::{
    Assignments, MultiEngine, MultiSettings, NamedEngine, Routing, engines_in_use,
};
use quoit_store::{OpenedStore, engine_in, is_set_aside};
use std::path::Path;
use std::sync::Arc;

/// Name under which the opening of all engines together is recorded; no engine can have it.
const OWN_NAME: &str = "";

pub(super) fn open(
    directory: &Path,
    is_new_node: bool,
    control: &Arc<ControlPlane>,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<(OpenedStore, Option<FoundLoss>)> {
    let disk = RealDisk::open(directory).context("opening the data directory")?;
    let storages = settings.named_storages();
    refuse_converting(directory)?;
    refuse_other_data(directory, &storages, control)?;
    let ring_size = control.ring_size();
    let used = engines_in_use(&disk).context("reading the engine of each bucket")?;
    let mut engines = Vec::new();
    let mut losses = Vec::new();
    for NamedStorage { name, storage, settings } in storages {
        let opened = if storage == Storage::Memory {
            let engine = memory::engine(ring_size, clock, &settings);
            NamedEngine { name, engine, is_intact: false }
        } else {
            let is_expected = !is_new_node && used.contains(&name);
            let directory = &directory.join(&name);
            let has_replicas = is_in_cluster(control);
            let place = EngineDirectory {
                directory,
                ring_size,
                is_expected,
                has_replicas,
                last_opening: None,
            };
            let opened = open_noted(storage, &name, place, control, clock, &settings)
                .with_context(|| format!("opening the storage engine {name}"))?;
            let is_intact = !opened.created && opened.clean && opened.loss.is_none();
            losses.extend(FoundLoss::of(&opened));
            NamedEngine { name, engine: opened.engine, is_intact }
        };
        engines.push(opened);
    }
    let entropy = getrandom::u64().context("asking the system for random bytes")?;
    let default = settings.default_storage();
    let routing = Arc::new(Properties(Arc::clone(control)));
    let opened = quoit_node::open_noted(control, OWN_NAME, |last_opening| {
        let settings = MultiSettings { entropy, ring_size, last_opening, default };
        let opened = MultiEngine::open(Arc::new(disk), engines, routing, &settings);
        let (engine, report) = opened.context("opening the storage engines")?;
        for (name, stats) in engine.stats_by_name() {
            tracing::info!(name, key_count = stats.key_count, "storage engine opened");
        }
        anyhow::Ok(OpenedStore::from((engine, report)))
    })?;
    Ok((opened, FoundLoss::merge_all(losses)))
}

/// Refuses to start with data of an engine that is not configured any more, or that has another type now,
/// because the data would seem to be lost.
fn refuse_other_data(
    directory: &Path,
    storages: &[NamedStorage],
    control: &ControlPlane,
) -> Result<()> {
    let entries = std::fs::read_dir(directory).context("looking into the data directory")?;
    for entry in entries {
        let path = entry.context("looking into the data directory")?.path();
        if !path.is_dir() {
            continue;
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        if is_set_aside(&name) {
            continue;
        }
        let found = engine_in(&path);
        let found = found.context("looking into the data directory");
        let found = found.map_err(|error| with_remedy(error, &path, control))?;
        let Some(found) = found else { continue };
        let named = storages.iter().find(|named| named.name == name);
        match named.map(|named| named.storage) {
            None | Some(Storage::Memory) => bail!(
                "{} has data of an engine that the configuration does not have; set \
                 multi_backend.{name}.storage_backend = {found}, or move the directory away and let the \
                 node get its data from the others",
                path.display()
            ),
            Some(storage) if storage.name() != found => bail!(
                "{} has data of the engine {found}, and multi_backend.{name}.storage_backend = {wanted} \
                 would begin without it; set it to {found}, or move the data to the other engine with \
                 quoit admin engine convert {wanted} --engine {name}",
                path.display(),
                wanted = storage.name()
            ),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The property `backend` of bucket types and buckets.
struct Properties(Arc<ControlPlane>);

impl Routing for Properties {
    fn version(&self) -> u64 {
        // Another cluster counts its versions from the beginning, so the version must depend on the
        // cluster, too.
        let state = self.0.read();
        let cluster = state.cluster_id().0.first_chunk().copied().map_or(0, u64::from_be_bytes);
        cluster.wrapping_add(state.version())
    }

    fn assignments(&self) -> Assignments {
        let state = self.0.read();
        let mut assignments = Assignments::default();
        for chosen in state.backends() {
            let (bucket_type, name) = (chosen.bucket_type.to_vec(), chosen.name.to_owned());
            match chosen.bucket {
                None => assignments.types.insert(bucket_type, name),
                Some(bucket) => assignments.buckets.insert((bucket_type, bucket.to_vec()), name),
            };
        }
        assignments
    }
}

//! Opens the Bitcask engine.

use super::opening_progress::OPENING;
use super::{EngineDirectory, durability, interval_us, sync_interval_us};
use anyhow::{Context, Result};
use quoit_config::Settings;
use quoit_model::hash::RingSize;
use quoit_seam::{Clock, RealDisk, Threads};
use quoit_store::OpenedStore;
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, MergePolicy, MergeSettings};
use std::sync::Arc;

pub(super) fn open(
    place: &EngineDirectory<'_>,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OpenedStore> {
    let disk = RealDisk::open(place.directory).context("opening the data directory")?;
    let settings = BitcaskSettings {
        is_expected: place.is_expected,
        last_opening: place.last_opening,
        watch: &OPENING,
        ..bitcask_settings(place.ring_size, settings)?
    };
    let opened = BitcaskEngine::open(Arc::new(disk), Arc::clone(clock), &Threads, settings);
    let (engine, report) = opened.context("opening the storage engine")?;
    if report.damage_count > 0 {
        tracing::warn!(damage_count = report.damage_count, "the store was opened with damage");
    }
    if !report.foreign_files.is_empty() {
        let files = report.foreign_files.join(" ");
        tracing::warn!(files, "files in the data directory that are not ours are left alone");
    }
    Ok((engine, report).into())
}

fn bitcask_settings(ring_size: RingSize, settings: &Settings) -> Result<BitcaskSettings> {
    let defaults = BitcaskSettings::new(getrandom::u64().context("asking for random bytes")?);
    let micros = |name: &str, default: u64| settings.duration(name).map_or(default, interval_us);
    let bytes = |name: &str, default: u64| settings.size_bytes(name).unwrap_or(default);
    let hour = |name: &str| {
        settings.integer(name).and_then(|hour| u8::try_from(hour).ok()).unwrap_or_default()
    };
    let merge = &defaults.merge;
    let policy = match settings.get("bitcask.merge.policy") {
        Some("never") => MergePolicy::Never,
        Some("window") => MergePolicy::Window {
            start: hour("bitcask.merge.window.start"),
            end: hour("bitcask.merge.window.end"),
        },
        _ => MergePolicy::Always,
    };
    let merge = MergeSettings {
        policy,
        frag_merge_trigger_percent: settings.percent("bitcask.merge.triggers.fragmentation"),
        dead_bytes_merge_trigger_bytes: bytes(
            "bitcask.merge.triggers.dead_bytes",
            merge.dead_bytes_merge_trigger_bytes,
        ),
        frag_threshold_percent: settings.percent("bitcask.merge.thresholds.fragmentation"),
        dead_bytes_threshold_bytes: bytes(
            "bitcask.merge.thresholds.dead_bytes",
            merge.dead_bytes_threshold_bytes,
        ),
        small_file_threshold_bytes: bytes(
            "bitcask.merge.thresholds.small_file",
            merge.small_file_threshold_bytes,
        ),
        check_interval_us: micros("bitcask.merge_check_interval", merge.check_interval_us),
        check_jitter_percent: settings.percent("bitcask.merge_check_jitter"),
        budget_bytes_per_sec: bytes("bitcask.merge_rate", merge.budget_bytes_per_sec),
        ..merge.clone()
    };
    Ok(BitcaskSettings {
        ring_size,
        durability: durability(settings),
        sync_interval_us: sync_interval_us(settings, defaults.sync_interval_us),
        max_file_size_bytes: bytes("bitcask.max_file_size", defaults.max_file_size_bytes),
        snapshot_interval_bytes: bytes(
            "bitcask.snapshot_interval",
            defaults.snapshot_interval_bytes,
        ),
        recent_writes_bytes: bytes("bitcask.recent_writes_size", defaults.recent_writes_bytes),
        merge,
        ..defaults
    })
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use quoit_config::Sources;
    use quoit_model::hash::{KeyHash, PlacementRule};
    use quoit_model::key::BucketRef;
    use quoit_seam::SystemClock;
    use quoit_store::engine::{
        BeforeImage, Decision, Engine, IoMode, RecordAt, RecordMeta, RecordRef,
    };
    use std::path::Path;

    /// Writes a record of 500 bytes, for the default number of partitions.
    pub(in super::super) fn put(engine: &dyn Engine, key: &[u8]) {
        let bucket = BucketRef::untyped(b"bucket");
        let encoded = bucket.key(key).encoded();
        let hash = KeyHash::of(&encoded, bucket, PlacementRule::BucketAndKey);
        let at = RecordAt {
            key: bucket.key(key),
            encoded: &encoded,
            identity: hash.identity,
            partition: RingSize::DEFAULT.partition(hash.placement),
        };
        let write = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            out.extend_from_slice(&[7; 500]);
            Decision::Put(RecordMeta::default())
        };
        engine.update(&at, BeforeImage::Skip, IoMode::Wait, write).unwrap();
    }

    /// Damages the first record of each segment of a closed store, so that the next start finds the damage.
    pub(in super::super) fn lose_records(directory: &Path) {
        let names = || std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let has_extension = |path: &std::path::PathBuf, wanted| {
            path.extension().is_some_and(|extension| extension == wanted)
        };
        for log in names().filter(|path| has_extension(path, "log")) {
            let mut bytes = std::fs::read(&log).unwrap();
            if let Some(byte) = bytes.get_mut(300) {
                *byte ^= 1;
            }
            std::fs::write(&log, bytes).unwrap();
        }
        names()
            .filter(|path| path.ends_with("INDEX") || has_extension(path, "keys"))
            .for_each(|path| std::fs::remove_file(path).unwrap());
    }

    #[test]
    fn a_store_that_lost_records_since_its_clean_stop_was_not_closed_in_good_order() {
        let directory = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let settings = quoit_config::load(&Sources::default()).unwrap();
        let (ring_size, is_expected) = (RingSize::DEFAULT, false);
        let last_opening = None;
        let has_replicas = false;
        let path = directory.path();
        let place =
            EngineDirectory { directory: path, ring_size, is_expected, has_replicas, last_opening };
        let reopen = || open(&place, &clock, &settings).unwrap();
        let opened = reopen();
        put(&*opened.engine, b"key");
        opened.engine.close().unwrap();
        drop(opened);
        let opened = reopen();
        assert!(opened.clean);
        opened.engine.close().unwrap();
        drop(opened);
        lose_records(directory.path());
        let opened = reopen();
        assert!(!opened.clean, "events may be lost that were acknowledged");
        assert!(opened.loss.is_some());
        opened.identity.mark_loss_repaired().unwrap();
        opened.engine.close().unwrap();
        drop(opened);
        assert!(reopen().loss.is_none());
    }
}

use quoit_store::engine::Maintenance;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::settings::StoreSettings;
use super::store::BenchStore;
use crate::config::{Config, ConfigError, Settings};

fn read(text: &str) -> Result<StoreSettings, ConfigError> {
    let mut settings = Settings::default();
    settings.add(Path::new("test.config"), text.as_bytes()).expect(text);
    let mut config = Config::from_settings(settings).expect(text);
    config.run_directory = PathBuf::from("/runs/current");
    StoreSettings::read(&config)
}

#[test]
fn options_of_erlangs_bitcask_are_read() {
    let store = read(
        "{bitcask_flags, [o_sync, {max_file_size, 1000}, {expiry_secs, 60}, {open_timeout, 20},
         {merge_window, never}]}. {bitcask_sync_interval, 5}.",
    );
    let store = store.expect("settings");
    assert!(store.is_synced);
    assert_eq!((store.max_file_size_bytes, store.expiry_secs), (Some(1000), Some(60)));
    assert_eq!(store.sync_interval, Some(Duration::from_secs(5)));
    assert_eq!(store.ignored_options, ["merge_window"]);
    let store = read("{bitcask_flags, [{sync_strategy, {seconds, 3}}, {expiry_secs, -1}]}.");
    let store = store.expect("settings");
    assert_eq!((store.is_synced, store.expiry_secs), (false, None));
    assert_eq!(store.sync_interval, Some(Duration::from_secs(3)));
}

#[test]
fn the_store_is_in_the_run_directory_unless_its_path_is_absolute() {
    let directory = |text| read(text).expect(text).directory;
    assert_eq!(directory(""), Path::new("/runs/current/./test.bitcask"));
    assert_eq!(directory("{bitcask_dir, \"/data\"}."), Path::new("/data/test.bitcask"));
}

#[test]
fn options_that_cannot_be_are_refused() {
    for text in [
        "{bitcask_flags, o_sync}.",
        "{bitcask_flags, [{max_file_size, 0}]}.",
        "{bitcask_flags, [{expiry_secs, soon}]}.",
        "{bitcask_flags, [{sync_strategy, often}]}.",
        "{bitcask_flags, [5]}.",
        "{bitcask_sync_interval, 0}.",
    ] {
        let error = read(text).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("write ")), "{text}");
    }
}

#[test]
fn a_store_is_synced_once_its_interval_is_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut settings = read("").expect("settings");
    settings.directory = directory.path().join("store");
    settings.sync_interval = Some(Duration::ZERO);
    let store = BenchStore::open(&settings).expect("a store");
    let synced = store.engine.stats().sync_count;
    store.sync_when_due().expect("a sync");
    assert_eq!(store.engine.stats().sync_count, synced + 1);
    drop(store);
    settings.sync_interval = Some(Duration::from_secs(3600));
    let store = BenchStore::open(&settings).expect("the store again");
    let synced = store.engine.stats().sync_count;
    store.sync_when_due().expect("no sync");
    assert_eq!(store.engine.stats().sync_count, synced);
}

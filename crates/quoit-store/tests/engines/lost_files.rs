//! Stores that lost files, or whose files are older than they should be, report it and change their actor.

use crate::support::files::copy;
use crate::support::ordered::{ORDERED, open_ordered};
use crate::support::{Faulty, put, value};
use quoit_model::store_opening::{LastOpening, StoreId};
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution};
use quoit_store::bitcask::{OpenReport, SNAPSHOT_WORKER};
use quoit_store::engine::Maintenance;
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedReport, OrderedSettings};
use std::path::Path;
use std::sync::Arc;

const SEGMENT_BYTES: u64 = 2_000;

/// A closed store with keys in several segments.
fn closed_store() -> Faulty {
    let mut store = Faulty::new(SEGMENT_BYTES);
    for number in 0..60 {
        put(store.engine(), &format!("key{number}"), &[7; 100]);
    }
    store.close();
    store
}

/// Opens a store that has lost data since it was closed cleanly, and checks the reports until the node has
/// repaired the loss.
fn check_loss_after_clean_stop(store: &mut Faulty, incarnation: u64) {
    let found = store.open().unwrap();
    assert!(found.clean && found.lost_after_clean_stop, "{found:?}");
    assert!(found.loss.is_some(), "{found:?}");
    assert!(found.incarnation > incarnation, "{found:?}");
    check_until_settled(store, &found);
}

fn check_until_settled(store: &mut Faulty, found: &OpenReport) {
    store.close();
    let again = store.open().unwrap();
    assert!(again.loss.is_some(), "nobody has made up for it: {again:?}");
    assert!(!again.lost_after_clean_stop, "it was known: {again:?}");
    assert_eq!(again.incarnation, found.incarnation);
    store.engine().identity().mark_loss_repaired().unwrap();
    store.kill();
    assert_eq!(store.open().unwrap().loss, None);
    store.close();
    assert_eq!(store.open().unwrap().loss, None);
}

#[test]
fn a_store_without_losses_tells_of_none() {
    let mut store = closed_store();
    let found = store.open().unwrap();
    assert!(found.loss.is_none() && !found.lost_after_clean_stop, "{found:?}");
    store.kill();
    let found = store.open().unwrap();
    assert_eq!(found.loss, None, "a crash loses nothing that was durable");
}

#[test]
fn a_missing_segment_after_a_clean_stop_ends_the_actor_whatever_else_is_gone() {
    for forgets in [false, true] {
        let mut store = closed_store();
        let incarnation = store.open().unwrap().incarnation;
        store.close();
        let segments = store.segments();
        assert!(segments.len() > 2);
        store.disk.delete(&segments[1]);
        if forgets {
            store.forget_indexes();
        }
        check_loss_after_clean_stop(&mut store, incarnation);
    }
}

#[test]
fn a_cut_segment_after_a_clean_stop_ends_the_actor() {
    for keep in [0, 64, 500] {
        let mut store = closed_store();
        let segment = store.segments().remove(1);
        let mut bytes = store.disk.bytes(&segment).unwrap();
        bytes.truncate(keep);
        store.disk.put(&segment, bytes);
        store.forget_indexes();
        check_loss_after_clean_stop(&mut store, 1);
    }
}

#[test]
fn a_segment_that_a_snapshot_or_a_key_file_knows_is_missed_after_a_kill() {
    for has_snapshot in [true, false] {
        let mut store = closed_store();
        store.open().unwrap();
        if has_snapshot {
            store.execution.step(SNAPSHOT_WORKER);
        }
        store.kill();
        let segments = store.segments();
        store.disk.delete(&segments[1]);
        let keys = segments[1].replace(".log", ".keys");
        match has_snapshot {
            true => store.disk.delete(&keys),
            false => store.disk.delete("INDEX"),
        }
        let found = store.open().unwrap();
        assert!(!found.clean && found.loss.is_some(), "{found:?}");
        check_until_settled(&mut store, &found);
    }
}

#[test]
fn a_synced_segment_that_only_the_store_file_or_the_next_one_knows_is_missed_after_a_kill() {
    for lost in 0..3 {
        let mut store = Faulty::new(SEGMENT_BYTES);
        for number in 0..30 {
            put(store.engine(), &format!("key{number}"), &[7; 100]);
        }
        store.engine().sync().unwrap();
        let is_derived = |name: &String| name == "INDEX" || name.ends_with(".keys");
        assert!(!store.names().iter().any(is_derived), "{:?}", store.names());
        store.kill();
        let segments = store.segments();
        assert_eq!(segments.len(), 3);
        store.disk.delete(&segments[lost]);
        let found = store.open().unwrap();
        assert!(found.loss.is_some(), "{} is gone: {found:?}", segments[lost]);
    }
}

#[test]
fn a_synced_segment_that_was_cut_before_another_one_is_noticed_after_a_kill_once() {
    let mut store = Faulty::new(SEGMENT_BYTES);
    for number in 0..30 {
        put(store.engine(), &format!("key{number}"), &[7; 100]);
    }
    store.engine().sync().unwrap();
    store.kill();
    let name = store.segments().remove(0);
    let mut bytes = store.disk.bytes(&name).unwrap();
    bytes.truncate(bytes.len() - 300);
    store.disk.put(&name, bytes);
    let found = store.open().unwrap();
    assert!(found.loss.is_some(), "{found:?}");
    assert!(value(store.engine(), "key29").is_some(), "what was durable is not cut off");
    store.engine().identity().mark_loss_repaired().unwrap();
    store.kill();
    assert_eq!(store.open().unwrap().loss, None);
}

#[test]
fn a_newest_segment_that_was_cut_off_is_noticed_after_a_kill_once_and_a_torn_write_is_none() {
    for torn_bytes in [0, 50] {
        let mut store = Faulty::new(1 << 20);
        for number in 0..30 {
            put(store.engine(), &format!("key{number}"), &[7; 100]);
        }
        store.engine().sync().unwrap();
        let name = store.segments().remove(0);
        let synced_bytes = store.disk.bytes(&name).unwrap().len();
        put(store.engine(), "unsynced", &[7; 100]);
        store.kill();
        let mut bytes = store.disk.bytes(&name).unwrap();
        bytes.truncate(if torn_bytes > 0 { synced_bytes + torn_bytes } else { synced_bytes / 2 });
        store.disk.put(&name, bytes);
        let found = store.open().unwrap();
        assert_eq!(found.loss.is_some(), torn_bytes == 0, "{found:?}");
        assert!(value(store.engine(), "key1").is_some());
        assert_eq!(value(store.engine(), "key29").is_some(), torn_bytes > 0);
        store.engine().identity().mark_loss_repaired().unwrap();
        store.kill();
        assert_eq!(store.open().unwrap().loss, None);
    }
}

/// A store that was killed after writes of three keys, of which the second can't be read. `is_synced` says
/// if the second was synced before the third was written.
fn with_a_gap(is_synced: bool) -> Faulty {
    let mut store = Faulty::new(SEGMENT_BYTES);
    put(store.engine(), "before", &[1; 100]);
    store.engine().sync().unwrap();
    put(store.engine(), "gap", &[2; 100]);
    if is_synced {
        store.engine().sync().unwrap();
    }
    put(store.engine(), "behind", &[3; 100]);
    store.kill();
    let name = store.segments().pop().unwrap();
    let bytes = store.disk.bytes(&name).unwrap();
    let place = bytes.windows(100).position(|bytes| bytes == [2; 100]).unwrap();
    store.disk.flip_bit(&name, place, 0);
    store
}

#[test]
fn writes_behind_one_that_no_sync_had_covered_go_with_it() {
    let mut store = with_a_gap(false);
    for _ in 0..2 {
        let found = store.open().unwrap();
        assert_eq!(found.loss, None, "nothing was durable");
        let values = ["before", "gap", "behind"].map(|key| value(store.engine(), key));
        assert_eq!(values, [Some(vec![1; 100]), None, None]);
        store.kill();
    }
}

#[test]
fn a_segment_that_lost_its_header_and_its_successor_has_no_writes_behind_a_gap() {
    let mut store = Faulty::new(SEGMENT_BYTES);
    for number in 0..40 {
        put(store.engine(), &format!("key{number}"), &[7; 100]);
    }
    store.kill();
    let segments = store.segments();
    assert!(segments.len() > 2, "{segments:?}");
    let first = store.disk.bytes(&segments[0]).unwrap();
    let gap = first.windows(100).position(|bytes| bytes == [7; 100]).unwrap();
    store.disk.flip_bit(&segments[0], 0, 0);
    store.disk.flip_bit(&segments[0], gap, 0);
    store.disk.delete(&segments[1]);
    let found = store.open().unwrap();
    assert_eq!(found.loss, None, "nothing was durable");
    let left = (0..40).filter(|number| value(store.engine(), &format!("key{number}")).is_some());
    assert_eq!(left.count(), 0, "key0 was written before all of them, and is lost");
}

#[test]
fn writes_behind_one_that_was_durable_and_is_damaged_stay_and_the_loss_is_told_once() {
    let mut store = with_a_gap(true);
    let found = store.open().unwrap();
    assert!(found.loss.is_some(), "{found:?}");
    let values = ["before", "gap", "behind"].map(|key| value(store.engine(), key));
    assert_eq!(values, [Some(vec![1; 100]), None, Some(vec![3; 100])]);
    store.engine().identity().mark_loss_repaired().unwrap();
    store.kill();
    assert_eq!(store.open().unwrap().loss, None);
}

#[test]
fn a_store_file_that_is_older_than_the_log_gives_no_incarnation_out_again() {
    let mut store = closed_store();
    let old = store.disk.bytes("STORE").unwrap();
    let mut last = 0;
    for round in 0..5 {
        store.kill();
        last = store.open().unwrap().incarnation;
        put(store.engine(), &format!("more{round}"), &[7; 2_000]);
    }
    store.kill();
    store.disk.put("STORE", old);
    let found = store.open().unwrap();
    assert!(found.loss.is_some() && found.incarnation > last, "{found:?}");
}

#[test]
fn a_store_that_was_restored_as_a_whole_is_older_than_the_node_knows() {
    for closes in [true, false] {
        let mut store = closed_store();
        let copy: Vec<_> = store.names().into_iter().map(|name| bytes_of(&store, name)).collect();
        store.open().unwrap();
        put(store.engine(), "later", b"value");
        let known = store.engine().identity().opening();
        store.settings.last_opening = Some(known);
        if closes {
            store.close()
        } else {
            store.kill()
        }
        assert_eq!(store.open().unwrap().loss, None, "nothing went back");
        store.close();
        for name in store.names() {
            store.disk.delete(&name);
        }
        for (name, bytes) in copy {
            store.disk.put(&name, bytes);
        }
        let found = store.open().unwrap();
        assert!(found.clean && found.loss.is_some(), "{found:?}");
        assert!(found.incarnation > known.incarnation, "{found:?}");
        assert!(
            store.engine().identity().mark() > known.mark,
            "the next restoration is found as well"
        );
        check_until_settled(&mut store, &found);
    }
}

fn bytes_of(store: &Faulty, name: String) -> (String, Vec<u8>) {
    let bytes = store.disk.bytes(&name).unwrap();
    (name, bytes)
}

#[test]
fn another_store_is_not_older_than_what_is_known_of_the_former_one() {
    let mut store = closed_store();
    store.open().unwrap();
    let known = store.engine().identity().opening();
    let (store_id, mark) = (StoreId(known.store_id.0 ^ 1), known.mark + 10);
    store.settings.last_opening = Some(LastOpening { store_id, mark, ..known });
    store.close();
    assert_eq!(store.open().unwrap().loss, None);
}

#[test]
fn a_store_that_has_to_be_made_new_where_there_was_one_is_a_loss() {
    let mut store = closed_store();
    store.disk = FaultyDisk::new(3);
    assert_eq!(store.open().unwrap().loss, None, "nobody expects it");
    store.kill();
    store.disk = FaultyDisk::new(3);
    store.settings.is_expected = true;
    let found = store.open().unwrap();
    assert!(found.created && found.loss.is_some(), "{found:?}");
    check_until_settled(&mut store, &found);
}

fn open(engine: &str, directory: &Path, is_expected: bool) -> (OrderedEngine, OrderedReport) {
    open_known(engine, directory, is_expected, None)
}

fn open_known(
    engine: &str,
    directory: &Path,
    is_expected: bool,
    last_opening: Option<LastOpening>,
) -> (OrderedEngine, OrderedReport) {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    let settings = OrderedSettings { is_expected, last_opening, ..OrderedSettings::new(7) };
    let of_trees = LsmSettings { cache_bytes: 1 << 20, ..LsmSettings::default() };
    let execution = ManualExecution::default();
    open_ordered(engine, directory, clock, &execution, settings, of_trees).unwrap()
}

/// Part of the store that is restored from an older copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Restored {
    Nothing,
    All,
    Data,
    StoreFile,
}

#[test]
fn an_ordered_store_whose_parts_went_back_in_time_says_so() {
    for (engine, restored) in ORDERED.into_iter().flat_map(|engine| {
        [Restored::Nothing, Restored::All, Restored::Data, Restored::StoreFile]
            .map(|restored| (engine, restored))
    }) {
        let base = tempfile::tempdir().unwrap();
        let (live, saved) = (base.path().join("live"), base.path().join("saved"));
        std::fs::create_dir(&live).unwrap();
        let (opened, report) = open(engine, &live, false);
        assert!(report.created && report.loss.is_none());
        put(&opened, "first", b"value");
        opened.close().unwrap();
        drop(opened);
        copy(&live, &saved);
        for round in 0..2 {
            let (opened, report) = open(engine, &live, true);
            assert!(report.clean && report.loss.is_none(), "{engine}: {report:?}");
            put(&opened, &format!("more{round}"), b"value");
            opened.close().unwrap();
        }
        let of_store = std::fs::read(live.join("STORE")).unwrap();
        if restored == Restored::All || restored == Restored::Data {
            std::fs::remove_dir_all(&live).unwrap();
            copy(&saved, &live);
        }
        match restored {
            Restored::Data => std::fs::write(live.join("STORE"), of_store).unwrap(),
            Restored::StoreFile => {
                std::fs::copy(saved.join("STORE"), live.join("STORE")).unwrap();
            }
            Restored::Nothing | Restored::All => {}
        }
        let (opened, report) = open(engine, &live, true);
        // A store that is restored as a whole is consistent. Only other files of the node can tell that it
        // is old.
        let is_found = restored == Restored::Data || restored == Restored::StoreFile;
        assert_eq!(report.loss.is_some(), is_found, "{engine}, {restored:?}: {report:?}");
        assert_eq!(report.incarnation > 1, is_found, "{engine}, {restored:?}: {report:?}");
        drop(opened);
        let (opened, report) = open(engine, &live, true);
        assert_eq!(report.loss.is_some(), is_found, "nobody has made up for it: {report:?}");
        opened.identity().mark_loss_repaired().unwrap();
        drop(opened);
        let (_, report) = open(engine, &live, true);
        assert_eq!(report.loss, None, "{engine}, {restored:?}");
    }
}

#[test]
fn an_ordered_store_that_was_restored_as_a_whole_is_older_than_the_node_knows() {
    for engine in ORDERED {
        let base = tempfile::tempdir().unwrap();
        let (live, saved) = (base.path().join("live"), base.path().join("saved"));
        std::fs::create_dir(&live).unwrap();
        let (opened, _) = open(engine, &live, false);
        put(&opened, "first", b"value");
        opened.close().unwrap();
        drop(opened);
        copy(&live, &saved);
        let (opened, _) = open(engine, &live, true);
        let known = opened.identity().opening();
        opened.close().unwrap();
        drop(opened);
        std::fs::remove_dir_all(&live).unwrap();
        copy(&saved, &live);
        let (opened, report) = open_known(engine, &live, true, Some(known));
        assert!(report.clean && report.loss.is_some(), "{engine}: {report:?}");
        assert!(report.incarnation > known.incarnation, "{engine}: {report:?}");
        let now = opened.identity().opening();
        assert!(now.mark > known.mark, "{engine}: the next restoration is found as well");
        opened.identity().mark_loss_repaired().unwrap();
        opened.close().unwrap();
        drop(opened);
        assert_eq!(open_known(engine, &live, true, Some(now)).1.loss, None, "{engine}");
    }
}

#[test]
fn an_ordered_store_that_is_gone_is_a_loss() {
    for engine in ORDERED {
        let base = tempfile::tempdir().unwrap();
        let (_, report) = open(engine, base.path(), true);
        assert!(report.created && report.loss.is_some(), "{engine}: {report:?}");
    }
}

#[test]
fn data_of_an_ordered_store_that_is_gone_is_a_loss() {
    let faulty = FaultyDisk::new(1);
    let open = |disk: &FaultyDisk| {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let (execution, settings) = (ManualExecution::default(), OrderedSettings::new(7));
        let opened =
            OrderedEngine::open_innostore(&disk, clock, &execution, settings, Default::default());
        opened.unwrap()
    };
    let (engine, _) = open(&faulty);
    engine.close().unwrap();
    drop(engine);
    faulty.delete("tree.redb");
    let (_, report) = open(&faulty);
    assert!(report.loss.is_some() && report.incarnation > 1, "{report:?}");
}

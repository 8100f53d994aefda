//! Tests of losses that a converter finds and reports to the store of several engines, and of conversions
//! that are abandoned.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::engines::bitcask::tests::{lose_records, put};
use crate::engines::memory;
use quoit_config::Sources;
use quoit_seam::RealDisk;
use quoit_store::engine::Maintenance;
use quoit_store::multi::{Assignments, MultiEngine, MultiSettings, NamedEngine, Routing};

/// The engine that is converted.
const NAME: &str = "log";

/// Routing for buckets without the property `backend`.
struct NoProperties;

impl Routing for NoProperties {
    fn version(&self) -> u64 {
        1
    }

    fn assignments(&self) -> Assignments {
        Assignments::default()
    }
}

struct Node {
    data_dir: tempfile::TempDir,
    settings: Settings,
    clock: Arc<dyn Clock>,
}

impl Node {
    /// Creates a node with a bitcask engine of a few records, closed in an orderly way.
    fn filled(keys: &[&[u8]]) -> Self {
        let node = Self {
            data_dir: tempfile::tempdir().unwrap(),
            settings: quoit_config::load(&Sources::default()).unwrap(),
            clock: Arc::new(SystemClock::default()),
        };
        assert_eq!(node.incarnation(), 1);
        let engine = node.open(Storage::Bitcask).engine;
        keys.iter().for_each(|key| put(&*engine, key));
        engine.close().unwrap();
        node
    }

    fn directory(&self) -> PathBuf {
        self.data_dir.path().join("multi").join(NAME)
    }

    fn open(&self, storage: Storage) -> OpenedStore {
        let (ring_size, is_expected) = (RingSize::DEFAULT, false);
        let directory = &self.directory();
        let place = EngineDirectory {
            directory,
            ring_size,
            is_expected,
            has_replicas: false,
            last_opening: None,
        };
        open_one(storage, &place, &self.clock, &self.settings).unwrap()
    }

    /// Returns the incarnation of the store of several engines when its engine is intact: the stored one, or
    /// a new one that the store begins. Closes the store in an orderly way.
    fn incarnation(&self) -> u64 {
        let engine = memory::engine(RingSize::DEFAULT, &self.clock, &self.settings);
        let named = NamedEngine { name: NAME.to_owned(), engine, is_intact: true };
        let settings = MultiSettings {
            entropy: 1,
            ring_size: RingSize::DEFAULT,
            last_opening: None,
            default: NAME.to_owned(),
        };
        let disk = RealDisk::open(self.data_dir.path().join("multi")).unwrap();
        let routing = Arc::new(NoProperties);
        let opened = MultiEngine::open(Arc::new(disk), vec![named], routing, &settings);
        let engine = opened.unwrap().0;
        engine.close().unwrap();
        engine.identity().incarnation()
    }

    fn plan(&self) -> ConversionPlan<'_> {
        ConversionPlan {
            data_dir: self.data_dir.path(),
            named: Some(NAME),
            to: Storage::Leveled,
            ring_size: RingSize::DEFAULT,
            settings: &self.settings,
            accepts_damage: false,
            ignores_room: true,
            free_bytes_of: free_bytes,
            note_every_bytes: 1,
        }
    }

    /// True if the engine is intact at its next start.
    fn is_intact(&self, storage: Storage) -> bool {
        let opened = self.open(storage);
        opened.engine.close().unwrap();
        !opened.created && opened.clean
    }
}

#[test]
fn a_loss_that_only_the_converter_meets_ends_the_incarnation_of_all_engines() {
    let node = Node::filled(&[b"one", b"other"]);
    lose_records(&node.directory());
    node.plan().run(&mut |_| {}).unwrap();
    assert!(node.is_intact(Storage::Leveled), "it tells nothing of the loss");
    assert_eq!(node.incarnation(), 2);
    assert_eq!(node.incarnation(), 2);
}

#[test]
fn a_loss_that_the_converter_meets_counts_when_the_conversion_is_given_up() {
    // An ordered engine encodes each zero byte of a name as two bytes, which makes this one too long.
    let node = Node::filled(&[b"one", b"other", &[0; 40_000]]);
    lose_records(&node.directory());
    let refused = node.plan().run(&mut |_| {}).err().unwrap().to_string();
    assert!(refused.contains("can't be stored by the new engine"), "{refused}");
    node.plan().abandon().unwrap();
    assert!(node.is_intact(Storage::Bitcask), "it tells nothing of the loss");
    assert_eq!(node.incarnation(), 2);
}

#[test]
fn without_a_loss_the_incarnation_of_all_engines_goes_on() {
    let node = Node::filled(&[b"one", b"other"]);
    node.plan().run(&mut |_| {}).unwrap();
    assert!(node.is_intact(Storage::Leveled));
    assert_eq!(node.incarnation(), 1);
}

#[test]
fn a_conversion_does_not_begin_where_the_new_data_may_find_no_room() {
    let node = Node::filled(&[b"one", b"other"]);
    let base = node.data_dir.path().join("multi");
    let full = |free_bytes: fn(&Path) -> Result<u64>, to: Storage, ignores_room: bool| {
        let plan = ConversionPlan { free_bytes_of: free_bytes, ignores_room, to, ..node.plan() };
        plan.run(&mut |_| {}).map(drop).map_err(|refused| refused.to_string())
    };
    let refused = full(|_| Ok(0), Storage::Leveled, false).unwrap_err();
    assert!(refused.contains("has 0 MB free, and the new data may need 1 MB"), "{refused}");
    assert!(refused.contains("--ignore-room"), "{refused}");
    assert_eq!(started_conversion(&base).unwrap(), None, "nothing has begun");
    assert!(node.is_intact(Storage::Bitcask));
    full(|_| Ok(0), Storage::Leveled, true).unwrap();
    assert!(node.is_intact(Storage::Leveled));
    full(|_| Ok(u64::MAX), Storage::Innostore, false).unwrap();
}

#[test]
fn only_the_conversion_that_is_named_is_given_up() {
    // The conversion can't complete, because an ordered engine can't store the second name (see above).
    let node = Node::filled(&[b"one", &[0; 40_000]]);
    node.plan().run(&mut |_| {}).err().unwrap();
    let other = ConversionPlan { to: Storage::Innostore, ..node.plan() };
    let refused = other.abandon().unwrap_err().to_string();
    assert!(refused.contains("from bitcask to leveled is under way"), "{refused}");
    assert!(refused.contains("convert leveled --engine log --data-dir"), "{refused}");
    // A conversion of another engine is not the same one, even though both end with the same type.
    let other = ConversionPlan { named: Some("other"), ..node.plan() };
    for refused in [other.abandon().err(), other.run(&mut |_| {}).err()] {
        let refused = refused.unwrap().to_string();
        assert!(refused.contains("convert leveled --engine log --data-dir"), "{refused}");
    }
    let (started, data) = node.plan().abandon().unwrap();
    assert_eq!((&*started.to, data), ("leveled", node.directory()));
}

#[test]
fn where_it_is_not_clear_what_to_convert_nothing_is() {
    let node = Node::filled(&[b"one"]);
    let only = |names: &[&str], wanted: &str| {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::create_dir_all(directory.path().join(name)).unwrap();
            let marker = format!("engine {name}\nring_size 64\nformat 1\n");
            std::fs::write(directory.path().join(name).join("ENGINE"), marker).unwrap();
        }
        let command_line = vec![format!("storage_backend={wanted}")];
        let settings = quoit_config::load(&Sources { command_line, ..Sources::default() }).unwrap();
        let data_dir = directory.path();
        let plan = ConversionPlan { data_dir, named: None, settings: &settings, ..node.plan() };
        plan.only_engine().map_err(|refused| refused.to_string())
    };
    assert!(only(&[], "leveldb").unwrap_err().contains("has no data of any engine"));
    let several = ["leveldb", "innostore", "leveled"];
    for unclear in ["bitcask", "leveled"] {
        let refused = only(&several, unclear).unwrap_err();
        assert!(
            refused.contains(&format!("storage_backend = {unclear} does not say")),
            "{refused}"
        );
        assert!(several.iter().all(|name| refused.contains(name)), "{refused}");
    }
    assert_eq!(only(&several, "leveldb"), Ok(Storage::Leveldb));
    assert_eq!(only(&["innostore"], "leveldb"), Ok(Storage::Innostore));
}

#[test]
fn an_engine_is_named_by_its_directory_and_by_no_other_way_to_it() {
    let node = Node::filled(&[b"one"]);
    for name in [".", "./log", "log/", "log/.", "..", "/", ""] {
        let plan = ConversionPlan { named: Some(name), ..node.plan() };
        let refused = plan.run(&mut |_| {}).err().unwrap().to_string();
        assert!(refused.contains("there is no data of an engine"), "{name}: {refused}");
    }
    let stored = |name| stored(name).unwrap_err().to_string();
    assert!(stored("multi").contains("can't be converted"));
    assert!(stored("memory").contains("can't be converted"));
}

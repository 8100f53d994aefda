//! The drivers of the engines with ordered stores in this process: `eleveldb`, `leveled`, `innostore`.

use quoit_store::engine::Maintenance;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use quoit_seam::{Disk, RealDisk, SystemClock, Threads};
use quoit_store::bitcask::Durability;
use quoit_store::error::StoreError;
use quoit_store::ordered::{
    LsmSettings, OrderedEngine, OrderedReport, OrderedSettings, TreeSettings,
};

use super::engine::{EngineOperation, EngineWorker, RING_SIZE, Writing};
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, check_values_are_bytes};
use crate::config::{Config, ConfigError};
use crate::keygen::KeyKind;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// Key of the setting that makes writes wait for their sync.
const SYNC_KEY: &str = "engine_sync";

/// The properties by which the drivers of the engines differ.
pub(super) trait OrderedEngineKind: Send + Sync + 'static {
    /// Name of the driver.
    const NAME: &'static str;
    /// Key of the setting that names the directory of the store.
    const DIRECTORY_KEY: &'static str;
    /// Settings of basho_bench that tune its engine and have no effect here.
    const PASSED_OVER: &'static [&'static str];
    /// True if writes wait for their sync by default.
    const IS_SYNCED: bool;

    /// Opens the store in a directory, or creates it.
    fn open(
        directory: &Path,
        settings: OrderedSettings,
    ) -> Result<(OrderedEngine, OrderedReport), StoreError>;
}

/// The engine `leveldb`: records in a log-structured merge tree.
pub(super) struct Eleveldb;

impl OrderedEngineKind for Eleveldb {
    const NAME: &'static str = "eleveldb";
    const DIRECTORY_KEY: &'static str = "eleveldb_dir";
    const PASSED_OVER: &'static [&'static str] = &["eleveldb_config", "eleveldb_num_instances"];
    const IS_SYNCED: bool = false;

    fn open(
        directory: &Path,
        settings: OrderedSettings,
    ) -> Result<(OrderedEngine, OrderedReport), StoreError> {
        let clock = Arc::new(SystemClock::default());
        let of_trees = LsmSettings::default();
        OrderedEngine::open_leveldb(directory, clock, &Threads, settings, of_trees)
    }
}

/// The engine `leveled`: heads and bodies of records in separate log-structured merge trees.
pub(super) struct Leveled;

impl OrderedEngineKind for Leveled {
    const NAME: &'static str = "leveled";
    const DIRECTORY_KEY: &'static str = "leveled_dir";
    const PASSED_OVER: &'static [&'static str] = &[];
    const IS_SYNCED: bool = false;

    fn open(
        directory: &Path,
        settings: OrderedSettings,
    ) -> Result<(OrderedEngine, OrderedReport), StoreError> {
        let clock = Arc::new(SystemClock::default());
        let of_trees = LsmSettings::default();
        OrderedEngine::open_leveled(directory, clock, &Threads, settings, of_trees)
    }
}

/// The engine `innostore`: records in a B+tree.
pub(super) struct Innostore;

impl OrderedEngineKind for Innostore {
    const NAME: &'static str = "innostore";
    const DIRECTORY_KEY: &'static str = "innostore_dir";
    const PASSED_OVER: &'static [&'static str] = &["innostore_config", "innostore_bucket"];
    // Transactions of embedded InnoDB are synced too.
    const IS_SYNCED: bool = true;

    fn open(
        directory: &Path,
        settings: OrderedSettings,
    ) -> Result<(OrderedEngine, OrderedReport), StoreError> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory)?);
        let clock = Arc::new(SystemClock::default());
        OrderedEngine::open_innostore(&disk, clock, &Threads, settings, TreeSettings::default())
    }
}

/// The driver `eleveldb`.
pub(super) type EleveldbDriver = OrderedEngineDriver<Eleveldb>;

/// The driver `leveled`.
pub(super) type LeveledDriver = OrderedEngineDriver<Leveled>;

/// The driver `innostore`.
pub(super) type InnostoreDriver = OrderedEngineDriver<Innostore>;

/// One worker. All workers share one store.
pub(super) struct OrderedEngineDriver<W> {
    worker: EngineWorker,
    /// The store, which is closed when the last worker ends.
    _store: Arc<OrderedHandle>,
    which: PhantomData<W>,
}

/// State that all workers share.
pub(super) struct OrderedPlan {
    directory: PathBuf,
    is_synced: bool,
    key_kind: KeyKind,
    /// Settings in the configuration that have no effect.
    ignored_options: Vec<&'static str>,
    /// The store, opened by the first worker.
    store: Mutex<Option<Arc<OrderedHandle>>>,
}

/// An open store.
struct OrderedHandle(Arc<OrderedEngine>);

impl Drop for OrderedHandle {
    fn drop(&mut self) {
        // A store that fails to close is recovered when it is opened again.
        let _ = self.0.close();
    }
}

impl<W: OrderedEngineKind> Driver for OrderedEngineDriver<W> {
    const NAME: &'static str = W::NAME;
    const OPERATIONS: &'static str = "get, put, delete";

    type Operation = EngineOperation;
    type Plan = OrderedPlan;

    fn plan(config: &Config) -> Result<OrderedPlan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        let settings = &config.settings;
        let base = PathBuf::from(settings.text(W::DIRECTORY_KEY, ".")?);
        let is_set = |key: &&'static str| settings.get(key).is_some();
        Ok(OrderedPlan {
            directory: config.run_directory.join(base).join(format!("test.{}", W::NAME)),
            is_synced: settings.boolean(SYNC_KEY, W::IS_SYNCED)?,
            key_kind: config.key_generator.kind(),
            ignored_options: W::PASSED_OVER.iter().copied().filter(is_set).collect(),
            store: Mutex::new(None),
        })
    }

    fn system_requirements(plan: &OrderedPlan) -> SystemRequirements {
        let durability = if plan.is_synced {
            "each write waits for its sync"
        } else {
            "writes wait for nothing; synced every second"
        };
        SystemRequirements {
            targets: Vec::new(),
            additional_lists: Vec::new(),
            durability: durability.to_owned(),
        }
    }

    fn notices(plan: &OrderedPlan) -> Vec<String> {
        let ignored_options = plan.ignored_options.iter();
        let own = format!("{} runs on Quoit's engine of that kind, one for all workers", W::NAME);
        let without = ignored_options.map(|key| format!("{key} has no effect"));
        std::iter::once(own).chain(without).collect()
    }

    fn operation(_: &OrderedPlan, term: &Term) -> Option<EngineOperation> {
        EngineOperation::of_term(term)
    }

    fn draws_values(operation: EngineOperation) -> bool {
        operation == EngineOperation::Put
    }

    async fn connect(plan: &OrderedPlan, _: WorkerPlace) -> Result<Self, StartError> {
        let mut opened = plan.store.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match &*opened {
            Some(store) => store.clone(),
            None => {
                let durability =
                    if plan.is_synced { Durability::Strict } else { Durability::Relaxed };
                let settings = OrderedSettings {
                    ring_size: RING_SIZE,
                    durability,
                    ..OrderedSettings::new(rand::random())
                };
                let (engine, _) = W::open(&plan.directory, settings).map_err(|error| {
                    StartError::Store { path: plan.directory.clone(), reason: error.to_string() }
                })?;
                opened.insert(Arc::new(OrderedHandle(Arc::new(engine)))).clone()
            }
        };
        let worker = EngineWorker::new(store.0.clone(), plan.key_kind);
        Ok(Self { worker, _store: store, which: PhantomData })
    }

    async fn perform(
        &mut self,
        plan: &OrderedPlan,
        operation: EngineOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        let writing = Writing { is_synced: plan.is_synced, expires_at_secs: 0 };
        self.worker.perform(operation, writing, inputs).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn plan<W: OrderedEngineKind>(text: &str) -> OrderedPlan {
        let mut settings = Settings::default();
        settings.add(Path::new("test.config"), text.as_bytes()).expect(text);
        let mut config = Config::from_settings(settings).expect(text);
        config.run_directory = PathBuf::from("/runs/current");
        OrderedEngineDriver::<W>::plan(&config).expect(text)
    }

    #[test]
    fn each_engine_has_its_directory_and_its_habit_of_syncing() {
        let plans = [plan::<Eleveldb>(""), plan::<Leveled>(""), plan::<Innostore>("")];
        let known = plans.map(|plan| (plan.directory, plan.is_synced));
        let at = |name: &str| PathBuf::from(format!("/runs/current/./test.{name}"));
        assert_eq!(
            known,
            [(at("eleveldb"), false), (at("leveled"), false), (at("innostore"), true)]
        );
        let told = plan::<Leveled>("{leveled_dir, \"/data\"}. {engine_sync, true}.");
        assert_eq!((told.directory, told.is_synced), (PathBuf::from("/data/test.leveled"), true));
    }

    #[test]
    fn settings_of_other_engines_are_told_to_have_no_effect() {
        let told = plan::<Eleveldb>("{eleveldb_num_instances, 4}.");
        assert_eq!(told.ignored_options, ["eleveldb_num_instances"]);
        let notices = OrderedEngineDriver::<Eleveldb>::notices(&told);
        assert_eq!(notices[1], "eleveldb_num_instances has no effect");
    }

    #[test]
    fn every_engine_opens_and_is_closed_in_good_order() {
        fn opens<W: OrderedEngineKind>() {
            let directory = tempfile::tempdir().expect("a directory");
            let settings = OrderedSettings::new(1);
            let (engine, report) = W::open(directory.path(), settings).expect("a new store");
            assert!(report.created);
            drop(OrderedHandle(Arc::new(engine)));
            let (_, report) = W::open(directory.path(), settings).expect("the store again");
            assert!(report.clean && !report.created);
        }
        opens::<Eleveldb>();
        opens::<Leveled>();
        opens::<Innostore>();
    }
}

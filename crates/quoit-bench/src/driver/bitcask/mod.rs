//! The driver that runs the Bitcask engine in this process.

mod settings;
mod store;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use self::settings::StoreSettings;
use self::store::BenchStore;
use super::engine::{self, EngineWorker, Writing, reason_of};
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, check_values_are_bytes};
use crate::config::{Config, ConfigError};
use crate::keygen::KeyKind;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// One worker. All workers share one store.
pub(super) struct Bitcask {
    store: Arc<BenchStore>,
    worker: EngineWorker,
}

/// State that all workers share.
pub(super) struct BitcaskPlan {
    settings: StoreSettings,
    key_kind: KeyKind,
    /// The store, opened by the first worker.
    store: Mutex<Option<Arc<BenchStore>>>,
}

/// An operation on the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BitcaskOperation {
    OnRecord(engine::EngineOperation),
    Merge,
}

impl Driver for Bitcask {
    const NAME: &'static str = "bitcask";
    const OPERATIONS: &'static str = "get, put, delete, merge";

    type Operation = BitcaskOperation;
    type Plan = BitcaskPlan;

    fn plan(config: &Config) -> Result<BitcaskPlan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        let settings = StoreSettings::read(config)?;
        let key_kind = config.key_generator.kind();
        Ok(BitcaskPlan { settings, key_kind, store: Mutex::new(None) })
    }

    fn system_requirements(plan: &BitcaskPlan) -> SystemRequirements {
        let durability = match (plan.settings.is_synced, plan.settings.sync_interval) {
            (true, _) => "each write waits for its sync".to_owned(),
            (false, Some(interval)) => {
                format!("writes wait for nothing; synced every {} s", interval.as_secs())
            }
            (false, None) => "writes wait for nothing; synced at the end".to_owned(),
        };
        SystemRequirements { targets: Vec::new(), additional_lists: Vec::new(), durability }
    }

    fn notices(plan: &BitcaskPlan) -> Vec<String> {
        let ignored_options = plan.settings.ignored_options.iter();
        ignored_options.map(|name| format!("bitcask_flags: {name} has no effect")).collect()
    }

    fn operation(_: &BitcaskPlan, term: &Term) -> Option<BitcaskOperation> {
        match term.as_atom() {
            Some("merge") => Some(BitcaskOperation::Merge),
            _ => engine::EngineOperation::of_term(term).map(BitcaskOperation::OnRecord),
        }
    }

    fn draws_values(operation: BitcaskOperation) -> bool {
        operation == BitcaskOperation::OnRecord(engine::EngineOperation::Put)
    }

    async fn connect(plan: &BitcaskPlan, _: WorkerPlace) -> Result<Self, StartError> {
        let mut opened = plan.store.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match &*opened {
            Some(store) => store.clone(),
            None => {
                let store =
                    BenchStore::open(&plan.settings).map_err(|error| StartError::Store {
                        path: plan.settings.directory.clone(),
                        reason: error.to_string(),
                    })?;
                opened.insert(Arc::new(store)).clone()
            }
        };
        let worker = EngineWorker::new(store.engine.clone(), plan.key_kind);
        Ok(Self { store, worker })
    }

    async fn perform(
        &mut self,
        plan: &BitcaskPlan,
        operation: BitcaskOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        if let Err(error) = self.store.sync_when_due() {
            return Outcome::Failure(reason_of(&error));
        }
        match operation {
            BitcaskOperation::Merge => self.merge().await,
            BitcaskOperation::OnRecord(operation) => {
                let writing = Writing {
                    is_synced: plan.settings.is_synced,
                    expires_at_secs: plan.settings.expiry_secs.map_or(0, expiry_of),
                };
                self.worker.perform(operation, writing, inputs).await
            }
        }
    }
}

impl Bitcask {
    /// Merges segments, on a thread apart from the worker's, until no segment is worth merging. If another
    /// merge is in progress, the call returns at once.
    async fn merge(&self) -> Outcome {
        let store = self.store.clone();
        match tokio::task::spawn_blocking(move || store.merge_when_needed()).await {
            Ok(()) => Outcome::Success,
            Err(_) => Outcome::Failure(Term::atom("merge_crashed")),
        }
    }
}

/// Expiry time of a record written now, in seconds since 1970.
fn expiry_of(expiry_secs: u32) -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    u32::try_from(now.saturating_add(expiry_secs.into())).unwrap_or(u32::MAX)
}

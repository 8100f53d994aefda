//! The driver of the Bitcask engine in this process.

mod settings;
mod store;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use self::settings::StoreSettings;
use self::store::Store;
use super::engine::{self, EngineWorker, Writing, reason_of};
use super::{Asks, Driver, Inputs, Outcome, StartError, check_values_are_bytes};
use crate::config::{Config, ConfigError};
use crate::keygen::Kind;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// One worker on the store of all.
pub(super) struct Bitcask {
    store: Arc<Store>,
    worker: EngineWorker,
}

/// State that all workers share.
pub(super) struct Plan {
    settings: StoreSettings,
    key_kind: Kind,
    /// Opened by the first worker.
    store: Mutex<Option<Arc<Store>>>,
}

/// An operation on the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    OnRecord(engine::Operation),
    Merge,
}

impl Driver for Bitcask {
    const NAME: &'static str = "bitcask";
    const OPERATIONS: &'static str = "get, put, delete, merge";

    type Operation = Operation;
    type Plan = Plan;

    fn plan(config: &Config) -> Result<Plan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        let settings = StoreSettings::read(config)?;
        let key_kind = config.key_generator.kind();
        Ok(Plan { settings, key_kind, store: Mutex::new(None) })
    }

    fn asks(plan: &Plan) -> Asks {
        let durability = match (plan.settings.is_synced, plan.settings.sync_interval) {
            (true, _) => "each write waits for its sync".to_owned(),
            (false, Some(interval)) => {
                format!("writes wait for nothing; synced every {} s", interval.as_secs())
            }
            (false, None) => "writes wait for nothing; synced at the end".to_owned(),
        };
        Asks { targets: Vec::new(), durability }
    }

    fn notices(plan: &Plan) -> Vec<String> {
        let passed_over = plan.settings.passed_over.iter();
        passed_over.map(|name| format!("bitcask_flags: {name} has no effect")).collect()
    }

    fn operation(_: &Plan, term: &Term) -> Option<Operation> {
        match term.as_atom() {
            Some("merge") => Some(Operation::Merge),
            _ => engine::Operation::of_term(term).map(Operation::OnRecord),
        }
    }

    fn draws_values(operation: Operation) -> bool {
        operation == Operation::OnRecord(engine::Operation::Put)
    }

    async fn connect(plan: &Plan, _: WorkerPlace) -> Result<Self, StartError> {
        let mut opened = plan.store.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match &*opened {
            Some(store) => store.clone(),
            None => {
                let store = Store::open(&plan.settings).map_err(|error| StartError::Store {
                    path: plan.settings.directory.clone(),
                    reason: error.to_string(),
                })?;
                opened.insert(Arc::new(store)).clone()
            }
        };
        let worker = EngineWorker::new(store.engine.clone(), plan.key_kind);
        Ok(Self { store, worker })
    }

    async fn perform(&mut self, plan: &Plan, operation: Operation, inputs: &mut Inputs) -> Outcome {
        if let Err(error) = self.store.sync_when_due() {
            return Outcome::Failure(reason_of(&error));
        }
        match operation {
            Operation::Merge => self.merge().await,
            Operation::OnRecord(operation) => {
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
    /// Merges, beside the worker's thread, until nothing is worth merging. One merge goes on at a
    /// time; whoever finds one going on leaves the rest to it.
    async fn merge(&self) -> Outcome {
        let store = self.store.clone();
        match tokio::task::spawn_blocking(move || store.merge_when_needed()).await {
            Ok(()) => Outcome::Success,
            Err(_) => Outcome::Failure(Term::atom("merge_crashed")),
        }
    }
}

/// The time in seconds since 1970 at which what is written now is `expiry_secs` old.
fn expiry_of(expiry_secs: u32) -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    u32::try_from(now.saturating_add(expiry_secs.into())).unwrap_or(u32::MAX)
}

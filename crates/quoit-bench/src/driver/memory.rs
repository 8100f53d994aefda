//! The driver of the memory engine, which also stands in for Erlang's tables `ets` and `dets`.

use std::sync::Arc;

use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::seam::SystemClock;

use super::engine::{EngineWorker, Operation, RING_SIZE, Writing};
use super::{Asks, Driver, Inputs, Outcome, StartError, check_values_are_bytes};
use crate::config::{Config, ConfigError};
use crate::keygen::Kind;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// One worker on the engine of all.
pub(super) struct Memory(EngineWorker);

/// State that all workers share.
pub(super) struct Plan {
    engine: Arc<MemoryEngine>,
    key_kind: Kind,
    /// Name of the driver in the configuration.
    name: String,
}

impl Driver for Memory {
    const NAME: &'static str = "memory";
    const OPERATIONS: &'static str = "get, put, delete";

    type Operation = Operation;
    type Plan = Plan;

    fn plan(config: &Config) -> Result<Plan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        let clock = Arc::new(SystemClock::default());
        let engine = Arc::new(MemoryEngine::new(MemorySettings::default(), RING_SIZE, clock));
        let (key_kind, name) = (config.key_generator.kind(), config.driver.clone());
        Ok(Plan { engine, key_kind, name })
    }

    fn asks(_: &Plan) -> Asks {
        Asks { targets: Vec::new(), durability: "nothing outlives the run".to_owned() }
    }

    fn notices(plan: &Plan) -> Vec<String> {
        let notice = match plan.name.as_str() {
            Self::NAME => return Vec::new(),
            "dets" => "dets runs on the memory engine: no file is written",
            _ => "ets runs on the memory engine, one for all workers",
        };
        vec![notice.to_owned()]
    }

    fn operation(_: &Plan, term: &Term) -> Option<Operation> {
        Operation::of_term(term)
    }

    fn draws_values(operation: Operation) -> bool {
        operation == Operation::Put
    }

    async fn connect(plan: &Plan, _: WorkerPlace) -> Result<Self, StartError> {
        Ok(Self(EngineWorker::new(plan.engine.clone(), plan.key_kind)))
    }

    async fn perform(&mut self, _: &Plan, operation: Operation, inputs: &mut Inputs) -> Outcome {
        self.0.perform(operation, Writing::default(), inputs).await
    }
}

//! The driver of the memory engine, which also stands in for Erlang's tables `ets` and `dets`.

use std::sync::Arc;

use quoit_seam::SystemClock;
use quoit_store::memory::{MemoryEngine, MemorySettings};

use super::engine::{EngineOperation, EngineWorker, RING_SIZE, Writing};
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, check_values_are_bytes};
use crate::config::{Config, ConfigError};
use crate::keygen::KeyKind;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// One worker. All workers share the engine.
pub(super) struct Memory(EngineWorker);

/// State that all workers share.
pub(super) struct MemoryPlan {
    engine: Arc<MemoryEngine>,
    key_kind: KeyKind,
    /// Name of the driver in the configuration: `memory`, `ets` or `dets`.
    name: String,
}

impl Driver for Memory {
    const NAME: &'static str = "memory";
    const OPERATIONS: &'static str = "get, put, delete";

    type Operation = EngineOperation;
    type Plan = MemoryPlan;

    fn plan(config: &Config) -> Result<MemoryPlan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        let clock = Arc::new(SystemClock::default());
        let engine = Arc::new(MemoryEngine::new(MemorySettings::default(), RING_SIZE, clock));
        let (key_kind, name) = (config.key_generator.kind(), config.driver.clone());
        Ok(MemoryPlan { engine, key_kind, name })
    }

    fn system_requirements(_: &MemoryPlan) -> SystemRequirements {
        SystemRequirements {
            targets: Vec::new(),
            additional_lists: Vec::new(),
            durability: "nothing outlives the run".to_owned(),
        }
    }

    fn notices(plan: &MemoryPlan) -> Vec<String> {
        let notice = match plan.name.as_str() {
            Self::NAME => return Vec::new(),
            "dets" => "dets runs on the memory engine: no file is written",
            _ => "ets runs on the memory engine, one for all workers",
        };
        vec![notice.to_owned()]
    }

    fn operation(_: &MemoryPlan, term: &Term) -> Option<EngineOperation> {
        EngineOperation::of_term(term)
    }

    fn draws_values(operation: EngineOperation) -> bool {
        operation == EngineOperation::Put
    }

    async fn connect(plan: &MemoryPlan, _: WorkerPlace) -> Result<Self, StartError> {
        Ok(Self(EngineWorker::new(plan.engine.clone(), plan.key_kind)))
    }

    async fn perform(
        &mut self,
        _: &MemoryPlan,
        operation: EngineOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        self.0.perform(operation, Writing::default(), inputs).await
    }
}

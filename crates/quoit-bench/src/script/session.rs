//! Sessions: a script that decides each worker's next operation.

use std::time::Duration;

use bytes::Bytes;

use super::engine::{Argument, ScriptReturn};
use super::values::{ScriptedKind, ScriptedValue, value_of};
use super::{ScriptError, ScriptFault, ScriptFunction, ScriptReference, Scripts};
use crate::random::Random;
use crate::worker_place::WorkerPlace;

/// Maximum pause before an operation, in milliseconds: an hour.
const PAUSE_MS_MAX: f64 = 3_600_000.0;

/// Names of the fields of a step.
const FIELDS: [&str; 4] = ["operation", "key", "value", "pauseMs"];

/// The script that decides the order of one worker's operations.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    function: ScriptFunction,
    key_kind: ScriptedKind,
    value_kind: ScriptedKind,
}

/// The next operation of a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SessionStep {
    /// Label of the operation in the configuration.
    pub(crate) operation: String,
    /// The key, if the session gives one.
    pub(crate) key: Option<SessionValue>,
    /// The value, if the session gives one.
    pub(crate) value: Option<SessionValue>,
    /// Pause before the operation.
    pub(crate) pause: Duration,
}

/// A key or value that replaces the one from a generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionValue {
    /// An integer, for drivers that take integers.
    Integer(i64),
    /// Bytes, for all other drivers.
    Bytes(Bytes),
}

impl From<ScriptedValue> for SessionValue {
    fn from(value: ScriptedValue) -> Self {
        match value {
            ScriptedValue::Integer(number) => Self::Integer(number),
            ScriptedValue::Bytes(bytes) => Self::Bytes(bytes.into()),
        }
    }
}

impl Session {
    /// Creates a session. Its keys and values have the kinds of the run's generators.
    pub(crate) fn new(
        reference: ScriptReference,
        key_kind: ScriptedKind,
        value_kind: ScriptedKind,
    ) -> Self {
        Self { function: ScriptFunction::new(reference), key_kind, value_kind }
    }

    /// See [`ScriptFunction::load`].
    pub(crate) fn load(&mut self, scripts: &mut Scripts) -> Result<(), ScriptError> {
        self.function.load(scripts, "a mix of operations without a session")
    }

    /// Prepares the session for a worker.
    pub(crate) fn start(&mut self, place: WorkerPlace) {
        self.function.start(place);
    }

    /// The next step. `None` if the script returns `null` or `undefined`, which ends the session.
    /// `was_success` is the outcome of the last operation, and true before the first one.
    ///
    /// # Errors
    ///
    /// When the script fails or returns something else. The run reports the first such fault.
    pub(crate) fn next(
        &mut self,
        random: &mut Random,
        was_success: bool,
    ) -> Result<Option<SessionStep>, ScriptFault> {
        match self.function.call(random, Argument::Boolean(was_success))? {
            ScriptReturn::Nothing => Ok(None),
            gave => {
                let step = self.step_of(gave);
                step.map(Some).map_err(|text| self.function.refuse(text))
            }
        }
    }

    /// The fault of a step whose operation is not in the configuration.
    pub(crate) fn refuse_operation(&self, operation: &str, known: String) -> ScriptFault {
        self.function.refuse(format!(
            "wants the operation {operation}, which the configuration does not list: it has {known}"
        ))
    }

    fn step_of(&self, gave: ScriptReturn) -> Result<SessionStep, String> {
        let (operation, mut fields) = match gave {
            ScriptReturn::Text(operation) => (operation, Vec::new()),
            ScriptReturn::Fields(fields) => {
                let unknown = fields.iter().find(|(name, _)| !FIELDS.contains(&name.as_str()));
                if let Some((unknown, _)) = unknown {
                    let known = FIELDS.join(", ");
                    return Err(format!("gave a step with the field {unknown}: there are {known}"));
                }
                let operation = fields.iter().find_map(|(name, value)| match value {
                    ScriptReturn::Text(text) if name == "operation" => Some(text.clone()),
                    _ => None,
                });
                (operation.ok_or("gave a step without the name of an operation")?, fields)
            }
            other => {
                return Err(format!(
                    "gave {}, where the name of an operation is wanted, or a step such as \
                     {{operation: \"get\", key: \"cart-1\", pauseMs: 250}}",
                    other.kind_text()
                ));
            }
        };
        let mut field = |name: &str| {
            let place = fields.iter().position(|(other, _)| other == name)?;
            Some(fields.swap_remove(place).1).filter(|value| *value != ScriptReturn::Nothing)
        };
        let (key, value, pause) = (field("key"), field("value"), field("pauseMs"));
        let given = |name: &str, value: Option<ScriptReturn>, kind: ScriptedKind| {
            let value = value.map(|value| value_of(value, kind)).transpose();
            value
                .map(|it| it.map(SessionValue::from))
                .map_err(|text| format!("as {name} {text}: {name}_generator gives the kind"))
        };
        Ok(SessionStep {
            operation,
            key: given("key", key, self.key_kind)?,
            value: given("value", value, self.value_kind)?,
            pause: pause.map_or(Ok(Duration::ZERO), |pause| pause_of(&pause))?,
        })
    }
}

/// Converts a pause in milliseconds.
fn pause_of(pause: &ScriptReturn) -> Result<Duration, String> {
    let pause_ms = match pause {
        ScriptReturn::Integer(number) => *number as f64,
        ScriptReturn::Number(number) => *number,
        other => {
            return Err(format!("as pauseMs gave {}, where a number is wanted", other.kind_text()));
        }
    };
    if !(0.0..=PAUSE_MS_MAX).contains(&pause_ms) {
        return Err(format!("wants a pause of {pause_ms} ms: 0 to {PAUSE_MS_MAX} are possible"));
    }
    Ok(Duration::from_secs_f64(pause_ms / 1000.0))
}

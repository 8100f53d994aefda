//! Keys and values from a script.

use super::engine::{Argument, SIZE_BYTES_MAX, ScriptReturn};
use super::{ScriptError, ScriptFault, ScriptFunction, ScriptReference, Scripts};
use crate::random::Random;
use crate::worker_place::WorkerPlace;

/// The kind of values that a generator must produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptedKind {
    /// Integers.
    Integer,
    /// Texts and bytes; integers become decimal digits.
    Bytes,
}

/// A generator whose values a function of a script returns.
#[derive(Debug, Clone)]
pub struct ScriptedValues {
    function: ScriptFunction,
    kind: ScriptedKind,
}

/// A value that a script returned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScriptedValue {
    Integer(i64),
    Bytes(Vec<u8>),
}

impl ScriptedValues {
    /// Creates a generator of values of `kind`.
    pub(crate) fn new(reference: ScriptReference, kind: ScriptedKind) -> Self {
        Self { function: ScriptFunction::new(reference), kind }
    }

    /// The kind of the values.
    pub(crate) fn kind(&self) -> ScriptedKind {
        self.kind
    }

    /// See [`ScriptFunction::load`].
    pub(crate) fn load(
        &mut self,
        scripts: &mut Scripts,
        remedy: &'static str,
    ) -> Result<(), ScriptError> {
        self.function.load(scripts, remedy)
    }

    /// Prepares the generator for a worker.
    pub(crate) fn start(&mut self, place: WorkerPlace) {
        self.function.start(place);
    }

    /// The next value. `None` if the script returns `null` or `undefined`, which ends the values.
    ///
    /// # Errors
    ///
    /// When the script fails or returns something else. The run reports the first such fault.
    pub(crate) fn next(
        &mut self,
        random: &mut Random,
    ) -> Result<Option<ScriptedValue>, ScriptFault> {
        match self.function.call(random, Argument::None)? {
            ScriptReturn::Nothing => Ok(None),
            gave => {
                let value = value_of(gave, self.kind);
                value.map(Some).map_err(|text| self.function.refuse(text))
            }
        }
    }
}

/// Converts a returned value to a kind. The error describes the value.
pub(super) fn value_of(gave: ScriptReturn, kind: ScriptedKind) -> Result<ScriptedValue, String> {
    let wanted = match kind {
        ScriptedKind::Integer => "an integer",
        ScriptedKind::Bytes => "a text, bytes or an integer",
    };
    match (gave, kind) {
        (ScriptReturn::Integer(number), ScriptedKind::Integer) => {
            Ok(ScriptedValue::Integer(number))
        }
        (ScriptReturn::Integer(number), ScriptedKind::Bytes) => {
            Ok(ScriptedValue::Bytes(number.to_string().into_bytes()))
        }
        (ScriptReturn::Text(text), ScriptedKind::Bytes) => bytes_of(text.into_bytes()),
        (ScriptReturn::Bytes(bytes), ScriptedKind::Bytes) => bytes_of(bytes),
        (other, _) => Err(format!("gave {}, where {wanted} is wanted", other.kind_text())),
    }
}

fn bytes_of(bytes: Vec<u8>) -> Result<ScriptedValue, String> {
    if bytes.len() > SIZE_BYTES_MAX {
        return Err(format!("gave {} bytes: up to {SIZE_BYTES_MAX} are possible", bytes.len()));
    }
    Ok(ScriptedValue::Bytes(bytes))
}

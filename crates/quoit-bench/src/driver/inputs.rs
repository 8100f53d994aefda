//! Random stream and generators of one worker.

use std::sync::Arc;

use bytes::Bytes;

use crate::keygen::{Exhausted, Key, KeyGenerator};
use crate::random::Random;
use crate::script::SessionValue;
use crate::trace::TracedOperation;
use crate::valgen::{Value, ValueGenerator};
use crate::verify::{Context, Read, Verifier, Write};

/// The inputs of a worker's operations: its random stream, keys and values.
#[derive(Debug, Clone)]
pub struct Inputs {
    random: Random,
    keys: KeyGenerator,
    values: ValueGenerator,
    /// Keys for operations that insert; `None` if the mix has no such operation.
    inserted: Option<KeyGenerator>,
    /// True if the current operation inserts.
    is_inserting: bool,
    key: Key,
    /// True if the current operation's key is given by a trace or a session.
    has_key: bool,
    value: OperationValue,
    verifier: Option<Arc<Verifier>>,
}

/// The value of the current operation, if it is not drawn.
#[derive(Debug, Clone)]
enum OperationValue {
    None,
    /// A drawn value of this size in bytes.
    OfSize(u64),
    FromSession(SessionValue),
}

impl Inputs {
    /// Creates the inputs of a worker. The generators must have been started.
    pub(crate) fn new(
        random: Random,
        keys: KeyGenerator,
        values: ValueGenerator,
        verifier: Option<Arc<Verifier>>,
    ) -> Self {
        let (inserted, is_inserting, key) = (None, false, Key::default());
        let (has_key, value) = (false, OperationValue::None);
        Self { random, keys, values, inserted, is_inserting, key, has_key, value, verifier }
    }

    /// The same inputs, with keys for operations that insert.
    pub(crate) fn with_inserted(self, inserted: Option<KeyGenerator>) -> Self {
        Self { inserted, ..self }
    }

    /// Begins an operation. `inserts` says whether it takes a new key.
    #[inline]
    pub(crate) fn begin_operation(&mut self, inserts: bool) {
        self.is_inserting = inserts;
    }

    /// Gives the next operation the key and the value size of a traced operation.
    pub(crate) fn take_traced(&mut self, traced: &TracedOperation) {
        self.key.replace(traced.key.iter().copied());
        self.has_key = true;
        self.value = OperationValue::OfSize(traced.value_bytes);
    }

    /// Gives the next operation the key and the value of a session's step. A missing part is drawn.
    pub(crate) fn take_step(&mut self, key: Option<SessionValue>, value: Option<SessionValue>) {
        self.has_key = key.is_some();
        match key {
            None => {}
            Some(SessionValue::Integer(number)) => self.key.take(Value::Integer(number)),
            Some(SessionValue::Bytes(bytes)) => self.key.take(Value::Bytes(&bytes)),
        }
        self.value = value.map_or(OperationValue::None, OperationValue::FromSession);
    }

    /// Ends the operation, whatever its outcome.
    #[inline]
    pub(crate) fn end_operation(&mut self) {
        if self.is_inserting {
            self.inserted.iter_mut().for_each(KeyGenerator::end_insertion);
        }
    }

    /// Begins a read, if the run verifies.
    #[inline]
    pub(crate) fn begin_read(&self, key: &[u8]) -> Option<Read> {
        self.verifier.as_ref().map(|verifier| verifier.begin_read(key))
    }

    /// Begins a delete, if the run verifies.
    #[inline]
    pub(crate) fn begin_delete(&self, key: &[u8]) -> Option<Write> {
        self.verifier.as_ref().map(|verifier| verifier.begin_delete(key))
    }

    /// Draws the next value. If the run verifies, begins a put; the put's value has the size of the drawn
    /// one.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] when a finite generator of values has ended; the worker then stops.
    #[inline]
    pub(crate) fn begin_put(
        &mut self,
        key: &[u8],
        context: Option<&Context>,
    ) -> Result<(Option<Write>, Bytes), Exhausted> {
        let drawn = self.next_shared_bytes()?;
        let Some(verifier) = &self.verifier else { return Ok((None, drawn)) };
        let write = verifier.begin_put(key, context);
        let value = write.value(drawn.len()).into();
        Ok((Some(write), value))
    }

    /// The worker's random stream.
    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The key of the operation: the given one, or a draw.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] when a finite generator has ended; the worker then stops.
    #[inline]
    pub fn next_key(&mut self) -> Result<&Key, Exhausted> {
        if self.has_key {
            return Ok(&self.key);
        }
        let keys = match &mut self.inserted {
            Some(inserted) if self.is_inserting => inserted,
            _ => &mut self.keys,
        };
        keys.generate(&mut self.random, &mut self.key)?;
        Ok(&self.key)
    }

    /// The value of the operation: the given one, or a draw.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] when a finite generator has ended; the worker then stops.
    #[inline]
    pub fn next_value(&mut self) -> Result<Value<'_>, Exhausted> {
        match &self.value {
            OperationValue::None => self.values.generate(&mut self.random),
            OperationValue::OfSize(size_bytes) => {
                Ok(self.values.of_size(*size_bytes, &mut self.random))
            }
            OperationValue::FromSession(SessionValue::Integer(number)) => {
                Ok(Value::Integer(*number))
            }
            OperationValue::FromSession(SessionValue::Bytes(bytes)) => Ok(Value::Bytes(bytes)),
        }
    }

    /// The value of the operation as bytes; empty if the value is an integer.
    ///
    /// # Errors
    ///
    /// As [`next_value`](Self::next_value).
    #[inline]
    pub fn next_bytes(&mut self) -> Result<&[u8], Exhausted> {
        Ok(match self.next_value()? {
            Value::Bytes(bytes) => bytes,
            Value::Integer(_) => &[],
        })
    }

    /// As [`next_bytes`](Self::next_bytes), but owned. A value that is a slice of the source is not copied.
    ///
    /// # Errors
    ///
    /// As [`next_value`](Self::next_value).
    #[inline]
    pub fn next_shared_bytes(&mut self) -> Result<Bytes, Exhausted> {
        match &self.value {
            OperationValue::None => self.values.generate_shared(&mut self.random),
            OperationValue::FromSession(SessionValue::Bytes(bytes)) => Ok(bytes.clone()),
            OperationValue::OfSize(_) | OperationValue::FromSession(SessionValue::Integer(_)) => {
                Ok(Bytes::copy_from_slice(self.next_bytes()?))
            }
        }
    }
}

/// Reports the acknowledgement of a write, if the run verifies.
#[inline]
pub(super) fn acknowledge(write: Option<Write>) {
    if let Some(write) = write {
        write.acknowledge();
    }
}

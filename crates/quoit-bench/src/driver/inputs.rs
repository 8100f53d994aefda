//! The random stream and the generators of one worker.

use std::sync::Arc;

use bytes::Bytes;

use crate::keygen::{Exhausted, Key, KeyGenerator};
use crate::random::Random;
use crate::trace::TracedOperation;
use crate::valgen::{Value, ValueGenerator};
use crate::verify::{Context, Read, Verifier, Write};

/// Generators from which a worker draws its operations, keys and values.
#[derive(Debug, Clone)]
pub struct Inputs {
    random: Random,
    keys: KeyGenerator,
    values: ValueGenerator,
    /// Keys for operations that insert; none where no operation does.
    inserted: Option<KeyGenerator>,
    /// Whether the operation at hand inserts.
    is_inserting: bool,
    key: Key,
    /// Bytes of the value of an operation of a trace, whose key is at hand.
    traced_bytes: Option<u64>,
    verifier: Option<Arc<Verifier>>,
}

impl Inputs {
    /// The inputs of a worker whose generators are started.
    pub(crate) fn new(
        random: Random,
        keys: KeyGenerator,
        values: ValueGenerator,
        verifier: Option<Arc<Verifier>>,
    ) -> Self {
        let (inserted, is_inserting, key) = (None, false, Key::default());
        Self { random, keys, values, inserted, is_inserting, key, traced_bytes: None, verifier }
    }

    /// The same with keys for operations that insert.
    pub(crate) fn with_inserted(self, inserted: Option<KeyGenerator>) -> Self {
        Self { inserted, ..self }
    }

    /// An operation begins that inserts a key, or one that does not.
    #[inline]
    pub(crate) fn begin_operation(&mut self, inserts: bool) {
        self.is_inserting = inserts;
    }

    /// The next operation has the key and the size of one of a trace.
    pub(crate) fn take_traced(&mut self, traced: &TracedOperation) {
        self.key.replace(traced.key.iter().copied());
        self.traced_bytes = Some(traced.value_bytes);
    }

    /// The operation has ended, however it did.
    #[inline]
    pub(crate) fn end_operation(&mut self) {
        if self.is_inserting {
            self.inserted.iter_mut().for_each(KeyGenerator::end_insertion);
        }
    }

    /// Starts a read where the run is verified.
    #[inline]
    pub(crate) fn begin_read(&self, key: &[u8]) -> Option<Read> {
        self.verifier.as_ref().map(|verifier| verifier.begin_read(key))
    }

    /// Starts a delete where the run is verified.
    #[inline]
    pub(crate) fn begin_delete(&self, key: &[u8]) -> Option<Write> {
        self.verifier.as_ref().map(|verifier| verifier.begin_delete(key))
    }

    /// Draws the next value. Where the run is verified it starts a put, whose value has the size
    /// of the one that was drawn.
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

    /// Draws the next key.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] when a finite generator has ended; the worker then stops.
    #[inline]
    pub fn next_key(&mut self) -> Result<&Key, Exhausted> {
        if self.traced_bytes.is_some() {
            return Ok(&self.key);
        }
        let keys = match &mut self.inserted {
            Some(inserted) if self.is_inserting => inserted,
            _ => &mut self.keys,
        };
        keys.generate(&mut self.random, &mut self.key)?;
        Ok(&self.key)
    }

    /// Draws the next value.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] when a finite generator has ended; the worker then stops.
    #[inline]
    pub fn next_value(&mut self) -> Result<Value<'_>, Exhausted> {
        match self.traced_bytes {
            Some(size_bytes) => Ok(self.values.of_size(size_bytes, &mut self.random)),
            None => self.values.generate(&mut self.random),
        }
    }

    /// Draws the next value of a generator that is known to give bytes.
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

    /// As [`next_bytes`](Self::next_bytes), to be kept: a slice of the source is not copied.
    ///
    /// # Errors
    ///
    /// As [`next_value`](Self::next_value).
    #[inline]
    pub fn next_shared_bytes(&mut self) -> Result<Bytes, Exhausted> {
        if self.traced_bytes.is_some() {
            return Ok(Bytes::copy_from_slice(self.next_bytes()?));
        }
        self.values.generate_shared(&mut self.random)
    }
}

/// Says that a write was acknowledged, where the run is verified.
#[inline]
pub(super) fn acknowledge(write: Option<Write>) {
    if let Some(write) = write {
        write.acknowledge();
    }
}

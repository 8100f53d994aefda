//! The random stream and the generators of one worker.

use bytes::Bytes;

use crate::keygen::{Exhausted, Key, KeyGenerator};
use crate::random::Random;
use crate::valgen::{Value, ValueGenerator};

/// What a worker draws its operations, keys and values from.
#[derive(Debug, Clone)]
pub struct Inputs {
    random: Random,
    keys: KeyGenerator,
    values: ValueGenerator,
    key: Key,
}

impl Inputs {
    /// The inputs of a worker whose generators are started.
    pub(crate) fn new(random: Random, keys: KeyGenerator, values: ValueGenerator) -> Self {
        Self { random, keys, values, key: Key::default() }
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
        self.keys.generate(&mut self.random, &mut self.key)?;
        Ok(&self.key)
    }

    /// Draws the next value.
    #[inline]
    pub fn next_value(&mut self) -> Value<'_> {
        self.values.generate(&mut self.random)
    }

    /// Draws the next value of a generator that is known to give bytes.
    #[inline]
    pub fn next_bytes(&mut self) -> &[u8] {
        match self.next_value() {
            Value::Bytes(bytes) => bytes,
            Value::Integer(_) => &[],
        }
    }

    /// As [`next_bytes`](Self::next_bytes), to be kept: a slice of the source is not copied.
    #[inline]
    pub fn next_shared_bytes(&mut self) -> Bytes {
        self.values.generate_shared(&mut self.random)
    }
}

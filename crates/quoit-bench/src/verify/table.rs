//! The state of every key: a single word while nothing is in flight or in doubt, otherwise a history.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::history::{History, Settled};
use super::journal::{WrittenKeyFile, WrittenKeys};

/// Number of stripes of keys, each under a lock of its own.
const STRIPE_COUNT: usize = 64;

/// A hasher that returns its input, because the keys of the table are hashes already. The stripe is chosen
/// by other bits than the hash table uses.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys of the table are u64");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type ByHash<T> = HashMap<u64, T, BuildHasherDefault<IdentityHasher>>;

#[derive(Debug, Default)]
struct Stripe {
    /// Written keys without operations in flight or in doubt. An entry in `open` takes precedence.
    settled: ByHash<u64>,
    open: ByHash<History>,
}

/// The states of all keys.
#[derive(Debug)]
pub(super) struct KeyTable {
    stripes: Vec<Mutex<Stripe>>,
    journal: Mutex<WrittenKeyFile>,
    /// True if keys that the run has not written may have values from before the run.
    before: bool,
}

impl KeyTable {
    pub(super) fn new(before: bool, folder: &Path) -> io::Result<Self> {
        let stripes = (0..STRIPE_COUNT).map(|_| Mutex::default()).collect();
        Ok(Self { stripes, journal: Mutex::new(WrittenKeyFile::create(folder)?), before })
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder is below the number of stripes")]
    fn stripe(&self, key_hash: u64) -> MutexGuard<'_, Stripe> {
        let index = quoit_number::index(key_hash >> 32) % STRIPE_COUNT;
        self.stripes[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, WrittenKeyFile> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the history of a key under its lock.
    pub(super) fn with<T>(&self, key_hash: u64, change: impl FnOnce(&mut History) -> T) -> T {
        let mut stripe = self.stripe(key_hash);
        let Stripe { settled, open } = &mut *stripe;
        let history = open.entry(key_hash).or_insert_with(|| match settled.get(&key_hash) {
            Some(bits) => History::of_settled(Settled::of_bits(*bits)),
            None => History::new(self.before),
        });
        let outcome = change(history);
        let (rest, is_noted) = (history.settled(), history.is_noted);
        if history.is_blank() {
            open.remove(&key_hash);
        } else if let Some(rest) = rest
            && is_noted
        {
            open.remove(&key_hash);
            settled.insert(key_hash, rest.to_bits());
        }
        outcome
    }

    /// Adds a key to the list for the read-back. The history records that the key is in the list.
    pub(super) fn keep(&self, key: &[u8]) {
        self.journal().add(key);
    }

    pub(super) fn key_count(&self) -> u64 {
        self.journal().count()
    }

    pub(super) fn written_keys(&self) -> io::Result<WrittenKeys> {
        self.journal().keys()
    }
}

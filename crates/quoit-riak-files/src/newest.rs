//! Which version of each key is the newest: places by the keys' hashes.

use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_128;

/// Most keys of one partition, by default: some 4 GiB of memory.
pub(crate) const KEYS_MAX: usize = 80_000_000;

/// The newest version of each key of a partition: a file, and a place in it. Takes about 50 bytes a key,
/// whatever the key's length.
#[derive(Default)]
pub(crate) struct Newest {
    places: HashMap<u128, (u32, u64)>,
}

impl Newest {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Takes note of a version that is later than those before.
    pub(crate) fn put(&mut self, key: &[u8], file: u32, place: u64) {
        self.places.insert(xxh3_128(key), (file, place));
    }

    /// As [`Newest::put`], unless a version with a higher place is known, in whichever file.
    pub(crate) fn raise(&mut self, key: &[u8], file: u32, place: u64) {
        let known = self.places.entry(xxh3_128(key)).or_insert((file, place));
        if known.1 <= place {
            *known = (file, place);
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.places.remove(&xxh3_128(key));
    }

    pub(crate) fn is_newest(&self, key: &[u8], file: u32, place: u64) -> bool {
        self.places.get(&xxh3_128(key)) == Some(&(file, place))
    }
}

//! The blocks of bytes that values are cut from.

use std::path::PathBuf;

use bytes::Bytes;
use rand::rngs::{StdRng, Xoshiro256PlusPlus};
use rand::{Rng, SeedableRng};
use thiserror::Error;

/// Size of the random block when the configuration names none: 96 MiB.
const RANDOM_SIZE_BYTES: usize = 96 << 20;

/// Largest block that a configuration may ask for.
const SIZE_BYTES_MAX: u64 = 16 << 30;

/// Units of the semi-compressible block: 64 MiB in all.
const UNIT_COUNT: usize = 8192;

/// Random bytes that begin each unit.
const UNIT_RANDOM_BYTES: usize = 4096;

/// Lines of text that end each unit.
const UNIT_LINES: usize = 32;

/// Bytes of each line of text.
const LINE_BYTES: usize = 128;

/// How many different lines there are.
const DISTINCT_LINES: usize = 16;

/// Which block a generator draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// Incompressible random bytes.
    Random,
    /// Half random bytes, half text that repeats.
    SemiCompressible,
}

/// A shared block of bytes.
#[derive(Debug, Clone)]
pub struct Source(Bytes);

impl Source {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

/// Why a source of values cannot be made.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The file of values cannot be read.
    #[error("value_generator_blob_file {path:?} cannot be read: {error}", path = .path)]
    File {
        /// Its path.
        path: PathBuf,
        /// What reading it gave.
        error: std::io::Error,
    },
    /// A size that memory will not hold.
    #[error("value_generator_source_size is {0}: write from 1 to 17179869184 bytes")]
    Size(u64),
}

/// What the configuration says about sources.
#[derive(Debug, Clone, Default)]
pub struct SourceSettings {
    /// Size of the random block in bytes; 96 MiB when not given.
    pub size_bytes: Option<u64>,
    /// A file whose bytes take the place of every block.
    pub file: Option<PathBuf>,
}

/// The blocks of one run.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    random: Option<Source>,
    semi_compressible: Option<Source>,
}

impl Sources {
    /// Makes the blocks of the kinds that are needed. Filling 96 MiB takes some tens of
    /// milliseconds; the bytes differ from run to run, whatever the seed.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or the size is out of range.
    pub fn prepare(
        settings: &SourceSettings,
        needed: impl Iterator<Item = SourceKind>,
    ) -> Result<Self, SourceError> {
        let mut sources = Self::default();
        for kind in needed {
            if sources.get(kind).is_some() {
                continue;
            }
            let source = make(settings, kind)?;
            match kind {
                SourceKind::Random => sources.random = Some(source),
                SourceKind::SemiCompressible => sources.semi_compressible = Some(source),
            }
        }
        Ok(sources)
    }

    /// The block of a kind, if it was made.
    pub fn get(&self, kind: SourceKind) -> Option<Source> {
        match kind {
            SourceKind::Random => self.random.clone(),
            SourceKind::SemiCompressible => self.semi_compressible.clone(),
        }
    }
}

fn make(settings: &SourceSettings, kind: SourceKind) -> Result<Source, SourceError> {
    if let Some(path) = &settings.file {
        let bytes = std::fs::read(path);
        return bytes
            .map(Source::from)
            .map_err(|error| SourceError::File { path: path.clone(), error });
    }
    let mut strong: StdRng = rand::make_rng();
    match kind {
        SourceKind::Random => {
            let size_bytes = match settings.size_bytes {
                None => RANDOM_SIZE_BYTES,
                Some(size) => usize::try_from(size)
                    .ok()
                    .filter(|_| (1..=SIZE_BYTES_MAX).contains(&size))
                    .ok_or(SourceError::Size(size))?,
            };
            let mut bytes = vec![0; size_bytes];
            strong.fill_bytes(&mut bytes);
            Ok(bytes.into())
        }
        SourceKind::SemiCompressible => Ok(semi_compressible(&mut strong, UNIT_COUNT).into()),
    }
}

/// Units of random bytes and of lines; line number x of a unit is one of the first x distinct
/// lines, so that early lines are the most frequent.
pub(super) fn semi_compressible(strong: &mut StdRng, unit_count: usize) -> Vec<u8> {
    let mut choices = Xoshiro256PlusPlus::seed_from_u64(strong.next_u64());
    let mut below = |n: usize| ((u128::from(choices.next_u64()) * n as u128) >> 64) as usize;
    let lines: Vec<[u8; LINE_BYTES]> =
        (0..DISTINCT_LINES).map(|_| std::array::from_fn(|_| b' ' + below(95) as u8)).collect();
    let unit_bytes = UNIT_RANDOM_BYTES + UNIT_LINES * LINE_BYTES;
    let mut bytes = vec![0; unit_bytes * unit_count];
    for unit in bytes.chunks_exact_mut(unit_bytes) {
        let (random, text) = unit.split_at_mut(UNIT_RANDOM_BYTES);
        strong.fill_bytes(random);
        for (index, line) in text.chunks_exact_mut(LINE_BYTES).enumerate() {
            line.copy_from_slice(&lines[below((index + 1).min(DISTINCT_LINES))]);
        }
    }
    bytes
}

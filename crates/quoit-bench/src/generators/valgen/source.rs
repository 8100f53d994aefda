//! The blocks of bytes that values are cut from.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use rand::rngs::{StdRng, Xoshiro256PlusPlus};
use rand::{Rng, SeedableRng};
use thiserror::Error;

use super::poisson::Poisson;
use crate::random::{Random, RandomKind, Seed};

/// Default size of the random block: 96 MiB.
const RANDOM_SIZE_BYTES: usize = 96 << 20;

/// Maximum size of a block that a configuration may set.
pub(crate) const SOURCE_BYTES_MAX: u64 = 16 << 30;

/// Number of units in the semi-compressible block, which has 64 MiB.
const UNIT_COUNT: usize = 8192;

/// Number of random bytes at the beginning of each unit.
const UNIT_RANDOM_BYTES: usize = 4096;

/// Number of lines of text at the end of each unit.
const UNIT_LINES: usize = 32;

/// Number of bytes in each line of text.
const LINE_BYTES: usize = 128;

/// Number of different lines of text.
const DISTINCT_LINES: usize = 16;

/// The block of bytes that a generator cuts its values from.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceKind {
    /// Incompressible random bytes.
    Random,
    /// Half random bytes, half repeating text.
    SemiCompressible,
    /// One line of text, repeated.
    HighlyCompressible,
    /// The values of a set, one after another.
    Set(Arc<BinSet>),
    /// This number of random bytes.
    Seed(u64),
}

/// A set of values that are created once.
#[derive(Debug, Clone, PartialEq)]
pub struct BinSet {
    /// Sizes of the values.
    pub(crate) sizes: SetSizes,
    /// Number of values; not 0.
    pub(crate) count: u64,
}

/// Distribution of the sizes of a set's values, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SetSizes {
    /// The same size for all values.
    Fixed(u64),
    /// Uniform in `min..=max`.
    Uniform { min: u64, max: u64 },
    /// A minimum, plus an exponentially distributed excess with this mean.
    Exponential { min: u64, mean: f64 },
    /// A Poisson distribution.
    Poisson(Poisson),
}

impl BinSet {
    /// Mean size of a value in bytes.
    pub(crate) fn mean_bytes(&self) -> f64 {
        match self.sizes {
            SetSizes::Fixed(size) => size as f64,
            SetSizes::Uniform { min, max } => (min + max) as f64 / 2.0,
            SetSizes::Exponential { min, mean } => min as f64 + mean,
            SetSizes::Poisson(poisson) => poisson.mean,
        }
    }

    /// True if the values fit into the memory that sources may use.
    pub(crate) fn is_affordable(&self) -> bool {
        self.mean_bytes() * self.count as f64 <= SOURCE_BYTES_MAX as f64
    }

    /// The end of each value within a block of all values. The sizes are the same in every run, so that
    /// runs can be compared; only the bytes differ.
    fn ends(&self) -> Vec<usize> {
        let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 0);
        let mut end = 0_usize;
        let mut next = || {
            let size = match self.sizes {
                SetSizes::Fixed(size) => size,
                SetSizes::Uniform { min, max } => min + random.uniform(max - min + 1) - 1,
                SetSizes::Exponential { min, mean } => {
                    min + quoit_number::whole(random.exponential(mean))
                }
                SetSizes::Poisson(poisson) => poisson.draw(&mut random),
            };
            end = end.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
            end
        };
        (0..self.count).map(|_| next()).collect()
    }
}

/// A shared block of bytes.
#[derive(Debug, Clone)]
pub struct Source {
    bytes: Bytes,
    /// The end of each value of a set; empty if the source is not a set.
    ends: Arc<[usize]>,
}

impl Source {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// One of the values of a set, by one uniform draw. Without a set, all bytes.
    #[expect(
        clippy::indexing_slicing,
        reason = "the ends ascend, and the last is that of the bytes"
    )]
    pub(super) fn one_of_set(&self, random: &mut Random) -> &[u8] {
        if self.ends.is_empty() {
            return &self.bytes;
        }
        let index = random.index(self.ends.len());
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into(), ends: Arc::default() }
    }
}

/// Reasons why a source of values cannot be created.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The file of values cannot be read.
    #[error("value_generator_blob_file {path:?} cannot be read: {error}", path = .path)]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: std::io::Error,
    },
    /// The size is out of range.
    #[error("value_generator_source_size is {0}: write from 1 to 17179869184 bytes")]
    Size(u64),
}

/// Settings of sources.
#[derive(Debug, Clone, Default)]
pub struct SourceSettings {
    /// Size of the random block in bytes; `None` for 96 MiB.
    pub size_bytes: Option<u64>,
    /// A file whose bytes replace every block.
    pub file: Option<PathBuf>,
}

impl SourceSettings {
    /// Size of the random block in bytes; `None` if a file replaces it.
    pub(crate) fn random_bytes(&self) -> Option<u64> {
        let size_bytes = self.size_bytes.unwrap_or(RANDOM_SIZE_BYTES as u64);
        self.file.is_none().then_some(size_bytes)
    }
}

/// The blocks of one run.
#[derive(Debug, Clone, Default)]
pub struct Sources(Vec<(SourceKind, Source)>);

impl Sources {
    /// Creates the blocks of the kinds that are needed. Filling 96 MiB takes some tens of milliseconds. The
    /// bytes differ from run to run, whatever the seed.
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
            if sources.get(&kind).is_none() {
                let source = make(settings, &kind)?;
                sources.0.push((kind, source));
            }
        }
        Ok(sources)
    }

    /// The block of a kind, if it was created.
    pub fn get(&self, kind: &SourceKind) -> Option<Source> {
        self.0.iter().find(|(of, _)| of == kind).map(|(_, source)| source.clone())
    }
}

fn make(settings: &SourceSettings, kind: &SourceKind) -> Result<Source, SourceError> {
    let file = settings.file.as_ref().map(|path| {
        let read = std::fs::read(path);
        read.map_err(|error| SourceError::File { path: path.clone(), error })
    });
    let file = file.transpose()?;
    let mut strong: StdRng = rand::make_rng();
    let mut random = |size: usize| {
        let mut bytes = vec![0; size];
        strong.fill_bytes(&mut bytes);
        bytes
    };
    Ok(match (kind, file) {
        (SourceKind::Set(set), file) => {
            let mut ends: Vec<usize> = set.ends();
            let size = ends.last().copied().unwrap_or(0);
            let bytes = file.unwrap_or_else(|| random(size));
            // A file may have enough bytes for only some of the values.
            ends.retain(|end| *end <= bytes.len());
            Source { bytes: bytes.into(), ends: ends.into() }
        }
        (_, Some(bytes)) => bytes.into(),
        (SourceKind::Random | SourceKind::HighlyCompressible, None) => {
            let size_bytes = match settings.size_bytes {
                None => RANDOM_SIZE_BYTES,
                Some(size) => usize::try_from(size)
                    .ok()
                    .filter(|_| (1..=SOURCE_BYTES_MAX).contains(&size))
                    .ok_or(SourceError::Size(size))?,
            };
            match kind {
                SourceKind::HighlyCompressible => {
                    highly_compressible(&random(LINE_BYTES), size_bytes)
                }
                _ => random(size_bytes),
            }
            .into()
        }
        (SourceKind::Seed(size), None) => {
            random(usize::try_from(*size).map_err(|_| SourceError::Size(*size))?).into()
        }
        (SourceKind::SemiCompressible, None) => semi_compressible(&mut strong, UNIT_COUNT).into(),
    })
}

/// One line of text, repeated up to `size_bytes`. `line` decides its characters.
fn highly_compressible(line: &[u8], size_bytes: usize) -> Vec<u8> {
    let line = line.iter().map(|byte| b' ' + byte % 95);
    line.cycle().take(size_bytes).collect()
}

/// Units of random bytes and lines of text. Line number x of a unit is one of the first x distinct lines,
/// so the early ones are the most frequent.
#[expect(clippy::indexing_slicing, reason = "`below` returns a number below that of the lines")]
pub(super) fn semi_compressible(strong: &mut StdRng, unit_count: usize) -> Vec<u8> {
    let mut choices = Xoshiro256PlusPlus::seed_from_u64(strong.next_u64());
    let mut below = |n: usize| {
        let product = u128::from(choices.next_u64()) * n as u128;
        quoit_number::index(quoit_number::low_u64(product >> 64))
    };
    let mut line = || std::array::from_fn(|_| b' ' + quoit_number::low_u8(below(95) as u64));
    let lines: Vec<[u8; LINE_BYTES]> = (0..DISTINCT_LINES).map(|_| line()).collect();
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

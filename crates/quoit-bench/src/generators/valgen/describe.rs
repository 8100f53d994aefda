//! Facts about the values of a generator that are known before any value exists.

use super::{ValueGenerator, ValueSpec};
use crate::keygen::KeyGenerator;

impl ValueGenerator {
    /// The minimum size of a value that is cut from a source, in bytes.
    pub(crate) fn least_slice_bytes(&self) -> Option<u64> {
        match self.spec() {
            ValueSpec::Fixed { size } | ValueSpec::HighlyCompressible { size } => Some(*size),
            ValueSpec::Exponential { min, .. } => Some(*min),
            ValueSpec::UniformSize { min, .. } => Some(min + 1),
            _ => None,
        }
    }

    /// Mean size of a value in bytes, if it is known and values are bytes.
    pub fn mean_bytes(&self) -> Option<f64> {
        match self.spec() {
            ValueSpec::Fixed { size }
            | ValueSpec::HighlyCompressible { size }
            | ValueSpec::Printable { size }
            | ValueSpec::Seed { size } => Some(*size as f64),
            ValueSpec::Constant(bytes) => Some(bytes.len() as f64),
            ValueSpec::Exponential { min, mean } => Some(*min as f64 + mean),
            ValueSpec::UniformSize { min, max } => Some((min + 1 + max) as f64 / 2.0),
            ValueSpec::SemiCompressible { min, mean, large_factor, large_share } => {
                let factor = 1.0 + large_share * (large_factor - 1.0);
                Some((*min as f64 + mean) * factor)
            }
            ValueSpec::Poisson(poisson) => Some(poisson.mean),
            ValueSpec::Set(set) => Some(set.mean_bytes()),
            ValueSpec::UniformInteger { .. } | ValueSpec::Keys(_) => None,
        }
    }

    /// The size of values, as text for people.
    pub fn size_text(&self) -> String {
        let mean_bytes = self.mean_bytes().unwrap_or(0.0);
        match self.spec() {
            ValueSpec::Fixed { size } | ValueSpec::Printable { size } => format!("{size} bytes"),
            ValueSpec::HighlyCompressible { size } => format!("{size} bytes of text that repeats"),
            ValueSpec::Constant(_) | ValueSpec::Seed { .. } => {
                format!("{mean_bytes} bytes, always the same")
            }
            ValueSpec::Exponential { min, .. } | ValueSpec::SemiCompressible { min, .. } => {
                format!("at least {min} bytes, {mean_bytes:.0} on average")
            }
            ValueSpec::UniformSize { min, max } => format!("{} to {max} bytes", min + 1),
            ValueSpec::UniformInteger { min, max } => format!("integers {} to {max}", min + 1),
            ValueSpec::Poisson(_) => format!("{mean_bytes:.0} bytes on average"),
            ValueSpec::Set(set) => {
                format!("one of {} values, {mean_bytes:.0} bytes on average", set.count)
            }
            ValueSpec::Keys(keys) if matches!(**keys, KeyGenerator::Script(_)) => {
                "what the script gives".to_owned()
            }
            ValueSpec::Keys(_) => "what that key generator gives".to_owned(),
        }
    }
}

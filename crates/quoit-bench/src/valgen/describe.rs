//! What is known of the values of a generator before any is made.

use super::{ValueGenerator, ValueSpec};

impl ValueGenerator {
    /// The least size of a value that is cut from a source, in bytes.
    pub(crate) fn least_slice_bytes(&self) -> Option<u64> {
        match self.spec() {
            ValueSpec::Fixed { size } => Some(*size),
            ValueSpec::Exponential { min, .. } => Some(*min),
            ValueSpec::UniformSize { min, .. } => Some(min + 1),
            _ => None,
        }
    }

    /// The size of values, in words.
    pub fn size_text(&self) -> String {
        let mean_text =
            |least: f64, mean: f64| format!("at least {least:.0} bytes, {mean:.0} on average");
        match self.spec() {
            ValueSpec::Fixed { size } | ValueSpec::Printable { size } => format!("{size} bytes"),
            ValueSpec::Constant(bytes) => format!("{} bytes, always the same", bytes.len()),
            ValueSpec::Exponential { min, mean } => mean_text(*min as f64, *min as f64 + mean),
            ValueSpec::UniformSize { min, max } => format!("{} to {max} bytes", min + 1),
            ValueSpec::UniformInteger { min, max } => format!("integers {} to {max}", min + 1),
            ValueSpec::Poisson(poisson) => format!("{:.0} bytes on average", poisson.mean),
            ValueSpec::Set(set) => {
                format!("one of {} values, {:.0} bytes on average", set.count, set.mean_bytes())
            }
            ValueSpec::Seed { size } => format!("{size} bytes, always the same"),
            ValueSpec::Keys(_) => "what that key generator gives".to_owned(),
            ValueSpec::SemiCompressible { min, mean, large_factor, large_share } => {
                let factor = 1.0 + large_share * (large_factor - 1.0);
                mean_text(*min as f64, (*min as f64 + mean) * factor)
            }
        }
    }
}

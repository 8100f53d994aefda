//! The latencies of one second, in bands that each span a factor of two.

use std::time::Duration;

/// Number of bands. The first is below 2 us and the last from 134 s on.
pub(super) const BAND_COUNT: usize = 28;

/// Number of latencies of one second in each band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spectrum([u64; BAND_COUNT]);

#[expect(clippy::indexing_slicing, reason = "bands have numbers below their count")]
impl Spectrum {
    /// Adds `count` operations with a latency.
    pub fn add(&mut self, latency: Duration, count: u64) {
        let band = latency.as_micros().max(1).ilog2() as usize;
        self.0[band.min(BAND_COUNT - 1)] += count;
    }

    /// Number of latencies in a band.
    pub(super) fn band(&self, band: usize) -> u64 {
        self.0[band]
    }

    /// Number of all latencies.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The lowest and the highest band that is not empty.
    pub(super) fn range(&self) -> Option<(usize, usize)> {
        let low = self.0.iter().position(|count| *count > 0)?;
        let high = self.0.iter().rposition(|count| *count > 0)?;
        Some((low, high))
    }
}

/// The lower limit of a band, as text.
pub(super) fn band_text(band: usize) -> String {
    let us = 1_u64 << band;
    match us {
        us if us >= 1 << 20 => format!("{} s", us >> 20),
        us if us >= 1 << 10 => format!("{} ms", us >> 10),
        us => format!("{us} us"),
    }
}

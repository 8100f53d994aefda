//! The latencies of one second in bands of a factor of two.

/// Bands: below 2 us, then doubling up to 134 s and more.
pub(super) const BAND_COUNT: usize = 28;

/// How many latencies of one second are in each band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spectrum([u64; BAND_COUNT]);

impl Spectrum {
    /// Counts `count` latencies of `us` microseconds.
    pub fn add(&mut self, us: u64, count: u64) {
        let band = us.max(1).ilog2() as usize;
        self.0[band.min(BAND_COUNT - 1)] += count;
    }

    /// The count of a band.
    pub(super) fn band(&self, band: usize) -> u64 {
        self.0[band]
    }

    /// All of them.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The lowest and the highest band with a latency.
    pub(super) fn range(&self) -> Option<(usize, usize)> {
        let low = self.0.iter().position(|count| *count > 0)?;
        let high = self.0.iter().rposition(|count| *count > 0)?;
        Some((low, high))
    }
}

/// The least latency of a band, in words.
pub(super) fn band_text(band: usize) -> String {
    let us = 1_u64 << band;
    match us {
        us if us >= 1 << 20 => format!("{} s", us >> 20),
        us if us >= 1 << 10 => format!("{} ms", us >> 10),
        us => format!("{us} us"),
    }
}

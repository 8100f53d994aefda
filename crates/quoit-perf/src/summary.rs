//! The fields of the load generator's `summary.json` that several benchmarks read.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::Path;

/// Results of a run of the load generator.
#[derive(Deserialize)]
pub(crate) struct RunSummary {
    pub(crate) successful: u64,
    pub(crate) failed: u64,
    pub(crate) successful_per_s: f64,
}

impl RunSummary {
    pub(crate) fn read(run: &Path) -> Result<Self> {
        let path = run.join("summary.json");
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

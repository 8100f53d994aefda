//! Healing of a node whose store lost its last records: the time until it serves, the time until its copies
//! are complete, and the amount of data copied.

use crate::drive::{Load, drive};
use crate::live::{LiveCluster, LiveOptions};
use crate::processors;
use crate::protocol::Exchange;
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Instant;

const CONNECTIONS: usize = 50;

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct LostOptions {
    #[command(flatten)]
    live: LiveOptions,
    /// Number of records in the cluster.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Number of bytes to cut off the end of the store's log.
    #[arg(long, default_value_t = 1 << 20)]
    cut_bytes: u64,
}

/// Truncates the log of one of three nodes, and measures how it becomes complete again.
pub(crate) fn lost(options: &LostOptions) -> Result<()> {
    processors::reserve_driver_cpu(true)?;
    let dir = tempfile::tempdir_in(&options.live.dir)?;
    let mut live = LiveCluster::start(&options.live, dir.path(), 3)?;
    let value_bytes = options.live.value_bytes;
    let load = Load {
        exchange: Exchange::PbPut { value_bytes, dw: Some(0) },
        connections: CONNECTIONS,
        operations: options.records,
        value_bytes,
        first_key: 0,
        key_count: options.records,
        sequential: true,
        rate: None,
        sleeps: true,
        seed: 0,
    };
    drive(&live.target(), &load).context("filling the cluster")?;
    live.settle()?;
    live.stop(3)?;
    let cut = cut_log(&dir.path().join("live3"), options.cut_bytes)?;
    let (handed_before, bytes_before) = live.moved()?;
    let began = Instant::now();
    live.run(3)?;
    let serves = began.elapsed();
    live.until("the copies to be whole", |live| Ok(live.lost_copies()? == 0))?;
    let whole = began.elapsed();
    let (handed, bytes) = live.moved()?;
    println!(
        "{} records of {} bytes on three nodes; {} bytes cut off {}",
        options.records,
        value_bytes,
        options.cut_bytes,
        cut.display()
    );
    println!("| seconds to serve | to be whole | records copied | MB copied |\n|---|---|---|---|");
    println!(
        "| {:.1} | {:.1} | {} | {:.1} |",
        serves.as_secs_f64(),
        whole.as_secs_f64(),
        handed - handed_before,
        (bytes - bytes_before) as f64 / 1e6
    );
    Ok(())
}

/// Truncates the newest segment of a stopped node's log that is long enough. Returns its path.
fn cut_log(data: &Path, cut_bytes: u64) -> Result<PathBuf> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(data.join("bitcask"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            segments.push((path.clone(), fs::metadata(&path)?.len()));
        }
    }
    segments.sort();
    let larger = segments.into_iter().rfind(|(_, size_bytes)| *size_bytes > cut_bytes);
    let (path, size_bytes) = larger.context("no segment of the log is larger than that")?;
    OpenOptions::new().write(true).open(&path)?.set_len(size_bytes - cut_bytes)?;
    Ok(path)
}

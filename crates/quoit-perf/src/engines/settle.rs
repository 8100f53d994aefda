//! Waiting until a node has finished its background writes: flushes, compactions, merges.

use super::interrupt;
use super::usage::IoBytes;
use anyhow::Result;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time with almost no writes after which a node counts as settled.
const QUIET: Duration = Duration::from_secs(5);

/// Bytes written in this time that are ignored, such as records of positions.
const QUIET_BYTES: u64 = 1 << 20;

/// Longest time to wait.
const LIMIT: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Waits until the process has stopped writing.
pub(super) fn settle(pid: u32) -> Result<()> {
    let began = Instant::now();
    let (mut quiet_since, mut base) = (began, IoBytes::of(Some(pid))?.written_bytes);
    while quiet_since.elapsed() < QUIET {
        interrupt::check()?;
        if began.elapsed() > LIMIT {
            println!("the node still writes after {LIMIT:?}; its bytes are counted up to here");
            break;
        }
        sleep(POLL_INTERVAL);
        let written = IoBytes::of(Some(pid))?.written_bytes;
        if written > base + QUIET_BYTES {
            (quiet_since, base) = (Instant::now(), written);
        }
    }
    Ok(())
}

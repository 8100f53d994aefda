//! Waiting until a node has put in order what was written: flushes, compactions, merges.

use super::interrupt;
use super::usage::Moved;
use anyhow::Result;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A node that has written next to nothing for so long is done.
const QUIET: Duration = Duration::from_secs(5);

/// Writes in an interval that count as none: notes of positions and the like.
const QUIET_BYTES: u64 = 1 << 20;

/// How long a node may take.
const LIMIT: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Waits until the process writes no more.
pub(super) fn settle(pid: u32) -> Result<()> {
    let began = Instant::now();
    let (mut quiet_since, mut base) = (began, Moved::of(Some(pid))?.written_bytes);
    while quiet_since.elapsed() < QUIET {
        interrupt::check()?;
        if began.elapsed() > LIMIT {
            println!("the node still writes after {LIMIT:?}; its bytes are counted up to here");
            break;
        }
        sleep(POLL_INTERVAL);
        let written = Moved::of(Some(pid))?.written_bytes;
        if written > base + QUIET_BYTES {
            (quiet_since, base) = (Instant::now(), written);
        }
    }
    Ok(())
}

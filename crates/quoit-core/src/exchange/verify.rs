//! Verification: reads the data on this node's disk piece by piece, and has damaged records healed.
//!
//! Exchanges compare digests from the index and never notice damage on the disk, and clients may not read a
//! record for years. Without verification, damage would gather until all copies of a record are damaged.

use super::AntiEntropy;
use crate::stats::Counter;
use quoit_store::engine::{DataLocation, Verified};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Largest number of bytes that are read in one step.
const PIECE_BYTES: u64 = 1 << 20;
/// Pause before a round: after a start, and after the former round.
const ROUND_PAUSE: Duration = Duration::from_secs(600);
/// Pause before a round when the engine has met damage.
const ROUND_PAUSE_MIN: Duration = Duration::from_secs(10);

impl AntiEntropy {
    /// Reads the data on disk at the configured rate and heals damaged records, until the task is
    /// dropped.
    pub(crate) async fn run_verification(self: Arc<Self>) {
        let bytes_per_sec = self.local.settings.exchanges.verified_bytes_per_sec;
        if bytes_per_sec == 0 {
            return;
        }
        let mut place: Option<DataLocation> = None;
        loop {
            if place.is_none() {
                // Where there is some damage, there may be more.
                timeout(ROUND_PAUSE, self.healing.met.notified()).await.ok();
                sleep(ROUND_PAUSE_MIN).await;
            }
            let anti_entropy = Arc::clone(&self);
            let piece_bytes = PIECE_BYTES.min(bytes_per_sec);
            let read = move || Ok(anti_entropy.local.engine.verify(place, piece_bytes)?);
            let verified = match self.local.settings.blocking.at_low_priority(read).await {
                Ok(verified) => verified,
                Err(fault) => {
                    tracing::warn!(%fault, "data on disk could not be verified");
                    sleep(ROUND_PAUSE).await;
                    continue;
                }
            };
            let Verified { byte_count, damaged, next } = verified;
            self.local.stats.add(Counter::VerifiedBytes, byte_count);
            if !damaged.is_empty() {
                self.heal(&damaged).await;
            }
            place = next;
            if place.is_none() {
                self.counted.end_round();
            }
            sleep(Duration::from_secs_f64(byte_count as f64 / bytes_per_sec as f64)).await;
        }
    }
}

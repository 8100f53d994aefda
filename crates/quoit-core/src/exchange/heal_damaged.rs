//! Heals the damaged records that the engine has met in requests and background work. Records whose
//! replicas can't be reached are tried again.
//!
//! The engine only notes what it meets, so that no request waits for the healing of other records.

use super::AntiEntropy;
use super::counted_damage::DamagedName;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Interval at which the engine is asked for damaged records.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Number of these intervals after which records that could not be healed are tried again.
const RETRY_LOOKS: u32 = 10;
/// Largest number of records that wait for their replicas. Further ones are noted when the engine finds them
/// again.
const WAITING_COUNT_MAX: usize = 16_384;

impl AntiEntropy {
    /// Heals damaged records until the task is dropped.
    pub(crate) async fn run_healing_of_found(self: Arc<Self>) {
        let mut waiting: BTreeSet<DamagedName> = BTreeSet::new();
        let mut looks = 0;
        loop {
            sleep(LOOK_PAUSE).await;
            looks += 1;
            let mut damaged: BTreeSet<_> =
                self.local.engine.take_found_damage().into_iter().collect();
            // Records that wait already are tried again with the others, however often the engine finds them.
            damaged.retain(|record| !waiting.contains(record));
            if !damaged.is_empty() {
                self.healing.met.notify_one();
            }
            if looks % RETRY_LOOKS == 0 {
                self.heal_all_replaced().await;
                self.counted.retain(&mut waiting);
                damaged.append(&mut waiting);
            }
            if damaged.is_empty() {
                continue;
            }
            let damaged: Vec<_> = damaged.into_iter().collect();
            let left = self.heal(&damaged).await;
            let room = WAITING_COUNT_MAX.saturating_sub(waiting.len());
            waiting.extend(left.into_iter().take(room));
        }
    }
}

//! Heals the damaged records that the engine has met in requests and background work. Records whose
//! replicas are away are tried again.

use super::AntiEntropy;
use quoit_model::hash::Partition;
use quoit_store::index::Tag;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two looks for damaged records.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Number of looks after which records that could not be healed are tried again.
const RETRY_LOOKS: u32 = 10;
/// Largest number of records that wait for their replicas. Further ones are noted again when the engine
/// meets them again.
const WAITING_COUNT_MAX: usize = 16_384;

impl AntiEntropy {
    /// Heals damaged records until the task is dropped.
    pub(crate) async fn run_healing_of_found(self: Arc<Self>) {
        let mut waiting: BTreeSet<(Partition, Tag)> = BTreeSet::new();
        let mut looks = 0;
        loop {
            sleep(LOOK_PAUSE).await;
            looks += 1;
            let mut damaged: BTreeSet<_> =
                self.local.engine.take_found_damage().into_iter().collect();
            // Those that wait are tried again with the others, however often the engine meets them.
            damaged.retain(|record| !waiting.contains(record));
            let found_count = damaged.len();
            if found_count > 0 {
                self.healing.met.notify_one();
            }
            if looks % RETRY_LOOKS == 0 {
                damaged.append(&mut waiting);
            }
            if damaged.is_empty() {
                continue;
            }
            let damaged: Vec<_> = damaged.into_iter().collect();
            let left = self.heal(&damaged, found_count).await;
            let room = WAITING_COUNT_MAX.saturating_sub(waiting.len());
            waiting.extend(left.into_iter().take(room));
        }
    }
}

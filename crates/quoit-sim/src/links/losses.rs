//! Entries of queues that are lost with a machine's power: a comparison has to follow by itself.

use super::Way;
use crate::ground::Ground;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two looks for losses.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Compares a cluster with all that it replicates to whenever one of its nodes says that entries are lost,
/// until none of them lacks anything, as the nodes of a cluster with a full-sync do.
pub(super) async fn make_up(ground: Ground, mut ways: Vec<Way>) {
    let mut owing: BTreeSet<String> = BTreeSet::new();
    loop {
        sleep(LOOK_PAUSE).await;
        let machines = ground.in_service();
        for machine in &machines {
            if machine.store().is_some_and(|store| store.source_queues().take_loss()) {
                ground.trace.note(&machine.name, "may have lost entries");
                owing.insert(machine.name.clone());
            }
        }
        if owing.is_empty() {
            continue;
        }
        let mut lack_nothing = true;
        for way in &mut ways {
            lack_nothing &= way.repair_once().await == Some(true);
        }
        if !lack_nothing {
            continue;
        }
        for machine in machines.iter().filter(|machine| owing.contains(&machine.name)) {
            if let Some(store) = machine.store() {
                store.source_queues().settle_losses();
            }
        }
        owing.clear();
    }
}

//! Compares clusters after a machine has lost entries of its queues in a loss of power.

use super::LinkTask;
use crate::run_context::RunContext;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two checks for losses.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Compares a cluster with all its sinks whenever one of its nodes reports that entries are lost, until
/// no sink lacks anything. Real nodes with a full-sync do the same.
pub(super) async fn full_sync_after_losses(run_context: RunContext, mut link_tasks: Vec<LinkTask>) {
    let mut owing: BTreeSet<String> = BTreeSet::new();
    loop {
        sleep(LOOK_PAUSE).await;
        let machines = run_context.in_service();
        for machine in &machines {
            if machine.store().is_some_and(|store| store.source_queues().take_loss()) {
                run_context.trace.note(&machine.name, "may have lost entries");
                owing.insert(machine.name.clone());
            }
        }
        if owing.is_empty() {
            continue;
        }
        let mut lack_nothing = true;
        for way in &mut link_tasks {
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

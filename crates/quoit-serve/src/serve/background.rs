//! Background tasks of a node.

use quoit_core::ReplicatedStore;
use quoit_data_dir::{Reserve, engines};
use quoit_server::ServerContext;
use quoit_store::engine::WriteFailure;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Interval between checks whether the engine still takes writes.
const FAILURE_LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between checks whether large requests and answers have freed much memory.
const HEAP_LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Runs the background tasks until the node stops.
pub(super) async fn background(context: Arc<ServerContext>, reserve: Reserve) {
    let store = Arc::clone(&context.store);
    let sampling = Arc::clone(&store);
    let sample = async move {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            sampling.sample_figures();
        }
    };
    let watched = Arc::clone(&store);
    let watch = async move {
        let mut ticks = tokio::time::interval(FAILURE_LOOK_INTERVAL);
        let mut told = None;
        loop {
            ticks.tick().await;
            log_write_failure(&watched, &mut told);
        }
    };
    let give_back = async move {
        let mut ticks = tokio::time::interval(HEAP_LOOK_INTERVAL);
        loop {
            ticks.tick().await;
            if context.memory.has_freed_much() {
                // On a blocking thread, because it takes the locks of all heaps of the allocator in turn.
                tokio::task::spawn_blocking(quoit_heap::trim_heap);
            }
        }
    };
    tokio::join!(sample, watch, give_back, store.run_background(), reserve.keep());
}

/// Logs once that the engine takes no more writes, with the remedy, and again when the reason changes.
fn log_write_failure(store: &ReplicatedStore, told: &mut Option<WriteFailure>) {
    let failure = store.engine().stats().write_failure;
    if failure == *told {
        return;
    }
    if let Some(WriteFailure { directory, reason, is_damage }) = &failure {
        let remedy = match is_damage {
            true => engines::remedy(Path::new(directory), engines::is_in_cluster(store.control())),
            false => "restart the node when the disk is repaired".to_owned(),
        };
        tracing::error!("{directory} takes no more writes: {reason}; {remedy}");
    }
    *told = failure;
}

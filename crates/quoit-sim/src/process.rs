//! The process of a machine's node, from its start to its end.

use crate::boot::{self, NodeEnvironment};
use crate::machine::{Machine, MachineUse};
use crate::trace::Trace;
use quoit_cluster::{Departure, Readiness};
use quoit_core::ReplicatedStore;
use quoit_node::StopLimits;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Pause before a start is tried again.
const RESTART_PAUSE: Duration = Duration::from_millis(500);
/// Time limits of a node's shutdown.
const STOP_LIMITS: StopLimits =
    StopLimits { requests: Duration::from_secs(2), answers: Duration::from_secs(1) };

/// Runs a machine's node until the simulation ends the host: starts it, again if that fails, serves
/// clients, and shuts it down when it is told to stop or no longer belongs to its cluster.
pub(crate) async fn run_process(machine: &Machine, environment: &NodeEnvironment, trace: &Trace) {
    loop {
        match boot::start(machine, environment).await {
            Ok(node) => {
                let store = &node.store;
                trace.note(&machine.name, "serves");
                machine.note_running(Arc::clone(store));
                let background = tokio::spawn(Arc::clone(store).run_background());
                let ready = environment
                    .waits_for_time
                    .then(|| store.control().readiness(environment.seeds_of(machine)));
                let ready = async {
                    if let Some(readiness) = ready {
                        until_ready(machine, readiness, trace).await;
                    }
                };
                let serve = machine.serve(Arc::clone(store), Arc::clone(&node.internode), ready);
                let departure = tokio::select! {
                    biased;
                    departure = departure(store) => Some(departure),
                    () = machine.stopping() => None,
                    () = serve => return,
                };
                if let Some(departure) = &departure {
                    trace.note(&machine.name, &format!("goes: {departure}"));
                }
                machine.end_client_access();
                let clients = machine.drain(STOP_LIMITS.requests);
                node.finish(STOP_LIMITS, clients, &background.abort_handle()).await;
                if let Err(error) = node.close() {
                    trace.note(&machine.name, &format!("can't close its disk: {error}"));
                } else {
                    machine.note_closed();
                }
                if let Some(Departure::Clock { .. }) = departure {
                    machine.note_stopping();
                } else if departure.is_some() {
                    machine.set_machine_use(MachineUse::Retired);
                } else {
                    trace.note(&machine.name, "stopped");
                }
                pending::<()>().await;
            }
            Err(error) => trace.note(&machine.name, &format!("can't start: {error}")),
        }
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}

/// Waits until a node may serve clients.
async fn until_ready(machine: &Machine, mut readiness: watch::Receiver<Readiness>, trace: &Trace) {
    while *readiness.borrow_and_update() != Readiness::Serves {
        trace.note(&machine.name, "waits before it serves");
        if readiness.changed().await.is_err() {
            return;
        }
    }
}

/// Waits until a node has to stop by itself: it has left or was removed, or its clock is wrong.
async fn departure(store: &ReplicatedStore) -> Departure {
    let mut departure = store.control().departure();
    loop {
        if let Some(departure) = departure.borrow_and_update().clone() {
            return departure;
        }
        if departure.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}

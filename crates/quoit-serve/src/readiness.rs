//! Makes the node answer or refuse clients as the control plane decides, and informs the operator.

use anyhow::Result;
use quoit_cli::say;
use quoit_cluster::Readiness;
use quoit_server::ReadinessGate;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Time after which a node that does not serve clients yet announces this.
const WAITING_PATIENCE: Duration = Duration::from_secs(1);

/// Opens and closes the gate with each change of readiness, for ever. Calls `on_waiting` if the node does
/// not serve soon, and `on_serving` when it serves for the first time.
pub(crate) async fn maintain_gate(
    gate: &ReadinessGate,
    mut readiness: watch::Receiver<Readiness>,
    on_waiting: impl FnOnce(),
    on_serving: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if timeout(WAITING_PATIENCE, until_serving(gate, &mut readiness)).await.is_err() {
        on_waiting();
        until_serving(gate, &mut readiness).await;
    }
    on_serving()?;
    loop {
        next(gate, &mut readiness).await;
    }
}

async fn until_serving(gate: &ReadinessGate, readiness: &mut watch::Receiver<Readiness>) {
    set(gate, &readiness.borrow_and_update());
    while gate.refusal().is_some() {
        next(gate, readiness).await;
    }
}

async fn next(gate: &ReadinessGate, readiness: &mut watch::Receiver<Readiness>) {
    if readiness.changed().await.is_err() {
        // The control plane is gone, because the node is stopping.
        std::future::pending::<()>().await;
    }
    set(gate, &readiness.borrow());
}

/// Opens or closes the gate.
pub(crate) fn set(gate: &ReadinessGate, readiness: &Readiness) {
    match readiness {
        Readiness::Serves => gate.open(),
        Readiness::Undecided(reason) | Readiness::Waits(reason) => {
            gate.close(Arc::clone(reason));
        }
    }
}

/// Waits until the control plane has decided whether the node serves clients. Requests that arrive during a
/// start wait for this; otherwise they would fail at every restart.
pub(crate) async fn decided(gate: &ReadinessGate, mut readiness: watch::Receiver<Readiness>) {
    let is_decided = |readiness: &Readiness| !matches!(readiness, Readiness::Undecided(_));
    if readiness.wait_for(is_decided).await.is_err() {
        tracing::warn!("the control plane has ended before it was decided whether the node serves");
    }
    // The gate still refuses clients, so it is set before their connections are accepted.
    set(gate, &readiness.borrow());
}

/// Prints that a node does not serve clients yet, and how to inspect it.
pub(crate) fn announce_waiting(name: &str, http: &[SocketAddr]) {
    say!("{name} does not serve clients yet: the log says why");
    for http in http {
        say!("  look at it with   quoit admin --url http://{http} member-status");
    }
}

/// Warns about a node whose data directory was empty. A member that has lost its data looks like a new
/// node, and only the operator can tell the difference.
pub(crate) fn warn_of_new_cluster(name: &str, data_dir: &Path) {
    tracing::warn!(
        "{} was empty: {name} is a new node now, a cluster of its own, and serves clients as that. If it was \
         a member of a cluster before, it has lost its data, and no other node sees what is written here: \
         stop it, start it under another name with cluster.seeds, let it join, and `cluster force-replace \
         {name} NEW-NAME`. With cluster.seeds it would have waited",
        data_dir.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test(start_paused = true)]
    async fn clients_are_refused_until_the_node_serves_and_people_are_told_once() {
        let gate = ReadinessGate::default();
        let (tell, told) = watch::channel(Readiness::Waits("alone".into()));
        let (waiting, serving) = (Cell::new(0), Cell::new(0));
        let on_serving = || {
            serving.set(serving.get() + 1);
            Ok(())
        };
        let kept = maintain_gate(&gate, told, || waiting.set(waiting.get() + 1), on_serving);
        let script = async {
            tokio::time::sleep(WAITING_PATIENCE / 2).await;
            assert_eq!((gate.refusal().as_deref(), waiting.get()), (Some("alone"), 0));
            tokio::time::sleep(WAITING_PATIENCE).await;
            assert_eq!((waiting.get(), serving.get()), (1, 0));
            for turn in ["clock", "alone"] {
                tell.send_replace(Readiness::Serves);
                tokio::time::sleep(WAITING_PATIENCE).await;
                assert_eq!((gate.refusal(), waiting.get(), serving.get()), (None, 1, 1));
                tell.send_replace(Readiness::Waits(turn.into()));
                tokio::time::sleep(WAITING_PATIENCE).await;
                assert_eq!(gate.refusal().as_deref(), Some(turn));
            }
        };
        tokio::select! {
            ended = kept => panic!("it ended: {ended:?}"),
            () = script => {}
        }
    }
}

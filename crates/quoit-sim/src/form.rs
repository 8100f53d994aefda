//! Before the clients begin: nodes that run alone become one cluster, with the bucket types of the run.

use crate::boot::NODE_PORT;
use crate::check::Violation;
use crate::client::Ground;
use crate::finish::{answer, insist};
use crate::history::Policy;
use crate::machine::Machine;
use crate::names::{bucket_type, props};
use quoit_core::ReplicatedStore;
use std::sync::Arc;

/// Makes a cluster of all machines' nodes, and the bucket types.
///
/// # Errors
///
/// When a cluster in which nothing is wrong yet refuses.
pub async fn form(ground: &Ground) -> Result<(), Violation> {
    let first = &ground.machines[0];
    for machine in &ground.machines[1..] {
        let address = format!("{}:{NODE_PORT}", first.name);
        let join = || join(machine, address.clone());
        insist(ground, &format!("join of {}", machine.name), join).await?;
    }
    if ground.machines.len() > 1 {
        insist(ground, "commit of the joins", || commit(first)).await?;
    }
    for machine in ground.machines.iter() {
        let report = || report_copies(machine, ground.machines.len());
        insist(ground, &format!("report of {}", machine.name), report).await?;
    }
    for machine in ground.machines.iter() {
        insist(ground, &format!("settling of {}", machine.name), || settle(machine)).await?;
    }
    for policy in Policy::ALL {
        let create = || create_type(first, policy);
        insist(ground, &format!("create {policy:?}"), create).await?;
    }
    Ok(())
}

async fn join(machine: &Machine, address: String) -> Result<(), String> {
    answer(machine.ask(|store| async move { store.control().join(&address).await }).await)
}

async fn commit(machine: &Machine) -> Result<(), String> {
    let commit = |store: Arc<ReplicatedStore>| async move {
        store.control().plan().map_err(|error| error.to_string())?;
        store.control().commit_staged(None).await.map_err(|error| error.to_string())
    };
    answer(machine.ask(commit).await)
}

/// Tells the cluster that a node has everything that was stored so far: nothing.
async fn report_copies(machine: &Machine, machine_count: usize) -> Result<(), String> {
    let report = move |store: Arc<ReplicatedStore>| async move {
        let control = store.control();
        let (layouts, own) = (control.read().layouts().clone(), control.read().node_id());
        if layouts.newest().nodes().len() != machine_count {
            return Err("the layout is not known yet".to_owned());
        }
        let missing = layouts.incomplete().filter(|(_, node)| *node == own);
        let missing: Vec<_> = missing.map(|(partition, _)| partition).collect();
        if missing.is_empty() {
            return Ok(());
        }
        control.report_moved(&missing).await.map_err(|error| error.to_string())
    };
    answer(machine.ask(report).await)
}

/// Whether a node knows that the cluster is as it shall be.
async fn settle(machine: &Machine) -> Result<(), String> {
    let settle = |store: Arc<ReplicatedStore>| async move {
        let is_moving = store.control().read().layouts().is_moving();
        if is_moving { Err("partitions move".to_owned()) } else { Ok(()) }
    };
    answer(machine.ask(settle).await)
}

async fn create_type(machine: &Machine, policy: Policy) -> Result<(), String> {
    let create = move |store: Arc<ReplicatedStore>| async move {
        let (control, name) = (store.control(), bucket_type(policy).as_bytes());
        control.create_type(name, &props(policy)).await?;
        control.activate_type(name).await
    };
    answer(machine.ask(create).await)
}

//! Forms the cluster before the clients begin: the nodes start alone, join one cluster and create the
//! bucket types of the run.

use crate::boot::NODE_PORT;
use crate::finish::{answer, retry_until_success};
use crate::machine::Machine;
use crate::names::{bucket_type, props};
use crate::policy::Policy;
use crate::run_context::RunContext;
use crate::violation::Violation;
use quoit_core::ReplicatedStore;
use quoit_model::props::PropUpdates;
use std::sync::Arc;

/// Makes one cluster of the nodes of all machines in service, and creates the bucket types.
///
/// # Errors
///
/// When a step does not succeed in time, although no fault has happened yet.
pub async fn form_cluster(run_context: &RunContext) -> Result<(), Violation> {
    let machines = run_context.in_service();
    let first = &machines[0];
    for machine in &machines[1..] {
        let address = format!("{}:{NODE_PORT}", first.name);
        let join = || join(machine, address.clone());
        retry_until_success(run_context, &format!("join of {}", machine.name), join).await?;
    }
    if machines.len() > 1 {
        retry_until_success(run_context, "commit of the joins", || commit(first)).await?;
    }
    for machine in &machines {
        let settle = || settle(machine, machines.len());
        retry_until_success(run_context, &format!("settling of {}", machine.name), settle).await?;
    }
    for policy in Policy::TYPED {
        let props = {
            let history = run_context.history.lock();
            props(policy, history.replica_counts.initial(policy), history.ttl_secs(policy))
        };
        let create = || create_type(first, policy, props.clone());
        retry_until_success(run_context, &format!("create {policy:?}"), create).await?;
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

/// Succeeds when a node knows that all machines are members and no partition moves.
async fn settle(machine: &Machine, machine_count: usize) -> Result<(), String> {
    let settle = move |store: Arc<ReplicatedStore>| async move {
        let state = store.control().read();
        let layouts = state.layouts();
        match layouts.newest().nodes().len() == machine_count && !layouts.is_moving() {
            true => Ok(()),
            false => Err("partitions move".to_owned()),
        }
    };
    answer(machine.ask(settle).await)
}

async fn create_type(machine: &Machine, policy: Policy, props: PropUpdates) -> Result<(), String> {
    let create = move |store: Arc<ReplicatedStore>| async move {
        let (control, name) = (store.control(), bucket_type(policy).as_bytes());
        control.create_type(name, &props).await?;
        control.activate_type(name).await
    };
    answer(machine.ask(create).await)
}

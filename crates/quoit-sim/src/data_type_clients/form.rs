//! Creates the bucket types of data types before the clients begin.

use crate::data_types::Kind;
use crate::finish::{answer, insist};
use crate::machine::Machine;
use crate::run_context::RunContext;
use crate::violation::Violation;
use quoit_core::ReplicatedStore;
use std::sync::Arc;

/// Creates the bucket types.
///
/// # Errors
///
/// When a request does not succeed in time, although no fault has happened yet.
pub async fn create_types(ground: &RunContext) -> Result<(), Violation> {
    let machines = ground.in_service();
    for kind in Kind::ALL {
        let create = || create_type(&machines[0], kind);
        insist(ground, &format!("create {kind:?}"), create).await?;
    }
    Ok(())
}

async fn create_type(machine: &Machine, kind: Kind) -> Result<(), String> {
    let create = move |store: Arc<ReplicatedStore>| async move {
        let (control, name) = (store.control(), kind.bucket_type().as_bytes());
        control.create_type(name, &kind.props()).await?;
        control.activate_type(name).await
    };
    answer(machine.ask(create).await)
}

//! Creates the bucket types of data types before the clients begin.

use crate::data_types::RecordKind;
use crate::finish::{answer, retry_until_success};
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
pub async fn create_types(run_context: &RunContext) -> Result<(), Violation> {
    let machines = run_context.in_service();
    for kind in RecordKind::ALL {
        let create = || create_type(&machines[0], kind);
        retry_until_success(run_context, &format!("create {kind:?}"), create).await?;
    }
    Ok(())
}

async fn create_type(machine: &Machine, kind: RecordKind) -> Result<(), String> {
    let create = move |store: Arc<ReplicatedStore>| async move {
        let (control, name) = (store.control(), kind.bucket_type().as_bytes());
        control.create_type(name, &kind.props()).await?;
        control.activate_type(name).await
    };
    answer(machine.ask(create).await)
}

//! Runs with programs of two versions, until the operator has upgraded all machines.
//!
//! Data types stand for all features that an older node would misunderstand. Their bucket type must not
//! become active before every member speaks the newer version of the internode protocol, and it must
//! become active afterwards.

use crate::faults::{MachineFault as FaultKind, PlannedFault};
use crate::finish::{answer, retry_until_success};
use crate::machine::Machine;
use crate::random::Random;
use crate::run_context::RunContext;
use crate::versions::{NEWER, OLDER};
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::NodeId;
use quoit_core::ReplicatedStore;
use quoit_model::props::PropUpdates;
use serde_json::json;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Percentage of machines that run the older program at first.
const OLD_PERCENT: u64 = 60;
/// Range of the times of upgrades, in simulated microseconds after the clients' start.
const UPGRADES_US: Range<u64> = 2_000_000..18_000_000;
/// Range of the pauses between two attempts to activate the type, in microseconds.
const TRY_US: Range<u64> = 200_000..1_500_000;
/// Name of a bucket type that needs the newer version.
const TYPE_NAME: &[u8] = b"counters";

/// Installs the older program on some of the machines, and plans their upgrades.
pub fn plan_upgrades(seed: u64, machines: &[Arc<Machine>]) -> Vec<PlannedFault> {
    let mut random = Random::new(seed, "upgrades", 0);
    let mut planned = Vec::new();
    for machine in machines {
        let (is_old, at_us) = (random.percent(OLD_PERCENT), random.within(UPGRADES_US));
        if is_old {
            machine.set_versions(OLDER);
            planned.push(PlannedFault { at_us, fault: FaultKind::Upgrade(machine.index) });
        }
    }
    planned
}

/// Tries to activate the bucket type again and again while clients work.
///
/// # Errors
///
/// When the type becomes active although a member does not know it.
pub async fn try_new_things(
    seed: u64,
    run_context: RunContext,
    are_clients_working: impl Fn() -> bool,
) -> Result<(), Violation> {
    let mut random = Random::new(seed, "upgrades", 1);
    while are_clients_working() {
        sleep(Duration::from_micros(random.within(TRY_US))).await;
        let machines = run_context.in_service();
        let machine = random.pick(&machines);
        let said = activate(machine).await;
        let text = said.as_ref().err().map_or("done", |failure| failure);
        run_context
            .trace
            .note("upgrade", &format!("{}: activate counters -> {text}", machine.name));
        if let Ok(members) = said {
            check_versions(&run_context, &members)?;
        }
    }
    Ok(())
}

/// Waits until the bucket type becomes active, after all machines are upgraded.
///
/// # Errors
///
/// When it still does not become active after 30 s, or a member does not know it.
pub async fn use_new_things(run_context: &RunContext) -> Result<(), Violation> {
    let machines = run_context.in_service();
    let members =
        retry_until_success(run_context, "activate counters", || activate(&machines[0])).await?;
    check_versions(run_context, &members)
}

/// Activates the type at a node, and returns the members that the node knows.
async fn activate(machine: &Machine) -> Result<Vec<NodeId>, String> {
    let activate = |store: Arc<ReplicatedStore>| async move {
        let control = store.control();
        let props = json!({ "datatype": "counter", "allow_mult": true });
        let props = PropUpdates::from(props.as_object().cloned().unwrap_or_default());
        // An active type can't be created again. If it can't be created for another reason, the
        // activation fails.
        let _ = control.create_type(TYPE_NAME, &props).await;
        control.activate_type(TYPE_NAME).await?;
        Ok::<_, quoit_cluster::ChangeError>(
            control.read().members().iter().map(|member| member.id).collect(),
        )
    };
    answer(machine.ask(activate).await)
}

fn check_versions(run_context: &RunContext, members: &[NodeId]) -> Result<(), Violation> {
    let old = run_context.machines.iter().find(|machine| {
        let is_member = members.contains(&Machine::node_id_at(machine.index));
        is_member && machine.versions() != NEWER
    });
    let Some(old) = old else { return Ok(()) };
    let text = format!("a data type may be used, and {} does not know what that is", old.name);
    Err(Violation::new(ViolationKind::TooNew, text))
}

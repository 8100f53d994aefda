//! Membership changes: staging, planning and committing.

use super::links::join_proof;
use crate::admin::{RequestBody, allow, error, no_such_path, refusal};
use crate::http::{HttpConnection, Method, Refusal, Request};
use quoit_cluster::{ControlPlane, JoinError, MembershipError, NodeId, Plan, StagedChange};
use quoit_core::{PlanEstimate, TransferEstimate};
use serde_json::{Value, json};
use std::sync::Arc;

impl HttpConnection {
    /// Executes a change below `/admin/v1/cluster`.
    pub(super) async fn change_cluster(
        &self,
        request: &Request,
        method: Method,
        command: &[u8],
    ) -> Result<Value, Refusal> {
        allow(method, &[Method::Post])?;
        let asked = RequestBody::read(request)?;
        let control = self.context.store.control();
        let own_name = &self.context.node_name;
        match command {
            b"join" => {
                let address = asked.text("address")?;
                let proof = join_proof(control, &asked)?;
                let joined = control.join_by(&address, proof.as_ref()).await;
                joined.map_err(|fault| join_refusal(&fault))?;
                let message = format!("Success: staged join request for {own_name} to {address}");
                Ok(json!({"action": "join", "node": own_name, "message": message}))
            }
            b"commit" => {
                let shown = asked.plan()?;
                control.commit_staged(shown).await.map_err(|fault| refusal(&fault))?;
                Ok(json!({"message": "Cluster changes committed"}))
            }
            b"down" => {
                let name = asked.text("node")?;
                let node = member(control, &name)?;
                control.mark_down(node).await.map_err(|fault| refusal(&fault))?;
                let message = format!("Success: {name} marked as down");
                Ok(json!({"node": name, "message": message}))
            }
            command => {
                let (change, message) = staged(control, &asked, own_name, command)?;
                control.stage(&change).await.map_err(|fault| refusal(&fault))?;
                let node = control.read().members().name_of(change.node()).to_string();
                Ok(json!({"action": change.action(), "node": node, "message": message}))
            }
        }
    }

    /// Shows or discards the staged changes.
    pub(super) async fn plan(&self, method: Method) -> Result<Value, Refusal> {
        allow(method, &[Method::Get, Method::Head, Method::Delete])?;
        let control = self.context.store.control();
        if method == Method::Delete {
            control.clear_staged().await.map_err(|fault| refusal(&fault))?;
            return Ok(json!({"message": "Cleared staged cluster changes"}));
        }
        match control.plan() {
            Ok(plan) => {
                let estimate = self.context.store.transfers().estimate(&plan).await;
                Ok(plan_json(control, &plan, &estimate))
            }
            Err(MembershipError::NothingStaged) => Ok(json!({"staged": []})),
            Err(fault) => Err(refusal(&fault.into())),
        }
    }
}

fn member(control: &ControlPlane, name: &str) -> Result<NodeId, Refusal> {
    control.member_named(name).map_err(|fault| refusal(&fault.into()))
}

/// The change that a command stages, and the message for the operator.
fn staged(
    control: &ControlPlane,
    asked: &RequestBody,
    own_name: &str,
    command: &[u8],
) -> Result<(StagedChange, String), Refusal> {
    let named = |name: &str| member(control, name);
    let node_or_own = || asked.given("node").unwrap_or_else(|| own_name.to_owned());
    Ok(match command {
        b"leave" => {
            let name = node_or_own();
            let message = format!("Success: staged leave request for {name}");
            (StagedChange::Leave { node: named(&name)? }, message)
        }
        b"force-remove" => {
            let name = asked.text("node")?;
            let message = format!("Success: staged remove request for {name}");
            (StagedChange::ForceRemove { node: named(&name)? }, message)
        }
        b"replace" => {
            let (old, new) = (asked.text("old")?, asked.text("new")?);
            let message = format!("Success: staged replacement of {old} with {new}");
            (StagedChange::Replace { old: named(&old)?, new: named(&new)? }, message)
        }
        b"force-replace" => {
            let (old, new) = (asked.text("old")?, asked.text("new")?);
            let message = format!("Success: staged forced replacement of {old} with {new}");
            (StagedChange::ForceReplace { old: named(&old)?, new: named(&new)? }, message)
        }
        b"location" => {
            let (name, location) = (node_or_own(), asked.given("location"));
            let shown = location.as_deref().unwrap_or("undefined");
            let message = format!("Success: staged changing location of node {name} to {shown}");
            let location: Option<Arc<str>> = location.map(Into::into);
            (StagedChange::Location { node: named(&name)?, location }, message)
        }
        b"capacity" => {
            let (name, capacity) = (node_or_own(), asked.capacity()?);
            let message = format!("Success: staged changing capacity of node {name} to {capacity}");
            (StagedChange::Capacity { node: named(&name)?, capacity }, message)
        }
        _ => return Err(no_such_path()),
    })
}

fn plan_json(control: &ControlPlane, plan: &Plan, estimate: &PlanEstimate) -> Value {
    let state = control.read();
    let names = state.members();
    let staged = plan
        .staged
        .iter()
        .map(|change| json!({"action": change.action(), "details": change.details(names)}));
    let lost = plan
        .lost
        .iter()
        .map(|id| format!("All of the replicas on {} will be lost", names.name_of(*id)));
    let mut planned: Vec<_> = plan.members.iter().collect();
    planned.sort_by(|one, other| one.member.name.cmp(&other.member.name));
    let members = planned.into_iter().map(|planned| {
        let member = &planned.member;
        json!({
            "name": &*member.name,
            "status": member.status_word(),
            "ring_percent": hundredths(planned.percent_now),
            "pending_percent": hundredths(planned.percent_then),
            "location": member.location.as_deref(),
            "capacity": member.capacity,
        })
    });
    let transfers = estimate.transfers.iter().map(|each| {
        let TransferEstimate { transfer, byte_count, secs } = each;
        json!({
            "from": &*names.name_of(transfer.from),
            "to": &*names.name_of(transfer.to),
            "partitions": transfer.partition_count,
            "has_source": transfer.has_source,
            "bytes": byte_count,
            "secs": secs.map(hundredths),
        })
    });
    let transition = json!({
        "members": members.collect::<Vec<_>>(),
        "warnings": plan.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "reassigned": plan.partition_count,
        "transfers": transfers.collect::<Vec<_>>(),
        "bytes": estimate.byte_count,
        "secs": estimate.secs.map(hundredths),
    });
    json!({
        "plan": plan.id.to_string(),
        "staged": staged.collect::<Vec<_>>(),
        "warnings": lost.collect::<Vec<_>>(),
        "transitions": [transition],
    })
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

fn join_refusal(fault: &JoinError) -> Refusal {
    let (status, word) = match fault {
        JoinError::AlreadyMember { .. } => (409, "already_member"),
        JoinError::HasStaged { .. } => (409, "has_staged"),
        JoinError::Itself { .. } => (409, "itself"),
        JoinError::NotListening => (409, "not_listening"),
        JoinError::Unreachable { .. } => (502, "unreachable"),
        JoinError::Refused { .. } => (409, "refused"),
        JoinError::Malformed { .. } => (502, "malformed"),
        JoinError::ProofRefused { .. } => (409, "proof_refused"),
        JoinError::PlainMode => (409, "plain_mode"),
        JoinError::KeyFile { .. } | JoinError::Trust(_) => (500, "internal"),
        JoinError::Store(_) => (500, "internal"),
        JoinError::Change(fault) => return refusal(fault),
    };
    error(status, word, &fault.to_string())
}

//! Members, partitions and what moves.

mod view;

use super::{allow, error, no_such_path};
use crate::context::ServerContext;
use crate::http::{Connection, Method, Refusal, query_value};
use quoit_cluster::{Member, State};
use quoit_model::hash::Partition;
use serde_json::{Value, json};
use std::sync::Arc;
use view::{ClusterView, MemberView};

/// What a node that serves has.
const SERVICES: [&str; 1] = ["riak_kv"];

impl Connection {
    /// Answers a request below `/admin/v1/cluster`.
    pub(super) fn cluster(
        &self,
        method: Method,
        names: &[&[u8]],
        query: &[u8],
    ) -> Result<Value, Refusal> {
        allow(method, &[Method::Get, Method::Head])?;
        let view = view(&self.context);
        match names {
            [] => Ok(view.members()),
            [b"ring"] => Ok(view.ring()),
            [b"ring-ready"] => Ok(view.ring_ready()),
            [b"partitions"] => {
                let member = named(&view, query)?;
                let own = || view.named(&self.context.node_name);
                let member = member.or_else(own).ok_or_else(|| no_such_node("this node"))?;
                Ok(view.partitions(member))
            }
            [b"partition"] => partition(&view, query),
            [b"partition-count"] => Ok(view.partition_count(named(&view, query)?)),
            _ => Err(no_such_path()),
        }
    }

    /// The services of this node or another.
    pub(super) fn services(&self, query: &[u8]) -> Result<Value, Refusal> {
        let view = view(&self.context);
        let member = named(&view, query)?;
        let services = match member {
            Some(member) if !member.is_up => &[][..],
            _ => &SERVICES[..],
        };
        let node = member.map_or(&self.context.node_name, |member| &member.name);
        Ok(json!({"node": node, "services": services}))
    }
}

/// What this node knows.
fn view(context: &ServerContext) -> ClusterView {
    let state = context.store.control().read();
    let mut members: Vec<_> = state.members().iter().map(|each| member(&state, each)).collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    let live = state.layouts().live();
    let next = (live.len() > 1).then(|| Arc::clone(state.layouts().newest()));
    ClusterView {
        cluster_id: state.cluster_id().to_string(),
        claimant: Some(state.node_id()),
        members,
        current: Arc::clone(&live[0]),
        next,
        disagreement: None,
    }
}

fn member(state: &State, member: &Member) -> MemberView {
    let addresses = &member.addresses;
    MemberView {
        id: member.id,
        name: member.name.to_string(),
        status: member.status.as_str(),
        is_up: member.id == state.node_id(),
        location: member.location.as_deref().map(str::to_owned),
        capacity: member.capacity,
        addresses: [&addresses.node, &addresses.pb, &addresses.http].map(ToString::to_string),
    }
}

/// The member that a query names, if it names one.
fn named<'v>(view: &'v ClusterView, query: &[u8]) -> Result<Option<&'v MemberView>, Refusal> {
    let Some(name) = query_value(query, "node") else { return Ok(None) };
    let name = String::from_utf8_lossy(&name);
    match view.named(&name) {
        Some(member) => Ok(Some(member)),
        None => Err(no_such_node(&name)),
    }
}

fn no_such_node(name: &str) -> Refusal {
    error(404, "no_node", &format!("{name} is not a member of the cluster"))
}

/// The partition that a query names by number or by index.
fn partition(view: &ClusterView, query: &[u8]) -> Result<Value, Refusal> {
    let text =
        |name| query_value(query, name).map(|value| String::from_utf8_lossy(&value).into_owned());
    let (given, found) = match (text("id"), text("index")) {
        (Some(id), _) => {
            let found = id.parse().ok().map(Partition);
            (id, found)
        }
        (None, Some(index)) => {
            let found = view.of_index(&index);
            (index, found)
        }
        (None, None) => {
            let message = "name a partition: ?id=N or ?index=N";
            return Err(error(400, "no_partition", message));
        }
    };
    found.and_then(|partition| view.partition(partition)).ok_or_else(|| {
        let count = view.current.ring_size().get();
        let message = format!("{given} is none of the {count} partitions");
        error(404, "no_partition", &message)
    })
}

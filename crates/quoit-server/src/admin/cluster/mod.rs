//! Members, partitions and transfers in the administration API.

mod changes;
mod links;
mod overview;
mod replication_links;
mod transfers;
mod view;

use super::{allow, error, no_such_path};
use crate::context::ServerContext;
use crate::http::{HttpConnection, Method, Refusal, Request, query_value};
pub(crate) use links::shown as shown_links;
use quoit_cluster::{ControlPlane, Member, NodeId};
use quoit_model::hash::Partition;
use serde_json::{Value, json};
use std::sync::Arc;
use view::{ClusterView, MemberView};

/// Commands that change the membership.
const CHANGES: [&[u8]; 9] = [
    b"join",
    b"leave",
    b"force-remove",
    b"replace",
    b"force-replace",
    b"location",
    b"capacity",
    b"commit",
    b"down",
];

/// Services of a node that serves clients. They are always up together.
const SERVICES: [&str; 2] = ["riak_kv", "riak_pipe"];

impl HttpConnection {
    /// Answers a request below `/admin/v1/cluster`.
    pub(super) async fn cluster(
        &self,
        request: &Request,
        method: Method,
        names: &[&[u8]],
        query: &[u8],
    ) -> Result<Value, Refusal> {
        match names {
            [b"plan"] => return self.plan(method).await,
            [b"tls", rest @ ..] => return self.links(request, method, rest).await,
            [command] if CHANGES.contains(command) => {
                return self.change_cluster(request, method, command).await;
            }
            _ => allow(method, &[Method::Get, Method::Head])?,
        }
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

    /// Answers with the services of this node or of another member.
    pub(super) fn services(&self, query: &[u8]) -> Result<Value, Refusal> {
        let view = view(&self.context);
        let member = named(&view, query)?;
        let own_name = &self.context.node_name;
        let is_ready = self.context.readiness.refusal().is_none();
        let services = if serves(own_name, is_ready, member) { &SERVICES[..] } else { &[] };
        let node = member.map_or(own_name, |member| &member.name);
        Ok(json!({"node": node, "services": services}))
    }
}

/// True if the services of a member, or of this node if none is named, are up: this node's if it is ready
/// for clients, another member's if it can be reached.
fn serves(own_name: &str, is_ready: bool, member: Option<&MemberView>) -> bool {
    match member.filter(|member| member.name != own_name) {
        Some(other) => other.is_up,
        None => is_ready,
    }
}

/// The cluster as this node knows it.
fn view(context: &ServerContext) -> ClusterView {
    let control = context.store.control();
    let state = control.read();
    let members = state.members().iter().map(|each| member(control, each));
    let mut members: Vec<MemberView> = members.collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    let removed = state.members().removed().map(|(id, name)| (id, Arc::clone(name)));
    let layouts = state.layouts();
    let newest = layouts.newest();
    // The only node of a cluster is the claimant, even before the control plane has a leader.
    let alone = (members.len() == 1).then(|| state.node_id());
    let claimant = control.claimant().or(alone);
    let behind: Vec<&MemberView> =
        members.iter().filter(|member| state.is_behind(member.id)).collect();
    ClusterView {
        cluster_id: state.cluster_id().to_string(),
        claimant,
        disagreement: disagreement(claimant, &members, &behind),
        current: Arc::clone(layouts.oldest()),
        next: layouts.is_moving().then(|| Arc::clone(newest)),
        n_val_max: state.placements().iter().map(|each| each.n_val).max().unwrap_or(1),
        incomplete: layouts.incomplete().collect(),
        removed: removed.collect(),
        members,
    }
}

/// The reason why the members may disagree; `None` if they agree.
fn disagreement(
    claimant: Option<NodeId>,
    members: &[MemberView],
    behind: &[&MemberView],
) -> Option<String> {
    let list = |members: &mut dyn Iterator<Item = &MemberView>| {
        let names: Vec<_> = members.map(|member| format!("'{}'", member.name)).collect();
        (!names.is_empty()).then(|| format!("[{}]", names.join(",")))
    };
    let away = |member: &&MemberView| !member.is_up && member.status != "down";
    if let Some(away) = list(&mut members.iter().filter(away)) {
        return Some(format!("{away} down. All nodes need to be up to check."));
    }
    if claimant.is_none() {
        return Some("no claimant: a majority of the nodes that vote can't be reached".to_owned());
    }
    let behind = list(&mut behind.iter().copied())?;
    Some(format!("{behind} do not serve by the newest layout yet"))
}

fn member(control: &ControlPlane, member: &Member) -> MemberView {
    let addresses = &member.addresses;
    MemberView {
        id: member.id,
        name: member.name.to_string(),
        status: member.status_word(),
        membership: member.status.as_str(),
        is_up: control.is_reachable(member.id),
        location: member.location.as_deref().map(str::to_owned),
        capacity: member.capacity,
        versions: [member.versions.min, member.versions.max],
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
        let message = format!("{given} is not one of the {count} partitions");
        error(404, "no_partition", &message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_this_node_is_ready_says_nothing_about_other_members() {
        let view = view::tests::view();
        let serves = |is_ready, name| serves("n1@h", is_ready, view.named(name));
        assert!(serves(false, "n2@h") && serves(true, "n2@h"));
        assert!(!serves(false, "n3@h") && !serves(true, "n3@h"), "it can't be reached");
        for own in ["n1@h", "none"] {
            assert!(serves(true, own) && !serves(false, own), "{own}");
        }
    }
}

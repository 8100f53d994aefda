//! The cluster as this node knows it, in the form for operators: members, partitions and pending transfers.

use quoit_model::hash::{Partition, RingSize};
use quoit_model::layout::{Layout, Movement, Transfer};
use quoit_model::node::NodeId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MemberView {
    pub(super) id: NodeId,
    pub(super) name: String,
    /// `joining`, `valid`, `leaving`, `exiting` or `down`.
    pub(super) status: &'static str,
    /// The status as if the member were not marked as down.
    pub(super) membership: &'static str,
    /// True if this node can reach the member.
    pub(super) is_up: bool,
    pub(super) location: Option<String>,
    pub(super) capacity: u32,
    /// The oldest and the newest version of the internode protocol that the member supports.
    pub(super) versions: [u32; 2],
    /// Addresses for other nodes, for Protocol Buffers and for HTTP.
    pub(super) addresses: [String; 3],
}

/// A cluster as one node knows it.
#[derive(Clone, Debug)]
pub(super) struct ClusterView {
    pub(super) cluster_id: String,
    /// Member that decides on changes; `None` if none is known.
    pub(super) claimant: Option<NodeId>,
    /// Sorted by name.
    pub(super) members: Vec<MemberView>,
    /// Removed nodes that layouts may still name, with their last names.
    pub(super) removed: BTreeMap<NodeId, Arc<str>>,
    /// The layout that is complete.
    pub(super) current: Arc<Layout>,
    /// The layout to which data is being transferred, if there is one.
    pub(super) next: Option<Arc<Layout>>,
    /// The largest `n_val` of any bucket: the number of copies of each partition to transfer.
    pub(super) n_val_max: u32,
    /// Copies of partitions that are not complete yet.
    pub(super) incomplete: BTreeSet<(Partition, NodeId)>,
    /// The reason why the members may disagree; `None` if they agree.
    pub(super) disagreement: Option<String>,
}

impl MemberView {
    /// The reachability of the member, with `!` if it contradicts the member's status.
    fn availability(&self) -> &'static str {
        match (self.is_up, self.status == "down") {
            (true, false) => "up",
            (true, true) => "up!",
            (false, true) => "down",
            (false, false) => "down!",
        }
    }
}

impl ClusterView {
    fn member(&self, id: NodeId) -> Option<&MemberView> {
        self.members.iter().find(|member| member.id == id)
    }

    /// The name of a node, with a note if it was removed; its id if no name is known.
    pub(super) fn name(&self, id: NodeId) -> String {
        if let Some(member) = self.member(id) {
            return member.name.clone();
        }
        match self.removed.get(&id).filter(|name| !name.is_empty()) {
            Some(name) => format!("{name} (removed)"),
            None => format!("removed node {id}"),
        }
    }

    /// True if a node that layouts name is not a member any more, so that it hands over nothing itself.
    pub(super) fn is_removed(&self, id: NodeId) -> bool {
        self.member(id).is_none()
    }

    pub(super) fn named(&self, name: &str) -> Option<&MemberView> {
        self.members.iter().find(|member| member.name == name)
    }

    /// The members with their shares of the partitions.
    pub(super) fn members(&self) -> Value {
        let members = self.members.iter().map(|member| self.member_json(member));
        json!({
            "cluster_id": self.cluster_id,
            "claimant": self.claimant.map(|id| self.name(id)),
            "ring_ready": self.disagreement.is_none(),
            "ring_size": self.current.ring_size().get(),
            "layout_version": self.next.as_ref().unwrap_or(&self.current).version(),
            "members": members.collect::<Vec<_>>(),
        })
    }

    fn member_json(&self, member: &MemberView) -> Value {
        let [node, pb, http] = &member.addresses;
        json!({
            "name": member.name,
            "id": member.id.to_string(),
            "status": member.status,
            "membership": member.membership,
            "availability": member.availability(),
            "location": member.location,
            "capacity": member.capacity,
            "protocol_versions": member.versions,
            "ring_percent": share(&self.current, member.id),
            "pending_percent": self.next.as_ref().map(|next| share(next, member.id)),
            "addresses": {"node": node, "pb": pb, "http": http},
        })
    }

    /// The claimant, the pending transfers, and the members that can't be reached.
    pub(super) fn ring(&self) -> Value {
        let claimant = self.claimant.and_then(|id| self.member(id));
        let is_up = claimant.is_some_and(|member| member.is_up);
        let unreachable = self.members.iter().filter(|member| !member.is_up);
        let unreachable: Vec<_> = unreachable.map(|member| &member.name).collect();
        json!({
            "claimant": {
                "name": claimant.map(|member| &member.name),
                "status": if is_up { "up" } else { "down" },
            },
            "ring_ready": self.disagreement.is_none(),
            "pending": self.pending(),
            "unreachable": unreachable,
        })
    }

    /// The transfers to the next layout, sorted by sender and receiver.
    pub(super) fn moves(&self) -> Vec<Transfer> {
        let Some(next) = &self.next else { return Vec::new() };
        let mut moves = Movement::between(&self.current, next, self.n_val_max).transfers;
        moves.sort_by_key(|each| (each.from, each.to, each.partition));
        moves
    }

    pub(super) fn is_complete(&self, each: &Transfer) -> bool {
        !self.incomplete.contains(&(each.partition, each.to))
    }

    /// The transfers to the next layout, grouped by sender and receiver.
    #[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
    fn pending(&self) -> Vec<Value> {
        let moves = self.moves();
        let pairs = moves.chunk_by(|one, other| (one.from, one.to) == (other.from, other.to));
        let pair = |moves: &[Transfer]| {
            let first = moves.first()?;
            let partitions = moves.iter().map(|each| {
                let mut told = self.partition_json(each.partition);
                told["complete"] = self.is_complete(each).into();
                told
            });
            Some(json!({
                "owner": self.name(first.from),
                "next_owner": self.name(first.to),
                "partitions": partitions.collect::<Vec<_>>(),
            }))
        };
        pairs.filter_map(pair).collect()
    }

    pub(super) fn partition_json(&self, partition: Partition) -> Value {
        json!({"id": partition.0, "index": partition.index_decimal(self.ring_size())})
    }

    fn ring_size(&self) -> RingSize {
        self.current.ring_size()
    }

    /// The agreement of the members.
    pub(super) fn ring_ready(&self) -> Value {
        let nodes: Vec<_> = self.members.iter().map(|member| &member.name).collect();
        json!({
            "ready": self.disagreement.is_none(),
            "nodes": nodes,
            "reason": self.disagreement,
        })
    }

    /// The partitions of which a member holds a copy.
    #[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
    pub(super) fn partitions(&self, member: &MemberView) -> Value {
        let partitions = self.held(member.id).into_iter().map(|partition| {
            let mut told = self.partition_json(partition);
            told["type"] = "primary".into();
            told
        });
        json!({"node": member.name, "partitions": partitions.collect::<Vec<_>>()})
    }

    pub(super) fn held(&self, id: NodeId) -> Vec<Partition> {
        let Some(node) = self.current.node_index(id) else { return Vec::new() };
        let holds = |partition: &Partition| self.current.balanced(*partition).contains(&node);
        self.current.partitions().filter(holds).collect()
    }

    /// One partition; `None` if its number is too large.
    #[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
    pub(super) fn partition(&self, partition: Partition) -> Option<Value> {
        if partition.0 >= self.ring_size().get() {
            return None;
        }
        let primaries = self.current.balanced(partition).iter();
        let names: Vec<_> = primaries.map(|node| self.name(self.current.node_at(*node))).collect();
        let mut told = self.partition_json(partition);
        told["owner"] = names.first().cloned().into();
        told["primaries"] = names.into();
        Some(told)
    }

    /// The partition with an index, as operators see it.
    pub(super) fn of_index(&self, index: &str) -> Option<Partition> {
        let mut partitions = self.current.partitions();
        partitions.find(|partition| partition.index_decimal(self.ring_size()) == index)
    }

    /// The number of partitions, in total or of a member.
    pub(super) fn partition_count(&self, member: Option<&MemberView>) -> Value {
        match member {
            None => json!({"ring_size": self.ring_size().get()}),
            Some(member) => json!({
                "ring_size": self.ring_size().get(),
                "node": member.name,
                "partitions": self.held(member.id).len(),
                "percent": share(&self.current, member.id),
            }),
        }
    }
}

/// A node's share of all copies in percent, rounded to hundredths.
fn share(layout: &Layout, id: NodeId) -> f64 {
    let shares = layout.shares();
    let percent = shares.iter().find(|share| share.node == id).map_or(0.0, |share| share.percent);
    (percent * 100.0).round() / 100.0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use quoit_model::layout::{LayoutMember, LayoutRequest};

    fn member(number: u8, status: &'static str, is_up: bool) -> MemberView {
        MemberView {
            id: NodeId([number; 16]),
            name: format!("n{number}@h"),
            status,
            membership: status,
            is_up,
            location: None,
            capacity: 100,
            versions: [1, 2],
            addresses: ["h:1", "h:2", "h:3"].map(str::to_owned),
        }
    }

    /// Three nodes and a fourth one that is joining. The third node can't be reached.
    pub(in super::super) fn view() -> ClusterView {
        let ids = |count: u8| (1..=count).map(|n| LayoutMember::new(NodeId([n; 16])));
        let alone = Layout::single(NodeId([1; 16]), RingSize::new(8).unwrap());
        let of = |before: &Layout, count| {
            let members: Vec<_> = ids(count).collect();
            Layout::compute(&LayoutRequest::after(before, &members)).unwrap()
        };
        let current = of(&alone, 3);
        let next = of(&current, 4);
        let up = |number| member(number, "valid", number != 3);
        ClusterView {
            cluster_id: "c".to_owned(),
            claimant: Some(NodeId([2; 16])),
            members: vec![up(1), up(2), up(3), member(4, "joining", true)],
            removed: BTreeMap::from([(NodeId([5; 16]), "n5@h".into())]),
            current: Arc::new(current),
            next: Some(Arc::new(next)),
            n_val_max: 4,
            incomplete: BTreeSet::from([(Partition(5), NodeId([4; 16]))]),
            disagreement: Some("n3@h does not answer".to_owned()),
        }
    }

    #[test]
    fn availability_tells_what_is_not_as_the_status_says() {
        let of = |status, is_up| member(1, status, is_up).availability();
        let all = [of("valid", true), of("valid", false), of("down", true), of("down", false)];
        assert_eq!(all, ["up", "down!", "up!", "down"]);
    }

    #[test]
    fn nodes_that_were_removed_keep_their_names() {
        let name = |number| view().name(NodeId([number; 16]));
        assert_eq!([name(4), name(5)], ["n4@h", "n5@h (removed)"]);
        assert_eq!(name(6), format!("removed node {}", "06".repeat(16)));
    }

    #[test]
    fn members_have_shares_now_and_then() {
        let told = view().members();
        assert_eq!((&told["claimant"], &told["ring_ready"]), (&json!("n2@h"), &json!(false)));
        let members = told["members"].as_array().unwrap();
        let now: f64 = members.iter().filter_map(|each| each["ring_percent"].as_f64()).sum();
        let then: f64 = members.iter().filter_map(|each| each["pending_percent"].as_f64()).sum();
        assert!((now - 100.0).abs() < 0.1 && (then - 100.0).abs() < 0.1, "{now} {then}");
        assert_eq!(members[3]["ring_percent"], 0.0);
        assert_eq!(members[2]["availability"], "down!");
        let settled = ClusterView { next: None, disagreement: None, ..view() };
        assert_eq!(settled.members()["members"][0]["pending_percent"], Value::Null);
    }

    #[test]
    fn what_moves_is_told_by_pairs() {
        let told = view().ring();
        assert_eq!(told["claimant"], json!({"name": "n2@h", "status": "up"}));
        assert_eq!(told["unreachable"], json!(["n3@h"]));
        let pending = told["pending"].as_array().unwrap();
        assert!(pending.iter().all(|pair| pair["next_owner"] == "n4@h"), "{told}");
        let moved: usize =
            pending.iter().map(|pair| pair["partitions"].as_array().unwrap().len()).sum();
        assert_eq!(moved, 8, "a fourth node gets a copy of each of the partitions");
        let done = |each: &Value| each["complete"] == true;
        let of_pair = |pair: &Value| pair["partitions"].as_array().unwrap().clone();
        let open = pending.iter().flat_map(of_pair).filter(|each| !done(each)).count();
        assert_eq!(open, 1);
        assert_eq!(view().ring_ready()["reason"], "n3@h does not answer");
    }

    #[test]
    fn partitions_are_found_by_number_and_by_index() {
        let view = view();
        let first = view.named("n1@h").unwrap();
        let held = view.partitions(first);
        assert_eq!(
            held["partitions"].as_array().unwrap().len(),
            8,
            "three of three nodes hold all"
        );
        let index = Partition(5).index_decimal(view.ring_size());
        assert_eq!(view.of_index(&index), Some(Partition(5)));
        assert_eq!(view.of_index("7"), None);
        let told = view.partition(Partition(5)).unwrap();
        assert_eq!(told["index"], json!(index));
        assert_eq!(told["primaries"].as_array().unwrap()[0], told["owner"]);
        assert_eq!(view.partition(Partition(8)), None);
        assert_eq!(view.partition_count(None), json!({"ring_size": 8}));
        assert_eq!(view.partition_count(Some(first))["partitions"], 8);
    }
}

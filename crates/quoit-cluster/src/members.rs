//! Members of the cluster.

use crate::NodeId;
use quoit_model::layout::LayoutMember;
use quoit_wire::internode::VersionRange;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Capacity of a member whose operator said nothing.
pub const CAPACITY_DEFAULT: u32 = LayoutMember::DEFAULT_CAPACITY;

/// Where a node listens, each as `host:port`; empty = nowhere.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Addresses {
    /// For other nodes.
    pub node: Arc<str>,
    /// For clients of Protocol Buffers.
    pub pb: Arc<str>,
    /// For clients of HTTP.
    pub http: Arc<str>,
}

/// Facts that a node tells of itself at each start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Introduction {
    pub(crate) name: Arc<str>,
    pub(crate) addresses: Addresses,
    pub(crate) versions: VersionRange,
}

/// How far a membership has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemberStatus {
    /// Has joined and waits for the commit that gives it partitions.
    Joining,
    /// A full member.
    Valid,
    /// Hands its data to the others.
    Leaving,
    /// Has handed over its data and is about to stop.
    Exiting,
}

impl MemberStatus {
    /// The word that operators know.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Valid => "valid",
            Self::Leaving => "leaving",
            Self::Exiting => "exiting",
        }
    }
}

impl fmt::Display for MemberStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A member of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Permanent identity.
    pub id: NodeId,
    /// Name for operators. No two members share a name.
    pub name: Arc<str>,
    /// Where it listens. May change at every start.
    pub addresses: Addresses,
    /// How far its membership has come.
    pub status: MemberStatus,
    /// Whether an operator marked it as absent: changes of layout don't wait for it. How far its membership
    /// has come stays, and so does its place in the layouts.
    pub is_down: bool,
    /// Rack, zone or whatever fails together; `None` counts as one location of its own.
    pub location: Option<Arc<str>>,
    /// Its share of the data in relation to others, 1 to [`CAPACITY_MAX`](quoit_model::layout::CAPACITY_MAX);
    /// [`CAPACITY_DEFAULT`] is usual.
    pub capacity: u32,
    /// The versions of the protocol between nodes that it speaks. May change at every start.
    pub versions: VersionRange,
}

impl Member {
    /// The word that operators know for its status: `down` when it is marked as absent, however far its
    /// membership has come.
    #[must_use]
    pub const fn status_word(&self) -> &'static str {
        if self.is_down { "down" } else { self.status.as_str() }
    }

    /// Whether it holds partitions by later layouts.
    pub(crate) const fn stays(&self) -> bool {
        matches!(self.status, MemberStatus::Valid)
    }

    /// The member as layouts see it.
    pub(crate) fn for_layout(&self) -> LayoutMember {
        LayoutMember { id: self.id, location: self.location.clone(), capacity: self.capacity }
    }

    /// The facts that the member has told of itself.
    pub(crate) fn introduction(&self) -> Introduction {
        let (name, addresses) = (Arc::clone(&self.name), self.addresses.clone());
        Introduction { name, addresses, versions: self.versions }
    }

    /// The same member telling something else of itself.
    pub(crate) fn introduced_as(&self, told: &Introduction) -> Arc<Self> {
        let Introduction { name, addresses, versions } = told.clone();
        Arc::new(Self { name, addresses, versions, ..self.clone() })
    }

    pub(crate) fn with_status(&self, status: MemberStatus) -> Arc<Self> {
        Arc::new(Self { status, ..self.clone() })
    }

    pub(crate) fn marked(&self, is_down: bool) -> Arc<Self> {
        Arc::new(Self { is_down, ..self.clone() })
    }
}

/// All members, by identity.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    by_id: BTreeMap<NodeId, Arc<Member>>,
    /// Names of the nodes that were removed for ever; empty where it is not known.
    removed: BTreeMap<NodeId, Arc<str>>,
}

impl Members {
    /// Number of members.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// The member of an identity.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&Arc<Member>> {
        self.by_id.get(&id)
    }

    /// The member of a name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Member>> {
        self.iter().find(|member| &*member.name == name)
    }

    /// All members, by identity.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.by_id.values()
    }

    /// The name of a node, also of one that was removed: its identity when no name is known.
    #[must_use]
    pub fn name_of(&self, id: NodeId) -> Arc<str> {
        let name = match self.get(id) {
            Some(member) => Some(&member.name),
            None => self.removed.get(&id).filter(|name| !name.is_empty()),
        };
        name.map_or_else(|| id.to_string().into(), Arc::clone)
    }

    /// Whether a node was removed for ever.
    #[must_use]
    pub fn is_removed(&self, id: NodeId) -> bool {
        self.removed.contains_key(&id)
    }

    /// Nodes that were removed for ever, by identity, each with the name that it had, which is empty where
    /// it is not known.
    pub fn removed(&self) -> impl Iterator<Item = (NodeId, &Arc<str>)> {
        self.removed.iter().map(|(id, name)| (*id, name))
    }

    pub(crate) fn same_removed(&self, later: &Self) -> bool {
        self.removed.len() == later.removed.len()
    }

    pub(crate) fn put(&mut self, member: Arc<Member>) {
        self.by_id.insert(member.id, member);
    }

    pub(crate) fn remove(&mut self, id: NodeId, for_ever: bool) {
        let member = self.by_id.remove(&id);
        if for_ever {
            let name = member.map_or_else(Arc::default, |member| Arc::clone(&member.name));
            self.note_removed(id, name);
        }
    }

    /// Notes a node that was removed for ever; `name` is empty where it is not known.
    pub(crate) fn note_removed(&mut self, id: NodeId, name: Arc<str>) {
        let known = self.removed.entry(id).or_default();
        if known.is_empty() {
            *known = name;
        }
    }
}

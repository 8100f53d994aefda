//! Members of the cluster.

use crate::NodeId;
use quoit_model::layout::LayoutMember;
use quoit_wire::internode::VersionRange;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Capacity of a member for which no operator has set one.
pub const CAPACITY_DEFAULT: u32 = LayoutMember::DEFAULT_CAPACITY;

/// Addresses at which a node listens, each as `host:port`; empty if it does not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Addresses {
    /// For other nodes.
    pub node: Arc<str>,
    /// For clients of the Protocol Buffers protocol.
    pub pb: Arc<str>,
    /// For HTTP clients.
    pub http: Arc<str>,
}

/// Facts that a node reports about itself at each start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Introduction {
    pub(crate) name: Arc<str>,
    pub(crate) addresses: Addresses,
    pub(crate) versions: VersionRange,
}

/// Stage of a membership.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemberStatus {
    /// The node was admitted and waits for the commit that gives it partitions.
    Joining,
    /// A full member.
    Valid,
    /// The node is handing over its data.
    Leaving,
    /// The node has handed over its data and is about to stop.
    Exiting,
}

impl MemberStatus {
    /// Returns the word that commands show.
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
    /// Addresses at which it listens. They may change at every start.
    pub addresses: Addresses,
    /// Stage of its membership.
    pub status: MemberStatus,
    /// True if an operator has marked it as down: changes of layout do not wait for it. Its status and its
    /// positions in the layouts do not change.
    pub is_down: bool,
    /// Rack, zone or another group of nodes that may fail together. All members with `None` share one
    /// location.
    pub location: Option<Arc<str>>,
    /// Its share of the data relative to other members, 1 to
    /// [`CAPACITY_MAX`](quoit_model::layout::CAPACITY_MAX); [`CAPACITY_DEFAULT`] is usual.
    pub capacity: u32,
    /// Versions of the internode protocol that it speaks. They may change at every start.
    pub versions: VersionRange,
}

impl Member {
    /// Returns the word that commands show for its status: `down` if it is marked as down, whatever its
    /// status.
    #[must_use]
    pub const fn status_word(&self) -> &'static str {
        if self.is_down { "down" } else { self.status.as_str() }
    }

    /// Returns true if later layouts give it partitions.
    pub(crate) const fn stays(&self) -> bool {
        matches!(self.status, MemberStatus::Valid)
    }

    /// Returns the member in the form that layouts are computed from.
    pub(crate) fn for_layout(&self) -> LayoutMember {
        LayoutMember { id: self.id, location: self.location.clone(), capacity: self.capacity }
    }

    /// Returns the facts that the member has reported.
    pub(crate) fn introduction(&self) -> Introduction {
        let (name, addresses) = (Arc::clone(&self.name), self.addresses.clone());
        Introduction { name, addresses, versions: self.versions }
    }

    /// Returns the member with these facts.
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

/// All members, and the nodes that were removed for ever.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    by_id: BTreeMap<NodeId, Arc<Member>>,
    /// Removed nodes with their former names. A name is empty if it is not known.
    removed: BTreeMap<NodeId, Arc<str>>,
}

impl Members {
    /// Returns the number of members.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the member with an identity.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&Arc<Member>> {
        self.by_id.get(&id)
    }

    /// Returns the member with a name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Member>> {
        self.iter().find(|member| &*member.name == name)
    }

    /// Returns all members, by identity.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.by_id.values()
    }

    /// Returns the name of a node, removed ones included, or its identity if the name is not known.
    #[must_use]
    pub fn name_of(&self, id: NodeId) -> Arc<str> {
        let name = match self.get(id) {
            Some(member) => Some(&member.name),
            None => self.removed.get(&id).filter(|name| !name.is_empty()),
        };
        name.map_or_else(|| id.to_string().into(), Arc::clone)
    }

    /// Returns true if a node was removed for ever.
    #[must_use]
    pub fn is_removed(&self, id: NodeId) -> bool {
        self.removed.contains_key(&id)
    }

    /// Returns the nodes that were removed for ever, by identity, with their former names. A name is
    /// empty if it is not known.
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

    /// Adds a node that was removed for ever. `name` is empty if it is not known.
    pub(crate) fn note_removed(&mut self, id: NodeId, name: Arc<str>) {
        let known = self.removed.entry(id).or_default();
        if known.is_empty() {
            *known = name;
        }
    }
}

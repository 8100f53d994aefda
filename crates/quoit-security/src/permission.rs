//! Permissions and sets of permissions.

use std::fmt;

/// One kind of operation that a grant permits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Permission {
    /// Reading objects, counters and data types.
    Get,
    /// Writing objects, counters and data types.
    Put,
    /// Deleting objects.
    Delete,
    /// Querying secondary indexes.
    Index,
    /// Listing keys.
    ListKeys,
    /// Listing the buckets of a type.
    ListBuckets,
    /// Running MapReduce jobs.
    MapReduce,
    /// Asking for the nodes that hold a record.
    GetPreflist,
    /// Reading properties of a bucket.
    GetBucket,
    /// Changing properties of a bucket.
    SetBucket,
    /// Reading properties of a bucket type.
    GetBucketType,
    /// Changing properties of a bucket type.
    SetBucketType,
    /// Reading the records of a bucket with an operator's fold.
    Fold,
    /// Repairing, reaping and erasing records that a fold has found.
    Erase,
    /// Reading the change feed of a bucket.
    Changes,
    /// Fetching from replication queues, writing to them, and the other messages of replication.
    Replicate,
    /// Reading the layout and coverage plans.
    Layout,
    /// Reading the administration API.
    Observe,
    /// Making changes over the administration API, including changes of security.
    Operate,
}

impl Permission {
    /// All permissions, Riak's first.
    pub const ALL: [Self; 19] = [
        Self::Get,
        Self::Put,
        Self::Delete,
        Self::Index,
        Self::ListKeys,
        Self::ListBuckets,
        Self::MapReduce,
        Self::GetPreflist,
        Self::GetBucket,
        Self::SetBucket,
        Self::GetBucketType,
        Self::SetBucketType,
        Self::Fold,
        Self::Erase,
        Self::Changes,
        Self::Replicate,
        Self::Layout,
        Self::Observe,
        Self::Operate,
    ];

    /// Returns the name in commands and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "riak_kv.get",
            Self::Put => "riak_kv.put",
            Self::Delete => "riak_kv.delete",
            Self::Index => "riak_kv.index",
            Self::ListKeys => "riak_kv.list_keys",
            Self::ListBuckets => "riak_kv.list_buckets",
            Self::MapReduce => "riak_kv.mapreduce",
            Self::GetPreflist => "riak_kv.get_preflist",
            Self::GetBucket => "riak_core.get_bucket",
            Self::SetBucket => "riak_core.set_bucket",
            Self::GetBucketType => "riak_core.get_bucket_type",
            Self::SetBucketType => "riak_core.set_bucket_type",
            Self::Fold => "quoit.fold",
            Self::Erase => "quoit.erase",
            Self::Changes => "quoit.changes",
            Self::Replicate => "quoit.replicate",
            Self::Layout => "quoit.layout",
            Self::Observe => "quoit.observe",
            Self::Operate => "quoit.operate",
        }
    }

    /// Returns the permission with a name. Names are case-sensitive.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.name() == name)
    }

    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A set of permissions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct PermissionSet(u32);

impl PermissionSet {
    /// Returns true if the set contains the permission. One test of a bit.
    #[must_use]
    pub const fn contains(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the permissions of this set that are not in the other one.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the permissions in the set, Riak's first.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |permission| self.contains(*permission))
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |bits, permission| bits | permission.bit()))
    }
}

//! Replication queues as both client protocols offer them to nodes of Riak.

use bytes::Bytes;
use quoit_core::{QueueLengths, QueuePriority, ReplicatedStore, RequestError};
use quoit_model::clock::VersionVector;
use quoit_model::key::{BucketRef, KeyRef};
use quoit_riak::{Fetched, Replicated, TreeEntry};
use std::sync::Arc;

/// Answer format with the entry of the object in Riak's hash trees.
pub(crate) const WITH_TREE_ENTRY: &[u8] = b"internal_aaehash";
/// Answer format without the tree entry.
pub(crate) const PLAIN: &[u8] = b"internal";

/// An entry of a queue, ready to be sent.
pub(crate) struct QueueAnswer {
    /// The names of the record and its object, encoded.
    pub(crate) replicated: Bytes,
    pub(crate) kind: AnswerKind,
    /// The record's entry in Riak's hash trees. A reap has the entry of its tombstone.
    pub(crate) tree_entry: TreeEntry,
}

/// Content of an entry: an object, a tombstone or a reap.
pub(crate) enum AnswerKind {
    Object,
    /// A tombstone with this version vector.
    Tombstone(VersionVector),
    Reap,
}

/// True if the node has a queue of this name.
pub(crate) fn exists(store: &ReplicatedStore, queue: &str) -> bool {
    store.source_queues().lengths(queue).is_some()
}

/// The next entry of a queue; `None` when it is empty.
pub(crate) async fn next(
    store: &Arc<ReplicatedStore>,
    queue: &str,
) -> Result<Option<QueueAnswer>, RequestError> {
    let Some(fetched) = store.replication().next_for_riak(queue).await? else { return Ok(None) };
    let Fetched { bucket_type, bucket, key, content } = &fetched;
    let (kind, clock) = match content {
        Replicated::Reap { clock, .. } => (AnswerKind::Reap, clock),
        Replicated::Object(object) if object.is_tombstone() => {
            (AnswerKind::Tombstone(object.clock.clone()), &object.clock)
        }
        Replicated::Object(object) => (AnswerKind::Object, &object.clock),
    };
    let tree_entry = TreeEntry::new(BucketRef { bucket_type, bucket }, key, clock);
    let compresses = store.source_queues().settings().compresses;
    Ok(Some(QueueAnswer { replicated: fetched.encode(compresses), kind, tree_entry }))
}

/// Adds references to records to a queue, the last reference first, as a Riak node does. Returns the
/// lengths of the queue afterwards, or `None` if there is no queue of this name.
///
/// # Errors
///
/// Invalid names of records.
pub(crate) fn push(
    store: &ReplicatedStore,
    queue: &str,
    keys: &[KeyRef<'_>],
) -> Result<Option<QueueLengths>, RequestError> {
    keys.iter().try_for_each(KeyRef::check)?;
    let encoded = keys.iter().rev().map(|key| Bytes::copy_from_slice(&key.encoded()));
    let now_us = store.clock().unix_us();
    Ok(store.source_queues().push_references(queue, QueuePriority::FullSync, encoded, now_us))
}

/// Host and port of each node that is up, for one of the protocols.
pub(crate) fn up_nodes(store: &ReplicatedStore, is_http: bool) -> Vec<(String, u16)> {
    let control = store.control();
    let state = control.read();
    let own = state.node_id();
    let is_up = |id| id == own || control.is_reachable(id);
    let members = state.members().iter().filter(|member| is_up(member.id));
    let address = |member: &Arc<quoit_cluster::Member>| {
        let addresses = &member.addresses;
        let address = if is_http { &addresses.http } else { &addresses.pb };
        host_and_port(address).map(|(host, port)| (host.to_owned(), port))
    };
    members.filter_map(address).collect()
}

/// Splits an address into host and port, and removes the brackets of an IPv6 address.
pub(crate) fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host, port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn addresses_are_told_as_host_and_port() {
        assert_eq!(host_and_port("127.0.0.1:8087"), Some(("127.0.0.1", 8087)));
        assert_eq!(host_and_port("[::1]:10"), Some(("::1", 10)));
        for none in ["", "host", ":8087", "host:", "host:x", "host:70000"] {
            assert_eq!(host_and_port(none), None, "{none}");
        }
    }
}

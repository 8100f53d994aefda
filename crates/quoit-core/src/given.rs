//! Whole objects that were made elsewhere, many of them at once.

use crate::error::RequestError;
use crate::in_place::Pending;
use crate::put::{Accepted, PutRequest};
use crate::store::ReplicatedStore;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;

/// A whole object that a node was given.
#[derive(Debug)]
#[must_use = "a write is acknowledged when it is finished"]
pub enum GivenInPlace {
    /// It says nothing new: nothing was written.
    Stored,
    /// It is in the log. [`ReplicatedStore::finish`] waits for what it still needs.
    Pending(Pending),
    /// Other nodes have to have a part in it: [`ReplicatedStore::put`] stores it.
    Declined(Object),
}

impl ReplicatedStore {
    /// Merges an object with what is stored, as a put of [`PutRequest::given`] does, if this node is alone.
    /// A caller with many objects has all of them in the log before it waits, so they share a sync. Reads
    /// the stored object from the disk if need be.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`].
    pub fn put_given_in_place(
        &self,
        key: KeyRef<'_>,
        object: Object,
    ) -> Result<GivenInPlace, RequestError> {
        self.check_puts()?;
        let topology = self.topology_now();
        if !topology.is_alone() {
            return Ok(GivenInPlace::Declined(object));
        }
        let request = PutRequest::given(key, object);
        self.check_index_integers(&request)?;
        let started_us = self.clock.monotonic_us();
        let encoded = key.encoded();
        let accepted = self.accept_put(&topology, request, &encoded);
        let unwritten = match accepted {
            Ok(Accepted { quorums, ticket: Some(ticket), .. }) => {
                let name = (quorums.dw > 0).then(|| bytes::Bytes::copy_from_slice(&encoded));
                let pending = Pending::of_lone_node(started_us, quorums, ticket, name);
                return Ok(GivenInPlace::Pending(pending));
            }
            Ok(_) => Ok(()),
            Err(fault) => Err(fault),
        };
        self.stats().record_put(self.clock.monotonic_us() - started_us, &unwritten);
        unwritten.map(|()| GivenInPlace::Stored)
    }
}

//! Writes that have to wait until all members of the cluster can read them.
//!
//! During an upgrade some members run an older build, or are held at an older version of the protocol between
//! nodes so that they can go back to one. A form of stored objects that those builds do not know would make
//! the object unreadable there.

use crate::error::RequestError;
use crate::put::PutRequest;
use crate::store::ReplicatedStore;
use quoit_model::object::{IndexEntry, IndexTerm};
use quoit_wire::internode::{VERSION_LARGE_INTEGERS, VERSION_WHOLE_OBJECTS};
use std::sync::Arc;

impl ReplicatedStore {
    /// Refuses whole objects while a member would take a part of one for the whole.
    pub(crate) fn check_whole_objects(&self) -> Result<(), RequestError> {
        match self.member_before(VERSION_WHOLE_OBJECTS) {
            None => Ok(()),
            Some(name) => Err(RequestError::Vetoed(format!(
                "{name} speaks a version of the protocol between nodes that has no whole objects; upgrade \
                 it first"
            ))),
        }
    }

    /// Refuses index entries of integers beyond 128 bits while a member could not read the object. Costs a
    /// look at each entry.
    pub(crate) fn check_index_integers(
        &self,
        request: &PutRequest<'_>,
    ) -> Result<(), RequestError> {
        let given = request.given.iter().flat_map(|object| &object.siblings);
        let mut entries =
            given.flat_map(|sibling| &sibling.meta.indexes).chain(&request.meta.indexes);
        let Some(entry) = entries.find(|entry| is_large(entry)) else { return Ok(()) };
        let Some(name) = self.member_before(VERSION_LARGE_INTEGERS) else { return Ok(()) };
        Err(RequestError::Precommit(format!(
            "the index {} has an integer beyond 128 bits, which {name} can't read: it speaks an older \
             version of the protocol between nodes than {VERSION_LARGE_INTEGERS}; upgrade it, or raise \
             internode.version.maximum on it",
            String::from_utf8_lossy(&entry.field)
        )))
    }

    /// The name of a member that speaks no such version of the protocol between nodes.
    fn member_before(&self, version: u32) -> Option<Arc<str>> {
        let state = self.control.read();
        let older = state.members().iter().find(|member| member.versions.max < version)?;
        Some(Arc::clone(&older.name))
    }
}

const fn is_large(entry: &IndexEntry) -> bool {
    match &entry.term {
        IndexTerm::Integer(integer) => integer.to_i128().is_none(),
        IndexTerm::Binary(_) => false,
    }
}

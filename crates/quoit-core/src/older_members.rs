//! Writes that have to wait until all members of the cluster can read them.
//!
//! During an upgrade some members run an older build, or are held at an older version of the protocol between
//! nodes so that they can go back to one. A form of stored objects that those builds do not know would make
//! the object unreadable there.

use crate::error::RequestError;
use crate::put::PutRequest;
use crate::store::ReplicatedStore;
use quoit_model::object::{IndexEntry, IndexTerm, Object};
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
        request.given.as_ref().map_or(Ok(()), |object| self.check_integers_of(object))?;
        self.check_entries(&request.meta.indexes)
    }

    /// As [`ReplicatedStore::check_index_integers`], of an object that was made elsewhere.
    pub(crate) fn check_integers_of(&self, object: &Object) -> Result<(), RequestError> {
        object.siblings.iter().try_for_each(|sibling| self.check_entries(&sibling.meta.indexes))
    }

    fn check_entries(&self, entries: &[IndexEntry]) -> Result<(), RequestError> {
        let Some(entry) = entries.iter().find(|entry| is_large(entry)) else { return Ok(()) };
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

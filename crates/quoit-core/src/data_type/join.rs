//! The replica's side of an update: takes over what another store has done.

use crate::error::RequestError;
use crate::records::{Updated, WrittenPages};
use crate::replica::{Replicated, Taken};
use crate::store::{ReplicatedStore, decode};
use quoit_model::data_type::Delta;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::object::Object;
use quoit_store::engine::{Access, Applied, Before, Decision, RecordAt, RecordMeta, RecordRef};
use quoit_wire::internode::data::MergeRule;

/// What an operation has done, for a replica.
pub(crate) struct Joining {
    pub(crate) delta: Delta,
    pub(crate) n_val_class: u8,
    pub(crate) last_modified_us: u64,
}

/// What a replica could make of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Joined {
    Done(Taken),
    /// The disk has to be waited for.
    WouldBlock,
    /// What is here is no state that it could be joined with.
    NeedsWhole,
}

impl ReplicatedStore {
    /// Takes an operation over into this node's copy. Whether the record lies in pages here is no matter of
    /// who sends it.
    pub(crate) fn join_copy(
        &self,
        at: &RecordAt<'_>,
        joining: &Joining,
        access: Access,
    ) -> Result<Joined, RequestError> {
        let Joining { delta, n_val_class, last_modified_us } = joining;
        let mut outcome = Ok(true);
        let mut meta = RecordMeta { n_val_class: *n_val_class, ..RecordMeta::default() };
        let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            let is_new = stored.is_none();
            let stored = stored.map(|record| decode(&record.to_bytes())).transpose();
            let joined = stored.and_then(|stored| {
                Object::join_data_type(stored, delta, *last_modified_us, None)
                    .map_err(|fault| RequestError::Damaged(fault.to_string()))
            });
            let object = match joined {
                Ok(Some(object)) => object,
                Ok(None) => {
                    outcome = Ok(false);
                    return Decision::Keep;
                }
                Err(fault) => {
                    outcome = Err(fault);
                    return Decision::Keep;
                }
            };
            outcome = Ok(true);
            let replicated = Replicated::new(&object, MergeRule::Causal, *n_val_class);
            if is_new && self.reaper.graves.keeps_out(at, &replicated) {
                return Decision::Keep;
            }
            out.extend_from_slice(&replicated.object);
            meta = replicated.meta;
            Decision::Put(meta)
        };
        let applied = loop {
            match self.records.update(at, Before::Read, access, &mut change)? {
                Updated::Applied(applied) => break applied,
                Updated::InPages => {}
            }
            let mut is_joined = true;
            let mut in_pages = |paged: PagedObject, pages: &mut WrittenPages<'_, '_>| {
                let joined = paged.join(delta, *last_modified_us, pages)?;
                is_joined = joined.is_some();
                Ok(joined)
            };
            if let Some(applied) = self.records.change_pages(at, access, &mut in_pages)? {
                if !is_joined {
                    return Ok(Joined::NeedsWhole);
                }
                break applied;
            }
        };
        match (applied, outcome?) {
            (_, false) => Ok(Joined::NeedsWhole),
            (Applied::WouldBlock, true) => Ok(Joined::WouldBlock),
            (Applied::Kept, true) => Ok(Joined::Done(Taken::Known)),
            (Applied::Written(ticket), true) => {
                self.note_written(at.partition, u32::from(*n_val_class));
                Ok(Joined::Done(Taken::Written(ticket, meta)))
            }
        }
    }
}

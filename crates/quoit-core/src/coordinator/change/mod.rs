//! One change of one record, decided and written in one step under the record's lock.
//!
//! The step reads the stored object (or finds a reap record in its place), checks the conditions, makes
//! the write's event, computes the new object, and encodes it into the engine's buffer. Nothing can come
//! between the check and the write, so two conditional writes of one coordinator can't both be based on
//! one version. Records in pages are changed page by page (`in_pages.rs`).

mod in_pages;
mod rules;

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::options::Precondition;
use crate::records::{Updated, WrittenPages};
use crate::replica::{Reaped, clock_of, written_over};
use crate::replica::{Replicated, merge_rule};
use crate::settings::DeleteMode;
use crate::shared_value;
use crate::stored::{decode, wait_if_blocked};
use bytes::Bytes;
use quoit_model::clock::{Dot, VersionVector};
use quoit_model::data_type::claims_riak_data_type;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::merge::{NewValue, WritePolicy};
use quoit_model::object::{Metadata, Object};
use quoit_model::props::BucketProps;
use quoit_model::vtag::{make_vtag, riak_secs};
use quoit_planted::planted;
use quoit_store::engine::{
    Access, Applied, Before, Decision, RecordAt, RecordMeta, RecordRef, Ticket,
};
use quoit_store::error::StoreError;
use quoit_wire::SHARED_BYTES_MIN;
use std::borrow::Cow;
use std::cell::RefCell;

pub(crate) use in_pages::InPages;
use in_pages::{ChangedInPages, change_in_pages};
use rules::prune_limits;
pub(crate) use rules::{expiry, policy};

/// A change of one object, decided under the record's lock.
pub(crate) struct ObjectChange<'a> {
    /// A whole object from elsewhere, which is merged with the stored one in place of a value.
    pub(crate) given: Option<Object>,
    pub(crate) precondition: &'a Precondition,
    pub(crate) context: Context<'a>,
    pub(crate) meta: Metadata,
    pub(crate) value: Bytes,
    /// Entity tag of the value; if it is empty, the tag is made from the event.
    pub(crate) tag: Bytes,
    pub(crate) deleted: bool,
    pub(crate) as_is: bool,
    /// True if the caller needs the whole object after the change.
    pub(crate) returns_object: bool,
    /// Error with which the change fails if its conditions hold and it would write something.
    pub(crate) refused: Option<RequestError>,
}

/// How a change reads and writes the record.
#[derive(Clone, Copy)]
pub(crate) struct ChangeForm {
    /// Part of the stored record that the change sees.
    pub(crate) before: Before,
    /// True if the object after the change is probably large, so that it is written from the buffer that
    /// it is in.
    pub(crate) is_large: bool,
    /// True if the object is also made in the form for replicas.
    pub(crate) replicates: bool,
}

impl ObjectChange<'_> {
    /// Size of the value that is written, in bytes.
    fn value_bytes(&self) -> usize {
        let last = self.given.as_ref().and_then(|object| object.siblings.last());
        last.map_or(&self.value, |sibling| &sibling.value).len()
    }

    /// True if the value of a plain write claims to be a data type in Riak's form. It is then stored as a
    /// state, like an imported one.
    pub(super) fn may_be_riak_data_type(&self, policy: WritePolicy, props: &BucketProps) -> bool {
        let content_type = self.meta.content_type.as_deref();
        policy == WritePolicy::Siblings
            && !self.deleted
            && claims_riak_data_type(&self.value, content_type, props.datatype)
    }
}

/// State that a change finds under the record's name.
pub(crate) enum Present {
    /// An object.
    Stored(Object),
    /// No object, but the reap record of this tombstone, whose version vector the new object takes over.
    Reaped(Object),
    /// Nothing.
    Nothing,
}

impl Present {
    /// The stored object.
    pub(crate) const fn stored(&self) -> Option<&Object> {
        match self {
            Self::Stored(object) => Some(object),
            Self::Reaped(_) | Self::Nothing => None,
        }
    }

    /// Base of the new object: the stored object, or an object with a reaped tombstone's version vector.
    pub(crate) fn into_base(self) -> Option<Object> {
        match self {
            Self::Stored(object) => Some(object),
            Self::Reaped(tombstone) => Some(clock_of(&tombstone)),
            Self::Nothing => None,
        }
    }

    /// Last-write time that the new object must exceed, in microseconds since 1970; 0 if there is none.
    fn last_modified_us(&self) -> u64 {
        match self {
            Self::Stored(object) | Self::Reaped(object) => object.last_modified_us(),
            Self::Nothing => 0,
        }
    }
}

/// Computes the object after a change from the present state; `None` if there is nothing to change.
pub(crate) type MakeObject<'m> = dyn FnMut(Present) -> Result<Option<Object>, RequestError> + 'm;

/// Result of a change: the object after it, its position in the log, and the form for replicas. Each is
/// `None` if nothing was written or if it is not at hand.
pub(crate) struct Changed {
    pub(crate) object: Option<Object>,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) replicated: Option<Replicated>,
}

/// A value that is about to be written, with its event.
pub(super) struct NewWrite {
    /// Causal context of the writer.
    context: VersionVector,
    new: NewValue,
    /// The write's event.
    dot: Dot,
    now_us: u64,
}

/// Results of a change for the client and for the other replicas.
#[derive(Default)]
pub(crate) struct ChangeResults {
    /// The object after the change, for the client; `None` before anything was tried.
    outcome: Option<Result<Option<Object>, RequestError>>,
    /// The object for the other replicas.
    replicated: Option<Replicated>,
}

/// The events that a write has seen.
pub(crate) enum Context<'a> {
    /// Context that the client sent.
    Given(&'a VersionVector),
    /// Everything that is stored now. If nothing is stored, nothing is written.
    Stored,
}

impl Coordinator {
    /// Decides a change and writes it. If `replicates`, or if a source queue keeps the object with the
    /// entry of the write, the result has the object in the form for replicas.
    pub(crate) fn change(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        change: &ObjectChange<'_>,
        replicates: bool,
    ) -> Result<Changed, RequestError> {
        let policy = policy(props, change.deleted);
        // last_write_wins replaces the stored object without reading it, unless a condition or a context
        // needs it.
        let blind = policy == WritePolicy::LastWriteWins
            && change.precondition.is_none()
            && !change.as_is
            && matches!(change.context, Context::Given(_))
            // The stored record may be in pages, which have to be removed.
            && props.datatype.is_none();
        let before = if blind { Before::Skip } else { Before::Read };
        let mut make = |present| self.make_object(at, props, policy, change, present);
        let mut write = |paged: PagedObject, pages: &mut WrittenPages<'_, '_>| {
            self.write_in_pages(at, props, change, replicates, paged, pages)
        };
        let is_large = change.value_bytes() >= SHARED_BYTES_MIN;
        let stored = ChangeForm { before, is_large, replicates };
        self.change_from(at, props, &mut make, InPages::Write(&mut write), stored)
    }

    /// As [`Coordinator::change`], but `make` computes the object after the change, under the record's
    /// lock. A record in pages is changed by `in_pages`.
    pub(crate) fn change_from(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        make: &mut MakeObject<'_>,
        mut in_pages: InPages<'_>,
        ChangeForm { before, is_large, replicates }: ChangeForm,
    ) -> Result<Changed, RequestError> {
        let told = RefCell::new(ChangeResults::default());
        let ticket = wait_if_blocked(self.local.settings.blocking, |access| {
            let mut would_block = false;
            let mut apply_parts =
                |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>, rest: Option<&mut Bytes>| {
                    let Some(present) = self.present(at, stored, access) else {
                        would_block = true;
                        return Decision::Keep;
                    };
                    let made = present.and_then(&mut *make);
                    let (decision, now) = self.told_of(at, props, made, replicates, (out, rest));
                    *told.borrow_mut() = now;
                    decision
                };
            let records = &self.local.records;
            let applied = loop {
                let updated = records.update_parts(at, before, access, is_large, &mut apply_parts);
                let mut apply = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
                    apply_parts(stored, out, None)
                };
                let applied = match updated {
                    Ok(Updated::Applied(applied)) => Ok(applied),
                    Ok(Updated::InPages) => {
                        match change_in_pages(records, at, access, &mut in_pages, &told) {
                            // The record is no longer in pages.
                            Ok(ChangedInPages::NotInPages) => continue,
                            Ok(ChangedInPages::NeedsWhole) => {
                                records.update_assembled(at, access, &mut apply)
                            }
                            Ok(ChangedInPages::Applied(applied)) => Ok(applied),
                            Err(fault) => Err(fault),
                        }
                    }
                    Err(fault) => Err(fault),
                };
                break match applied {
                    // On a node that is alone no other copy can replace the damaged record. It is lost,
                    // and must not keep the key from use.
                    Err(StoreError::Corrupt { .. }) if !replicates => {
                        records.replace_damaged(at, access, &mut apply)?
                    }
                    applied => applied?,
                };
            };
            Ok(match applied {
                _ if would_block => None,
                Applied::Kept => Some(None),
                Applied::Written(ticket) => Some(Some(ticket)),
                Applied::WouldBlock => None,
            })
        })?;
        let ChangeResults { outcome, replicated } = told.into_inner();
        Ok(Changed { object: outcome.transpose()?.flatten(), ticket, replicated })
    }

    /// State that a change finds under the record's lock; `None` if a reap record has to be read from disk,
    /// and `access` does not allow that.
    #[inline]
    fn present(
        &self,
        at: &RecordAt<'_>,
        stored: Option<&RecordRef<'_>>,
        access: Access,
    ) -> Option<Result<Present, RequestError>> {
        Some(match stored {
            Some(record) => decode(&record.to_bytes()).map(Present::Stored),
            None => match self.replica.reaped_at(at, access) {
                Ok(Reaped::Nothing) => Ok(Present::Nothing),
                Ok(Reaped::Tombstone(tombstone)) => Ok(Present::Reaped(*tombstone)),
                Ok(Reaped::WouldBlock) => return None,
                Err(fault) => Err(fault),
            },
        })
    }

    /// Encodes the object that a change has made, and prepares the messages about it.
    fn told_of(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        made: Result<Option<Object>, RequestError>,
        replicates: bool,
        (out, mut rest): (&mut Vec<u8>, Option<&mut Bytes>),
    ) -> (Decision, ChangeResults) {
        let start = out.len();
        let (decision, result) = match made {
            Ok(Some(object)) => {
                self.store_object(at, props, object, replicates, (out, rest.as_deref_mut()))
            }
            Ok(None) => (Decision::Keep, Ok(None)),
            Err(fault) => (Decision::Keep, Err(fault)),
        };
        let rest_bytes = rest.as_ref().map_or(0, |rest| rest.len());
        let replicated = match decision {
            Decision::Put(meta)
                if replicates || self.hook.is_held(out.len() - start + rest_bytes) =>
            {
                let object = match rest {
                    None => Bytes::copy_from_slice(&out[start..]),
                    Some(rest) => shared_value::join(&out[start..], rest),
                };
                Some(Replicated { meta, rule: merge_rule(props), object })
            }
            _ => None,
        };
        (decision, ChangeResults { outcome: Some(result), replicated })
    }

    /// Computes the object after the change; `None` if there is nothing to change.
    fn make_object(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        policy: WritePolicy,
        change: &ObjectChange<'_>,
        present: Present,
    ) -> Result<Option<Object>, RequestError> {
        if let Some(given) = &change.given {
            return self.make_given(props, change, given, present);
        }
        let replaced_us = present.last_modified_us();
        let made = self.new_write(at, props, policy, change, present.stored(), replaced_us)?;
        let Some(NewWrite { context, new, dot, now_us }) = made else { return Ok(None) };
        let object = match (change.as_is, present) {
            (false, present) => {
                let base = present.into_base();
                match change.may_be_riak_data_type(policy, props) {
                    true => Object::write_riak_data_type(
                        base.as_ref(),
                        &context,
                        &new,
                        &dot,
                        props.datatype,
                    ),
                    false => None,
                }
                .unwrap_or_else(|| Object::write(base.as_ref(), &context, new, dot, policy))
            }
            (true, present) => {
                let given = given_value(context, new, props);
                match self.united(given, present, props) {
                    Some(object) => object,
                    None => return Ok(None),
                }
            }
        };
        self.pruned(object, props, now_us).map(Some)
    }

    /// Merges an object from elsewhere with the present state, and checks the number of siblings; `None` if a
    /// reaped tombstone has seen all of the object.
    fn make_given(
        &self,
        props: &BucketProps,
        change: &ObjectChange<'_>,
        given: &Object,
        present: Present,
    ) -> Result<Option<Object>, RequestError> {
        if let Some(fault) = &change.refused {
            return Err(fault.clone());
        }
        let Some(object) = self.united(given.clone(), present, props) else { return Ok(None) };
        self.check_siblings(&object)?;
        Ok(Some(object))
    }

    /// Merges an object from elsewhere with the present state; `None` if a reaped tombstone has seen all
    /// of it.
    ///
    /// An object that the stored one includes is written and sent again: the first write may not be synced
    /// yet or may not have reached the other replicas, and this one is acknowledged when it has.
    fn united(&self, given: Object, present: Present, props: &BucketProps) -> Option<Object> {
        let rule = merge_rule(props);
        match present {
            Present::Nothing => Some(given),
            Present::Stored(stored) => Some(self.replica.merged(&stored, &given, rule)),
            Present::Reaped(tombstone) => written_over(&tombstone, &given, rule),
        }
    }

    /// Checks the conditions of a change, and makes the value that it writes, with an event and a time
    /// later than `replaced_us`; `None` if there is nothing to change. Does not look into the state of a
    /// stored data type.
    pub(super) fn new_write(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        policy: WritePolicy,
        change: &ObjectChange<'_>,
        stored: Option<&Object>,
        replaced_us: u64,
    ) -> Result<Option<NewWrite>, RequestError> {
        let shown = stored.map(|object| shown(object, props));
        change.precondition.check(shown.as_deref())?;
        let mut context = match (&change.context, shown.as_deref()) {
            (Context::Given(context), _) => (*context).clone(),
            (Context::Stored, Some(object)) if !object.is_tombstone() => object.clock.clone(),
            (Context::Stored, _) => return Ok(None),
        };
        if let Some(object) = shown.as_deref().filter(|_| change.deleted && planted!(DeletesUnseen))
        {
            context.merge(&object.clock);
        }
        if let Some(fault) = &change.refused {
            return Err(fault.clone());
        }
        let now_us = self.write_time_us(policy, replaced_us);
        let mut meta = change.meta.clone();
        if !change.deleted && meta.expires_at_secs.is_none() {
            meta.expires_at_secs = self.ttl_secs(props).map(|ttl| expiry(now_us, ttl));
        }
        let dot = self.issue_dot(at, props, riak_secs(now_us / 1_000_000))?;
        let new = NewValue {
            meta,
            value: change.value.clone(),
            deleted: change.deleted,
            last_modified_us: now_us,
            vtag: match change.tag.is_empty() {
                true => make_vtag(&dot, at.identity.0),
                false => change.tag.clone(),
            },
        };
        Ok(Some(NewWrite { context, new, dot, now_us }))
    }

    /// Prunes the version vector by the bucket's settings, and refuses an object with too many siblings.
    pub(super) fn pruned(
        &self,
        mut object: Object,
        props: &BucketProps,
        now_us: u64,
    ) -> Result<Object, RequestError> {
        if !props.dvv_enabled && !object.has_data_type() {
            object.prune_clock(&prune_limits(props), riak_secs(now_us / 1_000_000));
        }
        self.check_siblings(&object)?;
        Ok(object)
    }

    /// Encodes the object into the engine's buffer, and makes its metadata for the engine. With a `rest`,
    /// leaves the last value there if it is large.
    fn store_object(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        object: Object,
        replicates: bool,
        (out, rest): (&mut Vec<u8>, Option<&mut Bytes>),
    ) -> (Decision, Result<Option<Object>, RequestError>) {
        let start = out.len();
        let rest_bytes = match rest {
            None => {
                object.encode_into(out);
                0
            }
            Some(rest) => {
                *rest = object.encode_front_into(SHARED_BYTES_MIN, out);
                rest.len()
            }
        };
        if let Err(fault) = self.check_size(at.key, (out.len() - start + rest_bytes) as u64) {
            return (Decision::Keep, Err(fault));
        }
        self.warn_if_many(at.key, &object);
        let meta = RecordMeta::of(&object, RecordMeta::class_of(props.n_val));
        if meta.tombstone {
            if !replicates
                && self.local.settings.delete_mode == DeleteMode::Immediate
                && !self.hook.may_receive_older()
            {
                return (Decision::Remove, Ok(Some(object)));
            }
            self.replica.note_tombstone(at, meta.digest);
        }
        (Decision::Put(meta), Ok(Some(object)))
    }
}

/// Makes an object of a value and a version vector that were made elsewhere. A data type in Riak's form
/// becomes a state; a damaged one stays a plain value.
fn given_value(context: VersionVector, new: NewValue, props: &BucketProps) -> Object {
    let mut given = Object::given(context, new);
    let _ = given.adopt_riak_data_type(props.datatype);
    given
}

/// The stored object as readers see it, which conditions and deletes refer to.
fn shown<'o>(object: &'o Object, props: &BucketProps) -> Cow<'o, Object> {
    if props.allow_mult || object.siblings.len() < 2 {
        return Cow::Borrowed(object);
    }
    let mut latest = object.clone();
    latest.resolve_latest();
    Cow::Owned(latest)
}

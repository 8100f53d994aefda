//! One change of one record: decided and written in one step, under the record's lock.

mod in_pages;
mod rules;

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::options::Precondition;
use crate::records::{Updated, WrittenPages};
use crate::replica::{Reaped, clock_of, written_over};
use crate::replica::{Replicated, merge_rule};
use crate::settings::DeleteMode;
use crate::stored::{decode, wait_if_blocked};
use bytes::Bytes;
use quoit_model::clock::{Dot, VersionVector};
use quoit_model::data_type::claims_to_be_riaks;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::merge::{NewValue, WritePolicy};
use quoit_model::object::{Metadata, Object};
use quoit_model::props::BucketProps;
use quoit_model::vtag::{make_vtag, riak_secs};
use quoit_planted::planted;
use quoit_store::engine::{Applied, Before, Decision, RecordAt, RecordMeta, RecordRef, Ticket};
use quoit_store::error::StoreError;
use std::borrow::Cow;
use std::cell::RefCell;

use in_pages::ChangedInPages;
pub(crate) use in_pages::InPages;
use rules::prune_limits;
pub(crate) use rules::{expiry, policy};

/// One change of one object, decided under the record's stripe lock.
pub(crate) struct ObjectChange<'a> {
    /// A whole object from elsewhere, which is merged with what is stored in place of a value.
    pub(crate) given: Option<Object>,
    pub(crate) precondition: &'a Precondition,
    pub(crate) context: Context<'a>,
    pub(crate) meta: Metadata,
    pub(crate) value: Bytes,
    /// The value's entity tag; empty = made of the event.
    pub(crate) tag: Bytes,
    pub(crate) deleted: bool,
    pub(crate) as_is: bool,
    /// Whether all of the object is wanted after the change.
    pub(crate) returns_object: bool,
    /// Why nothing may be written, if it comes to that.
    pub(crate) refused: Option<RequestError>,
}

impl ObjectChange<'_> {
    /// Whether the value of a plain write claims to be a data type in Riak's form, which becomes a state, as
    /// one that is imported.
    pub(super) fn may_be_riak_data_type(&self, policy: WritePolicy, props: &BucketProps) -> bool {
        let content_type = self.meta.content_type.as_deref();
        policy == WritePolicy::Siblings
            && !self.deleted
            && claims_to_be_riaks(&self.value, content_type, props.datatype)
    }
}

/// State that a change finds under its name.
pub(crate) enum Present {
    /// An object.
    Stored(Object),
    /// Nothing but the reap record of this tombstone, whose clock the new object takes over.
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

    /// Base of the new object: the stored one or a reaped tombstone's clock.
    pub(crate) fn into_base(self) -> Option<Object> {
        match self {
            Self::Stored(object) => Some(object),
            Self::Reaped(tombstone) => Some(clock_of(&tombstone)),
            Self::Nothing => None,
        }
    }

    /// The time that the new object has to come after; 0: any.
    fn last_modified_us(&self) -> u64 {
        match self {
            Self::Stored(object) | Self::Reaped(object) => object.last_modified_us(),
            Self::Nothing => 0,
        }
    }
}

/// Makes the object after a change of what is present.
pub(crate) type MakeObject<'m> = dyn FnMut(Present) -> Result<Option<Object>, RequestError> + 'm;

/// Result of a change under the record's lock.
pub(crate) struct Changed {
    pub(crate) object: Option<Object>,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) replicated: Option<Replicated>,
}

/// A value that is about to be written.
pub(super) struct NewWrite {
    /// Context that its writer had seen.
    context: VersionVector,
    new: NewValue,
    /// Its event.
    dot: Dot,
    now_us: u64,
}

/// Messages that other replicas get about a change.
#[derive(Default)]
pub(crate) struct ReplicaMessages {
    /// The object after it, to the client; `None` before anything was tried.
    outcome: Option<Result<Option<Object>, RequestError>>,
    /// To the other replicas.
    replicated: Option<Replicated>,
}

/// Events that a write has seen.
pub(crate) enum Context<'a> {
    /// Context that the client sent.
    Given(&'a VersionVector),
    /// Everything that is stored at the moment; nothing is written when there is nothing.
    Stored,
}

impl Coordinator {
    /// Decides a change and writes it. With `replicates`, and where a source queue holds it, the object comes
    /// back as replicas are sent it.
    pub(crate) fn change(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        change: &ObjectChange<'_>,
        replicates: bool,
    ) -> Result<Changed, RequestError> {
        let policy = policy(props, change.deleted);
        // last_write_wins replaces without looking, unless somebody has to know what was there.
        let blind = policy == WritePolicy::LastWriteWins
            && change.precondition.is_none()
            && !change.as_is
            && matches!(change.context, Context::Given(_))
            // It may lie in pages, which have to go.
            && props.datatype.is_none();
        let before = if blind { Before::Skip } else { Before::Read };
        let mut make = |present| self.make_object(at, props, policy, change, present);
        let mut write = |paged: PagedObject, pages: &mut WrittenPages<'_, '_>| {
            self.write_in_pages(at, props, change, replicates, paged, pages)
        };
        self.change_from(at, props, before, &mut make, InPages::Write(&mut write), replicates)
    }

    /// As [`Coordinator::change`], with the object after the change made of what is stored by `make`,
    /// under the record's lock; `None` when there is nothing to change. `before` says what `make` is shown.
    /// Where the record lies in pages, `in_pages` changes it.
    pub(crate) fn change_from(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        before: Before,
        make: &mut MakeObject<'_>,
        mut in_pages: InPages<'_>,
        replicates: bool,
    ) -> Result<Changed, RequestError> {
        let told = RefCell::new(ReplicaMessages::default());
        let ticket = wait_if_blocked(self.local.settings.blocking, |access| {
            let mut would_block = false;
            let mut apply = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
                let present = match stored {
                    Some(record) => decode(&record.to_bytes()).map(Present::Stored),
                    None => self.replica.reaped_at(at, access).map(|reaped| match reaped {
                        Reaped::Nothing => Present::Nothing,
                        Reaped::Tombstone(tombstone) => Present::Reaped(*tombstone),
                        Reaped::WouldBlock => {
                            would_block = true;
                            Present::Nothing
                        }
                    }),
                };
                if would_block {
                    return Decision::Keep;
                }
                let made = present.and_then(&mut *make);
                let (decision, now) = self.told_of(at, props, made, replicates, out);
                *told.borrow_mut() = now;
                decision
            };
            let applied = loop {
                let applied = match self.local.records.update(at, before, access, &mut apply) {
                    Ok(Updated::Applied(applied)) => Ok(applied),
                    Ok(Updated::InPages) => {
                        match self.change_in_pages(at, access, &mut in_pages, &told) {
                            // It lies there no longer.
                            Ok(ChangedInPages::Gone) => continue,
                            Ok(ChangedInPages::NeedsWhole) => {
                                self.local.records.update_together(at, access, &mut apply)
                            }
                            Ok(ChangedInPages::Applied(applied)) => Ok(applied),
                            Err(fault) => Err(fault),
                        }
                    }
                    Err(fault) => Err(fault),
                };
                break match applied {
                    // No other node has it: the record is lost, and must not keep the key from use.
                    Err(StoreError::Corrupt { .. }) if !replicates => {
                        self.local.records.replace_damaged(at, access, &mut apply)?
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
        let ReplicaMessages { outcome, replicated } = told.into_inner();
        Ok(Changed { object: outcome.transpose()?.flatten(), ticket, replicated })
    }

    /// Encodes what a change has made, and says what is to be told of it.
    fn told_of(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        made: Result<Option<Object>, RequestError>,
        replicates: bool,
        out: &mut Vec<u8>,
    ) -> (Decision, ReplicaMessages) {
        let start = out.len();
        let (decision, result) = match made {
            Ok(Some(object)) => self.store_object(at, props, object, replicates, out),
            Ok(None) => (Decision::Keep, Ok(None)),
            Err(fault) => (Decision::Keep, Err(fault)),
        };
        let replicated = match decision {
            Decision::Put(meta) if replicates || self.hook.is_held(out.len() - start) => {
                let object = Bytes::copy_from_slice(&out[start..]);
                Some(Replicated { meta, rule: merge_rule(props), object })
            }
            _ => None,
        };
        (decision, ReplicaMessages { outcome: Some(result), replicated })
    }

    /// The object after the change; `None` when there is nothing to change.
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

    /// The object after one from elsewhere was merged with what is present; `None` when it says nothing new.
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

    /// An object from elsewhere together with what is present; `None` when that is a tombstone that was
    /// reaped and has seen all of it.
    fn united(&self, given: Object, present: Present, props: &BucketProps) -> Option<Object> {
        let rule = merge_rule(props);
        match present {
            Present::Nothing => Some(given),
            Present::Stored(stored) => Some(self.replica.merged(&stored, &given, rule)),
            Present::Reaped(tombstone) => written_over(&tombstone, &given, rule),
        }
    }

    /// The value that a change writes, after a time, and what its writer had seen; `None` when there is
    /// nothing to change. Of a stored state nothing is looked at.
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

    /// Prunes the clock as the bucket has it, and refuses too many siblings.
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

    /// Encodes the object into the engine's buffer and says what the engine has to know of it.
    pub(super) fn store_object(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        object: Object,
        replicates: bool,
        out: &mut Vec<u8>,
    ) -> (Decision, Result<Option<Object>, RequestError>) {
        let start = out.len();
        object.encode_into(out);
        if let Err(fault) = self.check_size(at.key, (out.len() - start) as u64) {
            return (Decision::Keep, Err(fault));
        }
        self.warn_if_many(at.key, &object);
        let meta = RecordMeta::of(&object, RecordMeta::class_of(props.n_val));
        if meta.tombstone {
            if !replicates
                && self.local.settings.delete_mode == DeleteMode::Immediate
                && !self.hook.may_get_older()
            {
                return (Decision::Remove, Ok(Some(object)));
            }
            self.replica.note_tombstone(at, meta.digest);
        }
        (Decision::Put(meta), Ok(Some(object)))
    }
}

/// A value with a clock that was made elsewhere, as an object: a data type in Riak's form becomes a state.
/// One that is damaged stays a value as any other.
fn given_value(context: VersionVector, new: NewValue, props: &BucketProps) -> Object {
    let mut given = Object::given(context, new);
    let _ = given.adopt_riak_data_type(props.datatype);
    given
}

/// The stored object as readers are shown it: conditions and deletes are about that.
fn shown<'o>(object: &'o Object, props: &BucketProps) -> Cow<'o, Object> {
    if props.allow_mult || object.siblings.len() < 2 {
        return Cow::Borrowed(object);
    }
    let mut latest = object.clone();
    latest.resolve_latest();
    Cow::Owned(latest)
}

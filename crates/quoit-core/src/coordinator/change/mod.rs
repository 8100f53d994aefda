//! Decisions about one change of one record: whether its conditions hold, with which event, and which
//! value or object it brings.
//!
//! [`Records::change`](crate::records::Records::change) makes the change in one step under the record's
//! lock, in whichever form the record is stored. It asks the functions here for the decision, and for
//! whatever depends on the bucket or on other parts of the node (`steps.rs`).

mod rules;
mod steps;

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::options::Precondition;
use crate::records::{ChangeOptions, Changed, DecidedChange, Pruning, RecordState, ValueWrite};
use crate::replica::merge_rule;
use crate::stored::wait_if_blocked;
use bytes::Bytes;
use quoit_model::clock::{Dot, VersionVector};
use quoit_model::data_type::claims_riak_data_type;
use quoit_model::merge::{NewValue, WritePolicy};
use quoit_model::object::{Metadata, Object};
use quoit_model::props::BucketProps;
use quoit_model::vtag::{make_vtag, riak_secs};
use quoit_planted::planted;
use quoit_store::engine::{BeforeImage, RecordAt, RecordMeta};
use quoit_wire::SHARED_BYTES_MIN;
use std::borrow::Cow;

use rules::prune_limits;
pub(crate) use rules::{expiry, policy};
use steps::CoordinatedChange;

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

impl ObjectChange<'_> {
    /// Size of the value that is written, in bytes.
    fn value_bytes(&self) -> usize {
        let last = self.given.as_ref().and_then(|object| object.siblings.last());
        last.map_or(&self.value, |sibling| &sibling.value).len()
    }

    /// True if the value of a plain write claims to be a data type in Riak's form. It is then stored as a
    /// state, like an imported one.
    fn may_be_riak_data_type(&self, policy: WritePolicy, props: &BucketProps) -> bool {
        let content_type = self.meta.content_type.as_deref();
        policy == WritePolicy::Siblings
            && !self.deleted
            && !self.as_is
            && claims_riak_data_type(&self.value, content_type, props.datatype)
    }
}

/// Decides a change from the present state; `None` if there is nothing to change.
pub(crate) type Decide<'a> =
    dyn Fn(&RecordState<'_>) -> Result<Option<DecidedChange<'a>>, RequestError> + 'a;

/// A value that is about to be written, with its event.
struct NewWrite {
    /// Causal context of the writer.
    context: VersionVector,
    new: NewValue,
    /// The write's event.
    dot: Dot,
    now_us: u64,
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
            // The stored record may be a large set or map, all of which has to be removed.
            && props.datatype.is_none();
        let options = ChangeOptions {
            before: if blind { BeforeImage::Skip } else { BeforeImage::Read },
            is_large: change.value_bytes() >= SHARED_BYTES_MIN,
            needs_items: change.may_be_riak_data_type(policy, props),
            replicates,
            returns_object: change.returns_object,
            rule: merge_rule(props),
            n_val_class: RecordMeta::class_of(props.n_val),
        };
        let decide = |present: &RecordState<'_>| self.decide(at, props, policy, change, present);
        self.change_as_decided(at, options, &decide)
    }

    /// As [`Coordinator::change`], for a change that `decide` decides, under the record's lock.
    pub(crate) fn change_as_decided<'a>(
        &'a self,
        at: &'a RecordAt<'a>,
        options: ChangeOptions,
        decide: &'a Decide<'a>,
    ) -> Result<Changed, RequestError> {
        let steps = CoordinatedChange::new(self, at, options.replicates, decide);
        wait_if_blocked(self.local.settings.blocking, |access| {
            self.local.records.change(at, &options, access, &steps)
        })
    }

    /// Decides a change from the present state; `None` if there is nothing to change.
    fn decide<'c>(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        policy: WritePolicy,
        change: &'c ObjectChange<'_>,
        present: &RecordState<'_>,
    ) -> Result<Option<DecidedChange<'c>>, RequestError> {
        let rule = merge_rule(props);
        if let Some(given) = &change.given {
            return match &change.refused {
                Some(fault) => Err(fault.clone()),
                None => Ok(Some(DecidedChange::merge(Cow::Borrowed(given), rule))),
            };
        }
        let made = self.new_write(at, props, policy, change, present)?;
        let Some(NewWrite { context, new, dot, now_us }) = made else { return Ok(None) };
        let decided = match change.as_is {
            true => DecidedChange::merge(Cow::Owned(given_value(context, new, props)), rule),
            false => {
                let datatype = props.datatype;
                DecidedChange::write(ValueWrite { context, new, dot, policy, datatype })
            }
        };
        if props.dvv_enabled {
            return Ok(Some(decided));
        }
        let now_secs = riak_secs(now_us / 1_000_000);
        Ok(Some(decided.pruned(Pruning { limits: prune_limits(props), now_secs })))
    }

    /// Checks the conditions of a change, and makes the value that it writes, with an event and a time
    /// later than that of the present state; `None` if there is nothing to change.
    fn new_write(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        policy: WritePolicy,
        change: &ObjectChange<'_>,
        present: &RecordState<'_>,
    ) -> Result<Option<NewWrite>, RequestError> {
        let shown = present.stored().map(|object| shown(object, props));
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
        let now_us = self.write_time_us(policy, present.last_modified_us());
        let mut meta = change.meta.clone();
        if !change.deleted && meta.expires_at_secs.is_none() {
            let replaced = shown.as_deref().and_then(Object::expires_at_secs);
            let kept = replaced.filter(|_| planted!(KeepsFirstExpiry));
            let expires_at = |ttl| kept.unwrap_or_else(|| expiry(now_us, ttl));
            meta.expires_at_secs = self.ttl_secs(props).map(expires_at);
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

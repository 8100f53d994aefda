//! Coordination of data types: the client sends an operation, the coordinator replicates its effect.
//!
//! An update is a put whose new value is computed from the stored one. The coordinator applies the
//! operation to its own copy under the record's lock; the events belong to an incarnation of its store.
//! It sends the other replicas the whole object, or, if that is a large set or map, only a delta. The client
//! receives the causal history of sets and maps as an opaque context and sends it back with removes.

mod query;
mod stream;

use crate::coordinator::Coordinator;
use crate::coordinator::change::expiry;
use crate::coordinator::get::object_of;
use crate::coordinator::started::StartedRead;
use crate::coordinator::write_replicas::{Accepted, WriteTargets};
use crate::error::{DataTypeError, RequestError};
use crate::options::{ReadOptions, WriteOptions};
use crate::placement::{object_props, record_at};
use crate::records::{ChangeOptions, DataTypeUpdate, DecidedChange, OperationOrigin, RecordState};
use crate::replica::{WrittenObject, merge_rule};
use crate::request_log::{AskedNodes, Finished, RequestKind};
use crate::stats::Sizes;
use crate::topology::Topology;
use bytes::Bytes;
use quoit_model::clock::Actor;
use quoit_model::data_type::context::{
    check_context, decode_context, encode_context, incarnation, passing_incarnation,
};
use quoit_model::data_type::{CausalClock, Operation, Value};
use quoit_model::hash::{Identity, KeyHash, PlacementRule};
use quoit_model::hll::Precision;
use quoit_model::key::KeyRef;
use quoit_model::merge::WritePolicy;
use quoit_model::object::Object;
use quoit_model::props::{BucketProps, Datatype};
use quoit_model::vtag::riak_secs;
use quoit_store::engine::{BeforeImage, RecordAt, RecordMeta};
use quoit_store::error::StoreError;
use std::sync::Arc;

pub use stream::{ItemSink, StreamOutcome, StreamedItems};

/// An operation on a data type.
#[derive(Clone, Debug)]
pub struct DataTypeRequest<'a> {
    /// The record.
    pub key: KeyRef<'a>,
    /// The operation. A bucket without the property `datatype` takes only counters.
    pub operation: Operation,
    /// Context from the client's last read, as [`FetchedDataType::context`] gave it.
    pub context: Option<Bytes>,
    /// True if the value after the operation is to be returned.
    pub return_value: bool,
    /// Quorums and limits.
    pub options: WriteOptions,
}

/// A data type as clients see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchedDataType {
    /// Its type.
    pub datatype: Datatype,
    /// Its value.
    pub value: Value,
    /// Causal context of the value, which the client sends back with removes. Only sets and maps have
    /// one.
    pub context: Option<Bytes>,
}

impl FetchedDataType {
    /// Reads the data type of an object; `None` if the object holds no data type or a deleted one.
    fn of(object: &Object, identity: Identity) -> Result<Option<Self>, RequestError> {
        let Some(state) = object.data_type().map_err(RequestError::damaged_state)? else {
            return Ok(None);
        };
        if !state.is_live() {
            return Ok(None);
        }
        let datatype = state.datatype();
        let has_context = matches!(datatype, Datatype::Set | Datatype::Map);
        let clock = has_context
            .then(|| object.causal_clock())
            .transpose()
            .map_err(RequestError::damaged_state)?;
        let context = clock.map(|clock| encode_context(&clock, identity.0));
        Ok(Some(Self { datatype, value: state.value(), context }))
    }
}

/// The identity of a record, to which contexts are bound.
fn identity_of(key: KeyRef<'_>, encoded: &[u8]) -> Identity {
    // The identity does not depend on the bucket's placement.
    KeyHash::of(encoded, key.bucket, PlacementRule::BucketAndKey).identity
}

/// The data type of a bucket. A bucket without the property may hold counters of Riak 1.4.
fn datatype_of(props: &BucketProps) -> Datatype {
    props.datatype.unwrap_or(Datatype::Counter)
}

impl Coordinator {
    /// As [`ReplicatedStore::fetch_data_type`](crate::ReplicatedStore::fetch_data_type).
    pub(crate) async fn fetch_data_type(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<Option<FetchedDataType>, RequestError> {
        let started_us = self.local.clock.monotonic_us();
        let Some(object) = self.get_stored(key, options).await? else { return Ok(None) };
        self.fetched(&object, identity_of(key, &key.encoded()), started_us)
    }

    /// As [`ReplicatedStore::finish_fetch`](crate::ReplicatedStore::finish_fetch).
    pub(crate) async fn finish_fetch(
        &self,
        started: StartedRead,
    ) -> Result<Option<FetchedDataType>, RequestError> {
        let (name, started_us) = (started.read.key().clone(), started.started_us);
        let Some(object) = self.finish_stored(started).await? else { return Ok(None) };
        self.fetched(&object, identity_of(KeyRef::decode(&name)?, &name), started_us)
    }

    /// The data type of an object that was read, which is added to the statistics.
    fn fetched(
        &self,
        object: &Object,
        identity: Identity,
        started_us: u64,
    ) -> Result<Option<FetchedDataType>, RequestError> {
        let fetched = FetchedDataType::of(object, identity)?;
        if let Some(fetched) = &fetched {
            let time_us = self.local.clock.monotonic_us() - started_us;
            let sizes = Sizes::of_object(object);
            self.local.stats.data_types().record_get(fetched.datatype, time_us, sizes);
        }
        Ok(fetched)
    }

    /// As [`ReplicatedStore::update_data_type`](crate::ReplicatedStore::update_data_type).
    pub(crate) async fn update_data_type(
        &self,
        request: &DataTypeRequest<'_>,
    ) -> Result<Option<FetchedDataType>, RequestError> {
        let _entered = self.admit_put()?;
        self.run_precommit(request.key.bucket, None)?;
        let topology = self.local.settled_topology(request.options.timeout_ms).await;
        let object = if topology.is_alone() {
            self.timed_update_here(topology, request).await?
        } else {
            let has_vote = self.local.coordinates(&topology, request.key, &request.options);
            let here = || self.timed_update_here(Arc::clone(&topology), request);
            let forward = || self.forward_update(Arc::clone(&topology), request);
            self.coordinate_or_forward(has_vote, here, forward).await?
        };
        match object.filter(|_| request.return_value) {
            Some(object) => {
                FetchedDataType::of(&object, identity_of(request.key, &request.key.encoded()))
            }
            None => Ok(None),
        }
    }

    /// Coordinates an update on this node, and adds it to the statistics and the request log.
    pub(crate) async fn timed_update_here(
        &self,
        topology: Arc<Topology>,
        request: &DataTypeRequest<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let started_us = self.local.clock.monotonic_us();
        let encoded = request.key.encoded();
        let (mut own_us, mut asked) = (0, AskedNodes::default());
        let result = match self.accept_update(&topology, request, &encoded) {
            Ok(accepted) => {
                own_us = self.local.clock.monotonic_us() - started_us;
                self.updated(topology, accepted, request, &mut asked).await
            }
            Err(fault) => Err(fault),
        };
        let time_us = self.local.clock.monotonic_us() - started_us;
        let finished = Finished {
            kind: RequestKind::Update,
            key: request.key,
            total_us: time_us,
            own_us,
            size_bytes: 0,
            sibling_count: 0,
            failed: result.is_err(),
            asked: &asked,
        };
        self.request_log.note(&*self.local.clock, &finished);
        self.local.stats.record_put(time_us, &result);
        let datatype = request.operation.datatype();
        self.local.stats.data_types().record_put(datatype, result.is_ok().then_some(time_us));
        result
    }

    /// Waits until the quorums of an update are met. Returns the object after the update if it is at
    /// hand, and reads it from this node's copy if it is wanted.
    async fn updated(
        &self,
        topology: Arc<Topology>,
        accepted: Accepted<'_>,
        request: &DataTypeRequest<'_>,
        asked: &mut AskedNodes,
    ) -> Result<Option<Object>, RequestError> {
        let at = accepted.at;
        let timeout_ms = request.options.timeout_ms;
        let object = self.confirm_all(topology, accepted, timeout_ms, asked).await?;
        if object.is_some() || !request.return_value {
            return Ok(object);
        }
        object_of(self.replica.written_copy(&at).await?)
    }

    /// Does everything of an update except waiting for the sync and for other nodes.
    fn accept_update<'a>(
        &self,
        topology: &Topology,
        request: &DataTypeRequest<'a>,
        encoded: &'a [u8],
    ) -> Result<Accepted<'a>, RequestError> {
        request.key.check()?;
        let state = self.local.control.read();
        let props = object_props(&state, request.key.bucket)?;
        let at = record_at(&state, props, request.key, encoded);
        request.operation.check(datatype_of(props)).map_err(DataTypeError::from)?;
        let context = match &request.context {
            // Only operations on sets and maps can remove something.
            Some(context) if has_removes(&request.operation) => {
                Some(decode_context(context, at.identity.0).map_err(DataTypeError::from)?)
            }
            _ => None,
        };
        let targets = WriteTargets::of(topology, &at, props, &request.options)?;
        let replicates = !topology.is_alone();
        let options = ChangeOptions {
            before: BeforeImage::Read,
            is_large: false,
            needs_items: false,
            replicates,
            returns_object: false,
            rule: merge_rule(props),
            n_val_class: RecordMeta::class_of(props.n_val),
        };
        let (operation, context) = (&request.operation, context.as_ref());
        let decide = |present: &RecordState<'_>| {
            self.decide_update(&at, props, operation, context, present).map(Some)
        };
        let changed = self.change_as_decided(&at, options, &decide)?;
        if changed.ticket.is_some() {
            self.hook.queue_written(&at, props, WrittenObject::of(&changed));
        }
        Ok(Accepted::of(topology, at, targets, changed))
    }

    /// Decides an operation from the present state.
    fn decide_update<'c>(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        operation: &'c Operation,
        context: Option<&'c CausalClock>,
        present: &RecordState<'_>,
    ) -> Result<DecidedChange<'c>, RequestError> {
        let origin = self.origin_of(at, props, present.base(), context)?;
        let expires_at_secs = self.ttl_secs(props).map(|ttl_secs| expiry(origin.now_us, ttl_secs));
        let update = DataTypeUpdate { operation, context, origin, expires_at_secs };
        Ok(DecidedChange::update(update))
    }

    /// Checks the context of an operation, and chooses the operation's actor and time.
    fn origin_of(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        stored: Option<&Object>,
        context: Option<&CausalClock>,
    ) -> Result<OperationOrigin, RequestError> {
        if let Some(context) = context {
            let clock = stored
                .map(Object::causal_clock)
                .transpose()
                .map_err(RequestError::damaged_state)?;
            let (store, issued_max) = (self.local.dots.actor(), self.local.dots.last_issued());
            check_context(context, &clock.unwrap_or_default(), store, issued_max)
                .map_err(DataTypeError::from)?;
        }
        let replaced_us = stored.map_or(0, Object::last_modified_us);
        let now_us = self.write_time_us(WritePolicy::Siblings, replaced_us);
        let time_secs = riak_secs(now_us / 1_000_000);
        let actor = self.incarnation(at, props, stored, time_secs)?;
        let hll_precision = props.hll_precision.and_then(Precision::new).unwrap_or_default();
        Ok(OperationOrigin { actor, time_secs, now_us, hll_precision })
    }

    /// The incarnation under which this store makes events of a data type: the one in the stored object,
    /// or a new one.
    ///
    /// A copy that this node does not keep for good gets an incarnation of a passing actor, which ends
    /// when such copies are handed over (see [`issue_passing`](crate::DotSequence::issue_passing)). A
    /// copy that the node keeps never continues such an incarnation.
    fn incarnation(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        stored: Option<&Object>,
        time_secs: u64,
    ) -> Result<Actor, StoreError> {
        let topology = self.local.topology_now();
        if !topology.is_alone()
            && !topology
                .keeps(at.partition, self.local.replicas_by(&topology, at.encoded, props.n_val))
        {
            let passing = self.local.dots.issue_passing(at.partition, time_secs)?.actor;
            return Ok(passing_incarnation(&passing));
        }
        let store = self.local.dots.actor();
        let given_away = self.local.dots.given_away(at.partition);
        match stored.and_then(|object| object.incarnation_of(store, given_away)) {
            Some(actor) => Ok(actor.clone()),
            None => Ok(incarnation(store, self.local.dots.issue(time_secs)?.counter)),
        }
    }
}

/// True if the operation is for a type whose operations can remove something.
const fn has_removes(operation: &Operation) -> bool {
    matches!(operation, Operation::Set(_) | Operation::Map(_))
}

//! Coordination of writes and deletes.

use crate::error::{QuorumKind, RequestError};
use crate::options::{Precondition, ReadOptions, WriteOptions};
use crate::replica::{Replicated, merge_rule};
use crate::store::{ReplicatedStore, decode, object_props, record_at, wait_if_blocked};
use crate::topology::Topology;
use crate::votes::{WriteNeed, WriteTally};
use crate::write_clock::time_after;
use crate::write_replicas::Made;
use bytes::Bytes;
use quoit_model::clock::{Dot, VersionVector};
use quoit_model::key::KeyRef;
use quoit_model::merge::{NewValue, WritePolicy};
use quoit_model::object::{Metadata, Object};
use quoit_model::props::{BucketProps, Quorum, WriteQuorums};
use quoit_model::prune::PruneLimits;
use quoit_model::vtag::{make_vtag, riak_secs};
use quoit_store::engine::{Applied, Before, Decision, RecordAt, RecordMeta, RecordRef, Ticket};
use quoit_store::error::StoreError;
use std::borrow::Cow;
use std::sync::Arc;

/// A write.
#[derive(Clone, Debug)]
pub struct PutRequest<'a> {
    /// Where to.
    pub key: KeyRef<'a>,
    /// What the client had read; empty = nothing.
    pub context: VersionVector,
    /// The value's description.
    pub meta: Metadata,
    /// The value.
    pub value: Bytes,
    /// Whether the value is a tombstone.
    pub deleted: bool,
    /// Store the value under the context itself, without a new event (`asis`).
    pub as_is: bool,
    /// Conditions of the write.
    pub precondition: Precondition,
    /// Whether the stored object is wanted back.
    pub return_object: bool,
    /// Quorums and limits.
    pub options: WriteOptions,
    /// Why the value may not be stored, in the client's words, where the protocol has found a fault in it.
    /// Told only when the request has no other fault.
    pub vetoed: Option<String>,
}

/// A delete.
#[derive(Clone, Debug)]
pub struct DeleteRequest<'a> {
    /// Which record.
    pub key: KeyRef<'a>,
    /// What the client had read; `None` = whatever is stored now.
    pub context: Option<VersionVector>,
    /// Conditions of the delete.
    pub precondition: Precondition,
    /// The legacy combined quorum: stands in for `r` and `w` where those are not given.
    pub rw: Option<Quorum>,
    /// Quorums of the read that comes first when there is no context.
    pub read: ReadOptions,
    /// Quorums of the write.
    pub write: WriteOptions,
}

impl DeleteRequest<'_> {
    /// The options of both halves: the read asks for `r` when `r` or `w` is given, else for `rw`; the write
    /// for `w` when it is given, else for `rw`.
    fn halves(&self, props: &BucketProps) -> (ReadOptions, WriteOptions) {
        let both = self.rw.unwrap_or(props.rw);
        let (mut read, mut write) = (self.read, self.write);
        if read.r.is_none() && write.w.is_none() {
            read.r = Some(both);
        }
        write.w = write.w.or(Some(both));
        (read, write)
    }
}

/// What a delete found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deleted {
    /// A tombstone was written.
    Done,
    /// There was nothing to delete; nothing was written.
    Missing,
}

/// One change of one object, decided under the record's stripe lock.
struct ObjectChange<'a> {
    precondition: &'a Precondition,
    context: Context<'a>,
    meta: Metadata,
    value: Bytes,
    deleted: bool,
    as_is: bool,
    /// Why nothing may be written, if it comes to that.
    refused: Option<RequestError>,
}

/// A change that was decided and, if there was anything to change, is in this node's log.
struct Accepted<'a> {
    at: RecordAt<'a>,
    /// What it waits for.
    quorums: WriteQuorums,
    /// The object after the change; `None` when there was nothing to change.
    object: Option<Object>,
    /// Where it stands in the log.
    ticket: Option<Ticket>,
    /// What the other replicas are sent; `None` when there are none.
    replicated: Option<Replicated>,
}

/// What a change under the record's lock came to.
struct Changed {
    object: Option<Object>,
    ticket: Option<Ticket>,
    replicated: Option<Replicated>,
}

/// Quorums of a delete that wrote nothing.
const NOTHING_ASKED: WriteQuorums = WriteQuorums { n_val: 1, w: 0, dw: 0, pw: 0, node_confirms: 0 };

/// What a write has seen.
enum Context<'a> {
    /// What the client says.
    Given(&'a VersionVector),
    /// Everything that is stored at the moment; nothing is written when there is nothing.
    Stored,
}

impl ReplicatedStore {
    /// Writes a value. Returns the stored object if the request asks for it.
    ///
    /// The answer comes when enough replicas have accepted the write (w, pw) and synced it (dw). A
    /// node that is no replica of the record has one of them coordinate.
    ///
    /// # Errors
    ///
    /// Bad names, unknown bucket types, quorums, conditions, limits, engine faults. A write whose quorum was
    /// not met may be stored nevertheless.
    pub async fn put(&self, request: PutRequest<'_>) -> Result<Option<Object>, RequestError> {
        let topology = self.topology();
        if topology.is_alone() {
            return self.timed_put_here(topology, request).await;
        }
        if self.coordinates(&topology, request.key, &request.options) {
            let written = self.timed_put_here(Arc::clone(&topology), request.clone()).await;
            if !is_damage(&written) {
                return written;
            }
        }
        self.forward_put(topology, request).await
    }

    /// A put that this node coordinates.
    pub(crate) async fn timed_put_here(
        &self,
        topology: Arc<Topology>,
        request: PutRequest<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let started_us = self.clock.monotonic_us();
        let result = self.put_here(topology, request).await;
        self.stats().record_put(self.clock.monotonic_us() - started_us, &result);
        result
    }

    async fn put_here(
        &self,
        topology: Arc<Topology>,
        request: PutRequest<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let (options, return_object) = (request.options, request.return_object);
        if !topology.is_alone() && !request.precondition.is_none() {
            // Conditions are about what a read would show, not about what this node happens to hold.
            let read = ReadOptions {
                n_val: options.n_val,
                sloppy_quorum: options.sloppy_quorum,
                timeout_ms: options.timeout_ms,
                ..ReadOptions::default()
            };
            self.refresh_own(request.key, &read).await?;
        }
        let encoded = request.key.encoded();
        let accepted = self.accept_put(&topology, request, &encoded)?;
        let written = self.confirm_all(topology, accepted, &options).await?;
        Ok(written.filter(|_| return_object))
    }

    /// Everything of a put but waiting for the device and for other nodes.
    fn accept_put<'a>(
        &self,
        topology: &Topology,
        request: PutRequest<'a>,
        encoded: &'a [u8],
    ) -> Result<Accepted<'a>, RequestError> {
        request.key.check()?;
        self.check_context(&request.context)?;
        if let Some(clock) = &request.precondition.clock {
            self.check_context(clock)?;
        }
        let state = self.control.read();
        let props = object_props(&state, request.key.bucket)?;
        let at = record_at(&state, props, request.key, encoded);
        if request.precondition.clock.is_some() {
            // The version is that of a read, whose quorums have to be possible.
            let read = ReadOptions { n_val: request.options.n_val, ..ReadOptions::default() };
            self.check_read(topology, at.partition, &read.resolve(props)?, true)?;
        }
        let quorums = self.write_quorums(topology, &at, props, &request.options);
        let change = ObjectChange {
            precondition: &request.precondition,
            context: Context::Given(&request.context),
            meta: request.meta,
            value: request.value,
            deleted: request.deleted,
            as_is: request.as_is,
            // Conditions come first, then quorums, then the value.
            refused: match &quorums {
                Err(fault) => Some(fault.clone()),
                Ok(_) => request.vetoed.map(RequestError::Vetoed),
            },
        };
        let mut changed = self.change(&at, props, &change, !topology.is_alone())?;
        if let Some(object) = &mut changed.object
            && !props.allow_mult
        {
            object.resolve_latest();
        }
        let Changed { object, ticket, replicated } = changed;
        Ok(Accepted { at, quorums: quorums?, object, ticket, replicated })
    }

    /// The quorums of a write, if they can be met with the nodes that are up.
    pub(crate) fn write_quorums(
        &self,
        topology: &Topology,
        at: &RecordAt<'_>,
        props: &BucketProps,
        options: &WriteOptions,
    ) -> Result<WriteQuorums, RequestError> {
        let quorums = options.resolve(props)?;
        if !topology.is_alone() {
            let layouts = topology.writers(at.partition, quorums.n_val, options.is_sloppy(), &[]);
            WriteTally::check(&WriteNeed::from(&quorums), &layouts)?;
        }
        Ok(quorums)
    }

    /// Deletes a record by writing a tombstone, which is reaped later.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`].
    pub async fn delete(&self, request: DeleteRequest<'_>) -> Result<Deleted, RequestError> {
        let topology = self.topology();
        if self.coordinates(&topology, request.key, &request.write) {
            let deleted = self.delete_here(Arc::clone(&topology), &request).await;
            if topology.is_alone() || !is_damage(&deleted) {
                return deleted;
            }
        }
        self.forward_delete(topology, &request).await
    }

    /// A delete that this node coordinates.
    pub(crate) async fn delete_here(
        &self,
        topology: Arc<Topology>,
        request: &DeleteRequest<'_>,
    ) -> Result<Deleted, RequestError> {
        if !topology.is_alone() && (request.context.is_none() || !request.precondition.is_none()) {
            let (read, _) = request.halves(&*self.props_of(request.key)?);
            let read = ReadOptions { timeout_ms: request.write.timeout_ms, ..read };
            self.refresh_own(request.key, &read).await?;
        }
        let encoded = request.key.encoded();
        let accepted = self.accept_delete(&topology, request, &encoded)?;
        let written = self.confirm_all(topology, accepted, &request.write).await?;
        Ok(if written.is_some() { Deleted::Done } else { Deleted::Missing })
    }

    fn accept_delete<'a>(
        &self,
        topology: &Topology,
        request: &DeleteRequest<'a>,
        encoded: &'a [u8],
    ) -> Result<Accepted<'a>, RequestError> {
        request.key.check()?;
        let state = self.control.read();
        let props = object_props(&state, request.key.bucket)?;
        let at = record_at(&state, props, request.key, encoded);
        let (read, write) = request.halves(props);
        let quorums = self.write_quorums(topology, &at, props, &write);
        let context = match &request.context {
            Some(context) => {
                self.check_context(context)?;
                Context::Given(context)
            }
            None => {
                let sloppy = read.is_sloppy();
                self.check_read(topology, at.partition, &read.resolve(props)?, sloppy)?;
                Context::Stored
            }
        };
        let refused = match (&quorums, &context) {
            (Err(fault), Context::Given(_)) => return Err(fault.clone()),
            // The read comes first: what is not there is not written, so its quorum does not matter.
            (Err(fault), Context::Stored) => Some(fault.clone()),
            (Ok(_), _) => None,
        };
        let change = ObjectChange {
            precondition: &request.precondition,
            context,
            meta: Metadata::default(),
            value: Bytes::new(),
            deleted: true,
            as_is: false,
            refused,
        };
        let Changed { object, ticket, replicated } =
            self.change(&at, props, &change, !topology.is_alone())?;
        let quorums = quorums.unwrap_or(NOTHING_ASKED);
        Ok(Accepted { at, quorums, object, ticket, replicated })
    }

    /// Waits until a write has what its quorums ask for, here and on the other replicas.
    async fn confirm_all(
        &self,
        topology: Arc<Topology>,
        accepted: Accepted<'_>,
        options: &WriteOptions,
    ) -> Result<Option<Object>, RequestError> {
        let Accepted { at, quorums, object, ticket, replicated } = accepted;
        match (ticket, replicated) {
            (Some(ticket), Some(replicated)) => {
                let (sloppy, timeout_ms) = (options.is_sloppy(), options.timeout_ms);
                let (key, partition) = (Bytes::copy_from_slice(at.encoded), at.partition);
                let made = Made { key, partition, replicated, ticket, quorums, sloppy, timeout_ms };
                self.write_replicas(topology, &made).await?;
            }
            _ => self.confirm(&quorums, ticket, options.timeout_ms).await?,
        }
        Ok(object)
    }

    /// Checks a context that came from outside.
    pub(crate) fn check_context(&self, context: &VersionVector) -> Result<(), RequestError> {
        quoit_model::context::check_context(context, self.dots.actor(), self.dots.last_issued())?;
        Ok(())
    }

    /// Waits until a write of a node that is alone has what its quorums ask for.
    pub(crate) async fn confirm(
        &self,
        quorums: &WriteQuorums,
        ticket: Option<Ticket>,
        timeout_ms: Option<u32>,
    ) -> Result<(), RequestError> {
        let Some(ticket) = ticket else { return Ok(()) };
        if quorums.dw > 0 {
            self.durable(ticket, timeout_ms).await?;
        }
        check_lone_node(quorums)
    }

    fn change(
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
            && matches!(change.context, Context::Given(_));
        let before = if blind { Before::Skip } else { Before::Read };
        let mut outcome: Option<Result<Option<Object>, RequestError>> = None;
        let mut replicated = None;
        let ticket = wait_if_blocked(self.settings.blocking, |access| {
            let mut apply = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
                let made = self.make_object(at, props, policy, change, stored);
                let start = out.len();
                let (decision, result) = match made {
                    Ok(Some(object)) => self.store_object(at, props, object, replicates, out),
                    Ok(None) => (Decision::Keep, Ok(None)),
                    Err(fault) => (Decision::Keep, Err(fault)),
                };
                if let (Decision::Put(meta), true) = (decision, replicates) {
                    let object = Bytes::copy_from_slice(&out[start..]);
                    replicated = Some(Replicated { meta, rule: merge_rule(props), object });
                }
                outcome = Some(result);
                decision
            };
            let mut applied = self.engine.update(at, before, access, &mut apply);
            if let (Err(StoreError::Corrupt { .. }), false) = (&applied, replicates) {
                // Nobody else has it: what was there is lost, and must not keep the key from use.
                applied = self.engine.update(at, Before::Skip, access, &mut apply);
            }
            Ok(match applied? {
                Applied::Kept => Some(None),
                Applied::Written(ticket) => Some(Some(ticket)),
                Applied::WouldBlock => None,
            })
        })?;
        let object = outcome.expect("an update that did not fail called its change function")?;
        Ok(Changed { object, ticket, replicated })
    }

    /// The object after the change; `None` when there is nothing to change.
    fn make_object(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        policy: WritePolicy,
        change: &ObjectChange<'_>,
        stored: Option<&RecordRef<'_>>,
    ) -> Result<Option<Object>, RequestError> {
        let stored = stored.map(|record| decode(&record.to_bytes())).transpose()?;
        let shown = stored.as_ref().map(|object| shown(object, props));
        change.precondition.check(shown.as_deref())?;
        let context = match (&change.context, shown.as_deref()) {
            (Context::Given(context), _) => (*context).clone(),
            (Context::Stored, Some(object)) if !object.is_tombstone() => object.clock.clone(),
            (Context::Stored, _) => return Ok(None),
        };
        if let Some(fault) = &change.refused {
            return Err(fault.clone());
        }
        let replaced_us = stored.as_ref().map_or(0, Object::last_modified_us);
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
            vtag: make_vtag(&dot, at.identity.0),
        };
        let mut object = if change.as_is {
            Object::put_as_is(stored.as_ref(), context, new, policy)
        } else {
            Object::write(stored.as_ref(), &context, new, dot, policy)
        };
        if !props.dvv_enabled {
            object.prune_clock(&prune_limits(props), riak_secs(now_us / 1_000_000));
        }
        let sibling_count = object.siblings.len() as u32;
        if sibling_count > self.settings.limits.sibling_count_max {
            return Err(RequestError::TooManySiblings(sibling_count));
        }
        Ok(Some(object))
    }

    /// The event of a write to this node's copy of a record. Called under the record's lock: whether the
    /// copy is kept must not change in between.
    pub(crate) fn issue_dot(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        time_secs: u64,
    ) -> Result<Dot, StoreError> {
        let topology = self.topology_now();
        let keeps = topology.is_alone() || topology.keeps(at.partition, props.n_val);
        match keeps {
            true => self.dots.issue(time_secs),
            false => self.dots.issue_passing(at.partition, time_secs),
        }
    }

    /// The time of a write that replaces a value of this time (0: none).
    pub(crate) fn write_time_us(&self, policy: WritePolicy, replaced_us: u64) -> u64 {
        let clock_us = self.clock.unix_us();
        match policy {
            WritePolicy::LastWriteWins => self.write_clock.next(clock_us, replaced_us),
            _ => time_after(clock_us, [replaced_us]),
        }
    }

    /// Life of the bucket's objects; 0 in the property means for ever, whatever the node's default.
    pub(crate) fn ttl_secs(&self, props: &BucketProps) -> Option<u32> {
        match props.ttl_secs {
            Some(0) => None,
            Some(ttl_secs) => Some(ttl_secs),
            None => self.settings.ttl_secs_default,
        }
    }

    /// Encodes the object into the engine's buffer and says what the engine has to know of it.
    fn store_object(
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
        let tombstone = object.is_tombstone();
        if tombstone {
            if !replicates && self.reaper.reap_at_once(self.settings.delete_mode) {
                return (Decision::Remove, Ok(Some(object)));
            }
            let due_us = self.clock.unix_us();
            self.reaper.note(self.settings.delete_mode, at, object.digest(), due_us);
        }
        let meta = RecordMeta {
            digest: object.digest(),
            tombstone,
            n_val_class: props.n_val.min(15) as u8,
            expires_at_secs: object.expires_at_secs().unwrap_or(0),
        };
        (Decision::Put(meta), Ok(Some(object)))
    }

    /// Refuses objects that are too large, and logs large ones.
    pub(crate) fn check_size(&self, key: KeyRef<'_>, size_bytes: u64) -> Result<(), RequestError> {
        let limits = &self.settings.limits;
        if size_bytes > limits.object_size_bytes_max {
            return Err(RequestError::ObjectTooLarge { size_bytes });
        }
        if size_bytes > limits.object_size_bytes_warning {
            tracing::warn!(
                bucket = %String::from_utf8_lossy(key.bucket.bucket),
                key = %String::from_utf8_lossy(key.key),
                size_bytes,
                "large object written"
            );
        }
        Ok(())
    }

    fn warn_if_many(&self, key: KeyRef<'_>, object: &Object) {
        let limits = &self.settings.limits;
        if object.siblings.len() as u32 > limits.sibling_count_warning {
            tracing::warn!(
                bucket = %String::from_utf8_lossy(key.bucket.bucket),
                key = %String::from_utf8_lossy(key.key),
                sibling_count = object.siblings.len(),
                "object with many siblings written"
            );
        }
    }
}

/// Whether a write failed because this node's copy is damaged: whoever coordinates with a damaged copy
/// claims to have seen what it has lost. Another replica coordinates then, and mends the copy.
fn is_damage<T>(result: &Result<T, RequestError>) -> bool {
    matches!(result, Err(RequestError::Store(StoreError::Corrupt { .. })))
}

/// Checks what a node that is alone can give to a write. The write itself stands either way.
fn check_lone_node(quorums: &WriteQuorums) -> Result<(), RequestError> {
    let (kind, wanted, got) = (QuorumKind::NodeConfirms, quorums.node_confirms, 1);
    if wanted > got { Err(RequestError::Unsatisfied { kind, wanted, got }) } else { Ok(()) }
}

/// What readers are shown of what is stored: conditions and deletes are about that.
fn shown<'o>(object: &'o Object, props: &BucketProps) -> Cow<'o, Object> {
    if props.allow_mult || object.siblings.len() < 2 {
        return Cow::Borrowed(object);
    }
    let mut latest = object.clone();
    latest.resolve_latest();
    Cow::Owned(latest)
}

pub(crate) fn policy(props: &BucketProps, deleted: bool) -> WritePolicy {
    // A delete of a write-once record has a context, as every delete.
    if props.is_write_once() && !deleted {
        WritePolicy::WriteOnce
    } else if props.last_write_wins {
        WritePolicy::LastWriteWins
    } else if props.allow_mult {
        WritePolicy::Siblings
    } else {
        WritePolicy::LatestModified
    }
}

fn prune_limits(props: &BucketProps) -> PruneLimits {
    PruneLimits {
        small_entries: props.small_vclock,
        big_entries: props.big_vclock,
        young_secs: props.young_vclock,
        old_secs: props.old_vclock,
    }
}

pub(crate) fn expiry(now_us: u64, ttl_secs: u32) -> u32 {
    u32::try_from(now_us / 1_000_000 + u64::from(ttl_secs)).unwrap_or(u32::MAX)
}

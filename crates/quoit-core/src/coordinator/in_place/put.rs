//! Writes in place: a plain object is replaced without being decoded.

use crate::appended::appended;
use crate::coordinator::Coordinator;
use crate::coordinator::change::{expiry, policy};
use crate::coordinator::write_replicas::{OwnWrite, ReplicatedWrite, SentForm, WriteTargets};
use crate::error::RequestError;
use crate::options::WriteOptions;
use crate::placement::{object_props, record_at};
use crate::replica::{Replicated, WrittenObject, merge_rule};
use crate::request_log::{AskedNodes, Finished, RequestKind};
use crate::shared_value;
use crate::stored::decode;
use crate::topology::Topology;
use crate::votes::Layouts;
use arc_swap::Guard;
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::data_type::claims_riak_data_type;
use quoit_model::key::KeyRef;
use quoit_model::merge::WritePolicy;
use quoit_model::plain::PlainObject;
use quoit_model::props::{BucketProps, WriteQuorums};
use quoit_model::vtag::{riak_secs, vtag_text};
use quoit_planted::planted;
use quoit_store::engine::{
    Applied, BeforeImage, Decision, IoMode, RecordAt, RecordMeta, RecordRef, Ticket,
};
use quoit_store::error::StoreError;
use std::fmt;
use std::sync::Arc;

/// Size in bytes up to which debug builds decode the plain objects that they write.
const CHECKED_BYTES_MAX: usize = 4 << 10;

/// A put of one value with at most a content type, which does not return the object.
#[derive(Clone, Debug)]
pub struct PlainWrite<'a> {
    /// The record.
    pub key: KeyRef<'a>,
    /// Causal context of the client's last read; empty if it has read nothing.
    pub context: VersionVector,
    /// Media type of the value.
    pub content_type: Option<&'a [u8]>,
    /// The value.
    pub value: &'a [u8],
    /// The value in a buffer that can be shared; for large values
    /// ([`SHARED_BYTES_MIN`](quoit_wire::SHARED_BYTES_MIN)), which are then written from there.
    pub shared: Option<Bytes>,
    /// Quorums and limits.
    pub options: WriteOptions,
}

/// A write that is in the log. [`ReplicatedStore::finish`](crate::ReplicatedStore::finish) waits for what
/// it still needs.
#[must_use = "a write is acknowledged when it is finished"]
pub struct Pending {
    started_us: u64,
    size_bytes: u64,
    wants: AwaitedSyncs,
}

impl Pending {
    /// A write on a node that is alone, which waits at most for the sync.
    pub(crate) const fn of_lone_node(
        started_us: u64,
        quorums: WriteQuorums,
        ticket: Ticket,
        name: Option<Bytes>,
    ) -> Self {
        let wants = AwaitedSyncs::Device { quorums, ticket, timeout_ms: None, name };
        Self { started_us, size_bytes: 0, wants }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pending")
            .field("started_us", &self.started_us)
            .finish_non_exhaustive()
    }
}

/// Syncs and answers that a write in the log still waits for.
enum AwaitedSyncs {
    /// Only this node's sync, if `dw` asks for it. `name` is the encoded name for the request log.
    Device { quorums: WriteQuorums, ticket: Ticket, timeout_ms: Option<u32>, name: Option<Bytes> },
    /// The other replicas, and this node's sync.
    Replicas(Arc<Topology>, Layouts, ReplicatedWrite),
}

impl Coordinator {
    /// As [`ReplicatedStore::put_in_place`](crate::ReplicatedStore::put_in_place).
    pub(crate) fn put_in_place(
        &self,
        write: &PlainWrite<'_>,
    ) -> Result<Option<Pending>, RequestError> {
        self.check_puts()?;
        let started_us = self.local.clock.monotonic_us();
        let accepted = self.accept_plain(write);
        if accepted.is_err() {
            self.local.stats.record_put(self.local.clock.monotonic_us() - started_us, &accepted);
        }
        let size_bytes = write.value.len() as u64;
        Ok(accepted?.map(|wants| Pending { started_us, size_bytes, wants }))
    }

    /// As [`ReplicatedStore::finish`](crate::ReplicatedStore::finish).
    pub(crate) async fn finish(&self, pending: Pending) -> Result<(), RequestError> {
        let Pending { started_us, size_bytes, wants } = pending;
        // A write without a name waits for nothing and is done.
        let is_done = matches!(&wants, AwaitedSyncs::Device { name: None, .. });
        let own_us = if is_done { 0 } else { self.local.clock.monotonic_us() - started_us };
        let mut asked = AskedNodes::default();
        let (result, name) = match wants {
            AwaitedSyncs::Device { quorums, ticket, timeout_ms, name } => {
                let _waiting = (quorums.dw > 0).then(|| self.waiting_put());
                (self.confirm(&quorums, Some(ticket), timeout_ms).await, name)
            }
            AwaitedSyncs::Replicas(topology, layouts, made) => {
                let _waiting = self.waiting_put();
                let written = self.write_replicas(topology, layouts, &made, &mut asked).await;
                (written, Some(made.key))
            }
        };
        let total_us = self.local.clock.monotonic_us() - started_us;
        self.local.stats.record_put(total_us, &result);
        if let Some(key) = name.as_deref().and_then(|name| KeyRef::decode(name).ok()) {
            let (kind, failed) = (RequestKind::Put, result.is_err());
            let sibling_count = u64::from(!failed);
            let asked = &asked;
            let finished =
                Finished { kind, key, total_us, own_us, size_bytes, sibling_count, failed, asked };
            self.request_log.note(&*self.local.clock, &finished);
        }
        result
    }

    /// Decides a plain write and appends it to the log; `None` to decline.
    fn accept_plain(&self, write: &PlainWrite<'_>) -> Result<Option<AwaitedSyncs>, RequestError> {
        let state = self.local.control.read();
        let topology = self.local.topology_of(&state);
        let replicates = !topology.is_alone();
        if replicates && !self.local.internode.is_settled() {
            return Ok(None);
        }
        write.key.check()?;
        self.local.check_context(&write.context)?;
        let props = object_props(&state, write.key.bucket)?;
        // The general way makes a state of a data type of Riak's.
        let PlainWrite { value, content_type, .. } = *write;
        let has_hooks = !props.precommit.is_empty();
        if has_hooks || claims_riak_data_type(value, content_type, props.datatype) {
            return Ok(None);
        }
        let encoded = write.key.encoded();
        let at = record_at(&state, props, write.key, &encoded);
        let (sloppy, timeout_ms) = (write.options.is_sloppy(), write.options.timeout_ms);
        let quorums = write.options.resolve(props)?;
        let targets = WriteTargets::new(&topology, at.partition, quorums, sloppy);
        if replicates && !topology.coordinates(&targets.layouts) {
            return Ok(None);
        }
        targets.check(&topology)?;
        let mut replicated = None;
        let ticket = self.log_plain(write, &at, props, replicates, &mut replicated)?;
        let Some(ticket) = ticket else { return Ok(None) };
        debug_assert!(!replicates || replicated.is_some(), "a cluster's write is sent to others");
        let written = replicated.as_ref().map_or(WrittenObject::InPlace, WrittenObject::Encoded);
        self.hook.queue_written(&at, props, written);
        Ok(Some(match replicated.filter(|_| replicates) {
            None => {
                // A write that waits for nothing is never slow enough for the request log.
                let name = (quorums.dw > 0).then(|| Bytes::copy_from_slice(&encoded));
                AwaitedSyncs::Device { quorums, ticket, timeout_ms, name }
            }
            Some(replicated) => {
                let (key, partition) = (Bytes::copy_from_slice(&encoded), at.partition);
                let sent = SentForm::Object(replicated);
                let own = OwnWrite::Logged(ticket);
                let made =
                    ReplicatedWrite { key, partition, sent, own, quorums, sloppy, timeout_ms };
                AwaitedSyncs::Replicas(Guard::into_inner(topology), targets.layouts, made)
            }
        }))
    }

    /// Appends a plain write to the log; `None` to decline. If it `replicates`, or if a source queue keeps
    /// the object, leaves the object in the form for replicas in `replicated`.
    #[inline]
    fn log_plain(
        &self,
        write: &PlainWrite<'_>,
        at: &RecordAt<'_>,
        props: &BucketProps,
        replicates: bool,
        replicated: &mut Option<Replicated>,
    ) -> Result<Option<Ticket>, RequestError> {
        let policy = policy(props, false);
        let blind = matches!(policy, WritePolicy::LastWriteWins);
        let before = if blind { BeforeImage::Skip } else { BeforeImage::Front };
        let mut fault = None;
        let mut change = |stored: Option<&RecordRef<'_>>,
                          out: &mut Vec<u8>,
                          rest: Option<&mut Bytes>| {
            let start = out.len();
            match self.replace_plain(write, at, props, policy, stored, out) {
                Ok(Some(meta)) => {
                    let rest_bytes = rest.as_ref().map_or(0, |rest| rest.len());
                    if replicates || self.hook.is_held(out.len() - start + rest_bytes) {
                        let object = match rest {
                            None => Bytes::copy_from_slice(appended(out, start)),
                            Some(rest) => shared_value::join(appended(out, start), rest),
                        };
                        *replicated = Some(Replicated { meta, rule: merge_rule(props), object });
                    }
                    Decision::Put(meta)
                }
                Ok(None) => Decision::Keep,
                Err(error) => {
                    fault = Some(error);
                    Decision::Keep
                }
            }
        };
        let (records, access, shared) =
            (&self.local.records, IoMode::NoWait, write.shared.as_ref());
        let updated = records.update_plain(at, before, access, shared, &mut change);
        ticket_of(updated, fault)
    }

    /// Encodes the object after the write into the engine's buffer, except for a value that can be shared;
    /// `None` if that object would not be plain.
    fn replace_plain(
        &self,
        write: &PlainWrite<'_>,
        at: &RecordAt<'_>,
        props: &BucketProps,
        policy: WritePolicy,
        stored: Option<&RecordRef<'_>>,
        out: &mut Vec<u8>,
    ) -> Result<Option<RecordMeta>, RequestError> {
        let stored = match stored.map(plain_of) {
            // The general path handles reap records.
            None if self.replica.may_be_reaped(at) => return Ok(None),
            None => None,
            Some(None) => return Ok(None),
            Some(plain) => plain,
        };
        let stored_us = stored.as_ref().map_or(0, |stored| stored.last_modified_us);
        let now_us = self.write_time_us(policy, stored_us);
        let dot = self.issue_dot(at, props, riak_secs(now_us / 1_000_000))?;
        let clock =
            PlainObject::clock_if_replaced(stored.as_ref(), &write.context, &dot, now_us, policy);
        let may_prune = |clock: &VersionVector| {
            !props.dvv_enabled && clock.entries().len() > props.small_vclock as usize
        };
        let Some(clock) = clock.filter(|clock| !may_prune(clock)) else { return Ok(None) };
        let vtag = vtag_text(&dot, at.identity.0);
        let replaced = stored.as_ref().and_then(|stored| stored.expires_at_secs);
        let kept = replaced.filter(|_| planted!(KeepsFirstExpiry));
        let expires_at = |ttl_secs| kept.unwrap_or_else(|| expiry(now_us, ttl_secs));
        let expires_at_secs = self.ttl_secs(props).map(expires_at);
        let object = PlainObject {
            last_modified_us: now_us,
            vtag: &vtag,
            content_type: write.content_type,
            expires_at_secs,
            replaces: expires_at_secs.is_some()
                && policy.may_replace(stored.is_some(), &write.context),
            value: write.value,
            ..PlainObject::written(clock, &dot)
        };
        let start = out.len();
        let rest_bytes = match &write.shared {
            None => {
                object.encode_into(out);
                0
            }
            Some(value) => {
                debug_assert_eq!(value, write.value, "the value is the same in both forms");
                object.encode_front_into(out);
                value.len()
            }
        };
        self.check_size(at.key, (out.len() - start + rest_bytes) as u64)?;
        let digest = object.digest();
        debug_assert!(
            out.len() - start + rest_bytes > CHECKED_BYTES_MAX
                || is_stored_with(digest, appended(out, start)),
            "a plain object is read with the digest that it is written with"
        );
        Ok(Some(RecordMeta {
            digest,
            tombstone: false,
            n_val_class: RecordMeta::class_of(props.n_val),
            expires_at_secs: object.expires_at_secs.unwrap_or(0),
            // Plain objects have no index entries.
            indexed: false,
        }))
    }
}

/// Position of a plain write in the log, or the fault of the change; `None` if nothing was written and
/// the general path has to try.
fn ticket_of(
    updated: Result<Option<Applied>, StoreError>,
    fault: Option<RequestError>,
) -> Result<Option<Ticket>, RequestError> {
    let applied = match updated {
        // The general path decides about a damaged copy or a full disk.
        Err(StoreError::Corrupt { .. } | StoreError::DiskFull { .. }) => return Ok(None),
        Ok(None) => return Ok(None),
        Ok(Some(applied)) => applied,
        Err(fault) => return Err(fault.into()),
    };
    match (applied, fault) {
        (Applied::Written(ticket), _) => Ok(Some(ticket)),
        (Applied::Kept | Applied::WouldBlock, None) => Ok(None),
        (Applied::Kept | Applied::WouldBlock, Some(fault)) => Err(fault),
    }
}

/// True if these bytes are an object with this digest.
fn is_stored_with(digest: u64, stored: &[u8]) -> bool {
    decode(&Bytes::copy_from_slice(stored)).is_ok_and(|object| object.digest() == digest)
}

/// The stored object if it is plain, possibly without its value.
fn plain_of<'r>(record: &RecordRef<'r>) -> Option<PlainObject<'r>> {
    match record.is_whole {
        true => PlainObject::read(record.value),
        false => PlainObject::read_front(record.value, record.meta.digest),
    }
}

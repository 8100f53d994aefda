//! Implements `openraft`'s state machine: it applies entries to the state, and makes and installs
//! snapshots.

use super::codec::{decode_change, encode_change};
use super::file::{Applied, ControlFile};
use super::link::ControlLink;
use super::log::storage_error;
use super::types::{
    DecisionOutcome, Entry, LogId, SnapshotMeta, StorageError, StoredMembership, TypeConfig,
};
use crate::ClusterId;
use crate::change::Change;
use crate::error::StoreError;
use crate::state::cluster_codec::{decode_cluster, decode_layout};
use crate::state::{State, StoredState};
use arc_swap::ArcSwap;
use bytes::Bytes;
use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{EntryPayload, ErrorSubject, ErrorVerb, OptionalSend, RaftSnapshotBuilder};
use prost::Message as _;
use quoit_model::hash::RingSize;
use quoit_planted::planted;
use quoit_wire::internode::control::StateMessage;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The published state, and the position in the log that it reflects.
pub(crate) struct Published {
    pub(crate) state: ArcSwap<State>,
    /// Version of the newest state. Never lower than the version of a state that was read before.
    pub(crate) newest_version: AtomicU64,
    /// Version of the published state, for watchers.
    pub(crate) version: watch::Sender<u64>,
    /// Number that grows with each state whose rules of security differ from those before; begins with 1.
    pub(crate) security_epoch: Arc<AtomicU64>,
    /// Index of the last applied entry.
    pub(crate) applied_index: watch::Sender<u64>,
    link: ControlLink,
}

impl Published {
    pub(crate) fn new(state: State, applied_index: u64, link: ControlLink) -> Self {
        Self {
            link,
            security_epoch: Arc::new(AtomicU64::new(1)),
            version: watch::Sender::new(state.version()),
            newest_version: AtomicU64::new(state.version()),
            state: ArcSwap::from_pointee(state),
            applied_index: watch::Sender::new(applied_index),
        }
    }

    pub(crate) fn publish(&self, state: Arc<State>, applied_index: u64) {
        self.link.tell(&state);
        let version = state.version();
        // Set before the state is published: values derived from an older state must not look current once
        // the new state can be read.
        self.newest_version.store(version, Ordering::Release);
        let before = self.state.swap(Arc::clone(&state));
        if !Arc::ptr_eq(before.security(), state.security()) && !planted!(KeepsEpoch) {
            // Set after the state is published: a reader that has seen the new epoch also sees these rules or
            // later ones.
            self.security_epoch.fetch_add(1, Ordering::Release);
        }
        self.version.send_replace(version);
        self.applied_index.send_replace(applied_index);
    }
}

/// The state machine. Each change is in the control file before readers see it.
pub(crate) struct Machine {
    file: Arc<ControlFile>,
    published: Arc<Published>,
}

impl Machine {
    pub(crate) const fn new(file: Arc<ControlFile>, published: Arc<Published>) -> Self {
        Self { file, published }
    }

    /// Makes a snapshot of the current state.
    fn snapshot(&self) -> Result<Snapshot<TypeConfig>, StoreError> {
        let applied = self.file.applied()?;
        let state = self.published.state.load_full();
        let index = applied.last.map_or(0, |last| last.index);
        let meta = SnapshotMeta {
            last_log_id: applied.last,
            last_membership: applied.electorate,
            snapshot_id: format!("{index}-{}", state.version()),
        };
        let bytes = encode_state(&state).encode_to_vec();
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }

    /// Makes a state durable and publishes it. `changes` lead to it from the current state; `None` if it
    /// replaces the current state entirely.
    fn write(
        &self,
        changes: Option<&[Change]>,
        state: Arc<State>,
        last: Option<LogId>,
        electorate: StoredMembership,
    ) -> Result<(), StoreError> {
        let (version, revision) = (state.version(), state.revision());
        let applied = Applied { last, electorate, version, revision };
        match changes {
            Some(changes) => {
                let before = self.published.state.load_full();
                self.file.apply(changes, &before, &state, &applied)?;
            }
            None => self.file.replace(&state, &applied)?,
        }
        self.published.publish(state, last.map_or(0, |last| last.index));
        Ok(())
    }
}

fn on_state(verb: ErrorVerb) -> impl Fn(StoreError) -> StorageError {
    move |error| storage_error(ErrorSubject::StateMachine, verb, &error)
}

/// Encodes the part of a state that all nodes share.
fn encode_state(state: &State) -> StateMessage {
    StateMessage {
        cluster_id: Bytes::copy_from_slice(&state.cluster_id().0),
        ring_size: state.ring_size().get().into(),
        version: state.version(),
        revision: state.revision(),
        changes: state.changes().iter().map(encode_change).collect(),
        layouts: state.layouts().live().iter().map(|layout| layout.encode().into()).collect(),
        cluster: Some(state.cluster_message()),
    }
}

/// Decodes the state of a snapshot, for the node with the state `own`.
fn decode_state(own: &State, bytes: &[u8]) -> Result<State, String> {
    let message = StateMessage::decode(bytes).map_err(|error| error.to_string())?;
    let cluster_id = message.cluster_id[..].try_into().map_err(|_| "no cluster id")?;
    let ring_size = u16::try_from(message.ring_size).ok().and_then(RingSize::new);
    let ring_size = ring_size.ok_or_else(|| format!("no ring size: {}", message.ring_size))?;
    let changes: Vec<_> = message.changes.iter().map(decode_change).collect::<Result<_, _>>()?;
    let layouts = message.layouts.iter().map(|layout| decode_layout(layout));
    let cluster = message.cluster.unwrap_or_default();
    let whole = StoredState {
        cluster_id: ClusterId(cluster_id),
        ring_size,
        version: message.version,
        revision: message.revision,
        changes,
        cluster: decode_cluster(&cluster, layouts.collect::<Result<_, _>>()?)?,
    };
    Ok(State::restored(own, whole))
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotBuilder = StateSnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        let applied = self.file.applied().map_err(on_state(ErrorVerb::Read))?;
        Ok((applied.last, applied.electorate))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<DecisionOutcome>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let applied = self.file.applied().map_err(on_state(ErrorVerb::Read))?;
        let Applied { mut last, mut electorate, .. } = applied;
        let mut state = self.published.state.load_full();
        let mut changes = Vec::new();
        let mut outcomes = Vec::new();
        for entry in entries {
            last = Some(entry.log_id);
            let mut applied = true;
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Membership(membership) => {
                    electorate = StoredMembership::new(last, membership);
                }
                EntryPayload::Normal(decision) => match state.decided(&decision) {
                    Some(next) => {
                        state = Arc::new(next);
                        changes.extend(decision.changes);
                    }
                    None => applied = false,
                },
            }
            outcomes.push(DecisionOutcome { applied });
        }
        let written = self.write(Some(&changes), state, last, electorate);
        written.map_err(on_state(ErrorVerb::Write))?;
        Ok(outcomes)
    }

    async fn get_snapshot_builder(&mut self) -> StateSnapshotBuilder {
        StateSnapshotBuilder(self.snapshot())
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::new(Cursor::new(Vec::new())))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let own = self.published.state.load_full();
        let failed = |error: &StoreError| {
            let subject = ErrorSubject::Snapshot(Some(meta.signature()));
            storage_error(subject, ErrorVerb::Write, error)
        };
        let decoded = decode_state(&own, snapshot.get_ref());
        let state = decoded
            .map_err(|reason| failed(&StoreError { path: self.file.path().to_owned(), reason }))?;
        let electorate = meta.last_membership.clone();
        let written = self.write(None, Arc::new(state), meta.last_log_id, electorate);
        written.map_err(|error| failed(&error))
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, StorageError> {
        let snapshot = self.snapshot().map_err(on_state(ErrorVerb::Read))?;
        Ok(snapshot.meta.last_log_id.is_some().then_some(snapshot))
    }
}

/// A snapshot that was taken when the builder was created: the state is one value in memory.
pub(crate) struct StateSnapshotBuilder(Result<Snapshot<TypeConfig>, StoreError>);

impl RaftSnapshotBuilder<TypeConfig> for StateSnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, StorageError> {
        self.0.clone().map_err(on_state(ErrorVerb::Read))
    }
}

//! Deltas of data types that arrive from other clusters.
//!
//! A delta describes the effect of one operation. It may be joined only with a record that has all earlier
//! events of the delta's actor. Otherwise replicas would take a part of the state for the whole state until
//! the next full-sync. A cluster that lacks earlier events asks for the whole object.

use super::Replication;
use super::arrive::{Arrival, ArrivalTarget};
use crate::coordinator::write_replicas::{OwnWrite, SentForm, join_message};
use crate::error::RequestError;
use crate::exchange::OtherClusterCopy;
use crate::replica::ApplyOutcome;
use crate::replica::SentDelta;
use crate::replica::WrittenObject;
use crate::replica::{DecodedDelta, JoinOutcome};
use crate::settings::TIMEOUT_MS_DEFAULT;
use crate::stored::wait_if_blocked;
use crate::topology::cost_us;
use crate::votes::NodeIndex;
use bytes::Bytes;
use quoit_cluster::{CallError, Replies};
use quoit_model::data_type::{Delta, StoredFormError};
use quoit_store::engine::RecordMeta;
use quoit_wire::internode::data::{self, AckMoment, REFUSED_NEEDS_WHOLE};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// A delta of a data type in the form in which clusters send it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrivedDelta {
    /// Stored form of the delta.
    pub delta: Bytes,
    /// Time of the operation, microseconds since 1970.
    pub last_modified_us: u64,
}

/// Outcome of an arriving delta.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeltaOutcome {
    /// The replicas have joined it.
    Joined,
    /// This cluster lacks earlier events: it needs the whole object, or the deltas under way.
    LacksEarlier,
}

impl Replication {
    /// Joins a delta of another cluster with the record, under the delta's own event and time.
    ///
    /// # Errors
    ///
    /// As [`Replication::store_arrived`], and bytes that do not encode a delta.
    pub async fn join_arrived(
        &self,
        encoded: &Bytes,
        arrived: &ArrivedDelta,
        arrival: &Arrival,
    ) -> Result<DeltaOutcome, RequestError> {
        let malformed = |fault: StoredFormError| {
            RequestError::Damaged(format!("a delta of another cluster: {fault}"))
        };
        let delta = Delta::decode(&arrived.delta).map_err(malformed)?;
        let receiving = self.receiving(encoded, arrival.dw).await?;
        let sent = SentDelta {
            n_val_class: RecordMeta::class_of(receiving.props.n_val),
            last_modified_us: arrived.last_modified_us,
            delta: arrived.delta.clone(),
            has_dropped_tombstones: false,
        };
        let is_primary = receiving.is_primary();
        // This node is a fallback, so its copy lacks earlier events. Ask a primary first.
        if !is_primary && !self.joins_elsewhere(&receiving, &sent).await? {
            return Ok(DeltaOutcome::LacksEarlier);
        }
        let (mut own, mut is_news) = (OwnWrite::None, true);
        if receiving.is_own {
            let joining = DecodedDelta {
                delta,
                n_val_class: sent.n_val_class,
                last_modified_us: sent.last_modified_us,
                needs_earlier: is_primary,
            };
            let Some(joined) = self.join_own(&receiving, &joining)? else {
                return Ok(DeltaOutcome::LacksEarlier);
            };
            (own, is_news) = joined;
        }
        self.spread(&receiving, SentForm::Delta(sent.clone()), own).await?;
        self.forward_arrived(&receiving, &WrittenObject::Delta(&sent), arrival, is_news);
        Ok(DeltaOutcome::Joined)
    }

    /// Merges another cluster's copy of a large set or map into the copies here, by the ranges in which
    /// they differ. False if that is not possible: then the whole object is needed.
    ///
    /// # Errors
    ///
    /// As [`Replication::store_arrived`].
    pub async fn merge_with_remote_copy(
        &self,
        encoded: &Bytes,
        copy: &mut dyn OtherClusterCopy,
        arrival: &Arrival,
    ) -> Result<bool, RequestError> {
        let receiving = self.receiving(encoded, arrival.dw).await?;
        let ArrivalTarget { topology, at, targets, .. } = &receiving;
        if !receiving.is_primary() {
            return Ok(false);
        }
        let taken = self.replica.merge_from_other_cluster(copy, at.partition, encoded).await;
        let Some(written) = taken.map_err(RequestError::from)? else { return Ok(false) };
        if let Some(ticket) = written {
            self.local.synced(ticket).await?;
        }
        // The other primaries compare their copies with this node's copy, in the same way.
        let primaries: BTreeSet<NodeIndex> = targets
            .layouts
            .iter()
            .flat_map(|voters| voters.iter())
            .filter(|voter| voter.primary > 0)
            .map(|voter| voter.node)
            .collect();
        let mut united_count = 1;
        for peer in primaries.iter().filter_map(|node| topology.peer(*node)) {
            let united = self.replica.merge_by_ranges(peer, at.partition, encoded).await;
            united_count += usize::from(united.is_ok_and(|united| united.is_some()));
        }
        if united_count * 2 <= primaries.len() {
            return Ok(false);
        }
        self.forward_arrived(&receiving, &WrittenObject::InPlace, arrival, written.is_some());
        Ok(true)
    }

    /// Joins a delta with this node's copy. Returns true if it changed the copy; `None` if the copy lacks
    /// earlier events.
    fn join_own(
        &self,
        receiving: &ArrivalTarget<'_>,
        joining: &DecodedDelta,
    ) -> Result<Option<(OwnWrite, bool)>, RequestError> {
        let at = &receiving.at;
        let before = self.local.records.head(at)?.map(|meta| meta.digest);
        let joined = wait_if_blocked(self.local.settings.blocking, |access| {
            Ok(match self.replica.join_copy(at, joining, access)? {
                JoinOutcome::WouldBlock => None,
                joined => Some(joined),
            })
        })?;
        match joined {
            JoinOutcome::Done(ApplyOutcome::Written(ticket, _)) => {
                let after = self.local.records.head(at)?.map(|meta| meta.digest);
                Ok(Some((OwnWrite::Logged(ticket), before != after)))
            }
            JoinOutcome::Done(ApplyOutcome::Known | ApplyOutcome::Nothing) => {
                Ok(Some((OwnWrite::Settled, false)))
            }
            JoinOutcome::NeedsWhole | JoinOutcome::WouldBlock => Ok(None),
        }
    }

    /// Has one primary join a delta before it is sent to the others. False if that primary lacks
    /// earlier events.
    async fn joins_elsewhere(
        &self,
        receiving: &ArrivalTarget<'_>,
        sent: &SentDelta,
    ) -> Result<bool, RequestError> {
        let ArrivalTarget { topology, at, targets, .. } = receiving;
        let nodes = targets.layouts.iter().flat_map(|voters| voters.iter());
        let primaries = nodes.filter(|voter| voter.primary > 0).filter_map(|voter| {
            let peer = topology.peer(voter.node)?;
            topology.is_up(voter.node).then(|| (cost_us(peer), voter.node))
        });
        let Some((_, node)) = primaries.min() else { return Ok(false) };
        let Some(peer) = topology.peer(node) else { return Ok(false) };
        let key = Bytes::copy_from_slice(at.encoded);
        let (header, lane) = join_message(topology, key, at.partition, sent, AckMoment::Accepted);
        let header = data::Join { needs_earlier: true, ..header };
        let mut replies = Replies::new();
        let sent = peer.send(data::METHOD_JOIN, &header, &sent.delta, lane, &replies, node);
        sent.map_err(|_| RequestError::Timeout)?;
        let patience = Duration::from_millis(u64::from(TIMEOUT_MS_DEFAULT));
        match timeout(patience, replies.next()).await {
            Ok(Some((_, Ok(_)))) => Ok(true),
            Ok(Some((_, Err(CallError::Refused { code: REFUSED_NEEDS_WHOLE, .. })))) => Ok(false),
            _ => Err(RequestError::Timeout),
        }
    }
}

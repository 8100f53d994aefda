//! Bootstrap: a cluster copies all records of another one, partition by partition, while real-time
//! replication runs.
//!
//! The node that gets the command divides the other cluster's partitions among the nodes of this
//! cluster, mostly so that a node copies records which it stores itself. Each node reads its share page
//! by page, several partitions at the same time. It stores its progress, so that it continues from
//! there after a restart or a lost connection.

mod peer;
mod plan;

pub use plan::{BootstrapState, BootstrapStatus};

use crate::address::{PeerAddress, Protocol};
use crate::dialer::PeerDialer;
use crate::sinks::ChangeSinkError;
use parking_lot::Mutex;
use peer::{CopyFault, CopyPeer};
use plan::{BootstrapFile, BootstrapPlan, CopiedAmount, bootstrap_file};
use quoit_core::{CopiedRecord, ReplicatedStore, RequestError};
use quoit_number::length_u32;
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Number of partitions that a node copies at the same time.
const CONCURRENT_COUNT: usize = 4;
/// Pause before a partition is tried again.
const REST_AFTER_FAULT: Duration = Duration::from_secs(1);
/// Interval at which the progress is stored.
const KEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Reason why a bootstrap could not begin.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BootstrapError {
    /// An invalid address.
    #[error(transparent)]
    Address(#[from] ChangeSinkError),
    /// A peer over HTTP, which is not supported.
    #[error("{0} is a peer for HTTP; a bootstrap needs HOST:PORT:pb")]
    Protocol(String),
    /// No peer answers with the number of its cluster's partitions.
    #[error("no peer of the other cluster answers: {0}")]
    NoPeer(String),
    /// The disk refused to store the progress.
    #[error("the progress of the bootstrap can't be saved: {0}")]
    Disk(String),
}

/// The bootstrap of a node.
pub struct Bootstrap {
    store: Arc<ReplicatedStore>,
    dialer: PeerDialer,
    file: BootstrapFile,
    plan: Mutex<Option<BootstrapPlan>>,
    /// Faults of partitions that will be tried again.
    faults: Mutex<BTreeMap<u16, String>>,
    wanted: Notify,
}

impl Bootstrap {
    /// Restores the plan that an earlier process has stored.
    pub(crate) fn new(
        store: Arc<ReplicatedStore>,
        dialer: PeerDialer,
        disk: Option<Arc<dyn Disk>>,
    ) -> Result<Self, StoreError> {
        let file = bootstrap_file(disk);
        let plan = Mutex::new(file.load()?);
        let (faults, wanted) = (Mutex::default(), Notify::new());
        Ok(Self { store, dialer, file, plan, faults, wanted })
    }

    /// The share of each node of this cluster, by name. Asks a peer for the number of partitions.
    pub(crate) async fn shares(
        &self,
        peers: &[PeerAddress],
    ) -> Result<BTreeMap<String, Vec<u16>>, BootstrapError> {
        let mut fault = "there are none".to_owned();
        for peer in peers {
            if peer.protocol == Protocol::Http {
                return Err(BootstrapError::Protocol(peer.to_string()));
            }
            match self.ring_size(peer).await {
                Ok(ring_size) => return Ok(self.store.replication().copied_shares(ring_size)),
                Err(why) => fault = format!("{peer}: {why}"),
            }
        }
        Err(BootstrapError::NoPeer(fault))
    }

    async fn ring_size(&self, peer: &PeerAddress) -> Result<u16, CopyFault> {
        CopyPeer::connect(&self.dialer, peer, self.store.replication().cluster())
            .await?
            .ring_size()
            .await
    }

    /// Begins to copy these partitions. Partitions that were copied from the same peers before are not
    /// copied again.
    pub(crate) fn take(
        &self,
        peers: Vec<String>,
        partitions: Vec<u16>,
    ) -> Result<(), BootstrapError> {
        let now_us = self.store.clock().unix_us();
        let mut plan = self.plan.lock();
        let former = plan.take();
        let begun = plan.insert(BootstrapPlan::begun(peers, partitions, former, now_us));
        let kept = self.file.store(begun);
        self.wanted.notify_one();
        kept.map_err(|fault| BootstrapError::Disk(fault.to_string()))
    }

    /// Stops the work, or resumes it. False if there is no plan.
    pub(crate) fn stop(&self, is_stopped: bool) -> Result<bool, BootstrapError> {
        let mut plan = self.plan.lock();
        let Some(known) = plan.as_mut() else { return Ok(false) };
        known.is_stopped = is_stopped;
        let kept = self.file.store(known);
        self.wanted.notify_one();
        kept.map_err(|fault| BootstrapError::Disk(fault.to_string()))?;
        Ok(true)
    }

    /// Peers that are being copied; empty if nothing is to be copied.
    pub(crate) fn peers(&self) -> Vec<PeerAddress> {
        self.plan.lock().as_ref().and_then(BootstrapPlan::peers_to_ask).unwrap_or_default()
    }

    /// Progress of the node.
    pub(crate) fn status(&self) -> BootstrapStatus {
        let faults = self.faults.lock();
        let fault =
            faults.iter().next().map(|(number, text)| format!("partition {number}: {text}"));
        BootstrapStatus::of(self.plan.lock().as_ref(), fault)
    }

    /// Copies whenever a plan has partitions left, until the task is dropped.
    pub(crate) async fn run(&self) {
        loop {
            let peers = self.plan.lock().as_ref().and_then(BootstrapPlan::peers_to_ask);
            match peers {
                None => self.wanted.notified().await,
                Some(peers) => self.work(&peers).await,
            }
        }
    }

    /// Copies until nothing is left or the plan has changed.
    async fn work(&self, peers: &[PeerAddress]) {
        let copy = async {
            let copiers = (0..CONCURRENT_COUNT).map(|_| Box::pin(self.copy_some(peers)));
            let [one, two, three, four] =
                <[_; CONCURRENT_COUNT]>::try_from(copiers.collect::<Vec<_>>())
                    .unwrap_or_else(|_| unreachable!("there are as many as are made"));
            tokio::join!(one, two, three, four);
        };
        let keep = async {
            loop {
                sleep(KEEP_INTERVAL).await;
                self.keep();
            }
        };
        tokio::select! {
            biased;
            () = copy => {
                let now_us = self.store.clock().unix_us();
                let has_ended = self.plan.lock().as_mut().is_some_and(|plan| plan.end(now_us));
                self.keep();
                if has_ended {
                    tracing::info!("bootstrap: this node has copied its share of the other cluster");
                }
            }
            () = self.wanted.notified() => self.keep(),
            () = keep => {}
        }
        if let Some(plan) = self.plan.lock().as_mut() {
            plan.release();
        }
        self.faults.lock().clear();
    }

    fn keep(&self) {
        let Some(plan) = self.plan.lock().clone() else { return };
        if let Err(fault) = self.file.store(&plan) {
            tracing::error!(%fault, "bootstrap: how far it has come can't be kept");
        }
    }

    /// Copies one partition after the other until none is left.
    async fn copy_some(&self, peers: &[PeerAddress]) {
        loop {
            let next = self.plan.lock().as_mut().and_then(|plan| plan.claim(peers));
            let Some((partition, from)) = next else { return };
            let mut from = from;
            for peer in peers.iter().cycle() {
                match self.copy(peer, partition, &mut from).await {
                    Ok(true) => break,
                    // Another node of the other cluster may have a complete copy.
                    Ok(false) => {
                        let text = "no node that answers has a complete copy".to_owned();
                        self.faults.lock().entry(partition).or_insert(text);
                        sleep(REST_AFTER_FAULT / length_u32(peers.len().max(1))).await;
                    }
                    Err(fault) => {
                        let text = format!("{peer}: {fault}");
                        if self.faults.lock().insert(partition, text.clone()).is_none() {
                            tracing::warn!(partition, "bootstrap: {text}");
                        }
                        sleep(REST_AFTER_FAULT).await;
                    }
                }
            }
            self.faults.lock().remove(&partition);
        }
    }

    /// Copies a partition from a hash on, and advances `from`. False if the peer has no complete copy.
    async fn copy(
        &self,
        peer: &PeerAddress,
        partition: u16,
        from: &mut u64,
    ) -> Result<bool, CopyFault> {
        let mut peer =
            CopyPeer::connect(&self.dialer, peer, self.store.replication().cluster()).await?;
        let Some(mut page) = peer.page(partition, *from).await? else { return Ok(false) };
        loop {
            let records = std::mem::take(&mut page.records);
            let record_count = records.len() as u64;
            // Fetch the next page while this one is stored.
            let (stored, next) = match page.next {
                None => (self.store(records).await, None),
                Some(next) => {
                    let (stored, page) =
                        tokio::join!(self.store(records), peer.page(partition, next));
                    (stored, Some((next, page)))
                }
            };
            let byte_count = stored?;
            let reached = next.as_ref().map(|(next, _)| *next);
            if let Some(plan) = self.plan.lock().as_mut() {
                plan.reached(partition, reached, CopiedAmount { record_count, byte_count });
            }
            let Some((at, next)) = next else { return Ok(true) };
            *from = at;
            match next? {
                Some(next) => page = next,
                None => return Ok(false),
            }
        }
    }

    async fn store(&self, records: Vec<CopiedRecord>) -> Result<u64, CopyFault> {
        let stored = self.store.replication().store_copied(records).await;
        stored.map_err(|fault| {
            let remedy = match fault {
                RequestError::NoSuchType(_) => {
                    "; create and activate the bucket type in this cluster"
                }
                _ => "",
            };
            CopyFault::Own(fault, remedy)
        })
    }
}

//! Bootstrap: a cluster copies all that another one has, partition by partition, while real time runs.
//!
//! The node that gets the command divides the other cluster's partitions among the nodes of this one, mostly
//! so that a node copies what it is to keep. Each node reads its share page by page, several partitions at
//! the same time, and keeps how far it has come: after a restart, or a link that was cut, it goes on from
//! there.

mod peer;
mod plan;

pub use plan::{BootstrapState, BootstrapStatus};

use crate::address::{PeerAddress, Protocol};
use crate::dialer::PeerDialer;
use crate::sinks::ChangeSinkError;
use parking_lot::Mutex;
use peer::{CopyFault, CopyPeer};
use plan::{BootstrapFile, BootstrapPlan, bootstrap_file};
use quoit_core::{CopiedRecord, ReplicatedStore, RequestError};
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Partitions that a node copies at the same time.
const CONCURRENT_COUNT: usize = 4;
/// The rest before a partition is tried again.
const REST_AFTER_FAULT: Duration = Duration::from_secs(1);
/// How often it is kept how far the work has come.
const KEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Why a bootstrap could not begin.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BootstrapError {
    /// An address with a fault.
    #[error(transparent)]
    Address(#[from] ChangeSinkError),
    /// A peer that is asked by HTTP.
    #[error("{0} is asked by HTTP; a bootstrap needs HOST:PORT:pb")]
    Protocol(String),
    /// No peer tells how many partitions its cluster has.
    #[error("no peer of the other cluster answers: {0}")]
    NoPeer(String),
    /// The disk does not keep the progress.
    #[error("how far the bootstrap has come can't be kept: {0}")]
    Disk(String),
}

/// The bootstrap of a node.
pub struct Bootstrap {
    store: Arc<ReplicatedStore>,
    dialer: PeerDialer,
    file: BootstrapFile,
    plan: Mutex<Option<BootstrapPlan>>,
    /// Faults of partitions that are tried again.
    faults: Mutex<BTreeMap<u16, String>>,
    wanted: Notify,
}

impl Bootstrap {
    /// Takes up what a former process has begun.
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

    /// The share of each node of this cluster, by name, once a peer has told how many partitions there are.
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

    /// Copies these partitions from now on. Those that were copied already, by the same peers, stay so.
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

    /// Has the work rest, or go on.
    pub(crate) fn stop(&self, is_stopped: bool) -> Result<bool, BootstrapError> {
        let mut plan = self.plan.lock();
        let Some(known) = plan.as_mut() else { return Ok(false) };
        known.is_stopped = is_stopped;
        let kept = self.file.store(known);
        self.wanted.notify_one();
        kept.map_err(|fault| BootstrapError::Disk(fault.to_string()))?;
        Ok(true)
    }

    /// The peers that are being copied.
    pub(crate) fn peers(&self) -> Vec<PeerAddress> {
        self.plan.lock().as_ref().and_then(BootstrapPlan::peers_to_ask).unwrap_or_default()
    }

    /// How far the node has come.
    pub(crate) fn status(&self) -> BootstrapStatus {
        let faults = self.faults.lock();
        let fault =
            faults.iter().next().map(|(number, text)| format!("partition {number}: {text}"));
        BootstrapStatus::of(self.plan.lock().as_ref(), fault)
    }

    /// Copies whenever there is something to copy, until the task is dropped.
    pub(crate) async fn run(&self) {
        loop {
            let peers = self.plan.lock().as_ref().and_then(BootstrapPlan::peers_to_ask);
            match peers {
                None => self.wanted.notified().await,
                Some(peers) => self.work(&peers).await,
            }
        }
    }

    /// Copies until all is copied or the plan has changed.
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
                if let Some(plan) = self.plan.lock().as_mut() {
                    plan.end(now_us);
                }
                self.keep();
                tracing::info!("bootstrap: this node has copied its share of the other cluster");
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
            let next = self.plan.lock().as_mut().and_then(BootstrapPlan::claim);
            let Some((partition, from)) = next else { return };
            let mut from = from;
            for peer in peers.iter().cycle() {
                match self.copy(peer, partition, &mut from).await {
                    Ok(true) => break,
                    // Another node of the other cluster has it.
                    Ok(false) => {
                        let text = "no node that answers has a complete copy".to_owned();
                        self.faults.lock().entry(partition).or_insert(text);
                        sleep(REST_AFTER_FAULT / peers.len().max(1) as u32).await;
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

    /// Copies a partition from a hash on, as far as it goes. Whether the peer has it.
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
            let count = records.len() as u64;
            // The next page comes while this one is stored.
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
                plan.reached(partition, reached, count, byte_count);
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

//! How much transfers may take of a node.

use super::hand::TransferError;
use crate::store::ReplicatedStore;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How much the transfers of a node may take of it. All may be changed while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferLimits {
    /// Partitions handed over at the same time, at least 1 (`transfer_limit`).
    pub partition_count_max: u32,
    /// Bytes of objects handed over in a second; 0 = as many as go (`transfer_rate`).
    pub bytes_per_sec_max: u64,
    /// Whether the node takes records that others hand over (`handoff.inbound`).
    pub inbound: bool,
    /// Whether the node hands over records (`handoff.outbound`).
    pub outbound: bool,
}

impl Default for TransferLimits {
    fn default() -> Self {
        Self { partition_count_max: 2, bytes_per_sec_max: 100 << 20, inbound: true, outbound: true }
    }
}

/// A change of limits: what is `None` stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitChange {
    /// See [`TransferLimits::partition_count_max`].
    pub partition_count_max: Option<u32>,
    /// See [`TransferLimits::bytes_per_sec_max`].
    pub bytes_per_sec_max: Option<u64>,
    /// See [`TransferLimits::inbound`].
    pub inbound: Option<bool>,
    /// See [`TransferLimits::outbound`].
    pub outbound: Option<bool>,
}

impl LimitChange {
    /// The limits afterwards.
    #[must_use]
    pub fn of(self, before: TransferLimits) -> TransferLimits {
        TransferLimits {
            partition_count_max: self.partition_count_max.unwrap_or(before.partition_count_max),
            bytes_per_sec_max: self.bytes_per_sec_max.unwrap_or(before.bytes_per_sec_max),
            inbound: self.inbound.unwrap_or(before.inbound),
            outbound: self.outbound.unwrap_or(before.outbound),
        }
    }
}

/// Keeps transfers to their limits.
pub(crate) struct Throttle {
    partition_count_max: AtomicU32,
    bytes_per_sec_max: AtomicU64,
    inbound: AtomicBool,
    outbound: AtomicBool,
    /// When the next bytes may be sent.
    free_at: Mutex<Option<Instant>>,
}

impl Throttle {
    pub(super) fn new(limits: TransferLimits) -> Self {
        Self {
            partition_count_max: AtomicU32::new(limits.partition_count_max.max(1)),
            bytes_per_sec_max: AtomicU64::new(limits.bytes_per_sec_max),
            inbound: AtomicBool::new(limits.inbound),
            outbound: AtomicBool::new(limits.outbound),
            free_at: Mutex::default(),
        }
    }

    /// Waits as long as so many bytes keep the rate down.
    pub(crate) async fn wait_for(&self, byte_count: u64) {
        let bytes_per_sec_max = self.bytes_per_sec_max.load(Ordering::Relaxed);
        if bytes_per_sec_max == 0 {
            return;
        }
        let cost = Duration::from_secs_f64(byte_count as f64 / bytes_per_sec_max as f64);
        let free_at = {
            let mut free_at = self.free_at.lock();
            let now = Instant::now();
            let next = free_at.map_or(now, |free_at| free_at.max(now)) + cost;
            *free_at = Some(next);
            next
        };
        sleep_until(free_at).await;
    }

    /// Whether records may be handed over at present.
    pub(super) fn check_outbound(&self) -> Result<(), TransferError> {
        if self.outbound.load(Ordering::Relaxed) { Ok(()) } else { Err(TransferError::SwitchedOff) }
    }

    /// Whether records are taken at present.
    pub(super) fn takes(&self) -> bool {
        self.inbound.load(Ordering::Relaxed)
    }
}

impl ReplicatedStore {
    /// How much transfers may take.
    #[must_use]
    pub fn transfer_limits(&self) -> TransferLimits {
        let throttle = &self.transfers.throttle;
        TransferLimits {
            partition_count_max: throttle.partition_count_max.load(Ordering::Relaxed),
            bytes_per_sec_max: throttle.bytes_per_sec_max.load(Ordering::Relaxed),
            inbound: throttle.inbound.load(Ordering::Relaxed),
            outbound: throttle.outbound.load(Ordering::Relaxed),
        }
    }

    /// Changes how much transfers may take, from the next batch and round on. What is switched off ends
    /// with the batch that is under way, and goes on from there when it is switched on again.
    pub fn set_transfer_limits(&self, limits: TransferLimits) {
        let throttle = &self.transfers.throttle;
        throttle.partition_count_max.store(limits.partition_count_max.max(1), Ordering::Relaxed);
        throttle.bytes_per_sec_max.store(limits.bytes_per_sec_max, Ordering::Relaxed);
        throttle.inbound.store(limits.inbound, Ordering::Relaxed);
        throttle.outbound.store(limits.outbound, Ordering::Relaxed);
    }
}

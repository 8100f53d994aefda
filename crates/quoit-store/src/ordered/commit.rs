//! Moving writes to the ordered store, and group commit: one sync for all waiting requests.

use super::store::StoreShared;
use crate::durability::Durability;
use crate::engine::{Ticket, WriteFailure};
use crate::error::StoreError;
use parking_lot::Mutex;
use quoit_seam::{NextStep, Pace, Worker, WorkerHandle};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Pause after the store's own work has fallen behind, in microseconds.
const BEHIND_PAUSE_US: u64 = 10_000;

/// Maximum time to wait for a store that has fallen behind when the engine is closed, in microseconds.
const LAST_PATIENCE_US: u64 = 60_000_000;

/// Pause after the disk was full, in microseconds.
const FULL_PAUSE_US: u64 = 1_000_000;

/// Progress of writes, and the requests that wait for it.
#[derive(Default)]
pub(super) struct StoreCommitter {
    /// Writes up to this ticket are in the ordered store.
    applied: AtomicU64,
    /// Writes up to this ticket are durable.
    synced: AtomicU64,
    /// Time at which the last sync began, in microseconds.
    synced_at_us: AtomicU64,
    waiting: Mutex<StoreWaiters>,
    /// True if `waiting` has a failure.
    has_failed: AtomicBool,
    /// Held while batches are moved or synced.
    moving: Mutex<()>,
    handle: OnceLock<Arc<dyn WorkerHandle>>,
    sync_count: AtomicU64,
    synced_write_count: AtomicU64,
}

#[derive(Default)]
struct StoreWaiters {
    waiters: Vec<(Ticket, Waker)>,
    /// The reason why writes are refused.
    failure: Option<StoreError>,
}

/// True if a failure may be temporary.
fn is_passing(failure: &StoreError) -> bool {
    matches!(
        failure,
        StoreError::DiskFull { .. }
            | StoreError::Overloaded
            | StoreError::Io { action: "read", .. }
    )
}

impl StoreCommitter {
    /// Sets the handle that wakes the thread of the writer.
    pub(super) fn attach(&self, handle: Arc<dyn WorkerHandle>) {
        assert!(self.handle.set(handle).is_ok(), "a committer is attached once");
    }

    pub(super) fn wake(&self) {
        if let Some(handle) = self.handle.get() {
            handle.wake();
        }
    }

    /// Fails if writes are refused.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.waiting.lock().failure.clone().map_or(Ok(()), Err)
    }

    pub(super) fn is_full(&self) -> bool {
        matches!(self.check(), Err(StoreError::DiskFull { .. }))
    }

    /// Number of syncs, and number of writes that they made durable.
    pub(super) fn counts(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.sync_count), load(&self.synced_write_count))
    }

    fn fail(&self, error: &StoreError) {
        let woken = {
            let mut waiting = self.waiting.lock();
            waiting.failure = Some(error.clone());
            self.has_failed.store(true, Ordering::Release);
            std::mem::take(&mut waiting.waiters)
        };
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn recover(&self) {
        if self.has_failed.load(Ordering::Acquire) {
            self.waiting.lock().failure = None;
            self.has_failed.store(false, Ordering::Release);
        }
    }
}

/// Numbers of the last durable write, before and after a sync.
struct SyncedWrites {
    before: u64,
    synced: u64,
}

impl StoreShared {
    /// The reason why writes are refused permanently, if they are.
    pub(super) fn write_failure(&self) -> Option<WriteFailure> {
        let failure = self.committer.check().err().filter(|failure| !is_passing(failure))?;
        let known = self.overlay.backend.known_damage();
        let is_damage = known.is_some() || matches!(failure, StoreError::Corrupt { .. });
        let reason = known.unwrap_or(failure).to_string();
        Some(WriteFailure { directory: self.path.clone(), reason, is_damage })
    }

    /// True if writes up to a ticket have the durability that the settings ask for.
    fn lasts(&self, ticket: Ticket) -> bool {
        let reached = match self.settings.durability {
            Durability::Strict => &self.committer.synced,
            Durability::Relaxed => &self.committer.applied,
        };
        reached.load(Ordering::Acquire) >= ticket.0
    }

    /// See `PointAccess::poll_durable`. No lock when the ticket is durable already.
    pub(super) fn poll_durable(
        &self,
        ticket: Ticket,
        waker: &Waker,
    ) -> Poll<Result<(), StoreError>> {
        if self.lasts(ticket) {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = self.committer.waiting.lock();
        if let Some(failure) = &waiting.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        if self.lasts(ticket) {
            return Poll::Ready(Ok(()));
        }
        // Tickets come in roughly ascending order, so a ticket that waits already is near the end.
        let is_known = waiting
            .waiters
            .iter()
            .rev()
            .take_while(|(other, _)| *other >= ticket)
            .any(|(other, known)| *other == ticket && known.will_wake(waker));
        let is_first = waiting.waiters.is_empty();
        if !is_known {
            waiting.waiters.push((ticket, waker.clone()));
        }
        drop(waiting);
        // While writes wait, the writer starts its next round without being woken.
        if is_first {
            self.committer.wake();
        }
        Poll::Pending
    }

    /// Moves all writes that wait now to the ordered store.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.committer.moving.lock();
        self.move_waiting()
    }

    /// Makes all writes so far durable, and waits for it.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.committer.moving.lock();
        self.move_waiting()?;
        let applied = self.committer.applied.load(Ordering::Acquire);
        let before = self.committer.synced.load(Ordering::Acquire);
        if before >= applied {
            return Ok(());
        }
        self.committer.synced_at_us.store(self.clock.monotonic_us(), Ordering::Relaxed);
        self.overlay.backend.sync().inspect_err(|error| self.committer.fail(error))?;
        // The earlier failure, if any, was temporary.
        self.committer.recover();
        self.note_synced(SyncedWrites { before, synced: applied });
        Ok(())
    }

    /// Makes all writes durable when the engine is closed and no worker runs any more. Waits for a store
    /// that has fallen behind.
    pub(super) fn sync_at_last(&self) -> Result<(), StoreError> {
        let began_us = self.clock.monotonic_us();
        loop {
            match self.sync() {
                Err(StoreError::Overloaded)
                    if self.clock.monotonic_us().saturating_sub(began_us) < LAST_PATIENCE_US =>
                {
                    if !self.overlay.backend.catch_up()? {
                        std::thread::sleep(Duration::from_micros(BEHIND_PAUSE_US));
                    }
                }
                ended => return ended,
            }
        }
    }

    /// Moves the waiting writes to the ordered store. The caller holds `moving`.
    fn move_waiting(&self) -> Result<(), StoreError> {
        if let Err(failure) = self.committer.check()
            && !is_passing(&failure)
        {
            return Err(failure);
        }
        debug_assert!(self.committer.moving.is_locked(), "batches are moved one after the other");
        let target = self.overlay.last_ticket();
        let before = self.committer.applied.load(Ordering::Acquire);
        while self.committer.applied.load(Ordering::Acquire) < target {
            // `take` returns a batch again that could not be applied the last time.
            let Some(batch) = self.overlay.take() else { break };
            debug_assert!(
                batch.last_ticket > self.committer.applied.load(Ordering::Acquire),
                "a batch that was applied is not taken again"
            );
            match self.overlay.backend.apply(&batch) {
                Ok(()) => self.committer.recover(),
                // This is not a failure for writers: they are accepted until the waiting writes fill their
                // bound.
                Err(StoreError::Overloaded) => return Err(StoreError::Overloaded),
                Err(error) => {
                    self.committer.fail(&error);
                    return Err(error);
                }
            }
            self.overlay.settle();
            self.committer.applied.store(batch.last_ticket, Ordering::Release);
        }
        if self.overlay.backend.is_durable_when_applied() {
            let synced = self.committer.applied.load(Ordering::Acquire);
            self.note_synced(SyncedWrites { before, synced });
        } else if self.settings.durability == Durability::Relaxed {
            self.wake_ready();
        }
        Ok(())
    }

    fn note_synced(&self, SyncedWrites { before, synced }: SyncedWrites) {
        debug_assert!(
            synced <= self.committer.applied.load(Ordering::Acquire),
            "a write is in the store before it is durable"
        );
        if synced > before {
            self.committer.sync_count.fetch_add(1, Ordering::Relaxed);
            self.committer.synced_write_count.fetch_add(synced - before, Ordering::Relaxed);
            self.committer.synced.store(synced, Ordering::Release);
        }
        self.wake_ready();
    }

    fn wake_ready(&self) {
        let ready: Vec<_> = {
            let mut waiting = self.committer.waiting.lock();
            waiting.waiters.extract_if(.., |(ticket, _)| self.lasts(*ticket)).collect()
        };
        ready.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Microseconds until the next sync is due; `None` if everything is durable.
    fn sync_due_us(&self) -> Option<u64> {
        let applied = self.committer.applied.load(Ordering::Acquire);
        if self.committer.synced.load(Ordering::Acquire) >= applied {
            return None;
        }
        let last_us = self.committer.synced_at_us.load(Ordering::Relaxed);
        let since_us = self.clock.monotonic_us().saturating_sub(last_us);
        Some(self.settings.sync_interval_us.saturating_sub(since_us))
    }
}

/// The worker that moves writes to the ordered store and syncs them.
pub(super) struct Writer(pub(super) Arc<StoreShared>);

impl Worker for Writer {
    fn step(&self, _: &dyn Pace) -> NextStep {
        let store = &*self.0;
        let somebody_waits = || !store.committer.waiting.lock().waiters.is_empty();
        let moved = match store.flush() {
            Ok(()) if somebody_waits() || store.sync_due_us() == Some(0) => store.sync(),
            moved => moved,
        };
        if store.overlay.backend.lags() {
            store.maintenance.get().inspect(|worker| worker.wake());
        }
        match moved {
            Ok(()) if somebody_waits() || store.overlay.waiting_bytes() > 0 => NextStep::Again,
            Ok(()) => store.sync_due_us().map_or(NextStep::WhenWoken, NextStep::AfterUs),
            Err(StoreError::Overloaded) => NextStep::AfterUs(BEHIND_PAUSE_US),
            Err(error) if is_passing(&error) => NextStep::AfterUs(FULL_PAUSE_US),
            Err(_) => NextStep::WhenWoken,
        }
    }
}

//! Group commit: one sync makes the writes of all waiting requests durable.

use super::log::Log;
use super::segment::Segment;
use crate::durability::Durability;
use crate::engine::Ticket;
use crate::error::StoreError;
use crate::identity::StoreIdentity;
use parking_lot::Mutex;
use quoit_planted::planted;
use quoit_seam::{Clock, Disk, NextStep, Pace, Worker, WorkerHandle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

/// Makes writes durable and wakes the requests that wait for them.
///
/// Request threads append to the log; the committer only syncs. It runs when a write waits. One round
/// covers all writes that were appended before it, and the next round those that were appended meanwhile.
/// After a failed sync the committer never reports success again: the system may have dropped the pages
/// that it could not write, and would report success for the next sync without having written them.
pub(super) struct LogCommitter {
    log: Arc<Log>,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    identity: Arc<StoreIdentity>,
    durability: Durability,
    sync_interval_us: u64,
    /// Everything up to this sequence is durable.
    synced: AtomicU64,
    /// Time at which the last commit began, in microseconds.
    committed_us: AtomicU64,
    waiting: Mutex<LogWaiters>,
    /// Held during a commit.
    committing: Mutex<()>,
    handle: OnceLock<Arc<dyn WorkerHandle>>,
    sync_count: AtomicU64,
    synced_write_count: AtomicU64,
}

#[derive(Default)]
struct LogWaiters {
    waiters: Vec<(Ticket, Waker)>,
    failed: Option<StoreError>,
}

impl LogCommitter {
    /// A committer of a log whose writes up to `synced` are durable.
    pub(super) fn new(
        log: Arc<Log>,
        disk: Arc<dyn Disk>,
        (clock, identity): (Arc<dyn Clock>, Arc<StoreIdentity>),
        durability: Durability,
        sync_interval_us: u64,
        synced: Ticket,
    ) -> Self {
        Self {
            committed_us: AtomicU64::new(clock.monotonic_us()),
            log,
            disk,
            clock,
            identity,
            durability,
            sync_interval_us,
            synced: AtomicU64::new(synced.0),
            waiting: Mutex::default(),
            committing: Mutex::new(()),
            handle: OnceLock::new(),
            sync_count: AtomicU64::new(0),
            synced_write_count: AtomicU64::new(0),
        }
    }

    /// Sets the handle that wakes the thread which runs this worker.
    pub(super) fn attach(&self, handle: Arc<dyn WorkerHandle>) {
        assert!(self.handle.set(handle).is_ok(), "a committer is attached once");
    }

    /// See `PointAccess::poll_durable`. No lock when the ticket is durable already.
    pub(super) fn poll(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), StoreError>> {
        if self.synced.load(Ordering::Acquire) >= ticket.0 {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = self.waiting.lock();
        if let Some(failed) = &waiting.failed {
            return Poll::Ready(Err(failed.clone()));
        }
        if self.durability == Durability::Relaxed || self.synced.load(Ordering::Acquire) >= ticket.0
        {
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
        // While writes wait, the committer starts its next round without being woken.
        if is_first && let Some(handle) = self.handle.get() {
            handle.wake();
        }
        Poll::Pending
    }

    /// Makes all writes so far durable, and waits for it.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let target = self.log.written();
        if self.synced.load(Ordering::Acquire) >= target {
            return self.waiting.lock().failed.clone().map_or(Ok(()), Err);
        }
        self.commit()
    }

    /// True if all appended writes are durable.
    pub(super) fn is_clean(&self) -> bool {
        self.synced.load(Ordering::Acquire) >= self.log.written()
    }

    /// Number of syncs, and number of writes that they made durable.
    pub(super) fn counts(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.sync_count), load(&self.synced_write_count))
    }

    fn commit(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.committing.lock();
        if let Some(failed) = &self.waiting.lock().failed {
            return Err(failed.clone());
        }
        self.committed_us.store(self.clock.monotonic_us(), Ordering::Relaxed);
        let unsynced = self.log.take_unsynced();
        let before = self.synced.load(Ordering::Relaxed);
        debug_assert!(before <= unsynced.sequence, "the log does not go back");
        debug_assert!(
            unsynced.segments.last().is_some_and(|last| last.number == unsynced.active),
            "the active segment is synced too"
        );
        let mut result = Ok(());
        if unsynced.sequence > before {
            // The active segment is the last in the list.
            let closed_count = unsynced.segments.len() - 1;
            let skipped_count = if planted!(SyncsActiveOnly) { closed_count } else { 0 };
            let mut segments = unsynced.segments.iter().skip(skipped_count);
            result = segments.try_for_each(|segment| match planted!(ForgetsSyncs) {
                true => Ok(()),
                false => segment.file.sync(),
            });
            if unsynced.directory && !planted!(SkipsDirectorySync) {
                result = result.and_then(|()| self.disk.sync_directory());
            }
            self.sync_count.fetch_add(1, Ordering::Relaxed);
        }
        result.map_err(|error| self.fail(&error.into()))?;
        self.synced_write_count.fetch_add(unsynced.sequence - before, Ordering::Relaxed);
        let synced = match planted!(CountsWritesDuringSync) {
            true => self.log.written().max(unsynced.sequence),
            false => unsynced.sequence,
        };
        self.synced.store(synced, Ordering::Release);
        if unsynced.sequence > before {
            self.log.note_synced(&unsynced);
            let mut meta = self.identity.file();
            if let Err(error) = meta.note_begun(unsynced.active) {
                // The records are durable. But until the next commit writes this note, a start would not
                // notice that the segment's file is missing.
                tracing::warn!(%error, "it could not be noted that a segment was begun");
            }
            meta.note_synced(unsynced.active, unsynced.end);
        }
        let ready: Vec<_> = {
            let mut waiting = self.waiting.lock();
            let is_ready = |waiter: &mut (Ticket, Waker)| waiter.0.0 <= unsynced.sequence;
            waiting.waiters.extract_if(.., is_ready).collect()
        };
        ready.into_iter().for_each(|(_, waker)| waker.wake());
        Ok(())
    }

    /// Syncs a segment. A failure has the same consequences as that of a commit.
    pub(super) fn sync_segment(&self, segment: &Segment) -> Result<(), StoreError> {
        if let Some(failed) = &self.waiting.lock().failed {
            return Err(failed.clone());
        }
        segment.file.sync().map_err(|error| self.fail(&error.into()))
    }

    fn fail(&self, error: &StoreError) -> StoreError {
        let failed = sync_failed(error);
        tracing::error!(%failed, "no more writes are accepted");
        self.log.refuse(failed.clone());
        let waiters = {
            let mut waiting = self.waiting.lock();
            waiting.failed = Some(failed.clone());
            std::mem::take(&mut waiting.waiters)
        };
        waiters.into_iter().for_each(|(_, waker)| waker.wake());
        failed
    }
}

fn sync_failed(error: &StoreError) -> StoreError {
    match error {
        StoreError::Io { path, reason, .. } => {
            StoreError::SyncFailed { path: path.clone(), reason: reason.clone() }
        }
        StoreError::DiskFull { path, .. } => {
            StoreError::SyncFailed { path: path.clone(), reason: "no room on the disk".into() }
        }
        other => other.clone(),
    }
}

impl Worker for LogCommitter {
    fn step(&self, _pace: &dyn Pace) -> NextStep {
        let idle_us =
            self.clock.monotonic_us().saturating_sub(self.committed_us.load(Ordering::Relaxed));
        let has_waiters = !self.waiting.lock().waiters.is_empty();
        if !has_waiters && (idle_us < self.sync_interval_us || self.is_clean()) {
            let rest_us = self.sync_interval_us.saturating_sub(idle_us);
            let is_due = rest_us == 0;
            return NextStep::AfterUs(if is_due { self.sync_interval_us } else { rest_us });
        }
        // `commit` reports a failure to the waiting requests and to later writers.
        match self.commit() {
            Err(_) => NextStep::WhenWoken,
            Ok(()) if self.waiting.lock().waiters.is_empty() => {
                NextStep::AfterUs(self.sync_interval_us)
            }
            Ok(()) => NextStep::Again,
        }
    }
}

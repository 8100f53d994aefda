//! One lane of a peer: its connection, if there is one, and the calls on it.

use super::calls::{Calls, Delivery, Status};
use super::error::CallError;
use super::outbox::{BoxWriter, FailedWrite, Outbox};
use super::settings::Limits;
use super::statistics::PeerStatistics;
use super::{Lane, Window};
use crate::liveness::Latency;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::sync::Notify;

/// One lane of a peer: its connection, if there is one, and the calls on it.
pub(super) struct LaneState {
    pub(super) outbox: Outbox<Calls>,
    /// Notified when the lane is to be dialed now.
    pub(super) wanted: Notify,
    /// True if another connection is to replace the current one.
    is_outdated: AtomicBool,
    own_window: Window,
    frame_bytes_max: AtomicU32,
    pending_count: AtomicU32,
    mean_us: AtomicU32,
    high_us: AtomicU32,
}

impl LaneState {
    pub(super) fn new(lane: Lane, status: Status, limits: &Limits) -> LaneState {
        let own_window = lane.window(limits);
        LaneState {
            outbox: Outbox::new(Calls::new(status, own_window)),
            wanted: Notify::new(),
            is_outdated: AtomicBool::new(false),
            own_window,
            frame_bytes_max: AtomicU32::new(limits.frame_bytes_max),
            pending_count: AtomicU32::new(0),
            mean_us: AtomicU32::new(0),
            high_us: AtomicU32::new(0),
        }
    }

    /// Waits until a call has the lane dialed.
    pub(super) async fn until_wanted(&self) {
        loop {
            let wanted = self.wanted.notified();
            if matches!(self.outbox.lock().state.status, Status::Dialing) {
                return;
            }
            wanted.await;
        }
    }

    /// Ends the pause after a failure: the next call may have the large lane dialed again.
    pub(super) fn may_be_dialed(&self, lane: Lane) {
        if lane == Lane::Large {
            self.outbox.lock().state.status = Status::Idle;
        }
    }

    /// Takes a connection into use. Frames that waited for it are sent.
    pub(super) fn open(
        &self,
        frame_bytes_max: u32,
        peer_window: Window,
        writer: BoxWriter,
        failed_write: FailedWrite,
    ) {
        self.frame_bytes_max.store(frame_bytes_max, Ordering::Relaxed);
        let mut inner = self.outbox.lock();
        inner.state.opened(self.own_window.min(peer_window));
        inner.open(writer, failed_write);
    }

    /// Makes the lane's task connect again and replace the current connection.
    pub(super) fn renew(&self) {
        self.is_outdated.store(true, Ordering::Relaxed);
        self.outbox.lock().wake_driver();
    }

    /// Returns true once after each request to replace the connection.
    pub(super) fn takes_renewal(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed) && self.is_outdated.swap(false, Ordering::Relaxed)
    }

    /// Makes calls wait for the next connection.
    pub(super) fn hold(&self) {
        self.outbox.lock().cork();
    }

    /// Returns true if calls wait for the next connection.
    #[cfg(test)]
    pub(super) fn is_held(&self) -> bool {
        self.outbox.lock().is_corked()
    }

    /// Returns true if a call was written to the connection, or partly, and has not had its last answer.
    pub(super) fn is_under_way(&self) -> bool {
        let inner = self.outbox.lock();
        inner.state.has_before(inner.waits_from())
    }

    /// Fails the calls that were written to the connection with `error`. Calls that wait for the next
    /// connection keep waiting.
    pub(super) fn give_up_under_way(&self, error: &CallError) {
        let mut inner = self.outbox.lock();
        let position = inner.waits_from();
        let calls = inner.state.take_before(position);
        self.publish(&inner.state);
        drop(inner);
        for call in calls {
            call.fail(error.clone()).hand_over();
        }
    }

    /// Returns the longest frame that both ends accept, in bytes.
    pub(super) fn frame_bytes_max(&self) -> u32 {
        self.frame_bytes_max.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that have not had their last answer.
    pub(super) fn pending_count(&self) -> u32 {
        self.pending_count.load(Ordering::Relaxed)
    }

    /// Returns the latency of calls.
    pub(super) fn latency(&self) -> Latency {
        Latency {
            mean_us: self.mean_us.load(Ordering::Relaxed),
            high_us: self.high_us.load(Ordering::Relaxed),
        }
    }

    pub(super) fn add_to(&self, statistics: &mut PeerStatistics) {
        let inner = self.outbox.lock();
        statistics.traffic.add(&inner.traffic);
        inner.state.add_to(statistics);
    }

    /// Drops the connection, if there is one, and fails all calls: with `error` if some of the request may
    /// have left, else as [`CallError::Unreachable`].
    pub(super) fn close(&self, reason: &Arc<str>, error: &CallError) {
        let mut inner = self.outbox.lock();
        inner.close();
        inner.state.status = Status::Down(Arc::clone(reason));
        let calls = inner.state.take_all();
        let failed: Vec<Delivery> = calls
            .into_iter()
            .map(|call| match inner.is_unsent(call.begins_at()) {
                true => call.fail(CallError::Unreachable(Arc::clone(reason))),
                false => call.fail(error.clone()),
            })
            .collect();
        self.publish(&inner.state);
        drop(inner);
        for delivery in failed {
            Delivery::hand_over(delivery);
        }
    }

    /// Updates the values that are read without the lock.
    pub(super) fn publish(&self, calls: &Calls) {
        let latency = calls.latency.latency();
        self.pending_count.store(calls.len(), Ordering::Relaxed);
        self.mean_us.store(latency.mean_us, Ordering::Relaxed);
        self.high_us.store(latency.high_us, Ordering::Relaxed);
    }
}

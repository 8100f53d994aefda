//! The way in which a service answers a request.

use super::inbound::{Inbound, Request};
use prost::Message;
use quoit_wire::internode::{Payload, code};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Answers one request. If it is dropped without a last answer, it refuses the request.
pub struct Responder {
    inbound: Arc<Inbound>,
    request: Request,
    /// True if the last answer was sent.
    is_done: AtomicBool,
}

impl Responder {
    pub(super) fn new(inbound: Arc<Inbound>, request: Request) -> Responder {
        Responder { inbound, request, is_done: AtomicBool::new(false) }
    }

    /// Sends the last answer. Copies header and payload into the connection's buffer, and allocates only
    /// if the buffer must grow. An answer above the limit of a frame becomes a refusal.
    pub fn send(self, header: &impl Message, payload: &(impl Payload + ?Sized)) {
        if !self.is_done.swap(true, Ordering::Relaxed) {
            self.inbound.answer(&self.request, true, header, payload);
        }
    }

    /// Sends an answer after which more follow. The sender of a stream waits for
    /// [`ready`](Self::ready) before each.
    pub fn send_more(&self, header: &impl Message, payload: &(impl Payload + ?Sized)) {
        if !self.is_done.load(Ordering::Relaxed)
            && !self.inbound.answer(&self.request, false, header, payload)
        {
            self.is_done.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until the requester accepts more of a stream, and returns true. Returns false if it accepts no
    /// more, because it has cancelled the call or the connection has ended; the service should stop then. A
    /// call without a stream is always ready while its connection lasts.
    pub async fn ready(&self) -> bool {
        poll_fn(|task| self.inbound.poll_ready(&self.request, task)).await
    }

    /// Refuses the request, as its last answer. `code` is for programs, `text` for people.
    pub fn refuse(self, code: u32, text: impl Into<String>) {
        if !self.is_done.swap(true, Ordering::Relaxed) {
            self.inbound.refuse(&self.request, code, text.into());
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !*self.is_done.get_mut() {
            let text = "the node's service gave no answer".to_owned();
            self.inbound.refuse(&self.request, code::NO_ANSWER, text);
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Responder")
            .field("call", &self.request.call)
            .finish_non_exhaustive()
    }
}

//! The way back to who asked.

use super::inbound::Inbound;
use prost::Message;
use quoit_wire::internode::{Payload, code};
use std::fmt;
use std::sync::Arc;

/// Answers one request. Dropped without a last answer, it refuses the request for its service.
pub struct Responder {
    inbound: Arc<Inbound>,
    call: u32,
    size_bytes: u64,
    is_done: bool,
}

impl Responder {
    pub(super) fn new(inbound: Arc<Inbound>, call: u32, size_bytes: u64) -> Responder {
        Responder { inbound, call, size_bytes, is_done: false }
    }

    /// Sends the last answer. Copies header and payload into the connection's buffer; allocates only
    /// where that must grow.
    pub fn send(mut self, header: &impl Message, payload: &(impl Payload + ?Sized)) {
        self.is_done = true;
        self.inbound.answer(self.call, self.size_bytes, true, header, payload);
    }

    /// Sends an answer after which more follow.
    pub fn send_more(&self, header: &impl Message, payload: &(impl Payload + ?Sized)) {
        self.inbound.answer(self.call, self.size_bytes, false, header, payload);
    }

    /// Refuses the request: `code` for programs, `text` for people. The last answer, too.
    pub fn refuse(mut self, code: u32, text: impl Into<String>) {
        self.is_done = true;
        self.inbound.refuse(self.call, self.size_bytes, code, text.into());
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.is_done {
            let text = "the node's service gave no answer".to_owned();
            self.inbound.refuse(self.call, self.size_bytes, code::NO_ANSWER, text);
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Responder").field("call", &self.call).finish_non_exhaustive()
    }
}

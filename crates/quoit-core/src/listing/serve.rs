//! Answers to other nodes' scans and listings of this node's copies.

use super::Listings;
use crate::error::RequestError;
use crate::refusal::{Refusal, refuse};
use prost::Message;
use quoit_cluster::{IncomingRequest, Responder};
use quoit_wire::internode::data::{ListBuckets, Scan};
use std::sync::Arc;

impl Listings {
    pub(crate) fn serve_scan(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        match self.local.read_header(request, |scan: &Scan| scan.layout_version) {
            Ok(scan) => {
                tokio::spawn(async move {
                    let scanned = self.local_scan(scan).await;
                    self.sweep_sessions_later();
                    send(reply, scanned);
                });
            }
            Err(refusal) => refuse(reply, &refusal),
        }
    }

    pub(crate) fn serve_list_buckets(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        match self.local.read_header(request, |list: &ListBuckets| list.layout_version) {
            Ok(list) => {
                tokio::spawn(async move { send(reply, self.local_buckets(list).await) });
            }
            Err(refusal) => refuse(reply, &refusal),
        }
    }
}

/// Sends a part of a listing. `None` means that this node no longer has all copies that the request's
/// layout gave it.
pub(super) fn send(reply: Responder, listed: Result<Option<impl Message>, RequestError>) {
    match listed {
        Ok(Some(listed)) => reply.send(&listed, b""),
        Ok(None) => refuse(reply, &Refusal::StaleLayout),
        Err(fault) => refuse(reply, &fault.into()),
    }
}

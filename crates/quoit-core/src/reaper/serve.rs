//! The primary's side of reaping.

use super::Marks;
use crate::error::RequestError;
use crate::service::{Refusal, refuse};
use crate::store::ReplicatedStore;
use quoit_cluster::{IncomingRequest, Responder};
use quoit_wire::internode::reap::{Reap, Reaped};
use std::sync::Arc;

impl ReplicatedStore {
    pub(crate) fn serve_reap(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let reap = match self.read_header(request, |reap: &Reap| reap.layout_version) {
            Ok(reap) => reap,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let blocking = self.settings.blocking;
        tokio::spawn(async move {
            match blocking.behind(move || Ok(self.reaped(&reap))).await {
                Ok(Ok(agreed)) => reply.send(&Reaped { agreed: agreed.into_bytes() }, b""),
                Ok(Err(refusal)) => refuse(reply, &refusal),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    /// Which tombstones are as they should be here: the very same or nothing, and after a removal nothing.
    fn reaped(&self, reap: &Reap) -> Result<Marks, Refusal> {
        let mut agreed = Marks::none(reap.tombstones.len());
        for (index, tombstone) in reap.tombstones.iter().enumerate() {
            let place = self.place(&tombstone.key, tombstone.partition)?;
            let at = place.at();
            let is_gone =
                reap.remove && self.reap_copy(&at, tombstone.digest).map_err(RequestError::from)?;
            let is_as_asked = || {
                let head = self.engine.head(&at).map_err(RequestError::from)?;
                Ok::<bool, RequestError>(
                    head.is_none_or(|meta| !reap.remove && meta.digest == tombstone.digest),
                )
            };
            if is_gone || is_as_asked()? {
                agreed.set(index);
            }
        }
        Ok(agreed)
    }
}

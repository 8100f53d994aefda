//! The primary's side of grants: gives them and takes them back.

use super::GrantNumber;
use super::Grants;
use crate::error::RequestError;
use crate::refusal::{Refusal, refuse};
use crate::replica::Copy;
use crate::serving::answer_by;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{IncomingRequest, Responder};
use quoit_store::engine::IoMode;
use quoit_wire::internode::grants::{Grant, Granted, REFUSED_GRANTED, Release};
use std::sync::Arc;

impl Grants {
    /// Makes a number that no grant of this node has had, in this process or an earlier one. Costs a
    /// durable write once in a million numbers.
    pub(crate) fn grant_number(&self) -> Result<GrantNumber, RequestError> {
        Ok(GrantNumber(self.local.dots.issue(0)?.counter))
    }

    /// Answers a request for a grant with a number and this node's copy.
    pub(crate) fn serve_grant(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let grant: Grant =
            match self.local.read_header(request, |grant: &Grant| grant.layout_version) {
                Ok(grant) => grant,
                Err(refusal) => return refuse(reply, &refusal),
            };
        let number = match self.grant_number() {
            Ok(number) => number,
            Err(fault) => return refuse(reply, &fault.into()),
        };
        if !self.grant(&grant.key, number, self.local.clock.monotonic_us()) {
            return reply.refuse(REFUSED_GRANTED, "another write holds a grant of the record");
        }
        // The copy is read after the grant is noted, so it has every write that was taken under an
        // earlier grant.
        let (blocking, asked) = (self.local.settings.blocking, grant.clone());
        answer_by(
            self,
            blocking,
            reply,
            move |grants, access| grants.copy_for_grant(&asked, access),
            move |grants, copy, reply| match copy {
                Ok(copy) => grants.send_grant(&grant, number, copy, reply),
                Err(refusal) => grants.withdraw(&grant.key, number, &refusal, reply),
            },
        );
    }

    /// Takes back a grant that its coordinator has not used.
    pub(crate) fn serve_release(&self, request: &IncomingRequest, reply: Responder) {
        match Release::decode(request.header.clone()) {
            Ok(release) => {
                self.release(&release.key, GrantNumber(release.number));
                reply.send(&(), b"");
            }
            Err(fault) => refuse(reply, &Refusal::Malformed(fault.to_string())),
        }
    }

    fn copy_for_grant(&self, grant: &Grant, access: IoMode) -> Result<Option<Copy>, Refusal> {
        let place = self.local.place(&grant.key, grant.partition)?;
        Ok(self.replica.fetch_copy(&place.at(), true, access)?)
    }

    fn send_grant(&self, grant: &Grant, number: GrantNumber, copy: Copy, reply: Responder) {
        let is_complete = match self.local.place(&grant.key, grant.partition) {
            Ok(place) => {
                let topology = self.local.topology_now();
                let replicas = self.local.replicas_by(&topology, &grant.key, grant.n_val);
                topology.keeps(place.at().partition, replicas)
            }
            Err(_) => false,
        };
        let granted = Granted { number: number.0, is_complete, ..Granted::default() };
        match copy {
            Copy::Missing => reply.send(&granted, b""),
            Copy::Found(digest, object) => {
                let object = object.unwrap_or_default();
                reply.send(&Granted { found: true, digest, ..granted }, &object);
            }
        }
    }

    /// Takes back a grant whose copy could not be read, and refuses the request.
    fn withdraw(&self, record: &Bytes, number: GrantNumber, refusal: &Refusal, reply: Responder) {
        self.release(record, number);
        refuse(reply, refusal);
    }
}

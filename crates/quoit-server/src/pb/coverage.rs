//! Coverage plans. A client gets the partitions of a bucket with the nodes that hold them, and queries each
//! part itself.

use super::connection::PbConnection;
use super::fault::Fault;
use super::kv::bucket_of;
use crate::erlang_text;
use crate::riak_queue::host_and_port;
use bytes::Bytes;
use quoit_core::{CoverageEntry, CoverageError, CoverageRequest, IndexQuery, RequestError};
use quoit_wire::messages::{RpbCoverageEntry, RpbCoverageReq, RpbCoverageResp};

impl PbConnection {
    pub(super) async fn coverage(&mut self, request: RpbCoverageReq) -> Result<(), Fault> {
        let wanted = CoverageRequest {
            entry_count_min: request.min_partitions.unwrap_or_default(),
            replaced: request.replace_cover.as_deref(),
            unavailable: &request.unavailable_cover,
        };
        let bucket = bucket_of(&request.bucket_type, &request.bucket);
        let planned = self.context.store.listings().coverage(bucket, wanted).await;
        let is_replacement = wanted.replaced.is_some();
        let entries = planned.map_err(|fault| match fault {
            CoverageError::Context(_) => invalid_context(),
            // Clients recognize this text and give up.
            CoverageError::Request(RequestError::InsufficientCoverage) if is_replacement => {
                Fault::Text("primary_partition_unavailable".into())
            }
            CoverageError::Request(fault) => fault.into(),
        })?;
        let entries = entries.into_iter().map(|entry| self.coverage_entry(entry));
        let entries = entries.collect::<Result<_, _>>()?;
        self.send(&RpbCoverageResp { entries })
    }

    fn coverage_entry(&self, entry: CoverageEntry) -> Result<RpbCoverageEntry, Fault> {
        let state = self.context.store.control().read();
        let member = state.members().get(entry.node);
        let address = member.and_then(|member| host_and_port(&member.addresses.pb));
        let (host, port) = address.ok_or_else(|| {
            let name = &entry.node_name;
            Fault::Text(format!("{name} has not reported its address for clients yet; try again"))
        })?;
        let numbers = entry.partitions.iter().map(ToString::to_string).collect::<Vec<_>>();
        let described = format!("partitions {} on {}", numbers.join(","), entry.node_name);
        Ok(RpbCoverageEntry {
            ip: Bytes::copy_from_slice(host.as_bytes()),
            port: port.into(),
            keyspace_desc: Some(described.into()),
            cover_context: entry.context,
        })
    }

    /// Restricts a query to the part of its bucket that a coverage context names, if a context was sent.
    pub(super) fn restrict(
        &self,
        query: &mut IndexQuery,
        context: Option<&Bytes>,
    ) -> Result<(), Fault> {
        let Some(context) = context else { return Ok(()) };
        self.context.store.listings().restrict(query, context).map_err(|_| invalid_context())
    }
}

fn invalid_context() -> Fault {
    let reason = "it does not belong to a plan of this bucket; ask for a new plan, and send its contexts as \
                  they are";
    Fault::Text(format!("{{invalid_cover_context,{}}}", erlang_text::string(reason)))
}

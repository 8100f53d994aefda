//! Map phases over keys that the coordinator of a job sends, at the nodes that hold the records.

use super::Listings;
use super::map_node::NodeMapper;
use crate::error::RequestError;
use crate::map_work::{IDLE, NodeWork, input_of_wire};
use crate::placement::{object_props, record_at};
use crate::refusal::{Refusal, refuse};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{IncomingRequest, Responder};
use quoit_mapreduce::ScriptEngine;
use quoit_number::length_u32;
use quoit_seam::yield_to_requests;
use quoit_wire::internode::maps::{EndJob, MapKeys, MappedKeys};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Limit on the bytes of objects in a batch, whatever the request allows.
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// Limit on the objects of a batch with scripts, so that it ends well before the coordinator gives up.
const SCRIPT_COUNT_MAX: usize = 64;
/// Number of objects that are read before other threads get a turn.
const AT_ONCE_COUNT: usize = 64;

impl Listings {
    pub(crate) fn serve_map(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let keys: MapKeys =
            match self.local.read_header(request, |keys: &MapKeys| keys.layout_version) {
                Ok(keys) => keys,
                Err(refusal) => return refuse(reply, &refusal),
            };
        tokio::spawn(async move {
            let listings = Arc::clone(&self);
            let has_scripts = keys.work.as_ref().is_some_and(|work| work.has_scripts);
            let (blocking, map) = (self.local.settings.blocking, move || listings.map_keys(keys));
            let mapped = match has_scripts {
                true => blocking.on_pool(map).await,
                false => blocking.at_low_priority(map).await,
            };
            self.sweep_sessions_later();
            match mapped {
                Ok(mapped) => reply.send(&mapped, b""),
                Err(fault) => refuse(reply, &Refusal::Storage(fault)),
            }
        });
    }

    pub(crate) fn serve_end_job(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        match EndJob::decode(request.header.clone()) {
            Ok(EndJob { job }) => {
                self.map_sessions.end(&job);
                reply.send(&EndJob::default(), b"");
            }
            Err(fault) => refuse(reply, &Refusal::Malformed(fault.to_string())),
        }
    }

    /// Maps this node's copies of records, at least of the first one, until the batch is full.
    fn map_keys(&self, keys: MapKeys) -> Result<MappedKeys, RequestError> {
        let MapKeys { work, inputs, bytes_max, .. } = keys;
        let work = NodeWork::of_wire(work.unwrap_or_default())?;
        let bytes_max = bytes_max.min(BATCH_BYTES_MAX);
        let count_max = if work.sent.has_scripts { SCRIPT_COUNT_MAX } else { usize::MAX };
        let mut mapper = NodeMapper::open(self, &work);
        let mut done_count = 0;
        for sent in inputs {
            let is_full = mapper.read_bytes() as u64 >= bytes_max || done_count >= count_max;
            if mapper.has_failed() || is_full {
                break;
            }
            let input = input_of_wire(sent)?;
            done_count += 1;
            let key = input.key_ref();
            key.check()?;
            let encoded = key.encoded();
            let state = self.local.control.read();
            let props = object_props(&state, key.bucket)?;
            mapper.map(props, &record_at(&state, props, key, &encoded), || input.clone())?;
            if done_count % AT_ONCE_COUNT == 0 {
                yield_to_requests();
            }
        }
        Ok(MappedKeys { done_count: length_u32(done_count), outputs: mapper.finish() })
    }

    /// Sets the engine with which this node runs scripts of other nodes' jobs. Without one it leaves
    /// their records unread, and the coordinators read them. Only the first call has an effect.
    pub fn run_scripts_with(&self, engine: Arc<dyn ScriptEngine>) {
        self.map_sessions.run_with(engine);
    }

    /// Number of script sessions that are in use or kept for jobs.
    #[must_use]
    pub fn script_session_count(&self) -> usize {
        self.map_sessions.count()
    }

    /// Drops the script sessions of a job. A batch of the job may still run here; its session is kept
    /// when the batch ends, and a later sweep drops it.
    pub(crate) fn end_job(self: &Arc<Self>, job: &Bytes) {
        self.map_sessions.end(job);
        self.sweep_sessions_later();
    }

    /// Starts the task that drops sessions some time after their last use, unless it already runs.
    pub(crate) fn sweep_sessions_later(self: &Arc<Self>) {
        // If the runtime has ended, there is nothing left to drop.
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.map_sessions.start_sweeping() {
            return;
        }
        let listings = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(IDLE).await;
                let Some(listings) = listings.upgrade() else { return };
                if !listings.map_sessions.sweep(listings.local.clock.monotonic_us()) {
                    return;
                }
            }
        });
    }
}

//! A node's answers to other nodes' jobs, and its own part of them.

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
use quoit_seam::give_way;
use quoit_wire::internode::maps::{EndJob, MapKeys, MappedKeys};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Bytes of objects after which a batch ends, whatever was asked for.
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// Objects that scripts are given for one batch: they are to end well before whoever waits gives up.
const SCRIPT_COUNT_MAX: usize = 64;
/// Objects that are read before other threads have their turn.
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
                true => blocking.aside(map).await,
                false => blocking.behind(map).await,
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

    /// Maps this node's copies of records, the first of them at least.
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
                give_way();
            }
        }
        Ok(MappedKeys { done_count: done_count as u32, outputs: mapper.finish() })
    }

    /// Lets this node run scripts of other nodes' jobs. Without it their records are left to those nodes.
    /// Once; later calls change nothing.
    pub fn run_scripts_with(&self, engine: Arc<dyn ScriptEngine>) {
        self.map_sessions.run_with(engine);
    }

    /// Number of sessions of scripts that are kept for jobs, or in use.
    #[must_use]
    pub fn script_session_count(&self) -> usize {
        self.map_sessions.count()
    }

    /// Drops the scripts of a job. A batch of this node may be under way, whose scripts are kept when it has
    /// ended.
    pub(crate) fn end_job(self: &Arc<Self>, job: &Bytes) {
        self.map_sessions.end(job);
        self.sweep_sessions_later();
    }

    /// Has sessions dropped some time after their last use.
    pub(crate) fn sweep_sessions_later(self: &Arc<Self>) {
        // Nothing is left to drop where the runtime has ended.
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.map_sessions.begin_to_sweep() {
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

//! Batches of records that other nodes map, and their answers.

use super::Jobs;
use super::fetch::Fetching;
use crate::calls::call_while_up;
use crate::error::RequestError;
use crate::map_work::{NodeWork, input_to_wire};
use crate::placement::{object_props, record_at, replicas_of};
use crate::topology::{Topology, cost_us};
use crate::votes::NodeIndex;
use prost::Message;
use quoit_cluster::{Lane, Peer};
use quoit_mapreduce::Input;
use quoit_wire::internode::maps::{
    EndJob, METHOD_END_JOB, METHOD_MAP, MapKeys, MapOutput, MapOutputKind, MappedKeys,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Time in which a node has to answer for a batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Approximate bytes of objects that all nodes together map at once.
const BYTES_AT_ONCE: u64 = 4 << 20;

/// Records of a phase that are being mapped, by other nodes and by this node.
pub(super) struct Mapping {
    pub(super) phase: usize,
    /// Records that were not sent to a node yet.
    left: Vec<Input>,
    calls: JoinSet<(Vec<Input>, Option<MappedKeys>)>,
    /// Records that this node reads.
    pub(super) fetching: Fetching,
}

/// An answer of a node to a batch.
pub(super) struct BatchAnswer {
    pub(super) outputs: Vec<MapOutputKind>,
}

impl Mapping {
    /// A mapping of records that this node reads, wherever they are stored.
    pub(super) fn here(phase: usize, inputs: Vec<Input>) -> Self {
        let fetching = Fetching::new(inputs);
        Self { phase, left: Vec::new(), calls: JoinSet::new(), fetching }
    }

    /// A mapping of records that are sent to the nodes that hold them.
    pub(super) fn spread(phase: usize, inputs: Vec<Input>) -> Self {
        let fetching = Fetching::new(Vec::new());
        Self { phase, left: inputs, calls: JoinSet::new(), fetching }
    }

    pub(super) fn is_done(&self) -> bool {
        self.left.is_empty() && self.calls.is_empty() && self.fetching.is_done()
    }

    /// Sends the remaining records to nodes that hold them. This node reads the records of which it has
    /// a complete copy itself, and those of which no other live node has one.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, and invalid names.
    pub(super) async fn send(
        &mut self,
        jobs: &Arc<Jobs>,
        work: &NodeWork,
    ) -> Result<(), RequestError> {
        let inputs = std::mem::take(&mut self.left);
        if inputs.is_empty() {
            return Ok(());
        }
        let topology = jobs.local.settled_topology(None).await;
        let mut by_node: BTreeMap<NodeIndex, Vec<Input>> = BTreeMap::new();
        for input in inputs {
            match node_for(jobs, &topology, &input)? {
                Some(place) => by_node.entry(place).or_default().push(input),
                None => self.fetching.add(input),
            }
        }
        let bytes_max = BYTES_AT_ONCE / (by_node.len() as u64).max(1);
        for (place, inputs) in by_node {
            let peer = Arc::clone(topology.peer(place).expect("batches go to other nodes"));
            let keys = MapKeys {
                work: Some(work.sent.clone()),
                layout_version: topology.layout_version(),
                inputs: inputs.iter().map(input_to_wire).collect(),
                bytes_max,
            };
            self.calls.spawn(async move {
                let call = call_while_up(&peer, METHOD_MAP, &keys, b"", Lane::Large, BATCH_TIMEOUT);
                let mapped =
                    call.await.ok().and_then(|reply| MappedKeys::decode(reply.header).ok());
                (inputs, mapped)
            });
        }
        Ok(())
    }

    /// The next answer of a node; `None` if no answer is awaited. If a node has not answered, this node
    /// reads its records from other replicas.
    pub(super) async fn answer(&mut self) -> Option<Result<BatchAnswer, RequestError>> {
        let (mut inputs, mapped) = match self.calls.join_next().await? {
            Ok(answered) => answered,
            Err(stopped) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
            Err(_) => return Some(Err(RequestError::Overload)),
        };
        let mut outputs = Vec::new();
        let done_count = mapped.as_ref().map_or(0, |mapped| mapped.done_count as usize);
        for output in mapped.into_iter().flat_map(|mapped| mapped.outputs) {
            match MapOutput::decode(output).ok().and_then(|output| output.kind) {
                Some(kind) => outputs.push(kind),
                None => {
                    let fault = "an output of a phase can't be read".to_owned();
                    return Some(Err(RequestError::Remote(fault)));
                }
            }
        }
        let rest = inputs.split_off(done_count.min(inputs.len()));
        match done_count {
            0 => rest.into_iter().for_each(|input| self.fetching.add(input)),
            _ => self.left.extend(rest),
        }
        Some(Ok(BatchAnswer { outputs }))
    }
}

/// Node that maps a record; `None` if this node reads it.
fn node_for(
    jobs: &Jobs,
    topology: &Topology,
    input: &Input,
) -> Result<Option<NodeIndex>, RequestError> {
    if topology.is_alone() {
        return Ok(None);
    }
    let key = input.key_ref();
    key.check()?;
    let encoded = key.encoded();
    let state = jobs.local.control.read();
    let props = object_props(&state, key.bucket)?;
    let replicas = replicas_of(&state, key.bucket)?;
    let at = record_at(&state, props, key, &encoded);
    let voters = topology.readers(at.partition, replicas, false, &[]);
    let own = topology.own();
    let whole = || voters.iter().filter(|voter| voter.primary > 0).map(|voter| voter.node);
    if whole().any(|place| Some(place) == own) {
        return Ok(None);
    }
    let peers = whole().filter_map(|place| Some((place, topology.peer(place)?)));
    let able = peers.filter(|(_, peer)| peer.is_up());
    Ok(able.min_by_key(|(_, peer)| cost_us(peer)).map(|(place, _)| place))
}

/// Tells all other nodes that a job has ended, so that they drop its scripts.
pub(super) fn announce_end(jobs: &Jobs, job: &bytes::Bytes) {
    let topology = jobs.local.topology_now();
    let tell = |peer: &Arc<Peer>| {
        let end = EndJob { job: job.clone() };
        let replies = quoit_cluster::Replies::new();
        // A node that is not reached drops them later, when they have not been used for a while.
        let _ = peer.send(METHOD_END_JOB, &end, b"", Lane::Small, &replies, 0);
    };
    let peers = topology.places().filter_map(|place| topology.peer(place));
    peers.filter(|peer| peer.is_up()).for_each(tell);
}

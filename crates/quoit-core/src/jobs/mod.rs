//! MapReduce jobs: the node that a client asks (the coordinator of the job) reads the inputs, has nodes
//! with the records run map phases, and reduces their outputs.
//!
//! If the input is a whole bucket, each node maps its own records in one scan (`listing/maps.rs`).
//! Other inputs are sent by name to a node that holds the record (`spread.rs`). A node maps the records
//! that it can read (`listing/map_node.rs`); the coordinator reads the others itself, from any replica
//! (`fetch.rs`).
//!
//! Jobs are pulled: a job advances when its next outputs are asked for, and ends when it is dropped. A
//! client that reads slowly therefore slows its job down, and a client that disconnects stops it. At
//! most one batch of each phase is kept in between. `docs/design/mapreduce.md` has the reasons.

mod fetch;
mod inputs;
mod scripts;
mod spread;

pub use inputs::JobInputs;

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::listing::Listings;
use crate::local_node::LocalNode;
use crate::map_work::{NodeWork, ScriptTexts, decoded, elements, input_of_wire, object_of_wire};
use bytes::Bytes;
use inputs::{InputStream, NextInputs};
use quoit_mapreduce::{
    Datum, FilterFault, Input, Job, JobFault, Outputs, PhaseFault, Pipeline, PipelineStep,
    ScriptEngine,
};
use quoit_wire::internode::maps::{MapFailure, MapOutputKind};
use scripts::Scripts;
use spread::{BatchAnswer, Mapping, announce_end};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Limits of a job, and the engine for its scripts.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// Maximum memory in bytes for values that a job keeps between its phases.
    pub held_bytes_max: usize,
    /// Engine that runs scripts; `None` to refuse jobs with scripts.
    pub scripts: Option<Arc<dyn ScriptEngine>>,
}

/// Reason why a job could not begin, or failed.
#[derive(Debug, Error)]
pub enum JobError {
    /// A phase can't be started.
    #[error(transparent)]
    NotStarted(#[from] JobFault),
    /// A phase failed.
    #[error(transparent)]
    Phase(#[from] PhaseFault),
    /// A key can't be processed by the key filter.
    #[error(transparent)]
    Filter(#[from] FilterFault),
    /// The inputs could not be read.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Progress of a job.
#[derive(Debug, Default)]
pub struct JobProgress {
    input_count: AtomicU64,
    read_count: AtomicU64,
    output_count: AtomicU64,
    held_bytes: AtomicU64,
}

impl JobProgress {
    /// Number of inputs of the first phase so far.
    #[must_use]
    pub fn input_count(&self) -> u64 {
        self.input_count.load(Ordering::Relaxed)
    }

    /// Number of objects that were read.
    #[must_use]
    pub fn read_count(&self) -> u64 {
        self.read_count.load(Ordering::Relaxed)
    }

    /// Number of outputs that belong to the result.
    #[must_use]
    pub fn output_count(&self) -> u64 {
        self.output_count.load(Ordering::Relaxed)
    }

    /// Approximate memory of values that are kept between phases, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }
}

/// A job under way. Dropping it ends it.
pub struct JobRun {
    jobs: Arc<Jobs>,
    pipeline: Pipeline,
    inputs: InputStream,
    scripts: Option<Scripts>,
    /// Unique id of the job among the jobs of all nodes.
    id: Bytes,
    /// Map and link phases in the form in which nodes run them, by index of the phase; `None` for other
    /// phases.
    works: Vec<Option<NodeWork>>,
    /// Records that are being mapped.
    mapping: Option<Mapping>,
    progress: Arc<JobProgress>,
    is_done: bool,
}

/// Starts the MapReduce jobs that clients send to this node, which coordinates them.
pub struct Jobs {
    local: Arc<LocalNode>,
    coordinator: Arc<Coordinator>,
    listings: Arc<Listings>,
}

impl Jobs {
    pub(crate) fn new(coordinator: &Arc<Coordinator>, listings: &Arc<Listings>) -> Self {
        Self {
            local: Arc::clone(&coordinator.local),
            coordinator: Arc::clone(coordinator),
            listings: Arc::clone(listings),
        }
    }

    /// Begins a job over `inputs`.
    ///
    /// # Errors
    ///
    /// Scripts that can't be run, unknown bucket types, and a partition of which no live node has a
    /// copy.
    pub async fn begin(
        self: &Arc<Self>,
        job: &Job,
        inputs: JobInputs,
        settings: &JobSettings,
    ) -> Result<JobRun, JobError> {
        let id = self.new_job_id();
        let scripts = Scripts::open(self, &id, job, settings).await?;
        let no_texts = ScriptTexts::default();
        let texts = scripts.as_ref().map_or(&no_texts, Scripts::texts);
        let places = 0..job.phases.len();
        let works: Vec<Option<NodeWork>> =
            places.map(|place| NodeWork::new(&id, &job.phases, place, texts)).collect();
        let first = works.first().and_then(Option::as_ref);
        let inputs = InputStream::open(self, inputs, first).await?;
        Ok(JobRun {
            jobs: Arc::clone(self),
            pipeline: Pipeline::new(job.phases.clone(), settings.held_bytes_max),
            inputs,
            scripts,
            id,
            works,
            mapping: None,
            progress: Arc::default(),
            is_done: false,
        })
    }

    /// Makes an id that no job of any node has had, from this node's id, the time and a counter.
    fn new_job_id(&self) -> Bytes {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut id = self.local.control.read().node_id().0.to_vec();
        id.extend_from_slice(&self.local.clock.unix_us().to_be_bytes());
        id.extend_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        id.into()
    }
}

impl Drop for JobRun {
    fn drop(&mut self) {
        if self.scripts.is_some() {
            self.jobs.listings.end_job(&self.id);
            announce_end(&self.jobs, &self.id);
        }
    }
}

impl JobRun {
    /// Progress so far.
    #[must_use]
    pub const fn progress(&self) -> &Arc<JobProgress> {
        &self.progress
    }

    /// The next outputs by phase; `None` at the end. Each call does a part of the work, so it may
    /// return no outputs.
    ///
    /// # Errors
    ///
    /// Functions that fail, objects that can't be read, inputs that can't be listed. A job is complete
    /// or ends with an error; it is never cut short in silence.
    pub async fn next(&mut self) -> Result<Option<Vec<Outputs>>, JobError> {
        if self.is_done {
            return Ok(None);
        }
        self.step().await?;
        let outputs = self.pipeline.take_outputs();
        let count: usize = outputs.iter().map(|outputs| outputs.data.len()).sum();
        self.progress.output_count.fetch_add(count as u64, Ordering::Relaxed);
        self.progress.held_bytes.store(self.pipeline.held_bytes() as u64, Ordering::Relaxed);
        Ok(Some(outputs))
    }

    async fn step(&mut self) -> Result<(), JobError> {
        // Lets waiting requests run first.
        tokio::task::yield_now().await;
        if let Some(mapping) = self.mapping.take() {
            return self.map(mapping).await;
        }
        match self.pipeline.next_step()? {
            PipelineStep::Done => {
                debug_assert!(self.mapping.is_none(), "a job ends when all inputs were mapped");
                self.is_done = true;
            }
            PipelineStep::Input => match self.inputs.next().await? {
                Some(NextInputs::Mapped(outputs)) => {
                    let unread = self.take_outputs_of_nodes(0, outputs)?;
                    self.map_here(0, unread);
                }
                Some(NextInputs::Inputs(inputs)) => {
                    self.progress.input_count.fetch_add(inputs.len() as u64, Ordering::Relaxed);
                    self.pipeline.feed(inputs)?;
                }
                None => self.pipeline.end_input(),
            },
            PipelineStep::Map { phase, inputs } => {
                self.map(Mapping::spread(phase, inputs)).await?;
            }
            PipelineStep::Reduce { phase, values } => {
                let scripts = self.scripts.as_mut().expect("a job with scripts has an engine");
                let outputs = scripts.reduce(phase, values).await?;
                self.pipeline.reduced(phase, outputs)?;
            }
        }
        Ok(())
    }

    /// Makes this node read records of a phase, from any replica.
    fn map_here(&mut self, phase: usize, inputs: Vec<Input>) {
        if !inputs.is_empty() {
            debug_assert!(self.mapping.is_none(), "inputs are mapped one batch after the other");
            self.mapping = Some(Mapping::here(phase, inputs));
        }
    }

    /// Continues with the records that are being mapped: reads some of them here, or takes an answer of
    /// a node.
    async fn map(&mut self, mut mapping: Mapping) -> Result<(), JobError> {
        let phase = mapping.phase;
        let work = self.works.get(phase).and_then(Option::as_ref);
        let work = work.expect("map and link phases are run by nodes");
        mapping.send(&self.jobs, work).await?;
        if !mapping.fetching.is_done() {
            self.fetch(&mut mapping).await?;
        } else if let Some(answer) = mapping.answer().await {
            let BatchAnswer { outputs } = answer?;
            for input in self.take_outputs_of_nodes(phase, outputs)? {
                mapping.fetching.add(input);
            }
        }
        if !mapping.is_done() {
            self.mapping = Some(mapping);
        }
        Ok(())
    }

    /// Reads some objects of a phase, and applies its function to them.
    async fn fetch(&mut self, mapping: &mut Mapping) -> Result<(), JobError> {
        let (phase, fetching) = (mapping.phase, &mut mapping.fetching);
        let read =
            self.pipeline.phases().get(phase).expect("records are read for a phase of the job");
        let kind = read.kind.clone();
        let mut outputs = Vec::new();
        let mut whole = Vec::new();
        fetching.read(&self.jobs, phase, &kind, &mut outputs, &mut whole).await?;
        self.progress.read_count.fetch_add(fetching.take_read_count(), Ordering::Relaxed);
        if !whole.is_empty() {
            let scripts = self.scripts.as_mut().expect("a job with scripts has an engine");
            outputs.extend(scripts.map(phase, whole).await?);
        }
        Ok(self.pipeline.mapped(phase, outputs)?)
    }

    /// Takes the outputs of nodes. Returns the inputs that they could not read.
    fn take_outputs_of_nodes(
        &mut self,
        phase: usize,
        outputs: Vec<MapOutputKind>,
    ) -> Result<Vec<Input>, JobError> {
        let mut unread = Vec::new();
        let mut data = Vec::with_capacity(outputs.len());
        for output in outputs {
            match output {
                MapOutputKind::Value(value) => data.push(Datum::binary(value)),
                MapOutputKind::Term(term) => data.push(Datum::Term(decoded(&term)?)),
                MapOutputKind::Key(input) => data.push(Datum::Key(Box::new(input_of_wire(input)?))),
                MapOutputKind::Object(object) => data.push(object_of_wire(object)?),
                MapOutputKind::List(list) => data.extend(elements(phase, &list)?),
                MapOutputKind::Unread(input) => unread.push(input_of_wire(input)?),
                MapOutputKind::Failed(MapFailure { error, of_filter: true, .. }) => {
                    return Err(FilterFault::AtNode(error).into());
                }
                MapOutputKind::Failed(MapFailure { phase, error, input, stack, .. }) => {
                    let phase = phase as usize;
                    return Err(PhaseFault { phase, error, input, kind: "error", stack }.into());
                }
                MapOutputKind::Counts(counts) => {
                    // Inputs that came by name were counted when they were read.
                    if matches!(self.inputs, InputStream::Mapped(_)) && phase == 0 {
                        self.progress.input_count.fetch_add(counts.inputs, Ordering::Relaxed);
                    }
                    self.progress.read_count.fetch_add(counts.reads, Ordering::Relaxed);
                }
            }
        }
        self.pipeline.mapped(phase, data)?;
        Ok(unread)
    }
}

//! MapReduce jobs under way: the node that a client asks reads the inputs, fetches each object from one
//! replica, and applies the functions.
//!
//! A job is pulled: it goes on when its next outputs are asked for, and ends when it is dropped. So a client
//! that does not read slows its job down, and one that leaves stops it; nothing waits in between but one
//! batch of each phase. `docs/design/mapreduce.md` has the reasons.

mod fetch;
mod inputs;
mod scripts;

pub use inputs::JobInputs;

use crate::error::RequestError;
use crate::store::ReplicatedStore;
use fetch::Fetching;
use inputs::InputStream;
use quoit_mapreduce::{
    Datum, FilterFault, FoundObject, Input, Job, JobFault, MapFunction, Outputs, PhaseFault,
    PhaseKind, Pipeline, ScriptEngine, Work, follow_links,
};
use scripts::Scripts;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Bounds of a job, and what runs its scripts.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// Memory in bytes of what a job keeps between its phases.
    pub held_bytes_max: usize,
    /// Runs scripts; `None`: jobs with scripts are refused.
    pub scripts: Option<Arc<dyn ScriptEngine>>,
}

/// Why a job is not begun, or has failed.
#[derive(Debug, Error)]
pub enum JobError {
    /// A phase can't be started.
    #[error(transparent)]
    NotStarted(#[from] JobFault),
    /// A phase failed.
    #[error(transparent)]
    Phase(#[from] PhaseFault),
    /// A key did not fit the key filter.
    #[error(transparent)]
    Filter(#[from] FilterFault),
    /// The inputs could not be read.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// How far a job is.
#[derive(Debug, Default)]
pub struct JobProgress {
    input_count: AtomicU64,
    read_count: AtomicU64,
    output_count: AtomicU64,
    held_bytes: AtomicU64,
}

impl JobProgress {
    /// Inputs that the first phase was given.
    #[must_use]
    pub fn input_count(&self) -> u64 {
        self.input_count.load(Ordering::Relaxed)
    }

    /// Objects that were read.
    #[must_use]
    pub fn read_count(&self) -> u64 {
        self.read_count.load(Ordering::Relaxed)
    }

    /// Outputs that belong to the result.
    #[must_use]
    pub fn output_count(&self) -> u64 {
        self.output_count.load(Ordering::Relaxed)
    }

    /// Memory of what is kept between phases, about, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }
}

/// A job under way. Dropping it ends it.
pub struct JobRun {
    store: Arc<ReplicatedStore>,
    pipeline: Pipeline,
    inputs: InputStream,
    scripts: Option<Scripts>,
    /// The map phase whose objects are being fetched.
    fetching: Option<(usize, Fetching)>,
    progress: Arc<JobProgress>,
    is_done: bool,
}

impl ReplicatedStore {
    /// Begins a job over these inputs, which are those of the job.
    ///
    /// # Errors
    ///
    /// Scripts that can't be run, unknown bucket types, and partitions that no node has which is up.
    pub async fn begin_job(
        self: &Arc<Self>,
        job: &Job,
        inputs: JobInputs,
        settings: &JobSettings,
    ) -> Result<JobRun, JobError> {
        let scripts = Scripts::open(self, job, settings).await?;
        let inputs = InputStream::open(self, inputs).await?;
        Ok(JobRun {
            store: Arc::clone(self),
            pipeline: Pipeline::new(job.phases.clone(), settings.held_bytes_max),
            inputs,
            scripts,
            fetching: None,
            progress: Arc::default(),
            is_done: false,
        })
    }
}

impl JobRun {
    /// How far it is.
    #[must_use]
    pub const fn progress(&self) -> &Arc<JobProgress> {
        &self.progress
    }

    /// The next outputs, by phase; `None` when all is done. Each call does some of the work, and outputs may
    /// be none.
    ///
    /// # Errors
    ///
    /// Functions that fail, objects that can't be read, inputs that can't be listed. A job is complete or an
    /// error, never cut short in silence.
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
        // Requests go first.
        tokio::task::yield_now().await;
        if self.fetching.is_some() {
            return self.map().await;
        }
        match self.pipeline.next_work()? {
            Work::Done => self.is_done = true,
            Work::Input => match self.inputs.next().await? {
                Some(inputs) => {
                    self.progress.input_count.fetch_add(inputs.len() as u64, Ordering::Relaxed);
                    self.pipeline.feed(inputs)?;
                }
                None => self.pipeline.end_input(),
            },
            Work::Map { phase, inputs } => {
                self.fetching = Some((phase, Fetching::new(inputs)));
                self.map().await?;
            }
            Work::Reduce { phase, values } => {
                let scripts = self.scripts.as_mut().expect("a job with scripts has an engine");
                let outputs = scripts.reduce(phase, values).await?;
                self.pipeline.reduced(phase, outputs)?;
            }
        }
        Ok(())
    }

    /// Reads some objects of the phase that is being fetched for, and applies its function.
    async fn map(&mut self) -> Result<(), JobError> {
        let (phase, mut fetching) = self.fetching.take().expect("objects are being fetched");
        let kind = self.pipeline.phases()[phase].kind.clone();
        let mut outputs = Vec::new();
        let mut whole = Vec::new();
        let applied = fetching.read(&self.store, phase, &kind, &mut outputs, &mut whole).await;
        applied?;
        let read_count = fetching.take_read_count();
        self.progress.read_count.fetch_add(read_count, Ordering::Relaxed);
        if !fetching.is_done() {
            self.fetching = Some((phase, fetching));
        }
        if !whole.is_empty() {
            let scripts = self.scripts.as_mut().expect("a job with scripts has an engine");
            outputs.extend(scripts.map(phase, whole).await?);
        }
        Ok(self.pipeline.mapped(phase, outputs)?)
    }
}

/// An object for a script, or the input of a missing one.
type ForScript = Result<FoundObject, Input>;

/// Applies the function of a map or link phase to an object, or keeps the object for the engine of scripts.
fn apply(
    kind: &PhaseKind,
    phase: usize,
    input: Input,
    object: Option<quoit_model::object::Object>,
    outputs: &mut Vec<Datum>,
    for_script: &mut Vec<ForScript>,
) -> Result<(), PhaseFault> {
    match kind {
        PhaseKind::Link { bucket, tag } => {
            outputs.extend(follow_links(object.as_ref(), bucket.as_ref(), tag.as_ref()));
        }
        PhaseKind::Map(MapFunction::Script(_)) => for_script.push(match object {
            Some(object) => Ok(FoundObject { input, object }),
            None => Err(input),
        }),
        PhaseKind::Map(function) => {
            let printed = input.clone();
            let made = function.apply(input, object);
            outputs.extend(
                made.map_err(|error| PhaseFault::new(phase, error, Some(&printed.to_term())))?,
            );
        }
        PhaseKind::Reduce(_) => unreachable!("reduce phases read no objects"),
    }
    Ok(())
}

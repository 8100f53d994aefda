//! A running job.

use crate::context::ServerContext;
use crate::index_query::{self, Terms};
use crate::jobs::JobEnd;
use crate::jobs::JobSlot;
use crate::memory::{ConnectionMemory, MemoryReservation};
use bytes::Bytes;
use quoit_core::{Deadline, IndexQuery, IndexSelection, JobInputs, JobRun, RequestError};
use quoit_mapreduce::{BucketName, Generator, IndexTerms, Inputs, Job, JobFault, Outputs};
use quoit_model::etf::Term;
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use std::io;
use std::pin::pin;
use std::sync::Arc;

/// A running job with its slot. Dropping it ends the job.
pub(crate) struct RunningJob {
    context: Arc<ServerContext>,
    run: JobRun,
    place: JobSlot,
    deadline: Deadline,
    /// Memory of the data that the job holds.
    reservation: MemoryReservation,
}

/// Size in bytes up to which a job's document is parsed on the current thread. Parsing more would delay
/// other requests of the thread.
const SMALL_DOCUMENT_BYTES: usize = 32 << 10;

/// Parses the document of a job.
pub(crate) async fn read_job(
    document: Bytes,
    read: impl FnOnce(&Bytes) -> Result<Job, JobFault> + Send + 'static,
) -> Result<Job, JobFault> {
    if document.len() <= SMALL_DOCUMENT_BYTES && Term::inflated_size(&document).is_none() {
        return read(&document);
    }
    match tokio::task::spawn_blocking(move || read(&document)).await {
        Ok(job) => job,
        Err(stopped) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
        // The runtime is stopping.
        Err(_) => Err(JobFault::InvalidJson("it was not read: the node stops".into())),
    }
}

/// Starts a job for the client of the connection with this memory.
pub(crate) async fn begin(
    context: &Arc<ServerContext>,
    memory: &Arc<ConnectionMemory>,
    job: Job,
) -> Result<RunningJob, JobEnd> {
    let deadline = Deadline::after_ms(job.timeout_ms);
    let place =
        context.jobs.enter(&job, context.settings.mapreduce.job_count_max, deadline).await?;
    let begun = begin_in(context, memory, job, place, deadline).await;
    if begun.is_err() {
        context.jobs.note_failed();
    }
    begun
}

async fn begin_in(
    context: &Arc<ServerContext>,
    memory: &Arc<ConnectionMemory>,
    mut job: Job,
    place: JobSlot,
    deadline: Deadline,
) -> Result<RunningJob, JobEnd> {
    let mut reservation = memory.reservation(0);
    reservation.reserve_minimum(context.pieces_bytes())?;
    let inputs = inputs_of(std::mem::replace(&mut job.inputs, Inputs::Keys(Vec::new())))?;
    let begun =
        async { Ok(context.store.jobs().begin(&job, inputs, &context.job_settings()).await) };
    let run = limited(deadline, &place, begun).await??;
    place.entry.set_progress(run.progress());
    Ok(RunningJob { context: Arc::clone(context), run, place, deadline, reservation })
}

impl RunningJob {
    /// The next outputs, which may be empty; `None` when the job is done.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Outputs>>, JobEnd> {
        let step = async { Ok(self.run.next().await) };
        let next = match limited(self.deadline, &self.place, step).await {
            Ok(next) => next.map_err(JobEnd::from),
            Err(end) => Err(end),
        };
        let next = next.and_then(|next| {
            let held_bytes = usize::try_from(self.run.progress().held_bytes());
            self.reservation.hold(held_bytes.unwrap_or(usize::MAX))?;
            Ok(next)
        });
        if next.is_err() {
            self.context.jobs.note_failed();
        }
        next
    }

    /// Waits until the client has taken outputs. If the job's timeout passes meanwhile, or an operator stops
    /// it, the job releases its slot and memory at once: otherwise a client that does not read would keep
    /// them. The client gets the error when it continues to read.
    ///
    /// # Errors
    ///
    /// Errors of the write.
    pub(crate) async fn while_written(
        self,
        write: impl Future<Output = io::Result<()>>,
    ) -> io::Result<Result<Self, JobEnd>> {
        let mut write = pin!(write);
        let written = async { Ok((&mut write).await) };
        match limited(self.deadline, &self.place, written).await {
            Ok(written) => written.map(|()| Ok(self)),
            Err(end) => {
                self.context.jobs.note_failed();
                drop(self);
                write.await?;
                Ok(Err(end))
            }
        }
    }
}

/// Runs a step of a job until its timeout, unless an operator stops the job.
async fn limited<T>(
    deadline: Deadline,
    place: &JobSlot,
    step: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, JobEnd> {
    tokio::select! {
        biased;
        () = place.entry.stopped() => Err(JobEnd::Stopped),
        done = deadline.limit(step) => done.map_err(|_| JobEnd::Timeout),
    }
}

/// The inputs of a job in the form of the store.
fn inputs_of(inputs: Inputs) -> Result<JobInputs, JobEnd> {
    Ok(match inputs {
        Inputs::Keys(keys) => JobInputs::Keys(keys),
        Inputs::Bucket(bucket) => JobInputs::Bucket(bucket, None),
        Inputs::Filtered(bucket, filter) => JobInputs::Bucket(bucket, Some(filter)),
        Inputs::Index { bucket, field, terms } => {
            let terms = match terms {
                IndexTerms::One(term) => Terms::One(term),
                IndexTerms::Range(first, last) => Terms::Range(first, last),
            };
            let selection = index_query::selection(&field, terms);
            query(&bucket, selection.map_err(index_query::QueryFault::Entry)?)
        }
        Inputs::Generated(Generator::KeysWithPrefix(bucket, prefix)) => {
            query(&bucket, IndexSelection::Keys(KeyBounds::of_prefix(prefix)))
        }
    })
}

fn query(bucket: &BucketName, selection: IndexSelection) -> JobInputs {
    let BucketName { bucket_type, bucket } = bucket;
    let bucket = BucketRef { bucket_type, bucket };
    JobInputs::Query(Box::new(IndexQuery::new(bucket, selection)))
}

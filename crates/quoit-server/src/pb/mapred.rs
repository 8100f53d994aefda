//! MapReduce jobs.

use super::connection::PbConnection;
use super::fault::Fault;
use crate::erlang_text;
use crate::jobs::JobEnd;
use crate::mapreduce::{RunningJob, begin, read_job, rights};
use bytes::Bytes;
use quoit_mapreduce::{Datum, Job, JobFault, Outputs, append_json};
use quoit_model::etf::Term;
use quoit_wire::messages::{RpbMapRedReq, RpbMapRedResp};

/// Approximate size of the outputs in one frame, in bytes.
const FRAME_BYTES: usize = 256 << 10;

impl From<JobFault> for Fault {
    fn from(fault: JobFault) -> Self {
        Self::Text(fault.printed())
    }
}

impl From<JobEnd> for Fault {
    fn from(end: JobEnd) -> Self {
        Self::Text(end.printed())
    }
}

/// Encoding of a job and of its results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Json,
    Erlang,
}

impl PbConnection {
    pub(super) async fn map_reduce(&mut self, request: RpbMapRedReq) -> Result<(), Fault> {
        let jobs = self.context.settings.jobs;
        self.allowed(jobs.map_reduce, "map_reduce")?;
        let (notation, bytes_max) = match &*request.content_type {
            b"application/json" => (Notation::Json, Job::json_bytes_max(&request.request)),
            b"application/x-erlang-binary" => {
                (Notation::Erlang, Job::term_bytes_max(&request.request))
            }
            other => {
                let printed = erlang_text::binary(other);
                return Err(Fault::Text(format!("{{unknown_content_type,{printed}}}")));
            }
        };
        // A document of many short items takes many times its size when it is parsed.
        self.reservation.reserve_minimum(bytes_max)?;
        let document = request.request;
        let job = read_job(document, move |document| match notation {
            Notation::Json => Job::from_json(document),
            Notation::Erlang => Job::from_term(document),
        });
        let job = job.await?;
        self.allowed(jobs.map_reduce_js || job.scripts().next().is_none(), "map_reduce_js")?;
        if !self.session.is_open() {
            for need in rights::needs(&job) {
                self.check(&need)?;
            }
            if rights::follows_links(&job) {
                return Err(Fault::Text(rights::NO_LINKS.to_owned()));
            }
        }
        let begun = async { Ok(begin(&self.context, &self.memory, job).await?) };
        let mut running = self.unless_disconnected(Box::pin(begun)).await?;
        loop {
            let next = async { Ok(running.next().await?) };
            let Some(outputs) = self.unless_disconnected(Box::pin(next)).await? else { break };
            for Outputs { phase, data } in outputs {
                running = self.send_outputs(running, notation, phase, data).await?;
            }
        }
        self.send(&RpbMapRedResp { done: Some(true), ..RpbMapRedResp::default() })
    }

    /// Sends outputs of a phase in as many frames as they need.
    async fn send_outputs(
        &mut self,
        mut running: RunningJob,
        notation: Notation,
        phase: usize,
        data: Vec<Datum>,
    ) -> Result<RunningJob, Fault> {
        let mut left = data.into_iter().peekable();
        while left.peek().is_some() {
            let mut size_bytes = 0;
            let mut piece = Vec::new();
            while size_bytes < FRAME_BYTES
                && let Some(datum) = left.next()
            {
                size_bytes += datum.size_bytes();
                piece.push(datum);
            }
            let response = Some(match notation {
                Notation::Json => json_list(phase, &piece)?,
                Notation::Erlang => term_list(&piece),
            });
            let number = u32::try_from(phase).ok();
            self.send(&RpbMapRedResp { phase: number, response, done: None })?;
            running = running.while_written(self.flush()).await??;
        }
        Ok(running)
    }
}

fn json_list(phase: usize, data: &[Datum]) -> Result<Bytes, JobEnd> {
    let mut list = vec![b'['];
    for (place, datum) in data.iter().enumerate() {
        if place > 0 {
            list.push(b',');
        }
        append_json(&mut list, datum).map_err(|fault| JobEnd::unwritable(phase, fault))?;
    }
    list.push(b']');
    Ok(list.into())
}

fn term_list(data: &[Datum]) -> Bytes {
    let mut list = Vec::new();
    Term::List(data.iter().map(Datum::to_term).collect()).encode_into(&mut list);
    list.into()
}

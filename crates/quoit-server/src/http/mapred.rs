//! MapReduce: `POST /mapred`.

use super::connection::{HttpConnection, Request};
use super::head::Method;
use super::listing::HELD_BYTES_MAX;
use super::props::is_json;
use super::refusal::Refusal;
use super::render::{append_boundary, boundary};
use super::response::{JSON, append_chunk, reply, reply_in_pieces};
use super::uri;
use crate::jobs::JobEnd;
use crate::mapreduce::{RunningJob, begin, read_job, rights};
use crate::memory::GatheredMemory;
use quoit_mapreduce::{Job, JobFault, Outputs, append_json};
use std::io;

const USAGE: &str = "This resource accepts POSTs with bodies containing JSON of the form:\n{\n \
                     \"inputs\":[...list of inputs...],\"query\":[...list of map/reduce phases...]\n}\n";

impl From<JobFault> for Refusal {
    fn from(fault: JobFault) -> Self {
        match fault.document() {
            Some(document) => Self::Json(400, document),
            None => Self::bad(fault.http_text()),
        }
    }
}

impl From<JobEnd> for Refusal {
    fn from(end: JobEnd) -> Self {
        Self::Json(end.http_status(), end.document())
    }
}

impl HttpConnection {
    /// `/mapred`.
    pub(super) async fn mapred(
        &mut self,
        request: &Request,
        method: Method,
        query: &[u8],
    ) -> Result<(), Refusal> {
        if method != Method::Post || request.body.is_empty() {
            return Err(Refusal::bad(USAGE));
        }
        let job = match read_job(request.body.clone(), |body| Job::from_json(body)).await {
            // Riak notices an invalid key filter only when the job runs.
            Err(JobFault::Filter(fault)) => Err(JobEnd::Failed(fault.into())),
            // Riak notices an invalid phase only when the job starts.
            Err(fault @ JobFault::Phase { .. }) => Err(JobEnd::Failed(fault.into())),
            job => Ok(job?),
        };
        let jobs = &self.context.settings.jobs;
        self.check_origin(&request.head)?;
        if !jobs.map_reduce {
            return Err(disabled("map_reduce"));
        }
        if !is_json(request) {
            return Err(Refusal::Page(415));
        }
        let job = job?;
        if !jobs.map_reduce_js && job.scripts().next().is_some() {
            return Err(disabled("map_reduce_js"));
        }
        if self.is_secured() {
            self.check_all(rights::needs(&job))?;
            if rights::follows_links(&job) {
                return Err(Refusal::Text(403, rights::NO_LINKS.trim_matches('"').into()));
            }
        }
        let phases = job.phases.iter().enumerate();
        let kept: Vec<usize> =
            phases.filter(|(_, phase)| phase.keep).map(|(place, _)| place).collect();
        let is_chunked = uri::query_value(query, "chunked").as_deref() == Some(b"true");
        let begun = Box::pin(begin(&self.context, &self.memory, job));
        let running = self.unless_disconnected(begun).await??;
        match kept.as_slice() {
            _ if is_chunked => self.write_phases(running).await,
            [] | [_] => self.write_outputs(running).await,
            several => self.write_lists(running, several).await,
        }
    }

    async fn next_outputs(
        &self,
        running: &mut RunningJob,
    ) -> io::Result<Result<Option<Vec<Outputs>>, JobEnd>> {
        self.unless_disconnected(Box::pin(running.next())).await
    }

    /// Sends the outputs of a phase as a part, as they come.
    async fn write_phases(&mut self, mut running: RunningJob) -> Result<(), Refusal> {
        let boundary = boundary();
        let media_type = format!("multipart/mixed;boundary={boundary}");
        reply_in_pieces(&mut self.out, self.form, 200)
            .header("Content-Type", media_type.as_bytes())
            .stream();
        loop {
            let part = match self.next_outputs(&mut running).await? {
                Ok(Some(outputs)) => phase_parts(&outputs, &boundary),
                Ok(None) => break,
                Err(end) => Err(end),
            };
            let sent = match part {
                Ok(part) if part.is_empty() => Ok(running),
                Ok(part) => running.while_written(self.send_chunk(&part)).await?,
                Err(end) => Err(end),
            };
            match sent {
                Ok(goes_on) => running = goes_on,
                Err(end) => {
                    let document = end.document().to_string();
                    append_chunk(&mut self.out, self.form, document.as_bytes());
                    self.end_stream();
                    return Ok(());
                }
            }
        }
        let mut end = Vec::new();
        append_boundary(&mut end, &boundary, true);
        append_chunk(&mut self.out, self.form, &end);
        self.end_stream();
        Ok(())
    }

    /// Sends one list, in pieces if it is long. Once a piece is sent, a failure closes the connection, so
    /// that no client mistakes a partial list for the whole list.
    async fn write_outputs(&mut self, mut running: RunningJob) -> Result<(), Refusal> {
        let mut document = vec![b'['];
        let (mut is_first, mut streams) = (true, false);
        loop {
            let next = self.next_outputs(&mut running).await?;
            let appended = next.and_then(|outputs| match outputs {
                Some(outputs) => append_outputs(&mut document, &outputs, &mut is_first).map(Some),
                None => Ok(None),
            });
            match appended {
                Ok(Some(())) => {}
                Ok(None) => break,
                Err(end) if streams => return Err(io::Error::other(end.printed()).into()),
                Err(end) => return Err(end.into()),
            }
            if document.len() >= HELD_BYTES_MAX {
                if !streams {
                    reply_in_pieces(&mut self.out, self.form, 200)
                        .header("Content-Type", JSON)
                        .stream();
                    streams = true;
                }
                let sent = running.while_written(self.send_chunk(&document)).await?;
                running = sent.map_err(|end| io::Error::other(end.printed()))?;
                document.clear();
            }
        }
        document.push(b']');
        if streams {
            append_chunk(&mut self.out, self.form, &document);
            self.end_stream();
        } else {
            reply(&mut self.out, self.form, 200).content_type(JSON).finish(&document);
        }
        Ok(())
    }

    /// Sends a list of lists, one for each kept phase. It is gathered first, because all phases run at the
    /// same time.
    async fn write_lists(
        &mut self,
        mut running: RunningJob,
        kept: &[usize],
    ) -> Result<(), Refusal> {
        let mut gathered = GatheredMemory::new(&self.memory);
        let mut lists: Vec<Vec<u8>> = kept.iter().map(|_| Vec::new()).collect();
        while let Some(outputs) = self.next_outputs(&mut running).await?? {
            for each in outputs {
                let place = kept.iter().position(|phase| *phase == each.phase);
                let Some(list) = place.and_then(|place| lists.get_mut(place)) else { continue };
                let (before, mut is_first) = (list.len(), list.is_empty());
                append_outputs(list, std::slice::from_ref(&each), &mut is_first)?;
                gathered.add(list.len() - before)?;
            }
        }
        let mut document = vec![b'['];
        for (place, list) in lists.iter().enumerate() {
            document.extend_from_slice(if place > 0 { b",[" } else { b"[" });
            document.extend_from_slice(list);
            document.push(b']');
        }
        document.push(b']');
        reply(&mut self.out, self.form, 200).content_type(JSON).finish(&document);
        Ok(())
    }
}

fn disabled(job: &str) -> Refusal {
    Refusal::Text(403, format!("Operation '{{riak_kv,{job}}}' is not enabled").into())
}

/// Appends outputs as elements of a JSON list.
fn append_outputs(
    list: &mut Vec<u8>,
    outputs: &[Outputs],
    is_first: &mut bool,
) -> Result<(), JobEnd> {
    for Outputs { phase, data } in outputs {
        for datum in data {
            if !std::mem::take(is_first) {
                list.push(b',');
            }
            append_json(list, datum).map_err(|fault| JobEnd::unwritable(*phase, fault))?;
        }
    }
    Ok(())
}

/// A part of a multipart body for each phase: `{"phase": N, "data": [...]}`.
fn phase_parts(outputs: &[Outputs], boundary: &str) -> Result<Vec<u8>, JobEnd> {
    let mut parts = Vec::new();
    for each in outputs {
        append_boundary(&mut parts, boundary, false);
        parts.extend_from_slice(b"Content-Type: application/json\r\n\r\n");
        parts.extend_from_slice(format!("{{\"phase\":{},\"data\":[", each.phase).as_bytes());
        append_outputs(&mut parts, std::slice::from_ref(each), &mut true)?;
        parts.extend_from_slice(b"]}");
    }
    Ok(parts)
}

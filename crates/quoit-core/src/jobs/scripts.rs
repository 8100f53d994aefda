//! Scripts of a job, which an engine runs on threads that may block.

use super::Jobs;
use super::{JobError, JobSettings};
use crate::error::RequestError;
use crate::map_work::{ScriptInput, ScriptTexts, elements, failure, list_of};
use crate::options::ReadOptions;
use bytes::Bytes;
use quoit_mapreduce::{Datum, Job, JobFault, ScriptCall, ScriptSession, ScriptSource, ScriptText};
use quoit_model::etf::Term;

const OFF: &str = "JavaScript is not run by this server: mapreduce.javascript is off; an operator may switch \
                   it on, or the job may name functions of riak_kv_mapreduce";

/// The scripts of one job.
pub(super) struct Scripts {
    texts: ScriptTexts,
    /// `None` while a call is under way, and after a failed call.
    session: Option<Box<dyn ScriptSession>>,
}

impl Scripts {
    /// Compiles the scripts of a job; `None` if it has none.
    pub(super) async fn open(
        jobs: &Jobs,
        id: &Bytes,
        job: &Job,
        settings: &JobSettings,
    ) -> Result<Option<Self>, JobError> {
        let mut sources = Vec::new();
        for (phase, script) in job.scripts() {
            if settings.scripts.is_none() {
                return Err(JobFault::Phase { phase, error: OFF.to_owned() }.into());
            }
            let text = text_of(jobs, phase, &script.source).await?;
            sources.push((phase, text, script.argument.clone()));
        }
        let Some(engine) = settings.scripts.clone().filter(|_| !sources.is_empty()) else {
            return Ok(None);
        };
        let text = |(phase, text, _): &(usize, ScriptText, Term)| (*phase, text.clone());
        let texts = ScriptTexts::new(sources.iter().map(text).collect());
        let id = id.clone();
        let opened = busy(move || engine.open(&id, sources)).await?;
        let session = opened
            .map_err(|fault| JobFault::Phase { phase: fault.phase, error: fault.to_string() })?;
        Ok(Some(Self { texts, session: Some(session) }))
    }

    /// Sources of the scripts.
    pub(super) const fn texts(&self) -> &ScriptTexts {
        &self.texts
    }

    /// Maps objects. Returns the outputs of all of them in order.
    pub(super) async fn map(
        &mut self,
        phase: usize,
        objects: Vec<ScriptInput>,
    ) -> Result<Vec<Datum>, JobError> {
        self.call(phase, ScriptCall::Map(objects)).await
    }

    /// Reduces values.
    pub(super) async fn reduce(
        &mut self,
        phase: usize,
        values: Vec<Datum>,
    ) -> Result<Vec<Datum>, JobError> {
        let list = list_of(phase, &values)?;
        drop(values);
        self.call(phase, ScriptCall::Reduce(list)).await
    }

    async fn call(&mut self, phase: usize, call: ScriptCall) -> Result<Vec<Datum>, JobError> {
        let mut session = self.session.take().expect("a job ends when a call has failed");
        let (session, called) = busy(move || {
            let called = session.call(phase, call);
            (session, called)
        })
        .await?;
        let lists = called.map_err(|fault| failure(phase, fault))?;
        self.session = Some(session);
        let mut outputs = Vec::new();
        for list in lists {
            outputs.extend(elements(phase, &list)?);
        }
        Ok(outputs)
    }
}

/// Source of a script. Reads it from the store if the job only names an object.
async fn text_of(jobs: &Jobs, phase: usize, source: &ScriptSource) -> Result<ScriptText, JobError> {
    let input = match source {
        ScriptSource::Named(name) => return Ok(ScriptText::Named(name.clone())),
        ScriptSource::Text(text) => return Ok(ScriptText::Source(text.clone())),
        ScriptSource::Stored(input) => input,
    };
    let found = jobs.coordinator.get(input.key_ref(), &ReadOptions::default()).await?;
    let name = quoit_mapreduce::print_term(&input.to_term());
    let refused = |error: String| JobError::from(JobFault::Phase { phase, error });
    let Some(object) = found.filter(|object| !object.is_tombstone()) else {
        return Err(refused(format!("there is no object {name} with the source of the phase")));
    };
    let [sibling] = object.siblings.as_slice() else {
        return Err(refused(format!(
            "the object {name} with the source of the phase has siblings"
        )));
    };
    match std::str::from_utf8(&sibling.value) {
        Ok(text) => Ok(ScriptText::Source(text.to_owned())),
        Err(_) => Err(refused(format!(
            "the object {name} with the source of the phase is not UTF-8 text"
        ))),
    }
}

/// Runs a step that occupies a thread.
async fn busy<T: Send + 'static>(
    step: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RequestError> {
    match tokio::task::spawn_blocking(step).await {
        Ok(done) => Ok(done),
        Err(stopped) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
        Err(_) => Err(RequestError::Overload),
    }
}

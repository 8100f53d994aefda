//! MapReduce jobs in the administration API.

use super::{allow, error};
use crate::http::{HttpConnection, Method, Refusal};
use crate::jobs::{JobEntry, Jobs};
use serde_json::{Value, json};

impl HttpConnection {
    /// Answers a request below `/admin/v1/jobs`.
    pub(super) fn jobs(&self, method: Method, names: &[&[u8]]) -> Result<Value, Refusal> {
        let jobs = &self.context.jobs;
        let [id] = names else {
            allow(method, &[Method::Get, Method::Head])?;
            return Ok(document(jobs));
        };
        let number = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
        let entry = number.and_then(|id| jobs.get(id)).ok_or_else(|| {
            let id = String::from_utf8_lossy(id);
            error(404, "no_job", &format!("no job {id} runs on this node"))
        })?;
        allow(method, &[Method::Get, Method::Head, Method::Delete])?;
        if method == Method::Delete {
            entry.stop();
        }
        Ok(shown(&entry))
    }
}

/// The counts of jobs.
pub(super) fn figures(jobs: &Jobs) -> Value {
    let (begun, failed, refused) = jobs.counts();
    json!({"active": jobs.active_count(), "begun": begun, "failed": failed, "refused": refused})
}

/// The counts, and the running jobs.
#[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
pub(super) fn document(jobs: &Jobs) -> Value {
    let mut document = figures(jobs);
    document["jobs"] = jobs.all().iter().map(|entry| shown(entry)).collect();
    document
}

fn shown(entry: &JobEntry) -> Value {
    let progress = entry.progress();
    json!({
        "id": entry.id,
        "inputs": entry.inputs,
        "phases": entry.phases,
        "elapsed_secs": (entry.begun.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        "input_count": progress.input_count(),
        "read_count": progress.read_count(),
        "output_count": progress.output_count(),
        "held_bytes": progress.held_bytes(),
    })
}

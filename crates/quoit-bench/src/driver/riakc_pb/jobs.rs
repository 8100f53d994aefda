//! MapReduce jobs over the whole bucket or over a list of generated keys, with Riak's built-in Erlang
//! functions or in JavaScript. A result is checked if the right one is known.

use bytes::Bytes;
use quoit_client::wire::messages::{RpbMapRedReq, RpbMapRedResp};
use serde_json::{Value as Json, json};

use super::{PbAttemptError, PbPlan, RiakcPb};
use crate::driver::Inputs;
use crate::term::Term;

/// Number, from 0, of the last phase of every job.
const LAST_PHASE: u32 = 1;

/// A job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) struct JobOperation {
    inputs: JobInputs,
    language: JobLanguage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobInputs {
    /// All objects of the bucket.
    Bucket,
    /// Generated keys, `riakc_pb_keylist_length` of them.
    Keys,
}

/// The language of a job's functions, which also decides its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobLanguage {
    /// Counts the values.
    Erlang,
    /// Reads the values as JSON numbers and adds them up.
    JavaScript,
}

impl JobOperation {
    /// The operation that a term names.
    pub(super) fn of(term: &Term) -> Option<Self> {
        let (inputs, language) = match term.as_atom()? {
            "mr_bucket_erlang" => (JobInputs::Bucket, JobLanguage::Erlang),
            "mr_bucket_js" => (JobInputs::Bucket, JobLanguage::JavaScript),
            "mr_keylist_erlang" => (JobInputs::Keys, JobLanguage::Erlang),
            "mr_keylist_js" => (JobInputs::Keys, JobLanguage::JavaScript),
            _ => return None,
        };
        Some(Self { inputs, language })
    }

    /// True if the job's inputs are generated keys.
    pub(super) fn draws_keys(self) -> bool {
        self.inputs == JobInputs::Keys
    }
}

impl JobLanguage {
    fn phases(self) -> Json {
        let erlang = |function: &str, keep: bool| {
            let (language, module) = ("erlang", "riak_kv_mapreduce");
            json!({"language": language, "module": module, "function": function, "keep": keep})
        };
        let javascript =
            |name: &str, keep: bool| json!({"language": "javascript", "name": name, "keep": keep});
        match self {
            Self::Erlang => json!([
                {"map": erlang("map_object_value", false)},
                {"reduce": erlang("reduce_count_inputs", true)},
            ]),
            Self::JavaScript => json!([
                {"map": javascript("Riak.mapValuesJson", false)},
                {"reduce": javascript("Riak.reduceSum", true)},
            ]),
        }
    }
}

impl RiakcPb {
    /// Runs a job. A result that differs from the known one fails with `{Expected, Found}`.
    pub(super) async fn attempt_job(
        &mut self,
        plan: &PbPlan,
        operation: JobOperation,
        inputs: &mut Inputs,
    ) -> Result<(), PbAttemptError> {
        let bucket = String::from_utf8_lossy(&plan.bucket);
        let bucket_type = plan.bucket_type.as_deref().map(String::from_utf8_lossy);
        let (of_job, expected) = match (operation.inputs, operation.language) {
            (JobInputs::Bucket, language) => {
                let of_job = match &bucket_type {
                    Some(bucket_type) => json!([bucket_type, bucket]),
                    None => json!(bucket),
                };
                let expected = plan.preloaded_count.map(|count| match language {
                    JobLanguage::Erlang => count,
                    // The values are the numbers from 0 to count - 1.
                    JobLanguage::JavaScript => count * count.saturating_sub(1) / 2,
                });
                (of_job, expected)
            }
            (JobInputs::Keys, language) => {
                let mut keys = Vec::with_capacity(plan.keylist_length);
                for _ in 0..plan.keylist_length {
                    keys.push(text_of(inputs.next_key()?.bytes())?);
                }
                let expected = match language {
                    JobLanguage::Erlang => Some(keys.len() as u64),
                    JobLanguage::JavaScript => Some(sum_of(&keys)?),
                };
                let named = |key: &String| match &bucket_type {
                    Some(bucket_type) => json!([bucket, key, null, bucket_type]),
                    None => json!([bucket, key]),
                };
                (keys.iter().map(named).collect(), expected)
            }
        };
        let timeout_ms = u64::try_from(plan.timeout_mapreduce.as_millis()).unwrap_or(u64::MAX);
        let phases = operation.language.phases();
        let job = json!({"inputs": of_job, "query": phases, "timeout": timeout_ms});
        let found = self.run_job(plan, &job).await?;
        match expected {
            Some(expected) if found != json!([expected]) => Err(wrong_result(expected, &found)),
            _ => Ok(()),
        }
    }

    /// Sends a job and returns the results of its last phase.
    async fn run_job(&mut self, plan: &PbPlan, job: &Json) -> Result<Json, PbAttemptError> {
        let request = RpbMapRedReq {
            request: job.to_string().into(),
            content_type: Bytes::from_static(b"application/json"),
        };
        let mut results = Vec::new();
        let mut fault = None;
        let take = |part: RpbMapRedResp| {
            let of_last = part.response.filter(|_| part.phase == Some(LAST_PHASE));
            match of_last.map(|response| serde_json::from_slice::<Vec<Json>>(&response)) {
                Some(Ok(more)) => results.extend(more),
                Some(Err(error)) => fault = Some(error.to_string()),
                None => {}
            }
            part.done == Some(true)
        };
        self.links.link().call_in_parts(&request, plan.timeout_mapreduce, take).await?;
        match fault {
            None => Ok(Json::Array(results)),
            Some(text) => Err(failure([Term::atom("bad_response"), Term::String(text)])),
        }
    }
}

/// A key in the form that a job's inputs have.
fn text_of(key: &[u8]) -> Result<String, PbAttemptError> {
    let text = std::str::from_utf8(key).map(str::to_owned);
    text.map_err(|_| bad_key("a job names its keys in UTF-8"))
}

/// The sum of the keys. Each key is also the value of its object.
fn sum_of(keys: &[String]) -> Result<u64, PbAttemptError> {
    let number = |key: &String| {
        key.parse::<u64>().map_err(|_| bad_key("mr_keylist_js adds up decimal keys"))
    };
    keys.iter().map(number).sum()
}

fn bad_key(problem: &str) -> PbAttemptError {
    failure([Term::atom("bad_key"), Term::String(problem.to_owned())])
}

fn failure(reason: [Term; 2]) -> PbAttemptError {
    PbAttemptError::Failed(Term::Tuple(reason.into()))
}

/// The reason `{[{1,[Expected]}],[{1,Found}]}`, as in basho_bench.
fn wrong_result(expected: u64, found: &Json) -> PbAttemptError {
    let phase = |results: Term| {
        Term::List(vec![Term::Tuple(vec![Term::Integer(LAST_PHASE.into()), results])])
    };
    let number = |result: &Json| match result.as_i64() {
        Some(number) => Term::Integer(number.into()),
        None => Term::String(result.to_string()),
    };
    let found = found.as_array().map(|results| results.iter().map(number).collect());
    PbAttemptError::Failed(Term::Tuple(vec![
        phase(Term::List(vec![Term::Integer(expected.into())])),
        phase(Term::List(found.unwrap_or_default())),
    ]))
}

//! MapReduce, as far as listed keys, links and values go: enough to follow links and fetch what they
//! lead to in one request. Other inputs, reduce phases and functions are refused by name.

use super::connection::{Connection, Request};
use super::head::Method;
use super::mapred_job::{Function, Item, Phase, parse};
use super::props::is_json;
use super::refusal::Refusal;
use super::response::{JSON, reply};
use crate::memory::Gathered;
use bytes::Bytes;
use quoit_core::{Deadline, ReadOptions, RequestError};
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE, KeyRef};
use quoit_model::object::{Link, Object, Sibling};
use quoit_model::props::Quorum;
use serde_json::{Value, json};

/// Outputs that a phase may have.
const OUTPUT_COUNT_MAX: usize = 100_000;

/// Memory of an output beside its text.
const OUTPUT_BYTES: usize = 64;

const USAGE: &str = "This resource accepts POSTs with bodies containing JSON of the form:\n{\n \
                     \"inputs\":[...list of inputs...],\"query\":[...list of map/reduce phases...]\n}\n";

impl Connection {
    /// `/mapred`.
    pub(super) async fn mapred(
        &mut self,
        request: &Request,
        method: Method,
    ) -> Result<(), Refusal> {
        if method != Method::Post || request.body.is_empty() {
            return Err(Refusal::bad(USAGE));
        }
        let job = parse(&request.body);
        if let Err(Refusal::Text(400, _) | Refusal::Json(400, _)) = job {
            return job.map(drop);
        }
        self.check_origin(&request.head)?;
        if !is_json(request) {
            return Err(Refusal::Page(415));
        }
        let job = job?;
        let deadline = Deadline::after_ms(job.timeout_ms.into());
        let mut gathered = Gathered::new(&self.account);
        let mut kept = Vec::new();
        let mut outputs: Vec<Value> = job.inputs.iter().map(Item::to_json).collect();
        for (place, phase) in job.phases.iter().enumerate() {
            outputs = self.run_phase(place, phase, &outputs, deadline, &mut gathered).await?;
            if phase.keep {
                kept.push(Value::from(outputs.clone()));
            }
        }
        let result = match (job.phases.is_empty(), kept.len()) {
            (true, _) => Value::from(outputs),
            (false, 1) => kept.remove(0),
            (false, 0) => json!([]),
            (false, _) => Value::from(kept),
        };
        reply(&mut self.out, self.form, 200).body(JSON, result.to_string().as_bytes());
        Ok(())
    }

    async fn run_phase(
        &self,
        place: usize,
        phase: &Phase,
        inputs: &[Value],
        deadline: Deadline,
        gathered: &mut Gathered,
    ) -> Result<Vec<Value>, Refusal> {
        let mut outputs = Vec::new();
        for input in inputs {
            let fails = |error: &str| failure(place, error, input);
            let item = Item::from_json(input).ok_or_else(|| fails("the input is no key"))?;
            let key = key_of(&item);
            gathered.hold_read(self.context.store.size_bytes_max(key))?;
            let object = match deadline.limit(self.fetch(key)).await {
                Ok(object) => object,
                Err(RequestError::Timeout) => {
                    return Err(Refusal::Json(500, json!({"error": "timeout"})));
                }
                Err(fault) => return Err(fails(&crate::pb::request_error_text(&fault))),
            };
            gathered.add(OUTPUT_BYTES + object.as_ref().map_or(0, values_bytes))?;
            let made = phase.function.apply(&item, object.as_ref()).map_err(fails)?;
            outputs.extend(made);
            if outputs.len() > OUTPUT_COUNT_MAX {
                return Err(fails("the phase has more outputs than a job may have"));
            }
        }
        Ok(outputs)
    }

    /// The object of an input, from one replica; tombstones included.
    async fn fetch(&self, key: KeyRef<'_>) -> Result<Option<Object>, RequestError> {
        let options = ReadOptions { r: Some(Quorum::One), ..ReadOptions::default() };
        self.context.store.get(key, &options).await
    }
}

/// The record that an input names.
fn key_of(item: &Item) -> KeyRef<'_> {
    let bucket_type = item.bucket_type.as_deref().map_or(DEFAULT_BUCKET_TYPE, str::as_bytes);
    BucketRef { bucket_type, bucket: item.bucket.as_bytes() }.key(item.key.as_bytes())
}

/// Bytes of the values and links of an object: one or the other becomes outputs.
fn values_bytes(object: &Object) -> usize {
    let links_bytes = |link: &Link| link.bucket.len() + link.key.len() + link.tag.len();
    let of = |sibling: &Sibling| {
        sibling.value.len() + sibling.meta.links.iter().map(links_bytes).sum::<usize>()
    };
    object.siblings.iter().map(of).sum()
}

fn failure(phase: usize, error: &str, input: &Value) -> Refusal {
    Refusal::Json(500, json!({"phase": phase, "error": error, "input": input.to_string()}))
}

fn text(bytes: &Bytes) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

impl Function {
    /// Applies the function to one object.
    fn apply(&self, item: &Item, object: Option<&Object>) -> Result<Vec<Value>, &'static str> {
        match self {
            Self::Links { bucket, tag } => {
                let fits = |wanted: &Option<String>, found: &Bytes| {
                    wanted.as_ref().is_none_or(|wanted| *wanted.as_bytes() == **found)
                };
                let siblings = object.iter().flat_map(|object| &object.siblings);
                let links = siblings.flat_map(|sibling| &sibling.meta.links);
                Ok(links
                    .filter(|link| fits(bucket, &link.bucket) && fits(tag, &link.tag))
                    .map(|link| json!([text(&link.bucket), text(&link.key), text(&link.tag)]))
                    .collect())
            }
            Self::ObjectValue { when_missing } => match object.map(|object| &*object.siblings) {
                Some([sibling]) => Ok(vec![text(&sibling.value)]),
                Some(_) => Err("the object has siblings"),
                None => when_missing.outputs(item).ok_or("notfound"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::mapred_job::WhenMissing;
    use quoit_model::object::Metadata;

    fn item() -> Item {
        Item::from_json(&json!(["b", "k", "data"])).expect("a key")
    }

    #[test]
    fn a_link_phase_gives_the_targets_that_fit() {
        let link =
            |tag: &'static str| Link { bucket: "b".into(), key: "x".into(), tag: tag.into() };
        let meta = Metadata { links: vec![link("friend"), link("foe")], ..Metadata::default() };
        let sibling = Sibling { meta, ..Sibling::default() };
        let object = Object { siblings: [sibling].into_iter().collect(), ..Object::default() };
        let phase = Function::Links { bucket: None, tag: Some("friend".into()) };
        assert_eq!(phase.apply(&item(), Some(&object)), Ok(vec![json!(["b", "x", "friend"])]));
        assert_eq!(phase.apply(&item(), None), Ok(vec![]));
    }

    #[test]
    fn a_missing_object_fails_the_phase_unless_it_says_otherwise() {
        let phase = |when_missing| Function::ObjectValue { when_missing };
        assert_eq!(phase(WhenMissing::Fail).apply(&item(), None), Err("notfound"));
        assert_eq!(phase(WhenMissing::Nothing).apply(&item(), None), Ok(vec![]));
        assert_eq!(phase(WhenMissing::KeyData).apply(&item(), None), Ok(vec![json!("data")]));
        let two = [Sibling::default(), Sibling::default()];
        let object = Object { siblings: two.into_iter().collect(), ..Object::default() };
        assert!(phase(WhenMissing::Nothing).apply(&item(), Some(&object)).is_err());
    }
}

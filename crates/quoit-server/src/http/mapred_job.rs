//! The document of a MapReduce job.

use super::refusal::Refusal;
use serde_json::{Map, Value, json};

const TIMEOUT_MS_DEFAULT: u32 = 60_000;

/// A job that can be run.
#[derive(Debug)]
pub struct Job {
    /// Keys to begin with.
    pub inputs: Vec<Item>,
    /// Phases in their order.
    pub phases: Vec<Phase>,
    /// Time for all of it.
    pub timeout_ms: u32,
}

/// A key with what belongs to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// Bucket of the record.
    pub bucket: String,
    /// Key of the record.
    pub key: String,
    /// Anything that the client wants to see again.
    pub data: Option<Value>,
    /// Bucket type, where it is not the default one.
    pub bucket_type: Option<String>,
}

/// One step.
#[derive(PartialEq, Debug)]
pub struct Phase {
    /// Function that each input goes through.
    pub function: Function,
    /// Whether the outputs belong to the result.
    pub keep: bool,
}

/// Function of a phase.
#[derive(PartialEq, Debug)]
pub enum Function {
    /// The targets of its links; `None` = any.
    Links {
        /// Bucket of the target.
        bucket: Option<String>,
        /// Tag of the link.
        tag: Option<String>,
    },
    /// Its value.
    ObjectValue {
        /// Substitute for a missing object.
        when_missing: WhenMissing,
    },
}

/// Substitute for a missing object.
#[derive(PartialEq, Debug)]
pub enum WhenMissing {
    /// The phase fails.
    Fail,
    /// Nothing.
    Nothing,
    /// A marker that names the key.
    Marker,
    /// The data of the input.
    KeyData,
    /// These outputs.
    Outputs(Vec<Value>),
}

impl Item {
    /// Reads `[bucket, key]`, `[bucket, key, data]` or `[bucket, key, data, type]`.
    pub fn from_json(value: &Value) -> Option<Self> {
        let parts = value.as_array()?;
        let text = |place: usize| parts.get(place).and_then(Value::as_str).map(str::to_owned);
        if !(2..=4).contains(&parts.len()) {
            return None;
        }
        let bucket_type = match parts.get(3) {
            Some(name) => Some(name.as_str()?.to_owned()),
            None => None,
        };
        let data = parts.get(2).cloned();
        Some(Self { bucket: text(0)?, key: text(1)?, data, bucket_type })
    }

    /// The form that [`Item::from_json`] reads.
    pub fn to_json(&self) -> Value {
        match (&self.bucket_type, &self.data) {
            (Some(name), data) => json!([self.bucket, self.key, data, name]),
            (None, Some(data)) => json!([self.bucket, self.key, data]),
            (None, None) => json!([self.bucket, self.key]),
        }
    }
}

impl WhenMissing {
    fn of(argument: Option<&Value>) -> Self {
        match argument {
            Some(Value::String(word)) if word == "filter_notfound" => Self::Nothing,
            Some(Value::String(word)) if word == "include_notfound" => Self::Marker,
            Some(Value::String(word)) if word == "include_keydata" => Self::KeyData,
            Some(Value::Object(members)) => match members.get("sub") {
                Some(Value::Array(outputs)) => Self::Outputs(outputs.clone()),
                _ => Self::Fail,
            },
            _ => Self::Fail,
        }
    }

    /// The outputs for a missing object; `None`: the phase fails.
    pub fn outputs(&self, item: &Item) -> Option<Vec<Value>> {
        Some(match self {
            Self::Fail => return None,
            Self::Nothing => Vec::new(),
            Self::KeyData => vec![item.data.clone().unwrap_or_default()],
            Self::Outputs(outputs) => outputs.clone(),
            Self::Marker => {
                let (bucket, key, data) = (&item.bucket, &item.key, &item.data);
                vec![json!({"not_found": {"bucket": bucket, "key": key, "keydata": data}})]
            }
        })
    }
}

/// Reads a job.
///
/// # Errors
///
/// 400 for what is no job, 501 for one that asks for what is not served yet.
pub fn parse(body: &[u8]) -> Result<Job, Refusal> {
    let document: Value = serde_json::from_slice(body).map_err(|fault| {
        Refusal::bad(format!(
            "The POST body was not valid JSON.\nThe error from the parser was:\n{fault}\n"
        ))
    })?;
    let Value::Object(job) = document else {
        return Err(Refusal::bad("The POST body was not a JSON object.\n"));
    };
    let (Some(inputs), Some(query)) = (job.get("inputs"), job.get("query")) else {
        let text = "The post body was missing the \"inputs\" or \"query\" field.\n";
        return Err(Refusal::bad(text));
    };
    let timeout_ms = job.get("timeout").and_then(Value::as_u64).filter(|limit| *limit > 0);
    Ok(Job {
        inputs: parse_inputs(inputs)?,
        phases: parse_query(query)?,
        timeout_ms: timeout_ms
            .map_or(TIMEOUT_MS_DEFAULT, |limit| u32::try_from(limit).unwrap_or(u32::MAX)),
    })
}

fn not_served(what: &str) -> Refusal {
    let text = format!("MapReduce: {what} not served by this version of the server.\n");
    Refusal::Text(501, text.into())
}

fn parse_inputs(inputs: &Value) -> Result<Vec<Item>, Refusal> {
    let bad = |why: &str| {
        Refusal::bad(format!("An error occurred parsing the \"inputs\" field.\n{why}\n"))
    };
    match inputs {
        Value::String(_) | Value::Object(_) => Err(not_served("inputs other than keys are")),
        Value::Array(items) if items.is_empty() => Err(bad("No inputs were given.")),
        Value::Array(items) if items.iter().all(Value::is_string) && items.len() == 2 => {
            Err(not_served("inputs other than keys are"))
        }
        Value::Array(items) => items
            .iter()
            .map(|item| {
                let why = || format!("Unrecognized format of \"inputs\" field: {item}");
                Item::from_json(item).ok_or_else(|| bad(&why()))
            })
            .collect(),
        _ => Err(bad(&format!("Unrecognized format of \"inputs\" field: {inputs}"))),
    }
}

fn bad_query(why: &str) -> Refusal {
    Refusal::bad(format!("An error occurred parsing the \"query\" field.\n{why}\n"))
}

fn parse_query(query: &Value) -> Result<Vec<Phase>, Refusal> {
    let Value::Array(phases) = query else {
        return Err(bad_query(&format!(
            "The value of the \"query\" field was not a list: {query}"
        )));
    };
    let count = phases.len();
    phases.iter().enumerate().map(|(place, phase)| parse_phase(place, count, phase)).collect()
}

fn parse_phase(place: usize, count: usize, phase: &Value) -> Result<Phase, Refusal> {
    let bad = || bad_query(&format!("Unrecognized format of query phase: {phase}"));
    let members = phase.as_object().filter(|members| members.len() == 1).ok_or_else(bad)?;
    let (kind, spec) = members.iter().next().ok_or_else(bad)?;
    let Value::Object(spec) = spec else { return Err(bad()) };
    let keep = match spec.get("keep") {
        None => place + 1 == count,
        Some(Value::Bool(keep)) => *keep,
        Some(_) => {
            let why = format!("The \"keep\" field was not a boolean value in: {phase}");
            return Err(bad_query(&why));
        }
    };
    let function = match kind.as_str() {
        "link" => Function::Links { bucket: any(spec, "bucket")?, tag: any(spec, "tag")? },
        "map" => parse_map(place, phase, spec)?,
        "reduce" => return Err(not_served("reduce phases are")),
        _ => return Err(bad()),
    };
    Ok(Phase { function, keep })
}

fn any(spec: &Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    match spec.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok((text != "_").then(|| text.clone())),
        Some(other) => Err(bad_query(&format!("The {name:?} of a link phase is no text: {other}"))),
    }
}

fn parse_map(place: usize, phase: &Value, spec: &Map<String, Value>) -> Result<Function, Refusal> {
    let text = |name: &str| spec.get(name).and_then(Value::as_str);
    match text("language") {
        Some("erlang") => {}
        Some("javascript") => {
            let error = "JavaScript is not run by this server";
            return Err(Refusal::Json(400, json!({"phase": place, "error": error})));
        }
        Some(other) => {
            return Err(bad_query(&format!("Unknown language {other:?} in phase: {phase}")));
        }
        None => {
            let why = format!("No \"language\" was specified for the phase: {phase}");
            return Err(bad_query(&why));
        }
    }
    match (text("module"), text("function")) {
        (Some("riak_kv_mapreduce"), Some("map_object_value")) => {
            Ok(Function::ObjectValue { when_missing: WhenMissing::of(spec.get("arg")) })
        }
        (Some(_), Some(_)) => Err(not_served("functions other than map_object_value are")),
        _ => Err(bad_query(&format!("No function specified in Erlang phase: {phase}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(query: Value) -> Result<Vec<Phase>, Refusal> {
        let job = json!({"inputs": [["b", "k"]], "query": query});
        parse(job.to_string().as_bytes()).map(|job| job.phases)
    }

    fn refusal(document: &str) -> (u16, String) {
        match parse(document.as_bytes()) {
            Err(Refusal::Text(status, text)) => (status, text.into_owned()),
            other => panic!("no text: {other:?}"),
        }
    }

    #[test]
    fn the_last_phase_is_kept_unless_it_says_otherwise() {
        let link = json!({"link": {}});
        let made = phases(json!([link, {"link": {"tag": "t", "bucket": "_"}}])).expect("valid");
        let any = Function::Links { bucket: None, tag: None };
        let tagged = Function::Links { bucket: None, tag: Some("t".into()) };
        let expected =
            [Phase { function: any, keep: false }, Phase { function: tagged, keep: true }];
        assert_eq!(made, expected);
        let made = phases(json!([{"link": {"keep": false}}])).expect("valid");
        assert!(!made[0].keep);
    }

    #[test]
    fn keys_carry_data_and_a_type() {
        for item in [json!(["b", "k"]), json!(["b", "k", {"x": 1}]), json!(["b", "k", null, "t"])] {
            assert_eq!(Item::from_json(&item).expect("a key").to_json(), item);
        }
        for bad in [json!(["b"]), json!([1, "k"]), json!("b"), json!(["b", "k", 1, 2])] {
            assert_eq!(Item::from_json(&bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_job_is_told_apart_from_what_is_not_served() {
        assert!(refusal("{").1.starts_with("The POST body was not valid JSON.\n"));
        assert_eq!(refusal("[]"), (400, "The POST body was not a JSON object.\n".into()));
        assert!(refusal("{\"inputs\":[]}").1.starts_with("The post body was missing"));
        let (status, text) = refusal("{\"inputs\":[],\"query\":[]}");
        assert_eq!(status, 400);
        assert!(text.ends_with("No inputs were given.\n"));
        assert_eq!(refusal("{\"inputs\":\"b\",\"query\":[]}").0, 501);
        let query = json!([{"reduce": {}}]);
        assert!(matches!(phases(query), Err(Refusal::Text(501, _))));
        let query = json!([{"map": {"language": "javascript", "name": "f"}}]);
        assert!(matches!(phases(query), Err(Refusal::Json(400, _))));
    }
}

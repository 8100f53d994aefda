//! `quoit import types`: copies bucket types and bucket properties of a running Riak.

use crate::Format;
use crate::api::{Api, segment};
use crate::inspect::open;
use crate::names::{DEFAULT_TYPE, bucket_name, bucket_named};
use crate::output::{say, shown};
use crate::riak_node::RiakNode;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use quoit_client::Bucket;
use quoit_model::props::PropUpdates;
use quoit_riak_files::{Finding, Position};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Properties that do not affect a type's behaviour, or that only Riak has.
const LEFT_OUT: [&str; 8] =
    ["name", "claimant", "active", "chash_keyfun", "linkfun", "search", "search_index", "repl"];
/// Attempts to activate a new type before all nodes know it, and the pause between two attempts.
const ACTIVATION_ATTEMPTS: u32 = 50;
const ACTIVATION_PAUSE: Duration = Duration::from_millis(100);
/// The remedy if the type default differs, which no request can change.
const SET_DEFAULT: &str = "the type default differs: it takes its properties from buckets.default.* in the \
    configuration of each node, so set them there";

/// Arguments of `quoit import types`.
#[derive(Args, Debug)]
pub struct TypesArgs {
    /// HTTP address of a Riak node.
    riak: String,
    /// Names of bucket types, as `riak-admin bucket-type list` prints them [default: those that --data-dir
    /// and --inspected find, else all types with data, which Riak lists if tictacaae_active = active].
    #[arg(value_name = "TYPE")]
    types: Vec<String>,
    /// Copy the bucket types of the records in the data directory of a stopped Riak node; may be repeated.
    #[arg(long, value_name = "DIR")]
    data_dir: Vec<PathBuf>,
    /// Copy the bucket types in a report of `quoit import inspect --format json`; may be repeated.
    #[arg(long, value_name = "FILE")]
    inspected: Vec<PathBuf>,
    /// Protocol Buffers address of the Riak node [default: its host with port 8087].
    #[arg(long, value_name = "HOST:PORT")]
    riak_pb: Option<String>,
    /// Protocol for reading properties from Riak.
    #[arg(long, value_enum, default_value = "http")]
    by: Protocol,
    /// HTTP address of a Quoit node.
    #[arg(long, default_value = "http://127.0.0.1:8098", value_name = "URL")]
    to: String,
    /// Also copy the properties of this bucket; may be repeated.
    #[arg(long, value_name = "TYPE/BUCKET")]
    bucket: Vec<String>,
    /// Create missing bucket types, and change properties that differ.
    #[arg(long)]
    create: bool,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// A client protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Protocol {
    /// HTTP.
    Http,
    /// Protocol Buffers.
    Pb,
}

/// The connection by which Riak is asked for properties.
enum RiakConnection {
    Http(Api),
    Pb(Box<RiakNode>),
}

impl RiakConnection {
    fn new(args: &TypesArgs) -> Result<Self> {
        Ok(match args.by {
            Protocol::Http => Self::Http(Api::new(&args.riak)),
            Protocol::Pb => Self::Pb(Box::new(RiakNode::connect(&args.riak_pb())?)),
        })
    }

    /// Asks for the relevant properties of a bucket type.
    fn type_props(&mut self, name: &str) -> Result<Map<String, Value>> {
        match self {
            Self::Http(api) => {
                props_over_http(api, &format!("types/{}/props", segment(name.as_bytes())))
            }
            Self::Pb(node) => {
                let props = node.type_props(name.as_bytes());
                Ok(relevant_props(props.with_context(|| format!("bucket type {name} of Riak"))?))
            }
        }
    }

    /// Asks for the relevant properties of a bucket.
    fn bucket_props(&mut self, bucket: &Bucket) -> Result<Map<String, Value>> {
        match self {
            Self::Http(api) => props_over_http(api, &format!("{}/props", path_of(bucket))),
            Self::Pb(node) => {
                let props = node.bucket_props(bucket);
                Ok(relevant_props(
                    props.with_context(|| format!("{} of Riak", bucket_name(bucket)))?,
                ))
            }
        }
    }
}

/// The path of a bucket, in Riak's interface and in Quoit's administration API.
fn path_of(bucket: &Bucket) -> String {
    let bucket_type = bucket.bucket_type.as_deref().unwrap_or(DEFAULT_TYPE.as_bytes());
    format!("types/{}/buckets/{}", segment(bucket_type), segment(&bucket.name))
}

impl TypesArgs {
    fn riak_pb(&self) -> String {
        let host = || format!("{}:8087", Api::new(&self.riak).host());
        self.riak_pb.clone().unwrap_or_else(host)
    }

    /// The names of the types to copy. Riak is asked for its types only if there are no other names and no
    /// buckets.
    fn names(&self) -> Result<BTreeSet<String>> {
        let mut names: BTreeSet<String> = self.types.iter().cloned().collect();
        for path in &self.inspected {
            names.extend(types_of_report(path)?);
        }
        if !self.data_dir.is_empty() {
            names.extend(types_of_directories(&self.data_dir)?);
        }
        if names.is_empty() && self.bucket.is_empty() {
            let told = RiakNode::connect(&self.riak_pb()).and_then(|mut node| node.buckets());
            let told = told.context(
                "Riak does not tell its bucket types (it tells those with data over Protocol Buffers, with \
                 tictacaae_active = active): name them as riak-admin bucket-type list prints them, or give \
                 --data-dir or --inspected",
            )?;
            names.extend(told.iter().filter_map(|one| one.bucket_type.as_deref()).map(shown));
        }
        Ok(names)
    }
}

/// The types in a report of inspect, without `default`, which every cluster has.
fn types_of_report(path: &Path) -> Result<BTreeSet<String>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let report: Value =
        serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?;
    let Some(Value::Array(buckets)) = report.get("buckets") else {
        bail!("{} is not a report of quoit import inspect --format json", path.display());
    };
    let names = buckets.iter().filter_map(|bucket| bucket["type"].as_str());
    Ok(names.filter(|name| *name != DEFAULT_TYPE).map(str::to_owned).collect())
}

/// The types of the records in data directories, without `default`.
fn types_of_directories(directories: &[PathBuf]) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for partition in open(directories)?.partitions {
        partition.read(&Position::default(), None, &mut |seen, _| {
            if let Finding::Record(record) = seen
                && record.key.bucket_type != DEFAULT_TYPE
            {
                names.insert(shown(&record.key.bucket_type));
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(names)
}

/// A property whose values differ.
struct Difference {
    property: String,
    riak: Value,
    here: Value,
}

pub(crate) fn types(args: &TypesArgs) -> Result<()> {
    let (mut riak, here) = (RiakConnection::new(args)?, Api::new(&args.to));
    let mut report = Vec::new();
    let (mut default_differs, mut others_differ) = (false, false);
    for name in &args.names()? {
        let wanted = riak.type_props(name)?;
        let path = format!("admin/v1/bucket-types/{}", segment(name.as_bytes()));
        let (mut state, mut differences) = compare_type(&here, &path, &wanted)?;
        let mut refused = Map::new();
        let (is_default, mut differs) =
            (name == DEFAULT_TYPE, state != "active" || !differences.is_empty());
        if args.create && differs && !is_default {
            refused = write_type(&here, &path, &wanted, state == "active")?;
            (state, differences) = compare_type(&here, &path, &wanted)?;
            differs = state != "active" || !differences.is_empty();
        }
        default_differs |= differs && is_default;
        others_differ |= differs && !is_default;
        report.push(entry(name, &differences, &state, refused, &wanted));
    }
    for name in &args.bucket {
        let bucket = bucket_named(name)?;
        let wanted = riak.bucket_props(&bucket)?;
        let path = format!("admin/v1/{}/props", path_of(&bucket));
        let mut differences = compare_bucket(&here, &path, &wanted)?;
        let mut refused = Map::new();
        if args.create && !differences.is_empty() {
            let changed: Map<String, Value> =
                differences.iter().map(|one| (one.property.clone(), one.riak.clone())).collect();
            refused =
                write_accepted(&changed, |props| here.put(&path, &json!({"props": props})), &here)?;
            differences = compare_bucket(&here, &path, &wanted)?;
        }
        others_differ |= !differences.is_empty();
        report.push(entry(name, &differences, "active", refused, &wanted));
    }
    match args.format {
        Format::Json => {
            say!("{}", json!({"types": report, "same": !default_differs && !others_differ}));
        }
        Format::Human => report.iter().for_each(print),
    }
    let others = match (others_differ, args.create) {
        (false, _) => None,
        (true, false) => Some("they differ; give --create to make the cluster's like Riak's"),
        (true, true) => Some("they still differ as printed"),
    };
    let faults: Vec<&str> =
        others.into_iter().chain(default_differs.then_some(SET_DEFAULT)).collect();
    ensure!(faults.is_empty(), faults.join("; "));
    Ok(())
}

/// Keeps only the relevant properties.
fn relevant_props(mut props: Map<String, Value>) -> Map<String, Value> {
    props.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    props
}

fn props_over_http(riak: &Api, path: &str) -> Result<Map<String, Value>> {
    let (status, document) = riak.get(path)?;
    let Some(Value::Object(props)) = document.get("props") else {
        bail!(
            "{}/{path} answers status {status} without properties; is there such a type in Riak?",
            riak.base()
        );
    };
    Ok(relevant_props(props.clone()))
}

fn compare_type(
    here: &Api,
    path: &str,
    wanted: &Map<String, Value>,
) -> Result<(String, Vec<Difference>)> {
    let (status, document) = here.get(path)?;
    if status == 404 {
        return Ok(("missing".to_owned(), differences(wanted, &Value::Null)));
    }
    let document = here.done((status, document))?;
    let state = document.get("state").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok((state, differences(wanted, document.get("props").unwrap_or(&Value::Null))))
}

fn compare_bucket(here: &Api, path: &str, wanted: &Map<String, Value>) -> Result<Vec<Difference>> {
    let document = here.done(here.get(path)?)?;
    Ok(differences(wanted, document.get("props").unwrap_or(&Value::Null)))
}

/// The properties of Riak that have another value in the cluster. A property that the cluster does not have
/// counts only if it is switched on in Riak.
fn differences(wanted: &Map<String, Value>, here: &Value) -> Vec<Difference> {
    let differs = |(name, riak): (&String, &Value)| {
        let here = here.get(name).cloned().unwrap_or(Value::Null);
        let difference = Difference { property: name.clone(), riak: riak.clone(), here };
        let is_shown = difference.here != difference.riak && !difference.is_absent_and_off();
        is_shown.then_some(difference)
    };
    wanted.iter().filter_map(differs).collect()
}

impl Difference {
    /// True if the property is missing in the cluster and switched off in Riak.
    fn is_absent_and_off(&self) -> bool {
        let off = [Value::Null, json!(false), json!([]), json!("")];
        self.here.is_null() && off.contains(&self.riak)
    }
}

/// Creates or changes a type and activates it. Returns the properties that the cluster refuses, with its
/// messages.
fn write_type(
    here: &Api,
    path: &str,
    wanted: &Map<String, Value>,
    is_active: bool,
) -> Result<Map<String, Value>> {
    let write = |props: &Value| match is_active {
        true => {
            let document = json!({"props": props});
            here.post_json(&format!("{path}/update"), &document)
        }
        false => here.put(path, &json!({"props": props})),
    };
    let refused = write_accepted(wanted, write, here)?;
    for attempt in 0.. {
        let (status, document) = here.post(&format!("{path}/activate"))?;
        if status != 409 || attempt >= ACTIVATION_ATTEMPTS {
            here.done((status, document))?;
            break;
        }
        std::thread::sleep(ACTIVATION_PAUSE);
    }
    Ok(refused)
}

/// Writes properties, leaving out those that the cluster refuses. Returns the refused ones with the
/// cluster's messages.
fn write_accepted(
    wanted: &Map<String, Value>,
    write: impl Fn(&Value) -> Result<(u16, Value)>,
    here: &Api,
) -> Result<Map<String, Value>> {
    let (mut props, mut refused) = (wanted.clone(), Map::new());
    loop {
        let (status, document) = write(&Value::Object(props.clone()))?;
        let bad: Vec<(String, Value)> = match document.get("details").and_then(Value::as_object) {
            Some(details) if status == 400 => details.clone().into_iter().collect(),
            _ => Vec::new(),
        };
        let before = props.len();
        for (name, words) in bad {
            if props.remove(&name).is_some() {
                refused.insert(name, words);
            }
        }
        if props.len() == before {
            here.done((status, document))?;
            return Ok(refused);
        }
    }
}

fn entry(
    name: &str,
    differences: &[Difference],
    state: &str,
    refused: Map<String, Value>,
    wanted: &Map<String, Value>,
) -> Value {
    let differences: Vec<Value> = differences
        .iter()
        .map(|one| json!({"property": one.property, "riak": one.riak, "here": one.here}))
        .collect();
    let hooks = PropUpdates::from(wanted.clone());
    let not_run: Vec<Value> = hooks
        .hooks_not_run()
        .map(|(property, hook)| json!({"property": property, "hook": hook.to_json()}))
        .collect();
    json!({"name": name, "state": state, "differences": differences, "refused": refused,
        "hooks_not_run": not_run})
}

fn print(entry: &Value) {
    let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let differences = entry["differences"].as_array().map_or(&[][..], Vec::as_slice);
    let word = if differences.is_empty() { "as in Riak" } else { "differs" };
    say!("{} ({}): {word}", text("name"), text("state"));
    for one in differences {
        let property = one["property"].as_str().unwrap_or_default();
        say!("  {property}: {} in Riak, {} here", one["riak"], one["here"]);
    }
    for (property, words) in entry["refused"].as_object().into_iter().flatten() {
        say!("  {property} is refused here: {words}");
    }
    for one in entry["hooks_not_run"].as_array().into_iter().flatten() {
        let hook = &one["hook"];
        match one["property"].as_str() {
            Some("precommit") => say!(
                "  {hook} in precommit can't be run here: writes are refused until it is taken out"
            ),
            _ => say!("  {hook} in postcommit is not run here: a change feed can take its place"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::fake;

    #[test]
    fn a_different_type_default_is_left_to_the_configuration() {
        let riak = fake::node(|_, _| (200, json!({"props": {"n_val": 5}}).to_string()));
        let here = fake::node(|request, _| match request.starts_with("GET") {
            true => (200, json!({"state": "active", "props": {"n_val": 3}}).to_string()),
            false => (409, json!({"message": "must not be written"}).to_string()),
        });
        for create in [false, true] {
            let args = TypesArgs {
                riak: riak.base().to_owned(),
                types: vec!["default".to_owned()],
                data_dir: Vec::new(),
                inspected: Vec::new(),
                riak_pb: None,
                by: Protocol::Http,
                to: here.base().to_owned(),
                bucket: Vec::new(),
                create,
                format: Format::Json,
            };
            let fault = types(&args).expect_err("they differ").to_string();
            assert_eq!(fault, SET_DEFAULT, "create: {create}");
        }
    }

    #[test]
    fn what_is_off_in_riak_and_unknown_here_is_no_difference() {
        let wanted = json!({"n_val": 3, "consistent": false, "precommit": [], "allow_mult": true});
        let here = json!({"n_val": 3, "allow_mult": false});
        let Value::Object(wanted) = wanted else { unreachable!("an object") };
        let found = differences(&wanted, &here);
        assert_eq!(
            found.iter().map(|one| one.property.as_str()).collect::<Vec<_>>(),
            ["allow_mult"]
        );
    }
}

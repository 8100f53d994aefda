//! `quoit import types`: bucket types and bucket properties of a running Riak.

use crate::Format;
use crate::api::{Api, segment};
use crate::output::say;
use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Properties that say nothing about a type's behaviour, or that Riak alone has.
const LEFT_OUT: [&str; 8] =
    ["name", "claimant", "active", "chash_keyfun", "linkfun", "search", "search_index", "repl"];
/// How often a new type is looked at until all nodes know it, and how long the pauses are.
const ACTIVATION_ATTEMPTS: u32 = 50;
const ACTIVATION_PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `quoit import types`.
#[derive(Args, Debug)]
pub struct TypesArgs {
    /// HTTP address of a node of Riak.
    riak: String,
    /// Names of bucket types, as `riak-admin bucket-type list` prints them; Riak tells them to no client.
    #[arg(required = true, value_name = "TYPE")]
    types: Vec<String>,
    /// HTTP address of a node of the cluster.
    #[arg(long, default_value = "http://127.0.0.1:8098", value_name = "URL")]
    to: String,
    /// Buckets whose own properties are copied as well: TYPE/BUCKET.
    #[arg(long, value_name = "TYPE/BUCKET")]
    bucket: Vec<String>,
    /// Create what is missing and change what differs.
    #[arg(long)]
    create: bool,
    /// Form of the output.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// A property that differs.
struct Difference {
    property: String,
    riak: Value,
    here: Value,
}

pub(crate) fn types(args: &TypesArgs) -> Result<()> {
    let (riak, here) = (Api::new(&args.riak), Api::new(&args.to));
    let mut report = Vec::new();
    let mut is_different = false;
    for name in &args.types {
        let wanted = props_of_riak(&riak, &format!("types/{}/props", segment(name.as_bytes())))?;
        let path = format!("admin/v1/bucket-types/{}", segment(name.as_bytes()));
        let (mut state, mut differences) = compare_type(&here, &path, &wanted)?;
        let mut refused = Map::new();
        if args.create && name != "default" && (state != "active" || !differences.is_empty()) {
            refused = write_type(&here, &path, &wanted, state == "active")?;
            (state, differences) = compare_type(&here, &path, &wanted)?;
        }
        is_different |= state != "active" || !differences.is_empty();
        report.push(entry(name, &state, &differences, refused));
    }
    for name in &args.bucket {
        let Some((bucket_type, bucket)) = name.split_once('/') else {
            bail!("{name} is no TYPE/BUCKET; the default type is named default");
        };
        let (bucket_type, bucket) = (segment(bucket_type.as_bytes()), segment(bucket.as_bytes()));
        let wanted = props_of_riak(&riak, &format!("types/{bucket_type}/buckets/{bucket}/props"))?;
        let path = format!("admin/v1/types/{bucket_type}/buckets/{bucket}/props");
        let mut differences = compare_bucket(&here, &path, &wanted)?;
        let mut refused = Map::new();
        if args.create && !differences.is_empty() {
            let changed: Map<String, Value> =
                differences.iter().map(|one| (one.property.clone(), one.riak.clone())).collect();
            refused =
                write_accepted(&changed, |props| here.put(&path, &json!({"props": props})), &here)?;
            differences = compare_bucket(&here, &path, &wanted)?;
        }
        is_different |= !differences.is_empty();
        report.push(entry(name, "active", &differences, refused));
    }
    match args.format {
        Format::Json => say!("{}", json!({"types": report, "same": !is_different})),
        Format::Human => report.iter().for_each(print),
    }
    match (is_different, args.create) {
        (false, _) => Ok(()),
        (true, false) => bail!("they differ; give --create to make the cluster's like Riak's"),
        (true, true) => bail!("they still differ as printed"),
    }
}

/// The properties that matter.
fn props_of_riak(riak: &Api, path: &str) -> Result<Map<String, Value>> {
    let (status, document) = riak.get(path)?;
    let Value::Object(mut props) = document["props"].clone() else {
        bail!(
            "{}/{path} answers status {status} without properties; is there such a type in Riak?",
            riak.base()
        );
    };
    props.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    Ok(props)
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
    let state = document["state"].as_str().unwrap_or_default().to_owned();
    Ok((state, differences(wanted, &document["props"])))
}

fn compare_bucket(here: &Api, path: &str, wanted: &Map<String, Value>) -> Result<Vec<Difference>> {
    let document = here.done(here.get(path)?)?;
    Ok(differences(wanted, &document["props"]))
}

/// The properties of Riak's that have another value here. Those that do not exist here are told of only when
/// they are wanted of the cluster.
fn differences(wanted: &Map<String, Value>, here: &Value) -> Vec<Difference> {
    let differs = |(name, riak): (&String, &Value)| {
        let here = here.get(name).cloned().unwrap_or(Value::Null);
        (here != *riak && !is_nothing(riak, &here)).then(|| Difference {
            property: name.clone(),
            riak: riak.clone(),
            here,
        })
    };
    wanted.iter().filter_map(differs).collect()
}

/// Whether a property that is missing here says nothing in Riak either.
fn is_nothing(riak: &Value, here: &Value) -> bool {
    here.is_null()
        && (riak.is_null() || *riak == json!(false) || *riak == json!([]) || *riak == json!(""))
}

/// Creates or changes a type and activates it; the properties that the cluster refuses, with its words.
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

/// Writes properties, without those that are refused, which come back with the cluster's words.
fn write_accepted(
    wanted: &Map<String, Value>,
    write: impl Fn(&Value) -> Result<(u16, Value)>,
    here: &Api,
) -> Result<Map<String, Value>> {
    let (mut props, mut refused) = (wanted.clone(), Map::new());
    loop {
        let (status, document) = write(&Value::Object(props.clone()))?;
        let bad: Vec<(String, Value)> = match document["details"].as_object() {
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
    state: &str,
    differences: &[Difference],
    refused: Map<String, Value>,
) -> Value {
    let differences: Vec<Value> = differences
        .iter()
        .map(|one| json!({"property": one.property, "riak": one.riak, "here": one.here}))
        .collect();
    json!({"name": name, "state": state, "differences": differences, "refused": refused})
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
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! `bucket-type` and `bucket`, with the output that operators' scripts expect.

use super::{Answer, Api, document_of, plain, print, segment};
use anyhow::{Result, bail};
use clap::Subcommand;
use quoit_cli::names::BucketName;
use quoit_cli::{Format, say, value_at};
use quoit_model::props::{property_names, status_lines};
use serde_json::{Value, json};
use std::io::Write;

#[derive(Subcommand, Debug)]
pub(crate) enum TypeCommand {
    /// List all bucket types.
    List,
    /// Print the state and the properties of a bucket type.
    Status {
        /// Name of the type.
        name: String,
    },
    /// Create a bucket type; it can't be used before it is activated.
    Create {
        /// Name of the type.
        name: String,
        /// Properties, as {"props":{...}}.
        #[arg(default_value = r#"{"props":{}}"#)]
        json: String,
    },
    /// Make a created bucket type usable.
    Activate {
        /// Name of the type.
        name: String,
    },
    /// Change properties of an active bucket type.
    Update {
        /// Name of the type.
        name: String,
        /// Properties, as {"props":{...}}.
        json: String,
    },
    /// Reset a bucket type to the default properties.
    Reset {
        /// Name of the type.
        name: String,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum BucketCommand {
    /// Print the effective properties of a bucket; with JSON, change them first.
    Props {
        /// TYPE/BUCKET, or BUCKET for the type default; %2F is a slash inside a name.
        bucket: BucketName,
        /// Properties to change, as {"props":{...}}.
        json: Option<String>,
        /// Remove the bucket's own properties, so that it follows its type again.
        #[arg(long, conflicts_with = "json")]
        reset: bool,
    },
}

/// A change of a bucket type, in the words that scripts expect.
#[derive(Clone, Copy)]
enum TypeChange {
    Create,
    Activate,
    Update,
    Reset,
}

impl TypeChange {
    const fn verb(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Activate => "activate",
            Self::Update => "update",
            Self::Reset => "reset",
        }
    }

    /// The verb while the change is made.
    const fn doing(self) -> &'static str {
        match self {
            Self::Create => "creating",
            Self::Activate => "activating",
            Self::Update => "updating",
            Self::Reset => "resetting",
        }
    }

    /// The verb after the change was made.
    const fn done(self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Activate => "has been activated",
            Self::Update => "updated",
            Self::Reset => "reset",
        }
    }
}

/// Parses `{"props":{...}}`. The error texts are those that scripts expect.
fn props(name: &str, change: TypeChange, text: &str) -> Result<Value> {
    let action = change.verb();
    let Ok(document) = serde_json::from_str::<Value>(text) else {
        bail!("Cannot {action} bucket type {name}: invalid json");
    };
    let props = value_at(&document, "/props");
    if !props.is_object() {
        bail!("Cannot {action} bucket type {name}: no props field found in json");
    }
    warn_of_unknown(props);
    Ok(document)
}

/// Warns on the standard error about names that are not properties. They are stored anyway, as in Riak.
fn warn_of_unknown(props: &Value) {
    for warning in unknown(props) {
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    }
}

fn unknown(props: &Value) -> Vec<String> {
    let names = props.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let unknown = names.filter(|name| !property_names().any(|known| known == *name));
    let told = unknown.map(|name| {
        let distances =
            property_names().map(|known| (strsim::damerau_levenshtein(known, name), known));
        let near = distances.min().filter(|(distance, _)| *distance <= name.len() / 3 + 1);
        let hint = near.map_or_else(String::new, |(_, known)| format!("; did you mean {known}?"));
        format!("{name} is not a property of buckets: it is kept and has no effect{hint}")
    });
    told.collect()
}

/// Executes a command for bucket types.
pub(crate) fn types(api: &Api, command: &TypeCommand, format: Format) -> Result<()> {
    match command {
        TypeCommand::List => {
            let answer = document_of(api.get("bucket-types")?, format)?;
            print(&answer, format, list_lines);
        }
        TypeCommand::Status { name } => return status(api, name, format),
        TypeCommand::Create { name, json } => {
            let body = props(name, TypeChange::Create, json)?;
            let answer = api.put(&format!("bucket-types/{}", segment(name)), &body)?;
            changed(answer, format, TypeChange::Create, name)?;
        }
        TypeCommand::Activate { name } => {
            let answer = api.post(&format!("bucket-types/{}/activate", segment(name)), None)?;
            changed(answer, format, TypeChange::Activate, name)?;
        }
        TypeCommand::Update { name, json } => {
            let body = props(name, TypeChange::Update, json)?;
            let path = format!("bucket-types/{}/update", segment(name));
            changed(api.post(&path, Some(&body))?, format, TypeChange::Update, name)?;
        }
        TypeCommand::Reset { name } => {
            let answer = api.post(&format!("bucket-types/{}/reset", segment(name)), None)?;
            changed(answer, format, TypeChange::Reset, name)?;
        }
    }
    Ok(())
}

fn list_lines(document: &Value) -> String {
    let types = document["types"].as_array().into_iter().flatten();
    let lines = types.map(|each| {
        let state = if each["state"] == "active" { "active" } else { "not active" };
        format!("{} ({state})", plain(&each["name"]))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn status(api: &Api, name: &str, format: Format) -> Result<()> {
    match api.get(&format!("bucket-types/{}", segment(name)))? {
        Answer::Refused { error, document, .. } if error == "undefined" => {
            if format == Format::Json {
                say!("{document}");
            }
            bail!("{name} is not an existing bucket type");
        }
        answer => {
            let answer = document_of(answer, format)?;
            print(&answer, format, |document| {
                let state = match document["state"].as_str() {
                    Some("active") => "is active",
                    Some("ready") => "has been created and may be activated",
                    _ => "has been created but cannot be activated yet",
                };
                let reason = document["reason"].as_str();
                let reason = reason.map_or_else(String::new, |reason| format!("({reason})\n"));
                format!("{name} {state}\n{reason}{}", prop_lines(&document["props"]))
            });
            Ok(())
        }
    }
}

fn prop_lines(props: &Value) -> String {
    props.as_object().map(status_lines).unwrap_or_default().join("\n")
}

/// Prints a change, or the node's reasons for refusing it.
fn changed(answer: Answer, format: Format, change: TypeChange, name: &str) -> Result<()> {
    let doing = change.doing();
    match answer {
        Answer::Refused { error, document, message } => {
            if format == Format::Json {
                say!("{document}");
            }
            match error.as_str() {
                "undefined" => bail!("{name} is not an existing bucket type"),
                // The message begins with the words that scripts expect.
                "not_ready" => bail!("{message}"),
                "invalid_props" => {
                    let details = prop_lines(value_at(&document, "/details"));
                    bail!("Error {doing} bucket type {name}:\n{details}");
                }
                word => bail!("Error {doing} bucket type {name}: {word} ({message})"),
            }
        }
        answer => {
            let answer = document_of(answer, format)?;
            print(&answer, format, |_| format!("{name} {}", change.done()));
            Ok(())
        }
    }
}

/// Executes a command for the properties of a bucket.
pub(crate) fn bucket(api: &Api, command: &BucketCommand, format: Format) -> Result<()> {
    let BucketCommand::Props { bucket, json, reset } = command;
    let path = format!("{}/props", bucket.path());
    let answer = match json {
        Some(text) => {
            let Ok(body) = serde_json::from_str::<Value>(text) else {
                bail!("Cannot change bucket {bucket}: invalid json");
            };
            // The documented form is {"props":{...}}; the inner object alone is accepted, too.
            let body =
                if value_at(&body, "/props").is_object() { body } else { json!({ "props": body }) };
            warn_of_unknown(value_at(&body, "/props"));
            api.put(&path, &body)?
        }
        None if *reset => api.delete(&path)?,
        None => api.get(&path)?,
    };
    let document = document_of(answer, format)?;
    print(&document, format, |document| prop_lines(&document["props"]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_property_is_told_with_the_nearest_one() {
        let told = unknown(&json!({"allow_mutl": true, "n_val": 3, "mine": 1}));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("allow_mutl is not a property"), "{told:?}");
        assert!(told[0].ends_with("did you mean allow_mult?"), "{told:?}");
    }

    #[test]
    fn properties_are_printed_as_riak_does() {
        let function = json!({"mod": "riak_core_util", "fun": "chash_std_keyfun"});
        let props = json!({"r": "quorum", "chash_keyfun": function, "allow_mult": true});
        let expected =
            "allow_mult: true\nchash_keyfun: {riak_core_util,chash_std_keyfun}\nr: quorum";
        assert_eq!(prop_lines(&props), expected);
        assert_eq!(prop_lines(&Value::Null), "");
    }
}

//! `quoit get`.

use super::object::{Object, Sibling};
use super::{add, quorum, refused};
use crate::api::{Api, Call, Reply};
use crate::figures;
use crate::names::RecordName;
use crate::output;
use crate::say;
use crate::target::TargetArgs;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Output format of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ObjectFormat {
    /// The value; for siblings, all values and the command that resolves them.
    Human,
    /// The value without any additions; of siblings, the one chosen with --sibling.
    Raw,
    /// One JSON document with all siblings, their metadata and the causal context.
    Json,
}

/// Read an object.
///
/// A single value is printed as it is. If there are siblings (values of concurrent writes), all of them are
/// shown, with the command that resolves them.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  quoit get b/k\n  quoit get carts/de/42 --sibling 2 --output apples.txt\n  \
                        quoit get carts/de/42 --format json"
)]
pub struct GetArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// TYPE/BUCKET/KEY, or BUCKET/KEY for the type default; %2F is a slash inside a name.
    name: RecordName,
    /// Only this sibling, counted from 1 in the order shown.
    #[arg(long, value_name = "N")]
    sibling: Option<usize>,
    /// Print content type, size, time, metadata, index entries and context as well.
    #[arg(long, short)]
    details: bool,
    /// Write the value to a file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: ObjectFormat,
    /// Replicas that must answer: a number, quorum, all, one or default.
    #[arg(long, value_name = "R", value_parser = quorum)]
    r: Option<String>,
    /// Primary replicas that must answer.
    #[arg(long, value_name = "PR", value_parser = quorum)]
    pr: Option<String>,
}

/// Reads an object, siblings included.
pub(super) fn fetch(api: &Api, name: &RecordName, query: &str) -> Result<Reply> {
    api.call(&Call {
        path: format!("{}{query}", name.path()),
        headers: vec![("Accept".into(), "multipart/mixed, */*;q=0.9".into())],
        ..Call::default()
    })
}

/// Reads an object and prints it.
///
/// # Errors
///
/// The object does not exist, the number of the sibling is out of range, or a single value is required and
/// there are siblings.
pub fn get(args: &GetArgs) -> Result<()> {
    let name = &args.name;
    let mut query = String::new();
    add(&mut query, "r", args.r.as_deref());
    add(&mut query, "pr", args.pr.as_deref());
    let reply = fetch(&Api::new(&args.target), name, &query)?;
    if !matches!(reply.status, 200 | 300) {
        return Err(refused(&reply, &name.bucket, name));
    }
    let object = Object::of(&reply)?;
    if args.format == ObjectFormat::Json {
        let siblings: Vec<_> = object.siblings.iter().map(Sibling::json).collect();
        say!(
            "{}",
            json!({"name": name.to_string(), "context": object.context, "siblings": siblings})
        );
        return Ok(());
    }
    let chosen = chosen(args, &object)?;
    if let Some(path) = &args.output {
        let Some(sibling) = chosen else { return Err(ambiguous(name, &object)) };
        return std::fs::write(path, &sibling.value)
            .with_context(|| format!("can't write {}", path.display()));
    }
    match chosen {
        Some(sibling) if args.format == ObjectFormat::Raw => output::bytes(&sibling.value),
        None if args.format == ObjectFormat::Raw => return Err(ambiguous(name, &object)),
        Some(sibling) if args.details => say!("{}", detailed(name, &object, sibling)),
        Some(sibling) => show_value(sibling)?,
        None => say!("{}", siblings(name, &object)),
    }
    Ok(())
}

/// The sibling to show; `None` means all siblings.
fn chosen<'o>(args: &GetArgs, object: &'o Object) -> Result<Option<&'o Sibling>> {
    match (args.sibling, object.siblings.as_slice()) {
        (None, [single]) => Ok(Some(single)),
        (None, _) => Ok(None),
        (Some(number), siblings) => {
            match number.checked_sub(1).and_then(|place| siblings.get(place)) {
                Some(sibling) => Ok(Some(sibling)),
                None => bail!(
                    "{} has no sibling {number}: write --sibling 1 to --sibling {}",
                    args.name,
                    siblings.len()
                ),
            }
        }
    }
}

fn ambiguous(name: &RecordName, object: &Object) -> anyhow::Error {
    let count = object.siblings.len();
    anyhow::anyhow!(
        "{name} has {count} siblings: name one with --sibling 1 to {count}, or settle them with \
         `quoit put {name} VALUE --replace`"
    )
}

/// Prints a single value. Refuses to write a binary value to a terminal.
fn show_value(sibling: &Sibling) -> Result<()> {
    if !std::io::stdout().is_terminal() {
        output::bytes(&sibling.value);
        return Ok(());
    }
    match sibling.text() {
        Some(text) => say!("{}", text.trim_end_matches('\n')),
        None => bail!(
            "the value is {} of {}, not text: write --output FILE to save it, or --format raw to print it",
            figures::size(&sibling.value.len().into()),
            sibling.content_type
        ),
    }
    Ok(())
}

fn summary(sibling: &Sibling) -> String {
    let size = figures::size(&sibling.value.len().into());
    let kind = if sibling.is_deleted { "a deletion" } else { sibling.content_type.as_str() };
    let mut told = format!("{kind}, {size}");
    if !sibling.last_modified.is_empty() {
        told.push_str(&format!(", written {}", sibling.last_modified));
    }
    told
}

/// The indented value, or a placeholder for a binary or empty value.
fn indented(sibling: &Sibling) -> String {
    match sibling.text() {
        Some("") if !sibling.is_deleted => "    (empty)".to_owned(),
        Some(text) => text
            .lines()
            .map(|line| format!("    {line}\n"))
            .collect::<String>()
            .trim_end()
            .to_owned(),
        None => "    (not text; --sibling N --output FILE writes it to a file)".to_owned(),
    }
}

fn siblings(name: &RecordName, object: &Object) -> String {
    let count = object.siblings.len();
    let mut text = format!(
        "{name} has {count} siblings: values that were written without knowing of each other\n"
    );
    for (number, sibling) in object.siblings.iter().enumerate() {
        text.push_str(&format!("\n{}. {}\n{}\n", number + 1, summary(sibling), indented(sibling)));
        for (name, value) in &sibling.meta {
            text.push_str(&format!("    {name}: {value}\n"));
        }
    }
    text.push_str(&format!(
        "\nOne value in place of all:    quoit put {name} VALUE --replace\n\
         One of them in a file:        quoit get {name} --sibling N --output FILE\n\
         Context of this reading:      {}",
        object.context
    ));
    text
}

fn detailed(name: &RecordName, object: &Object, sibling: &Sibling) -> String {
    let mut rows = vec![
        ["name".to_owned(), name.to_string()],
        ["content type".to_owned(), sibling.content_type.clone()],
        ["size".to_owned(), figures::size(&sibling.value.len().into())],
        ["written".to_owned(), sibling.last_modified.clone()],
        ["version".to_owned(), sibling.vtag.clone()],
        ["siblings".to_owned(), object.siblings.len().to_string()],
    ];
    rows.extend(sibling.meta.iter().map(|(name, value)| [name.clone(), value.clone()]));
    rows.push(["context".to_owned(), object.context.clone()]);
    format!("{}\n\n{}", crate::columns::columns(rows), indented(sibling))
}

/// Prints a note on standard error; failures are ignored.
pub(super) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_shown_with_the_command_that_settles_them() {
        let of = |text: &str| Sibling {
            content_type: "text/plain".into(),
            value: text.into(),
            ..Sibling::default()
        };
        let object =
            Object { context: "a85h".into(), siblings: vec![of("apples"), of("pears\nplums")] };
        let name: RecordName = "carts/de/42".parse().expect("a name");
        let shown = siblings(&name, &object);
        for expected in [
            "carts/de/42 has 2 siblings",
            "\n1. text/plain, 6 B\n    apples\n",
            "\n2. text/plain, 11 B\n    pears\n    plums\n",
            "quoit put carts/de/42 VALUE --replace",
            "a85h",
        ] {
            assert!(shown.contains(expected), "{expected} in {shown}");
        }
    }
}

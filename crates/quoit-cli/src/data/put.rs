//! `quoit put` and `quoit del`.

use super::get::{fetch, note};
use super::object::Object;
use super::{add, quorum, refused};
use crate::api::{Api, Call};
use crate::names::RecordName;
use crate::say;
use crate::target::TargetArgs;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use ureq::http::Method;

/// File name extensions and their media types.
const MEDIA_TYPES: [(&str, &str); 14] = [
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("xml", "application/xml"),
];

/// Relation of a write to the stored values.
#[derive(Args, Debug)]
struct Causality {
    /// Replace the stored value, siblings included: reads the object's context first and writes with it.
    #[arg(long, conflicts_with = "context")]
    replace: bool,
    /// Context of the read that this write is based on, as `get --details` or `get --format json` prints
    /// it.
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
}

impl Causality {
    /// Returns the context to write with; reads it from the node if `--replace` was given.
    fn context(&self, api: &Api, name: &RecordName) -> Result<Option<String>> {
        if !self.replace {
            return Ok(self.context.clone());
        }
        let reply = fetch(api, name, "")?;
        match reply.status {
            200 | 300 => Ok(Some(Object::of(&reply)?.context)),
            // A tombstone has a context, too.
            404 => Ok(Some(reply.header("x-riak-vclock").to_owned())
                .filter(|context| !context.is_empty())),
            _ => Err(refused(&reply, &name.bucket, name)),
        }
    }
}

/// Replicas that must confirm a write.
#[derive(Args, Debug)]
struct WriteQuorums {
    /// Replicas that must confirm it: a number, quorum, all, one or default.
    #[arg(long, value_name = "W", value_parser = quorum)]
    w: Option<String>,
    /// Replicas that must have stored it on disk.
    #[arg(long, value_name = "DW", value_parser = quorum)]
    dw: Option<String>,
    /// Primary replicas that must confirm it.
    #[arg(long, value_name = "PW", value_parser = quorum)]
    pw: Option<String>,
}

impl WriteQuorums {
    fn query(&self) -> String {
        let mut query = String::new();
        for (name, value) in [("w", &self.w), ("dw", &self.dw), ("pw", &self.pw)] {
            add(&mut query, name, value.as_deref());
        }
        query
    }
}

/// Write an object.
///
/// The value is an argument, a file, or standard input. Without --replace or --context the write has no
/// causal context: a bucket that keeps siblings then keeps both the old and the new value.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  quoit put b/k hello\n  quoit put b/logo --file logo.png\n  \
                        date | quoit put b/now\n  quoit put carts/de/42 'apples, pears' --replace\n  \
                        quoit put people/all/ann '{\"age\":36}' --content-type application/json --index \
                        age_int=36")]
pub struct PutArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// TYPE/BUCKET/KEY, or BUCKET/KEY for the type default; %2F is a slash inside a name.
    name: RecordName,
    /// The value; without it and without --file, standard input is read to its end.
    #[arg(conflicts_with = "file", allow_hyphen_values = true)]
    value: Option<String>,
    /// Read the value from a file; - is standard input.
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Media type [default: by the extension of the file, else text/plain or application/octet-stream].
    #[arg(long, short = 't', value_name = "TYPE")]
    content_type: Option<String>,
    /// An index entry such as age_int=36 or name_bin=ann; can be repeated.
    #[arg(long, value_name = "FIELD=TERM", value_parser = pair)]
    index: Vec<(String, String)>,
    /// User metadata; can be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    #[command(flatten)]
    causality: Causality,
    /// Write only if the object does not exist.
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    quorums: WriteQuorums,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is not of the form NAME=VALUE")),
    }
}

impl PutArgs {
    fn value(&self) -> Result<Vec<u8>> {
        if let Some(value) = &self.value {
            return Ok(value.clone().into_bytes());
        }
        let file = self.file.as_deref().filter(|path| *path != Path::new("-"));
        if let Some(path) = file {
            return std::fs::read(path)
                .with_context(|| format!("can't read the value from {}", path.display()));
        }
        let mut input = std::io::stdin();
        if input.is_terminal() {
            note("the value is what you type; Ctrl-D ends it");
        }
        let mut value = Vec::new();
        input.read_to_end(&mut value).context("can't read the value from standard input")?;
        Ok(value)
    }

    fn media_type(&self, value: &[u8]) -> String {
        if let Some(given) = &self.content_type {
            return given.clone();
        }
        let ending = self
            .file
            .as_deref()
            .and_then(Path::extension)
            .map(|ending| ending.to_ascii_lowercase());
        let known = MEDIA_TYPES
            .iter()
            .find(|(known, _)| ending.as_deref().is_some_and(|given| given == *known));
        match known {
            Some((_, media_type)) => (*media_type).to_owned(),
            None if std::str::from_utf8(value).is_ok() => "text/plain".to_owned(),
            None => "application/octet-stream".to_owned(),
        }
    }
}

/// Writes an object.
///
/// # Errors
///
/// The value cannot be read, or the node refuses the write.
pub fn put(args: &PutArgs) -> Result<()> {
    let (api, name) = (Api::new(&args.target), &args.name);
    let value = args.value()?;
    let mut headers = vec![("Content-Type".to_owned(), args.media_type(&value))];
    for (start, pairs) in [("x-riak-index-", &args.index), ("x-riak-meta-", &args.meta)] {
        headers
            .extend(pairs.iter().map(|(field, value)| (format!("{start}{field}"), value.clone())));
    }
    if let Some(context) = args.causality.context(&api, name)? {
        headers.push(("X-Riak-Vclock".to_owned(), context));
    }
    if args.if_absent {
        headers.push(("If-None-Match".to_owned(), "*".to_owned()));
    }
    let path = format!("{}{}", name.path(), args.quorums.query());
    let reply = api.call(&Call { method: Method::PUT, path, headers, body: value })?;
    match reply.status {
        200 | 201 | 204 | 300 => Ok(()),
        412 if args.if_absent => bail!("{name} is there already, so that nothing was written"),
        _ => Err(refused(&reply, &name.bucket, name)),
    }
}

/// Delete an object.
///
/// The object's context is read first, so that only the values that were read are deleted, unless --context
/// gives another context.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  quoit del b/k")]
pub struct DelArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// TYPE/BUCKET/KEY, or BUCKET/KEY for the type default; %2F is a slash inside a name.
    name: RecordName,
    /// Delete only the values that were read with this context.
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    #[command(flatten)]
    quorums: WriteQuorums,
}

/// Deletes an object.
///
/// # Errors
///
/// The object does not exist, or the node refuses.
pub fn del(args: &DelArgs) -> Result<()> {
    let (api, name) = (Api::new(&args.target), &args.name);
    let context = match &args.context {
        Some(context) => context.clone(),
        None => {
            let reply = fetch(&api, name, "")?;
            match reply.status {
                200 | 300 => reply.header("x-riak-vclock").to_owned(),
                _ => return Err(refused(&reply, &name.bucket, name)),
            }
        }
    };
    let path = format!("{}{}", name.path(), args.quorums.query());
    let headers = vec![("X-Riak-Vclock".to_owned(), context)];
    let reply = api.call(&Call { method: Method::DELETE, path, headers, body: Vec::new() })?;
    match reply.status {
        200 | 204 => {
            say!("deleted {name}");
            Ok(())
        }
        _ => Err(refused(&reply, &name.bucket, name)),
    }
}

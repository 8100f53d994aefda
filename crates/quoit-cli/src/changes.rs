//! `quoit changes`: prints the change feed of a bucket.

use crate::api::{Api, Call, Reply, segment};
use crate::data::{add, refused};
use crate::document::value_at;
use crate::names::BucketName;
use crate::output::is_gone;
use crate::say;
use crate::target::TargetArgs;
use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use ureq::http::Method;

/// Silence after which a node counts as dead. A live node sends its position every five seconds.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Pause between two attempts to reach a node.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Number of lines that are read ahead of the output.
const AHEAD_COUNT: usize = 1_000;

/// Print the changes of a bucket (records written and deleted), in order by key, as one JSON object on each
/// line.
///
/// The bucket must have a change feed (`quoit changes enable`). Each line contains its position; a later
/// call continues there with --since. With --follow and several nodes in --url, the command continues with
/// another node when one fails.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  quoit changes enable carts/de\n  quoit changes carts/de\n  \
                  quoit changes carts/de --follow --since now --prefix 2026-"
)]
pub struct ChangesArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(subcommand)]
    command: Option<ChangesCommand>,
    #[command(flatten)]
    selection: ChangeSelection,
}

/// Selection of changes.
#[derive(Args, Debug)]
struct ChangeSelection {
    /// TYPE/BUCKET, or BUCKET for the type default; %2F is a slash inside a name.
    #[arg(required = true)]
    bucket: Option<BucketName>,
    /// Start position: `oldest`, `now`, seconds since 1970, or the position of a line.
    #[arg(long, default_value = "oldest", value_name = "POSITION")]
    since: String,
    /// Keep waiting for new changes instead of ending after the existing ones.
    #[arg(long)]
    follow: bool,
    /// Only keys that begin with this text.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Only changes of this kind. Late changes are printed in any case.
    #[arg(long, value_enum)]
    kind: Option<ChangeKind>,
}

/// Kinds of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ChangeKind {
    /// Records that were written.
    Put,
    /// Records that were deleted.
    Delete,
}

/// Commands that switch the change feed of a bucket.
#[derive(Subcommand, Debug)]
enum ChangesCommand {
    /// Start a change feed for a bucket, from now on.
    Enable {
        /// TYPE/BUCKET, or BUCKET for the type default; %2F is a slash inside a name.
        bucket: BucketName,
    },
    /// Stop the change feed of a bucket.
    Disable {
        /// TYPE/BUCKET, or BUCKET for the type default; %2F is a slash inside a name.
        bucket: BucketName,
    },
}

/// Reason why a stream of changes ended.
enum StreamEnd {
    Whole,
    /// The node failed or stopped; the text gives the reason.
    Broken(String),
}

/// State of a reader that continues after interruptions.
struct Reading {
    /// Position of the last line.
    since: String,
    /// True if the current interruption was already reported.
    is_told: bool,
}

/// Prints, enables or disables a change feed.
///
/// # Errors
///
/// No node answers, the bucket has no change feed, or changes are no longer available.
pub fn changes(args: &ChangesArgs) -> Result<()> {
    let api = Api::new(&args.target);
    match (&args.command, &args.selection.bucket) {
        (Some(ChangesCommand::Enable { bucket }), _) => enable(&api, bucket),
        (Some(ChangesCommand::Disable { bucket }), _) => {
            set(&api, bucket, 0)?;
            say!(
                "{bucket} has no change feed any more; its changes so far stay until they are too old"
            );
            Ok(())
        }
        (None, Some(bucket)) => print(&api, bucket, &args.selection),
        (None, None) => unreachable!("the bucket is required where there is no command"),
    }
}

fn props_path(bucket: &BucketName) -> String {
    format!("{}/props", bucket.path())
}

fn enable(api: &Api, bucket: &BucketName) -> Result<()> {
    let reply = api.call(&Call { path: props_path(bucket), ..Call::default() })?;
    let document: Value = match serde_json::from_slice(&reply.body) {
        Ok(document) if reply.status == 200 => document,
        _ => return Err(refused(&reply, bucket, bucket)),
    };
    let period = value_at(&document, "/props/change_feed").as_u64();
    if period.is_some_and(|period| period > 0) {
        say!("{bucket} has a change feed already");
        return Ok(());
    }
    // Each period in which the feed is enabled has its own number, so that readers notice the gap between
    // two.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    set(api, bucket, u32::try_from(now.as_secs()).unwrap_or(u32::MAX).max(1))?;
    say!("{bucket} has a change feed: `quoit changes {bucket}` prints it");
    Ok(())
}

fn set(api: &Api, bucket: &BucketName, period: u32) -> Result<()> {
    let reply = api.call(&Call {
        method: Method::PUT,
        path: props_path(bucket),
        headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: json!({"props": {"change_feed": period}}).to_string().into_bytes(),
    })?;
    match reply.status {
        204 => Ok(()),
        _ => Err(refused(&reply, bucket, bucket)),
    }
}

fn print(api: &Api, bucket: &BucketName, selection: &ChangeSelection) -> Result<()> {
    let mut reading = Reading { since: selection.since.clone(), is_told: false };
    loop {
        match print_once(api, bucket, selection, &mut reading) {
            Ok(StreamEnd::Whole) => return Ok(()),
            Ok(StreamEnd::Broken(_)) if is_gone() => return Ok(()),
            Ok(StreamEnd::Broken(why)) if selection.follow => {
                if !std::mem::replace(&mut reading.is_told, true) {
                    tell(&format!("{}: {why}; going on at the last position", api.target()));
                }
                thread::sleep(RETRY_INTERVAL);
            }
            Ok(StreamEnd::Broken(why)) => {
                bail!("{}: {why}; continue with --since {}", api.target(), reading.since)
            }
            Err(fault) => return Err(fault),
        }
    }
}

#[expect(clippy::print_stderr, reason = "words for a person, beside the lines of the feed")]
fn tell(words: &str) {
    eprintln!("quoit: {words}");
}

/// Prints changes until the stream ends.
fn print_once(
    api: &Api,
    bucket: &BucketName,
    selection: &ChangeSelection,
    reading: &mut Reading,
) -> Result<StreamEnd> {
    let mut query = format!("?since={}", segment(&reading.since));
    add(&mut query, "follow", selection.follow.then_some("true"));
    add(&mut query, "prefix", selection.prefix.as_deref());
    let kind = selection.kind.map(|kind| if kind == ChangeKind::Put { "put" } else { "delete" });
    add(&mut query, "kind", kind);
    let (status, mut body) = match api.open(&format!("{}/changes{query}", bucket.path())) {
        Ok(opened) => opened,
        // The node may be restarting.
        Err(fault) if selection.follow => return Ok(StreamEnd::Broken(format!("{fault:#}"))),
        Err(fault) => return Err(fault),
    };
    if status != 200 {
        let bytes = match body.read_to_vec() {
            Ok(bytes) => bytes,
            Err(fault) if selection.follow => {
                return Ok(StreamEnd::Broken(format!("the connection broke: {fault}")));
            }
            Err(fault) => return Err(fault.into()),
        };
        if status == 503 && selection.follow {
            return Ok(StreamEnd::Broken(String::from_utf8_lossy(&bytes).trim().to_owned()));
        }
        if let Ok(document) = serde_json::from_slice::<Value>(&bytes)
            && value_at(&document, "/kind") == "error"
        {
            return Err(fault_of(&document));
        }
        let reply = Reply { status, headers: Default::default(), body: bytes };
        return Err(refused(&reply, bucket, bucket));
    }
    let (lines, read) = sync_channel(AHEAD_COUNT);
    // The thread ends with the connection, or when the receiver has been dropped.
    thread::spawn(move || {
        for line in BufReader::new(body.into_reader()).lines() {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    print_lines(&read, selection, reading)
}

/// Prints the lines of a stream.
fn print_lines(
    read: &Receiver<io::Result<String>>,
    selection: &ChangeSelection,
    reading: &mut Reading,
) -> Result<StreamEnd> {
    let broken = |why: &str| Ok(StreamEnd::Broken(why.to_owned()));
    let mut is_complete = false;
    loop {
        let line = match read.recv_timeout(SILENCE_MAX) {
            Ok(Ok(line)) => line,
            Ok(Err(fault)) => return broken(&format!("the connection broke: {fault}")),
            Err(RecvTimeoutError::Timeout) => return broken("the node does not answer any more"),
            Err(RecvTimeoutError::Disconnected) if is_complete && !selection.follow => {
                return Ok(StreamEnd::Whole);
            }
            Err(RecvTimeoutError::Disconnected) => return broken("the node ended the stream"),
        };
        let Ok(document) = serde_json::from_str::<Value>(&line) else {
            return broken("the connection broke within a line");
        };
        if value_at(&document, "/kind") == "error" {
            return Err(fault_of(&document));
        }
        if let Some(position) = value_at(&document, "/position").as_str() {
            position.clone_into(&mut reading.since);
        }
        reading.is_told = false;
        is_complete = value_at(&document, "/kind") == "position";
        if !is_complete || !selection.follow {
            say!("{line}");
        }
        if is_gone() {
            return broken("the reader of the output is gone");
        }
    }
}

fn fault_of(document: &Value) -> anyhow::Error {
    let message = document["message"].as_str().unwrap_or("the node ended the stream with an error");
    match document["resume"].as_str() {
        Some(resume) => anyhow::anyhow!(
            "{message}; to accept that and continue with the changes that exist: --since {resume}"
        ),
        None => anyhow::anyhow!("{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// Selects all changes, including later ones, for a reader that has read nothing.
    fn following() -> (ChangeSelection, Reading) {
        let since = "oldest".to_owned();
        let reading = Reading { since: since.clone(), is_told: true };
        (ChangeSelection { bucket: None, since, follow: true, prefix: None, kind: None }, reading)
    }

    #[test]
    fn a_connection_that_breaks_within_a_refusal_is_an_interruption() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                head.extend_from_slice(&byte);
            }
            let refusal = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nhalf";
            stream.write_all(refusal).expect("a client that reads");
        });
        let (selection, mut reading) = following();
        let (api, bucket) = (Api::of(vec![Target::of(&address)]), "b".parse().expect("a name"));
        let end = print_once(&api, &bucket, &selection, &mut reading).expect("an interruption");
        assert!(matches!(end, StreamEnd::Broken(_)));
        serving.join().expect("served");
    }

    #[test]
    fn an_interruption_after_a_line_is_a_new_one() {
        let (selection, mut reading) = following();
        let (lines, read) = sync_channel(1);
        drop(lines);
        let end = print_lines(&read, &selection, &mut reading).expect("no error of the node");
        assert!(matches!(end, StreamEnd::Broken(_)) && reading.is_told, "nothing was read");
        let (lines, read) = sync_channel(1);
        lines.send(Ok(r#"{"kind": "position", "position": "p7"}"#.to_owned())).expect("room");
        drop(lines);
        print_lines(&read, &selection, &mut reading).expect("no error of the node");
        assert_eq!((&*reading.since, reading.is_told), ("p7", false));
    }
}

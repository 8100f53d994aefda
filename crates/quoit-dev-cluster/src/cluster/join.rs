//! Joins nodes that were started alone to one cluster.

use super::node::Record;
use anyhow::{Context, Result, bail};
use quoit_cli::target::Target;
use quoit_cli::{Answer, Api, say, value_at};
use serde_json::{Value, json};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit for the nodes to agree.
const AGREE_LIMIT: Duration = Duration::from_secs(60);
/// Time after which waiting is reported.
const TELL_AFTER: Duration = Duration::from_secs(3);
/// Interval between checks of the members.
const AGREE_POLL: Duration = Duration::from_millis(50);

/// Joins all nodes that are not members yet to the first node, and waits until all are members.
pub(super) async fn join(records: &[Record], base_dir: &Path) -> Result<()> {
    let (records, base_dir) = (records.to_vec(), base_dir.to_owned());
    let joined = tokio::task::spawn_blocking(move || join_now(&records, &base_dir));
    joined.await.context("joining the nodes")?
}

/// Names of the valid members that a node knows.
pub(super) async fn members_known_to(record: &Record) -> Result<Vec<String>> {
    let api = api_of(record);
    let asked = tokio::task::spawn_blocking(move || members(&api, MemberFilter::Valid));
    asked.await.context("asking for the members")?
}

fn join_now(records: &[Record], base_dir: &Path) -> Result<()> {
    let Some((first, others)) = records.split_first() else { return Ok(()) };
    let api = api_of(first);
    let known = members(&api, MemberFilter::Valid)?;
    let strangers: Vec<_> =
        others.iter().filter(|other| !known.contains(&other.name)).cloned().collect();
    for stranger in &strangers {
        let body = json!({ "address": first.node });
        let answer = api_of(stranger).post("cluster/join", Some(&body))?;
        if matches!(&answer, Answer::Refused { error, .. } if error == "already_member") {
            bail!("{}", not_of_this_cluster(stranger, first, base_dir));
        }
        let joined = document(answer);
        joined.with_context(|| format!("joining {} to {}", stranger.name, first.name))?;
    }
    if !strangers.is_empty() {
        wait("the nodes that join to be reached", || {
            let up = members(&api, MemberFilter::Up)?;
            Ok(strangers.iter().all(|stranger| up.contains(&stranger.name)))
        })?;
        document(api.get("cluster/plan")?).context("planning")?;
        document(api.post("cluster/commit", Some(&json!({})))?).context("committing")?;
    }
    for record in records {
        let api = api_of(record);
        wait("the nodes to agree and to reach each other", || {
            let ready = document(api.get("cluster/ring-ready")?)?;
            let is_ready = value_at(&ready, "/ready") == true;
            let known = members(&api, MemberFilter::Valid)?;
            let up = members(&api, MemberFilter::Up)?;
            let names = || records.iter().map(|each| &each.name);
            Ok(is_ready && names().all(|name| known.contains(name) && up.contains(name)))
        })?;
    }
    Ok(())
}

/// The reason for which a node with a member's data can't join, and the remedy.
fn not_of_this_cluster(stranger: &Record, first: &Record, base_dir: &Path) -> String {
    let name = &stranger.name;
    let folder = name.split('@').next().unwrap_or(name);
    format!(
        "{name} was removed from the cluster of {} while it was away, or is a member of another one; \
         `rm -r {}` deletes its data, and it joins anew",
        first.name,
        base_dir.join(folder).display()
    )
}

/// Polls until a condition is true.
fn wait(what: &str, mut has_come_true: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    let mut is_told = false;
    while !has_come_true()? {
        if !is_told && began.elapsed() > TELL_AFTER {
            is_told = true;
            say!("waiting for {what}, for {AGREE_LIMIT:?} at most");
        }
        if began.elapsed() > AGREE_LIMIT {
            bail!("waited {AGREE_LIMIT:?} for {what}; the logs of the nodes may tell why");
        }
        sleep(AGREE_POLL);
    }
    Ok(())
}

/// A selection of members by their state.
#[derive(Clone, Copy)]
enum MemberFilter {
    /// Members that neither join nor leave.
    Valid,
    /// Members that can be reached.
    Up,
}

impl MemberFilter {
    fn has(self, member: &Value) -> bool {
        match self {
            Self::Valid => member["status"] == "valid",
            Self::Up => member["availability"] == "up",
        }
    }
}

/// Names of these members, as a node knows them.
fn members(api: &Api, wanted: MemberFilter) -> Result<Vec<String>> {
    let cluster = document(api.get("cluster")?)?;
    let members = value_at(&cluster, "/members").as_array().into_iter().flatten();
    let fitting = members.filter(|member| wanted.has(member));
    Ok(fitting.filter_map(|member| member["name"].as_str().map(str::to_owned)).collect())
}

fn api_of(record: &Record) -> Api {
    Api::of(vec![Target::of(&record.http)])
}

fn document(answer: Answer) -> Result<Value> {
    match answer {
        Answer::Done(document) => Ok(document),
        Answer::Refused { message, .. } => bail!("{message}"),
    }
}

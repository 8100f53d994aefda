//! The older forms of membership changes, which stage, plan and commit in one step: `join -f`, `leave -f`,
//! `remove -f`.

use super::{Api, address, document_of, plain, print};
use crate::admin::Answer;
use anyhow::{Result, bail};
use clap::Args;
use quoit_cli::{Format, value_at};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit for the asked node to learn of the staged change.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval between checks of the plan.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct UnstagedArgs {
    /// For `join` any member, otherwise the node that leaves [default for leave: the node asked].
    node: Option<String>,
    /// Change the cluster at once, without showing a plan.
    #[arg(short, long)]
    force: bool,
}

/// Joins the cluster of another node at once.
pub(crate) fn join(api: &Api, args: &UnstagedArgs, format: Format) -> Result<()> {
    let node = needed(args, "join")?;
    at_once(api, args, ("join", json!({ "address": address(node) })), format)
}

/// Makes a node hand over its data and leave at once.
pub(crate) fn leave(api: &Api, args: &UnstagedArgs, format: Format) -> Result<()> {
    at_once(api, args, ("leave", json!({ "node": args.node })), format)
}

/// Removes a node at once. Records that only it has are lost.
pub(crate) fn force_remove(api: &Api, args: &UnstagedArgs, format: Format) -> Result<()> {
    let node = needed(args, "force-remove")?;
    at_once(api, args, ("force-remove", json!({ "node": node })), format)
}

fn needed<'a>(args: &'a UnstagedArgs, command: &str) -> Result<&'a str> {
    match args.node.as_deref() {
        Some(node) => Ok(node),
        None => bail!("{command} needs the name of a node"),
    }
}

fn at_once(
    api: &Api,
    args: &UnstagedArgs,
    (command, body): (&str, Value),
    format: Format,
) -> Result<()> {
    if !args.force {
        bail!(
            "this form changes the cluster at once. Use cluster {command}, cluster plan and cluster \
             commit, which show first what would move; or add -f"
        );
    }
    let staged = document_of(api.get("cluster/plan")?, format)?;
    if count(&staged) > 0 {
        bail!(
            "other changes are staged: look at cluster plan, then cluster commit or cluster clear"
        );
    }
    document_of(api.post(&format!("cluster/{command}"), Some(&body))?, format)?;
    let plan = await_plan(api, format)?;
    if count(&plan) != 1 {
        bail!("other changes were staged meanwhile: look at cluster plan, then cluster commit");
    }
    let answer = document_of(
        api.post("cluster/commit", Some(&json!({ "plan": value_at(&plan, "/plan") })))?,
        format,
    )?;
    print(&answer, format, |document| {
        let moved = value_at(&plan, "/transitions/0/reassigned").as_u64().unwrap_or_default();
        format!("{}; {moved} partitions get other nodes", plain(&document["message"]))
    });
    Ok(())
}

fn count(plan: &Value) -> usize {
    plan["staged"].as_array().map_or(0, Vec::len)
}

/// The plan, as soon as the asked node has learned of the staged change.
fn await_plan(api: &Api, format: Format) -> Result<Value> {
    let limit = Instant::now() + PATIENCE;
    loop {
        let answer = api.get("cluster/plan")?;
        let is_early = match &answer {
            Answer::Done(plan) => count(plan) == 0,
            Answer::Refused { .. } => true,
        };
        if !is_early || Instant::now() > limit {
            return document_of(answer, format);
        }
        sleep(PAUSE);
    }
}

//! `quoit import plan`: prints the commands of a live move from a running Riak to a running cluster.
//!
//! [`facts`] asks both sides, [`checks`] judges the findings, and [`steps`] writes the commands. A move in
//! both directions is planned only if both sides keep their tombstones. If one side forgot a deletion, the
//! other side would bring the deleted value back.

mod checks;
mod facts;
mod riak_conf;
mod steps;

use crate::Format;
use crate::api::Api;
use crate::output::say;
use anyhow::{Result, bail};
use checks::{Check, CheckOutcome, checks};
use clap::{Args, ValueEnum};
use facts::{Facts, SideFacts};
use serde_json::{Value, json};
use std::path::PathBuf;
use steps::{Step, steps};

/// Protocol of replication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum PeerProtocol {
    /// Protocol Buffers.
    Pb,
    /// HTTP.
    Http,
}

impl PeerProtocol {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pb => "pb",
            Self::Http => "http",
        }
    }
}

/// Arguments of `quoit import plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// HTTP address of a Riak node.
    riak: String,
    /// HTTP address of a Quoit node.
    here: String,
    /// Protocol Buffers address of the Riak node [default: its host with port 8087].
    #[arg(long, value_name = "HOST:PORT")]
    riak_pb: Option<String>,
    /// Protocol Buffers address of the Quoit node [default: its host with port 8087].
    #[arg(long, value_name = "HOST:PORT")]
    here_pb: Option<String>,
    /// The riak.conf of a Riak node; repeat for each node with a different one. Only this file tells if Riak
    /// removes tombstones and old records. An advanced.config in the same directory is read as well.
    #[arg(long, value_name = "FILE")]
    riak_conf: Vec<PathBuf>,
    /// The advanced.config, if it is in another directory.
    #[arg(long, value_name = "FILE", requires = "riak_conf")]
    riak_advanced: Option<PathBuf>,
    /// Also include this bucket type of Riak; may be repeated. Needed for types without data, and for all
    /// types if Riak's folds are off.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Move from Riak to the cluster only. Records that only the cluster has are listed, and never sent to
    /// Riak.
    #[arg(long)]
    one_way: bool,
    /// Protocol of the replication between the clusters.
    #[arg(long, value_enum, default_value = "pb")]
    protocol: PeerProtocol,
    /// Name of the source queue of Riak that Quoit consumes.
    #[arg(long, default_value = "quoit", value_name = "NAME")]
    queue: String,
    /// Name of the source queue of Quoit that Riak consumes.
    #[arg(long, default_value = "riak", value_name = "NAME")]
    back_queue: String,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

impl PlanArgs {
    fn riak_pb(&self) -> String {
        pb_address(&self.riak, self.riak_pb.as_deref())
    }

    fn here_pb(&self) -> String {
        pb_address(&self.here, self.here_pb.as_deref())
    }
}

fn pb_address(url: &str, given: Option<&str>) -> String {
    given.map_or_else(|| format!("{}:8087", Api::new(url).host()), str::to_owned)
}

/// A plan.
struct Plan {
    is_both_ways: bool,
    checks: Vec<Check>,
    /// The steps; empty if the move is refused.
    steps: Vec<Step>,
    clients: Vec<String>,
    /// Names and versions of the nodes that were asked.
    riak: String,
    here: String,
}

pub(crate) fn plan(args: &PlanArgs) -> Result<()> {
    let facts = Facts::gather(args)?;
    let plan = made(args, &facts);
    match args.format {
        Format::Json => say!("{}", document(&plan)),
        Format::Human => print(&plan),
    }
    if !plan.steps.is_empty() {
        return Ok(());
    }
    let reasons: Vec<&str> =
        refusals(&plan.checks, plan.is_both_ways).map(|check| check.condition.as_str()).collect();
    let otherwise = match plan.is_both_ways {
        true => "mend that, or give --one-way for a plan with Riak as the authority",
        false => "mend that first",
    };
    bail!("no plan is given because of {}: {otherwise}", reasons.join(", "))
}

/// The checks because of which the move is refused.
fn refusals(checks: &[Check], is_both_ways: bool) -> impl Iterator<Item = &Check> {
    let is_refused = move |check: &&Check| match check.is_for_both_ways {
        true => is_both_ways && check.forbids_both_ways(),
        false => check.verdict == CheckOutcome::Bad,
    };
    checks.iter().filter(is_refused)
}

fn made(args: &PlanArgs, facts: &Facts) -> Plan {
    let is_both_ways = !args.one_way;
    let checks = checks(facts, &args.queue);
    let is_refused = refusals(&checks, is_both_ways).next().is_some();
    let steps = if is_refused { Vec::new() } else { steps(args, facts, is_both_ways) };
    let about = |side: &SideFacts| format!("{} ({})", side.node, side.version);
    let (riak, here) = (about(&facts.riak), about(&facts.here));
    Plan { is_both_ways, checks, steps, clients: clients(facts), riak, here }
}

/// Changes that the clients need.
fn clients(facts: &Facts) -> Vec<String> {
    vec![
        format!(
            "addresses of Protocol Buffers: {} instead of {}",
            facts.here.pb.join(" "),
            facts.riak.pb.join(" ")
        ),
        format!(
            "addresses of HTTP: {} instead of {}",
            facts.here.http.join(" "),
            facts.riak.http.join(" ")
        ),
        "nothing else: protocols, bucket names, vector clocks and siblings stay".to_owned(),
        "a context of a set or map that a client has kept from Riak is fetched again first"
            .to_owned(),
    ]
}

fn document(plan: &Plan) -> Value {
    json!({
        "riak": plan.riak,
        "here": plan.here,
        "direction": if plan.is_both_ways { "both ways" } else { "one way" },
        "ready": !plan.steps.is_empty(),
        "checks": plan.checks.iter().map(Check::document).collect::<Vec<_>>(),
        "steps": plan.steps.iter().map(Step::document).collect::<Vec<_>>(),
        "clients": plan.clients,
    })
}

fn print(plan: &Plan) {
    say!("From {} to {}\n\nChecks", plan.riak, plan.here);
    for check in &plan.checks {
        let verdict = match check.verdict {
            _ if check.is_for_both_ways && !plan.is_both_ways => "-      ",
            CheckOutcome::Good => "ok     ",
            CheckOutcome::ToDo => "to do  ",
            CheckOutcome::Bad => "BAD    ",
            CheckOutcome::Unknown => "UNKNOWN",
        };
        say!("  {verdict} {}: {}", check.condition, check.found);
        if !check.remedy.is_empty() && (plan.is_both_ways || !check.is_for_both_ways) {
            say!("          {}", check.remedy);
        }
    }
    if plan.steps.is_empty() {
        return;
    }
    let direction = if plan.is_both_ways { "both ways" } else { "one way, from Riak" };
    say!("\nThe move, {direction}");
    for (number, step) in plan.steps.iter().enumerate() {
        say!("\n{}. {}", number + 1, step.title);
        if !step.quoit_conf.is_empty() {
            say!("   in the configuration of every node of the cluster:");
            step.quoit_conf.iter().for_each(|line| say!("       {line}"));
        }
        if !step.riak_conf.is_empty() {
            say!("   in riak.conf of every node of Riak:");
            step.riak_conf.iter().for_each(|line| say!("       {line}"));
        }
        step.commands.iter().for_each(|line| say!("       {line}"));
        if !step.riak_commands.is_empty() {
            say!("   on every node of Riak:");
            step.riak_commands.iter().for_each(|line| say!("       {line}"));
        }
        step.notes.iter().for_each(|note| say!("   - {note}"));
    }
    say!("\nClients change");
    plan.clients.iter().for_each(|line| say!("  - {line}"));
}

//! `cluster plan`, `commit` and `clear`.

use super::member_table::{bar, membership, rule};
use crate::admin::{Answer, Api, document_of, plain, print};
use anyhow::Result;
use quoit_cli::Format;
use quoit_cli::figures::{duration, size};
use serde_json::{Value, json};
use std::fmt::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Prints the staged changes and their effects.
pub(super) fn show(api: &Api, format: Format) -> Result<()> {
    let plan = document_of(api.get("cluster/plan")?, format)?;
    print(&plan, format, page);
    Ok(())
}

/// Time limit for a node that has joined to become reachable.
const REACHABLE_LIMIT: Duration = Duration::from_secs(10);
/// Interval between attempts.
const REACHABLE_POLL: Duration = Duration::from_millis(100);

/// Commits the plan that was last shown.
pub(super) fn commit(api: &Api, format: Format) -> Result<()> {
    let answer = until_reachable(REACHABLE_LIMIT, || api.post("cluster/commit", Some(&json!({}))))?;
    let answer = document_of(answer, format)?;
    print(&answer, format, |document| plain(&document["message"]));
    Ok(())
}

/// Repeats a request up to `limit` while the node refuses because another node is not reachable: a node
/// that has just joined takes a moment to be detected as reachable.
fn until_reachable(limit: Duration, mut ask: impl FnMut() -> Result<Answer>) -> Result<Answer> {
    let began = Instant::now();
    loop {
        let answer = ask()?;
        let is_early = matches!(&answer, Answer::Refused { error, .. } if error == "not_up");
        if !is_early || began.elapsed() > limit {
            return Ok(answer);
        }
        sleep(REACHABLE_POLL);
    }
}

/// Discards the staged changes.
pub(super) fn clear(api: &Api, format: Format) -> Result<()> {
    let answer = document_of(api.delete("cluster/plan")?, format)?;
    print(&answer, format, |document| plain(&document["message"]));
    Ok(())
}

fn page(plan: &Value) -> String {
    let staged = plan["staged"].as_array().map(Vec::as_slice).unwrap_or_default();
    if staged.is_empty() {
        return "There are no staged changes".to_owned();
    }
    let mut page = format!("{}\nAction         Details(s)\n{}\n", bar("Staged Changes"), rule());
    for change in staged {
        let _ = writeln!(page, "{:<14} {}", plain(&change["action"]), plain(&change["details"]));
    }
    let _ = writeln!(page, "{}\n", rule());
    for warning in plan["warnings"].as_array().into_iter().flatten() {
        let _ = writeln!(page, "WARNING: {}\n", plain(warning));
    }
    let transitions = plan["transitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let plural = if transitions.len() == 1 { "transition" } else { "transitions" };
    let count = transitions.len();
    let _ = writeln!(page, "NOTE: Applying these changes will result in {count} cluster {plural}");
    for (number, transition) in transitions.iter().enumerate() {
        let hashes = "#".repeat(rule().len());
        let title = format!("After cluster transition {}/{count}", number + 1);
        let _ = writeln!(page, "\n{hashes}\n{title:^79}\n{hashes}\n");
        page.push_str(&transition_page(transition));
    }
    page.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn transition_page(transition: &Value) -> String {
    let mut page = format!("{}\n\n", membership(transition));
    for warning in transition["warnings"].as_array().into_iter().flatten() {
        let _ = writeln!(page, "WARNING: {}\n", plain(warning));
    }
    if let Some(reassigned) = transition["reassigned"].as_u64().filter(|count| *count > 0) {
        let _ = writeln!(page, "Partitions reassigned from cluster changes: {reassigned}");
    }
    let transfers = transition["transfers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let total: u64 = transfers.iter().filter_map(|each| each["partitions"].as_u64()).sum();
    let _ = writeln!(page, "Transfers resulting from cluster changes: {total}");
    for each in transfers {
        let (from, to) = (plain(&each["from"]), plain(&each["to"]));
        let partitions = &each["partitions"];
        let amount = amount(each, ", ");
        let _ = if each["has_source"] == false {
            let source = format!("from other replicas, in place of {from}'s");
            writeln!(page, "  {partitions} copies are made anew at {to} {source}{amount}")
        } else {
            writeln!(page, "  {partitions} transfers from {from} to {to}{amount}")
        };
    }
    let amount = amount(transition, "");
    if total > 0 && !amount.is_empty() {
        let _ = writeln!(page, "Data to be moved: {amount}");
    }
    page
}

/// The amount of data to transfer and the estimated time, as far as known, preceded by `before`.
fn amount(told: &Value, before: &str) -> String {
    match (&told["bytes"], &told["secs"]) {
        (Value::Null, _) => String::new(),
        (bytes, Value::Null) => format!("{before}about {}", size(bytes)),
        (bytes, secs) => format!("{before}about {} in {}", size(bytes), duration(secs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(error: &str) -> Answer {
        let (error, message) = (error.to_owned(), "b@h is not reachable".to_owned());
        Answer::Refused { error, message, document: json!({}) }
    }

    #[test]
    fn a_commit_waits_until_the_node_that_has_just_joined_can_be_reached() {
        let mut asked = 0;
        let answer = until_reachable(REACHABLE_LIMIT, || {
            asked += 1;
            Ok(if asked < 3 { refused("not_up") } else { Answer::Done(json!({"message": "done"})) })
        });
        assert!(matches!(answer, Ok(Answer::Done(_))));
        assert_eq!(asked, 3);
    }

    #[test]
    fn a_commit_waits_neither_for_ever_nor_for_another_reason() {
        let ask = |error: &str, limit| until_reachable(limit, || Ok(refused(error)));
        assert!(matches!(ask("not_up", Duration::ZERO), Ok(Answer::Refused { .. })));
        assert!(matches!(ask("plan_changed", Duration::MAX), Ok(Answer::Refused { .. })));
    }

    #[test]
    fn nothing_staged_is_said() {
        assert_eq!(page(&json!({"staged": []})), "There are no staged changes");
    }

    #[test]
    fn nothing_is_said_to_come_from_a_node_that_is_lost() {
        let transfer = |from: &str, source: bool| -> Value {
            json!({"from": from, "to": "b@h", "partitions": 3, "has_source": source})
        };
        let page = page(&json!({
            "staged": [{"action": "force-replace", "details": "c@h with b@h"}],
            "transitions": [{"transfers": [transfer("c@h", false), transfer("a@h", true)]}],
        }));
        let anew = "3 copies are made anew at b@h from other replicas, in place of c@h's";
        assert!(page.contains(anew), "{page}");
        assert!(page.contains("3 transfers from a@h to b@h"), "{page}");
    }

    #[test]
    fn a_plan_tells_actions_transitions_warnings_and_transfers() {
        let member = |name: &str, now: f64, then: f64| {
            json!({"name": name, "status": "valid", "ring_percent": now,
                   "pending_percent": then, "location": null})
        };
        let plan = json!({
            "staged": [{"action": "join", "details": "b@h"}, {"action": "leave", "details": "c@h"}],
            "warnings": ["All of c@h replicas will be lost"],
            "transitions": [{
                "members": [member("a@h", 100.0, 50.0), member("b@h", 0.0, 50.0)],
                "warnings": ["Not all replicas will be on distinct nodes"],
                "reassigned": 2,
                "transfers": [
                    {"from": "a@h", "to": "b@h", "partitions": 32, "bytes": 1536, "secs": 90.0},
                    {"from": "c@h", "to": "b@h", "partitions": 1, "bytes": 100, "secs": null},
                ],
                "bytes": 1636, "secs": 90.0,
            }],
        });
        let page = page(&plan);
        let expected = "\
=============================== Staged Changes ================================
Action         Details(s)
-------------------------------------------------------------------------------
join           b@h
leave          c@h
-------------------------------------------------------------------------------

WARNING: All of c@h replicas will be lost

NOTE: Applying these changes will result in 1 cluster transition

###############################################################################
                         After cluster transition 1/1
###############################################################################
";
        assert!(page.starts_with(expected), "{page}");
        let end = "
Valid:2 / Leaving:0 / Exiting:0 / Joining:0 / Down:0

WARNING: Not all replicas will be on distinct nodes

Partitions reassigned from cluster changes: 2
Transfers resulting from cluster changes: 33
  32 transfers from a@h to b@h, about 1.5 KB in 1 min 30 s
  1 transfers from c@h to b@h, about 100 B
Data to be moved: about 1.6 KB in 1 min 30 s";
        assert!(page.ends_with(end), "{page}");
    }
}

//! Commands that show members, partitions and transfers.

use super::member_table::{bar, membership, name_list, percent};
use super::{Api, document_of, of_node, plain, print, segment};
use anyhow::{Result, bail};
use clap::Args;
use quoit_cli::columns::columns;
use quoit_cli::{Format, say, value_at};
use serde_json::Value;
use std::thread::sleep;
use std::time::Duration;

/// Prints the members and their shares.
pub(crate) fn member_status(api: &Api, format: Format) -> Result<()> {
    let document = document_of(api.get("cluster")?, format)?;
    print(&document, format, membership);
    Ok(())
}

/// Prints the members, their reachability, and their shares.
pub(super) fn cluster_status(api: &Api, format: Format) -> Result<()> {
    let document = document_of(api.get("cluster")?, format)?;
    print(&document, format, |document| {
        let heading = ["", "node", "status", "avail", "ring", "pending", "protocol", "location"];
        let members = document["members"].as_array().into_iter().flatten();
        let rows = members.map(|member| {
            let claimant = if member["name"] == document["claimant"] { "(C)" } else { "" };
            let pending = &member["pending_percent"];
            let pending = if pending.is_null() { String::new() } else { percent(pending) };
            let location = member["location"].as_str().unwrap_or_default().to_owned();
            let (name, status) = (plain(&member["name"]), member_state(member));
            let available = plain(&member["availability"]);
            let ring = percent(&member["ring_percent"]);
            let versions = protocol(member);
            [claimant.to_owned(), name, status, available, ring, pending, versions, location]
        });
        let table = columns(std::iter::once(heading.map(str::to_owned)).chain(rows));
        format!(
            "---- Cluster Status ----\nRing ready: {}\n\n{table}\n\n\
             Key: (C) = Claimant; availability marked with '!' is unexpected",
            document["ring_ready"]
        )
    });
    Ok(())
}

/// The status of a member, with its membership if `down` hides that.
fn member_state(member: &Value) -> String {
    let (status, membership) = (plain(&member["status"]), plain(&member["membership"]));
    match membership.as_str() {
        "joining" | "leaving" | "exiting" if status == "down" => format!("down, {membership}"),
        _ => status,
    }
}

/// Internode protocol versions that a member supports, for example `1-2`.
fn protocol(member: &Value) -> String {
    let [oldest, newest] = ["/protocol_versions/0", "/protocol_versions/1"]
        .map(|pointer| plain(value_at(member, pointer)));
    format!("{oldest}-{newest}")
}

/// Prints the claimant, pending transfers and unreachable nodes.
pub(crate) fn ring_status(api: &Api, format: Format) -> Result<()> {
    let document = document_of(api.get("cluster/ring")?, format)?;
    print(&document, format, ring_page);
    Ok(())
}

fn ring_page(document: &Value) -> String {
    let claimant = &document["claimant"];
    let mut parts = vec![format!(
        "{}\nClaimant:  {}\nStatus:     {}\nRing Ready: {}",
        bar("Claimant"),
        claimant["name"].as_str().unwrap_or("none"),
        plain(&claimant["status"]),
        document["ring_ready"],
    )];
    let pending = document["pending"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pending: Vec<String> = pending.iter().map(pending_lines).collect();
    let pending =
        if pending.is_empty() { "No pending changes.".to_owned() } else { pending.join("\n\n") };
    parts.push(format!("{}\n{pending}", bar("Ownership Handoff")));
    let unreachable = document["unreachable"].as_array().map(Vec::as_slice).unwrap_or_default();
    let unreachable = if unreachable.is_empty() {
        "All nodes are up and reachable".to_owned()
    } else {
        let names: Vec<String> = unreachable.iter().map(plain).collect();
        format!(
            "The following nodes are unreachable: {}\n\nWARNING: Changes of the ring wait for \
             them. If they stay away, mark them as down\n(quoit admin down NODE). Those that were \
             to get partitions and are lost for good have to be\nremoved (quoit admin cluster \
             force-remove NODE) or replaced (force-replace).",
            names.join(", ")
        )
    };
    parts.push(format!("{}\n{unreachable}", bar("Unreachable Nodes")));
    parts.join("\n\n")
}

fn pending_lines(change: &Value) -> String {
    let owner = format!("Owner:      {}", plain(&change["owner"]));
    let next = format!("Next Owner: {}", plain(&change["next_owner"]));
    let mut lines = vec![owner, next];
    for partition in change["partitions"].as_array().into_iter().flatten() {
        lines.push(format!("\nIndex: {}", plain(&partition["index"])));
        if partition["complete"] == true {
            lines.push("  All transfers complete. Waiting for the other partitions.".to_owned());
        } else {
            lines.push("  Waiting on: [riak_kv]".to_owned());
        }
    }
    lines.join("\n")
}

/// Prints whether all nodes agree on the ring; fails if they do not.
pub(crate) fn ring_ready(api: &Api, format: Format) -> Result<()> {
    let document = document_of(api.get("cluster/ring-ready")?, format)?;
    let is_ready = value_at(&document, "/ready") == true;
    print(&document, format, |document| {
        if is_ready {
            format!("TRUE All nodes agree on the ring {}", name_list(&document["nodes"]))
        } else {
            format!("FALSE {}", plain(&document["reason"]))
        }
    });
    if !is_ready {
        bail!("the nodes do not agree on the ring");
    }
    Ok(())
}

/// Prints the services of the node.
pub(crate) fn services(api: &Api, format: Format) -> Result<()> {
    let document = document_of(api.get("services")?, format)?;
    print(&document, format, |document| {
        let names = document["services"].as_array().into_iter().flatten();
        format!("[{}]", names.map(plain).collect::<Vec<_>>().join(","))
    });
    Ok(())
}

/// Interval between checks for a service.
const SERVICE_POLL: Duration = Duration::from_secs(3);

#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Name of the service, for example riak_kv.
    service: String,
    /// Name of the node [default: the node asked].
    node: Option<String>,
}

/// Waits until a node has a service.
pub(crate) fn wait_for_service(api: &Api, args: &WaitArgs, format: Format) -> Result<()> {
    let path = of_node("services", args.node.as_deref());
    loop {
        // A node that is starting does not answer yet.
        if let Ok(answer) = api.get(&path) {
            let document = document_of(answer, format)?;
            let services =
                value_at(&document, "/services").as_array().map(Vec::as_slice).unwrap_or_default();
            if services.iter().any(|service| *service == *args.service) {
                print(&document, format, |_| format!("{} is up", args.service));
                return Ok(());
            }
            if let Some(fault) = unknown_service(&args.service, services) {
                bail!("{fault}");
            }
        }
        if format == Format::Human {
            say!("{} is not up", args.service);
        }
        sleep(SERVICE_POLL);
    }
}

/// The error for a service that the node does not know; `None` if its services are not up yet. A node
/// starts all its services together.
fn unknown_service(service: &str, services: &[Value]) -> Option<String> {
    let names: Vec<String> = services.iter().map(plain).collect();
    let is_unknown = !names.is_empty() && !names.iter().any(|name| name == service);
    is_unknown
        .then(|| format!("{service} is not a service of the node: it has {}", names.join(", ")))
}

/// Prints the partitions of a node.
pub(super) fn partitions(api: &Api, node: Option<&str>, format: Format) -> Result<()> {
    let document = document_of(api.get(&of_node("cluster/partitions", node))?, format)?;
    print(&document, format, |document| {
        let heading = ["type", "index", "id"].map(str::to_owned);
        let partitions = document["partitions"].as_array().into_iter().flatten();
        let rows = partitions
            .map(|each| [plain(&each["type"]), plain(&each["index"]), plain(&each["id"])]);
        let table = columns(std::iter::once(heading).chain(rows));
        format!("Partitions owned by {}:\n{table}", plain(&document["node"]))
    });
    Ok(())
}

/// Prints one partition.
pub(super) fn partition(api: &Api, partition: &str, format: Format) -> Result<()> {
    let Some((by @ ("id" | "index"), number)) = partition.split_once('=') else {
        bail!("{partition} names no partition: write id=N or index=N");
    };
    let path = format!("cluster/partition?{by}={}", segment(number));
    let document = document_of(api.get(&path)?, format)?;
    print(&document, format, |document| {
        let heading = ["index", "id", "owner", "replicas"].map(str::to_owned);
        let primaries = document["primaries"].as_array().into_iter().flatten();
        let primaries: Vec<String> = primaries.map(plain).collect();
        let of = |name: &str| plain(&document[name]);
        columns([heading, [of("index"), of("id"), of("owner"), primaries.join(", ")]])
    });
    Ok(())
}

/// Prints the number of partitions.
pub(super) fn partition_count(api: &Api, node: Option<&str>, format: Format) -> Result<()> {
    let document = document_of(api.get(&of_node("cluster/partition-count", node))?, format)?;
    print(&document, format, |document| match node {
        None => format!("Cluster-wide partition-count: {}", document["ring_size"]),
        Some(_) => {
            let heading = ["node", "partitions", "pct"].map(str::to_owned);
            let partitions = plain(&document["partitions"]);
            let row = [plain(&document["node"]), partitions, percent(&document["percent"])];
            columns([heading, row])
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_quiet_ring_says_that_nothing_is_pending() {
        let document = json!({
            "claimant": {"name": "dev1@127.0.0.1", "status": "up"},
            "ring_ready": true, "pending": [], "unreachable": [],
        });
        let page = ring_page(&document);
        for line in [
            "Claimant:  dev1@127.0.0.1",
            "Ring Ready: true",
            "No pending changes.",
            "All nodes are up and reachable",
        ] {
            assert!(page.lines().any(|each| each == line), "{page}");
        }
    }

    #[test]
    fn a_service_that_the_node_does_not_know_is_not_waited_for() {
        let services = [json!("riak_kv"), json!("riak_pipe")];
        assert_eq!(unknown_service("riak_kv", &services), None);
        assert_eq!(unknown_service("riak_search", &[]), None);
        let fault = unknown_service("riak_search", &services).unwrap();
        assert_eq!(fault, "riak_search is not a service of the node: it has riak_kv, riak_pipe");
    }

    #[test]
    fn what_moves_and_who_is_away_is_named() {
        let document = json!({
            "claimant": {"name": null, "status": "down"},
            "ring_ready": false,
            "pending": [{"owner": "a@h", "next_owner": "b@h", "partitions": [
                {"index": "0", "complete": true}, {"index": "22", "complete": false}]}],
            "unreachable": ["c@h", "d@h"],
        });
        let page = ring_page(&document);
        for part in [
            "Claimant:  none",
            "Owner:      a@h\nNext Owner: b@h\n\nIndex: 0\n  All transfers complete",
            "Index: 22\n  Waiting on: [riak_kv]",
            "The following nodes are unreachable: c@h, d@h",
        ] {
            assert!(page.contains(part), "{page}");
        }
    }
}

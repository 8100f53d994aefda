//! `ping`, `status` and `stat`.

use super::{Api, done, plain, print};
use crate::config_command::Format;
use anyhow::Result;
use clap::Subcommand;
use serde_json::Value;
use std::fmt::Write;

#[derive(Subcommand, Debug)]
pub(crate) enum StatCommand {
    /// Print the statistics whose names match, with their values.
    Show {
        /// Names such as riak.riak_kv.node.gets; * stands for one level, ** for any number.
        #[arg(default_value = "**")]
        patterns: Vec<String>,
    },
    /// Print the names of the statistics that match, with their data points.
    Info {
        /// Names as for show.
        #[arg(default_value = "**")]
        patterns: Vec<String>,
    },
}

/// Prints all statistics as `name : value` lines.
pub(crate) fn status(api: &Api, format: Format) -> Result<()> {
    let answer = done(api.get("status")?, format)?;
    print(&answer, format, |document| {
        let mut lines = String::new();
        let mut line = |name: &str, value: &Value| {
            let _ = writeln!(lines, "{name} : {}", plain(value));
        };
        for name in ["node", "version", "riak_kv_version", "uptime_secs"] {
            line(name, &document[name]);
        }
        for (prefix, group) in [("engine_", "engine"), ("", "stats")] {
            for (name, value) in document[group].as_object().into_iter().flatten() {
                line(&format!("{prefix}{name}"), value);
            }
        }
        for told in loss_lines(&document["losses"]) {
            lines.push_str(&told);
            lines.push('\n');
        }
        lines.trim_end().to_owned()
    });
    Ok(())
}

/// What a document tells of copies that have lost records.
fn loss_lines(losses: &Value) -> Vec<String> {
    let copies = losses["incomplete_copies"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = copies
        .map(|copy| {
            let (node, count) = (plain(&copy["node"]), &copy["partition_count"]);
            format!("incomplete_copies : {count} of {node}, which lost records and gets them back")
        })
        .collect();
    let unsure = losses["possibly_incomplete_partitions"].as_array();
    if let Some(unsure) = unsure.filter(|unsure| !unsure.is_empty()) {
        let numbers: Vec<String> = unsure.iter().map(plain).collect();
        lines.push(format!(
            "possibly incomplete : {} partitions, all copies of which lost records: {} \
             (quoit admin accept-losses takes note of that)",
            unsure.len(),
            numbers.join(" ")
        ));
    }
    lines
}

/// Takes note of partitions that may have lost records for good.
pub(crate) fn accept_losses(api: &Api, format: Format) -> Result<()> {
    let answer = done(api.post("losses/accept", None)?, format)?;
    print(&answer, format, |document| {
        let count = document["possibly_incomplete_partitions"].as_array().map_or(0, Vec::len);
        format!("{count} partitions are not told as possibly incomplete any more")
    });
    Ok(())
}

/// Prints statistics by name.
pub(crate) fn stat(api: &Api, command: &StatCommand, format: Format) -> Result<()> {
    let (patterns, values) = match command {
        StatCommand::Show { patterns } => (patterns, true),
        StatCommand::Info { patterns } => (patterns, false),
    };
    let mut found: Vec<Value> = Vec::new();
    for pattern in patterns {
        let path = format!("stat?pattern={}", super::segment(pattern));
        let answer = done(api.get(&path)?, format)?;
        found.extend(answer["stats"].as_array().cloned().unwrap_or_default());
    }
    let document = serde_json::json!({ "stats": found });
    print(&document, format, |_| {
        let lines = found.iter().map(|stat| stat_line(stat, values));
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

fn stat_line(stat: &Value, values: bool) -> String {
    let points = stat["datapoints"].as_object();
    let points = points.into_iter().flatten().map(|(name, value)| {
        if values { format!("{name}={}", plain(value)) } else { name.clone() }
    });
    format!("{}: {}", plain(&stat["name"]), points.collect::<Vec<_>>().join(" "))
}

//! `jobs`: the running MapReduce jobs of the node.

use super::{Api, document_of};
use anyhow::Result;
use clap::Subcommand;
use quoit_cli::Format;
use quoit_cli::figures::size;
use serde_json::Value;

#[derive(Subcommand, Debug)]
pub(crate) enum JobsCommand {
    /// Print the running MapReduce jobs of the node with their progress.
    List,
    /// Stop a job. Its client gets an error.
    Stop {
        /// Number of the job.
        id: u64,
    },
}

/// Executes a command for jobs.
pub(crate) fn jobs(api: &Api, command: Option<&JobsCommand>, format: Format) -> Result<()> {
    match command {
        None | Some(JobsCommand::List) => {
            let document = document_of(api.get("jobs")?, format)?;
            super::print(&document, format, listed);
        }
        Some(JobsCommand::Stop { id }) => {
            let document = document_of(api.delete(&format!("jobs/{id}"))?, format)?;
            super::print(&document, format, |document| format!("stopped: {}", line(document)));
        }
    }
    Ok(())
}

fn listed(document: &Value) -> String {
    let count = |name: &str| document[name].as_u64().unwrap_or_default();
    let all = document["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<String> = all.iter().map(line).collect();
    lines.push(format!(
        "{} MapReduce jobs run; {} were begun, {} of them failed, {} were refused",
        count("active"),
        count("begun"),
        count("failed"),
        count("refused"),
    ));
    lines.join("\n")
}

fn line(job: &Value) -> String {
    let phases = job["phases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let phases: Vec<&str> = phases.iter().filter_map(Value::as_str).collect();
    let count = |name: &str| job[name].as_u64().unwrap_or_default();
    format!(
        "{}: {}; {}; {} s; {} inputs, {} objects read, {} outputs, {} kept",
        job["id"],
        job["inputs"].as_str().unwrap_or_default(),
        if phases.is_empty() { "no phases".to_owned() } else { phases.join(", ") },
        job["elapsed_secs"],
        count("input_count"),
        count("read_count"),
        count("output_count"),
        size(&job["held_bytes"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_is_told_with_how_far_it_is() {
        let job = json!({"id": 3, "inputs": "bucket default/b", "phases": ["map_object_value", "reduce_sum"],
            "elapsed_secs": 1.5, "input_count": 10, "read_count": 9, "output_count": 0, "held_bytes": 0});
        let text =
            listed(&json!({"jobs": [job], "active": 1, "begun": 4, "failed": 2, "refused": 0}));
        let expected = "3: bucket default/b; map_object_value, reduce_sum; 1.5 s; 10 inputs, \
                        9 objects read, 0 outputs, 0 B kept\n\
                        1 MapReduce jobs run; 4 were begun, 2 of them failed, 0 were refused";
        assert_eq!(text, expected);
    }
}

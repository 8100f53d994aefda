//! `quoit repl bootstrap`: copies all records of another cluster.

use super::Caller;
use anyhow::{Result, bail};
use clap::Subcommand;
use quoit_cli::{Format, figures, say, value_at};
use quoit_progress::{Progress, Unit};
use serde_json::{Value, json};
use std::time::Duration;

/// Interval between checks of the nodes' progress.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Subcommand, Debug)]
pub(super) enum BootstrapCommand {
    /// Start, or continue with the rest.
    Start {
        /// HOST:PORT:pb of nodes of the other cluster, separated by | or spaces. Name all of them.
        #[arg(required = true)]
        peers: Vec<String>,
        /// Wait until everything is copied, and show the progress.
        #[arg(long)]
        wait: bool,
    },
    /// Print the progress of each node.
    Status {
        /// Wait until everything is copied, and show the progress.
        #[arg(long)]
        wait: bool,
    },
    /// Pause all nodes.
    Stop,
    /// Resume all nodes.
    Resume,
}

/// Executes a command. It applies to all nodes, whichever is asked.
pub(super) fn run(caller: Caller, command: &BootstrapCommand) -> Result<()> {
    let all = Caller { all: true, ..caller };
    match command {
        BootstrapCommand::Start { peers, wait } => {
            let peers: Vec<&str> = peers.iter().flat_map(|list| list.split('|')).collect();
            let one = Caller { all: false, ..all };
            start(&one, &json!({"command": "bootstrap", "peers": peers}))?;
            let all = Caller { all: true, ..one };
            if *wait { wait_for(&all) } else { Ok(()) }
        }
        BootstrapCommand::Status { wait: true } => wait_for(&all),
        BootstrapCommand::Status { wait: false } => all.show(|result| line(&result["bootstrap"])),
        BootstrapCommand::Stop => all.change(&json!({"command": "bootstrap_stop"})),
        BootstrapCommand::Resume => all.change(&json!({"command": "bootstrap_resume"})),
    }
}

fn start(caller: &Caller, command: &Value) -> Result<()> {
    for (_, done) in caller.call(command)? {
        let result = value_at(&done, "/result");
        match caller.format {
            Format::Json => say!("{result}"),
            Format::Human => say!("{} nodes copy their shares", result["nodes"]),
        }
        let faults = result["faults"].as_array().map(Vec::as_slice).unwrap_or_default();
        faults.iter().for_each(|fault| say!("{}", fault.as_str().unwrap_or_default()));
        if !faults.is_empty() {
            bail!("{} nodes have not begun", faults.len());
        }
    }
    Ok(())
}

/// Shows the progress of all nodes until they have copied everything.
fn wait_for(caller: &Caller) -> Result<()> {
    let mut progress: Option<Progress> = None;
    loop {
        let nodes = caller.call(&json!({"command": "status"}))?;
        let of = |done: &Value, name: &str| {
            value_at(done, "/result/bootstrap")[name].as_u64().unwrap_or(0)
        };
        let sum = |name: &str| nodes.iter().map(|(_, done)| of(done, name)).sum::<u64>();
        let state = |done: &Value| value_at(done, "/result/bootstrap/state").clone();
        if nodes.iter().any(|(_, done)| state(done) == "stopped") {
            bail!("the bootstrap is stopped: quoit repl bootstrap resume continues it");
        }
        let is_over = |done: &Value| state(done) == "copied" || state(done) == "never";
        if nodes.iter().all(|(_, done)| is_over(done)) {
            if let Some(progress) = &mut progress {
                progress.clear();
            }
            let size = figures::size(&json!(sum("byte_count")));
            say!("all is copied: {} records, {size}", sum("record_count"));
            return Ok(());
        }
        let progress = progress.get_or_insert_with(|| {
            let total = sum("partition_count");
            let began_at = sum("copied_count");
            Progress::on_stderr("copying", Unit::Items("partitions"), Some(total))
                .beginning_at(began_at)
        });
        progress.show(sum("copied_count"), || {
            let fault = nodes.iter().find_map(|(_, done)| {
                value_at(done, "/result/bootstrap/fault").as_str().map(str::to_owned)
            });
            fault.unwrap_or_else(|| figures::size(&json!(sum("byte_count"))))
        });
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// The progress of a node.
pub(super) fn line(bootstrap: &Value) -> String {
    let fault = bootstrap["fault"].as_str().map(|fault| format!(": {fault}")).unwrap_or_default();
    format!(
        "  bootstrap: {}, {} of {} partitions, {} records, {}{fault}\n",
        bootstrap["state"].as_str().unwrap_or("unknown"),
        bootstrap["copied_count"],
        bootstrap["partition_count"],
        bootstrap["record_count"],
        figures::size(&bootstrap["byte_count"]),
    )
}

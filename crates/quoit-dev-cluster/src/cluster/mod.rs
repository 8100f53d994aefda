//! `quoit dev-cluster`: several joined nodes on this machine, for development.

mod join;
mod managed;
mod node;
mod table;

use anyhow::{Context, Result, bail};
use clap::Args;
pub(crate) use managed::{ClusterSetup, ManagedCluster};
use node::{Node, NodeSetup, Starting, describe_exit};
use quoit_cli::say;
use quoit_process::{StopRequest, ready_file};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use table::State;
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// Time limit for the nodes to stop, a little longer than a node takes at most.
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// Starts several nodes on 127.0.0.1 and joins them to one cluster, until Ctrl-C or SIGTERM.
///
/// Each node is a process of its own with its own ports and directory. A node that dies is reported and not
/// restarted. Started again with the same directory, the cluster continues with its data, and also starts
/// nodes that were added later and have their data there.
#[derive(Args, Debug)]
pub struct DevClusterArgs {
    /// Number of nodes.
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,
    /// Directory of the nodes' data and logs.
    #[arg(long, value_name = "DIR", default_value = "./dev-cluster")]
    base_dir: PathBuf,
    /// Ports: node i gets PORT + 10 * i + 7 (Protocol Buffers), + 8 (HTTP), + 9 (other nodes) [default:
    /// those of the last start, or free ones].
    #[arg(long, value_name = "PORT")]
    base_port: Option<u16>,
    /// Set one configuration key of all nodes; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// File that gets a JSON record {"nodes":[...]} with the records of all nodes when they have joined.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
}

/// Runs the cluster until it is told to stop.
///
/// # Errors
///
/// If a node does not start or join, or all nodes have ended.
pub fn run(args: &DevClusterArgs) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        let mut stop = StopRequest::listen()?;
        let mut cluster = Cluster::default();
        let outcome = tokio::select! {
            biased;
            _ = stop.wait() => Ok(()),
            outcome = cluster.run(args) => outcome,
        };
        if let Some(path) = &args.ready_file {
            ready_file::remove(path);
        }
        cluster.stop().await;
        outcome
    })
}

/// The nodes and their processes.
#[derive(Default)]
struct Cluster {
    nodes: Vec<(Node, State)>,
    /// Tasks that return the process id and exit status of each process that ends.
    processes: JoinSet<(u32, std::io::Result<ExitStatus>)>,
}

impl Cluster {
    async fn run(&mut self, args: &DevClusterArgs) -> Result<()> {
        if let Some(path) = &args.ready_file {
            ready_file::remove_stale(path)?;
        }
        let place = |number| NodeSetup::new(&args.base_dir, number, args.base_port, &args.set);
        self.start((1..=args.nodes).map(place).collect::<Result<Vec<_>>>()?).await?;
        let added = self.added_members(node::others(&args.base_dir, args.nodes)).await?;
        self.start(added.into_iter().map(place).collect::<Result<Vec<_>>>()?).await?;
        let records: Vec<_> = self.nodes.iter().map(|(node, _)| node.record.clone()).collect();
        join::join(&records, &args.base_dir).await?;
        self.announce();
        if let Some(path) = &args.ready_file {
            ready_file::write(path, &serde_json::json!({ "nodes": records }))?;
        }
        self.report_ends().await
    }

    /// Starts nodes and waits until they serve.
    async fn start(&mut self, places: Vec<NodeSetup>) -> Result<()> {
        let starting = places.into_iter().map(Starting::spawn);
        for starting in starting.collect::<Result<Vec<_>>>()? {
            let (node, child) = starting.ready().await?;
            self.watch(node.record.pid, child);
            self.nodes.push((node, State::Up));
        }
        Ok(())
    }

    /// Of these node numbers, those that are members. They were added by hand, and the cluster is not
    /// complete without them. The others have left it.
    async fn added_members(&self, mut numbers: Vec<u16>) -> Result<Vec<u16>> {
        let Some((first, _)) = self.nodes.first().filter(|_| !numbers.is_empty()) else {
            return Ok(Vec::new());
        };
        let members = join::members_known_to(&first.record).await?;
        numbers.retain(|number| members.contains(&node::name(*number)));
        Ok(numbers)
    }

    fn watch(&mut self, pid: u32, mut child: Child) {
        self.processes.spawn(async move { (pid, child.wait().await) });
    }

    fn announce(&self) {
        say!("{}", table::table(&self.nodes));
        say!("{} nodes serve as one cluster; Ctrl-C stops them", self.nodes.len());
        if let Some((node, _)) = self.nodes.first() {
            let (program, http) = (node::program(), &node.record.http);
            say!("look at it with: {program} admin --url http://{http} member-status");
        }
    }

    /// Reports every node that ends, until none is left.
    async fn report_ends(&mut self) -> Result<()> {
        while let Some(ended) = self.processes.join_next().await {
            let (pid, status) = ended.context("waiting for a node")?;
            let status = status.context("waiting for a node")?;
            let Some((node, state)) =
                self.nodes.iter_mut().find(|(node, _)| node.record.pid == pid)
            else {
                continue;
            };
            *state = State::Ended(describe_exit(status));
            say!(
                "{} (pid {pid}) {}; its log: {}",
                node.place.name,
                describe_exit(status),
                node.place.log().display()
            );
            say!("start it again with: {}", node.command());
        }
        bail!("all nodes have ended")
    }

    /// Stops the running nodes and waits for them.
    async fn stop(mut self) {
        let limit = Instant::now() + STOP_LIMIT;
        let running = self.nodes.iter().filter(|(_, state)| *state == State::Up);
        let mut running: Vec<u32> = running.map(|(node, _)| node.record.pid).collect();
        running.iter().for_each(|pid| node::signal(*pid, Signal::TERM));
        while let Ok(Some(ended)) = timeout_at(limit, self.processes.join_next()).await {
            if let Ok((pid, _)) = ended {
                running.retain(|other| *other != pid);
            }
        }
        for pid in running {
            say!("pid {pid} does not stop and is ended");
            node::signal(pid, Signal::KILL);
        }
        while self.processes.join_next().await.is_some() {}
    }
}

//! A development cluster that another part of this program changes and stops.

use super::node::{self, Node, NodeSetup, Record, Starting, describe_exit};
use super::table::State;
use super::{Cluster, join};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::path::PathBuf;

/// Directory, settings and program of a managed cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSetup {
    /// Directory of the nodes' data and logs.
    pub(crate) base_dir: PathBuf,
    /// `KEY=VALUE` settings of all nodes.
    pub(crate) settings: Vec<String>,
    /// The program that the nodes run; `None` = this program.
    pub(crate) program: Option<PathBuf>,
}

impl ClusterSetup {
    fn node(&self, number: u16) -> Result<NodeSetup> {
        let place = NodeSetup::new(&self.base_dir, number, None, &self.settings)?;
        Ok(place.run_by(self.program.clone()))
    }
}

/// A cluster on this machine. Its nodes, numbered from 1, are stopped when this is dropped.
pub(crate) struct ManagedCluster {
    place: ClusterSetup,
    cluster: Cluster,
}

impl ManagedCluster {
    pub(crate) fn new(place: ClusterSetup) -> Self {
        Self { place, cluster: Cluster::default() }
    }

    /// Addresses of all nodes in the order of their numbers, including nodes that have ended.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&str, &str)> {
        let records = self.cluster.nodes.iter().map(|(node, _)| &node.record);
        records.map(|record| (record.pb.as_str(), record.http.as_str()))
    }

    /// Starts further nodes and joins them to the running ones.
    pub(crate) async fn add(&mut self, count: u16) -> Result<()> {
        let first =
            u16::try_from(self.cluster.nodes.len() + 1).context("the cluster is too large")?;
        let places = (first..first.saturating_add(count)).map(|number| self.place.node(number));
        self.cluster.start(places.collect::<Result<_>>()?).await?;
        self.note_ends();
        let is_up = |(_, state): &&(Node, State)| *state == State::Up;
        let members = self.cluster.nodes.iter().filter(is_up);
        let records: Vec<Record> = members.map(|(node, _)| node.record.clone()).collect();
        join::join(&records, &self.place.base_dir).await
    }

    /// Kills a node, as in a crash, and waits until it has ended.
    pub(crate) async fn kill(&mut self, number: u16) -> Result<()> {
        let pid = self.pid_of(number)?;
        node::signal(pid, Signal::KILL);
        while self.is_up(pid) {
            let ended = self.cluster.processes.join_next().await;
            let Some(ended) = ended else { bail!("node {number} is not watched") };
            let (pid, status) = ended.context("waiting for a node")?;
            self.note_end(pid, status);
        }
        Ok(())
    }

    /// Suspends a node's process.
    pub(crate) fn pause(&mut self, number: u16) -> Result<()> {
        self.pid_of(number).map(|pid| node::signal(pid, Signal::STOP))
    }

    /// Resumes a suspended node.
    pub(crate) fn resume(&mut self, number: u16) -> Result<()> {
        self.pid_of(number).map(|pid| node::signal(pid, Signal::CONT))
    }

    /// Starts a node that has ended, with its data and addresses, and waits until it serves.
    pub(crate) async fn start_again(&mut self, number: u16) -> Result<()> {
        self.note_ends();
        if self.entry(number)?.1 == State::Up {
            bail!("node {number} runs: kill it first");
        }
        let (node, child) = Starting::spawn(self.place.node(number)?)?.ready().await?;
        self.cluster.watch(node.record.pid, child);
        *self.entry(number)? = (node, State::Up);
        Ok(())
    }

    /// Stops all nodes in an orderly way.
    pub(crate) async fn stop(mut self) {
        self.note_ends();
        // A suspended node would not react to the signal.
        let running = self.cluster.nodes.iter().filter(|(_, state)| *state == State::Up);
        running.for_each(|(node, _)| node::signal(node.record.pid, Signal::CONT));
        self.cluster.stop().await;
    }

    /// The entry of a node by its number, from 1.
    fn entry(&mut self, number: u16) -> Result<&mut (Node, State)> {
        let count = self.cluster.nodes.len();
        let index = usize::from(number).checked_sub(1);
        let entry = index.and_then(|index| self.cluster.nodes.get_mut(index));
        entry.with_context(|| format!("there is no node {number}: the cluster has {count}"))
    }

    /// The process id of a running node.
    fn pid_of(&mut self, number: u16) -> Result<u32> {
        self.note_ends();
        let (node, state) = self.entry(number)?;
        match state {
            State::Up => Ok(node.record.pid),
            State::Ended(how) => bail!("node {number} {how}"),
        }
    }

    fn is_up(&self, pid: u32) -> bool {
        let mut nodes = self.cluster.nodes.iter();
        nodes.any(|(node, state)| node.record.pid == pid && *state == State::Up)
    }

    /// Records the ends of processes that were not waited for.
    fn note_ends(&mut self) {
        while let Some(ended) = self.cluster.processes.try_join_next() {
            if let Ok((pid, status)) = ended {
                self.note_end(pid, status);
            }
        }
    }

    fn note_end(&mut self, pid: u32, status: std::io::Result<std::process::ExitStatus>) {
        let how = status.map_or_else(|_| "ended".to_owned(), describe_exit);
        let mut nodes = self.cluster.nodes.iter_mut();
        if let Some((_, state)) = nodes.find(|(node, _)| node.record.pid == pid) {
            *state = State::Ended(how);
        }
    }
}

//! A cluster on this machine, in a child process that ends when its handle is dropped.

use crate::admin::is_settled;
use crate::drive::Target;
use crate::link::Transport;
use crate::servers::NodeProgram;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(180);
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// A running cluster.
pub(crate) struct DevCluster {
    child: Child,
    pub(crate) nodes: Vec<Node>,
}

/// One node of the cluster.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) pid: u32,
    pub(crate) pb: SocketAddr,
    pub(crate) http: SocketAddr,
}

#[derive(Deserialize)]
struct Ready {
    nodes: Vec<Node>,
}

impl DevCluster {
    /// Starts a cluster of that many nodes with their data below `dir`.
    pub(crate) fn start(program: NodeProgram<'_>, dir: &Path, node_count: usize) -> Result<Self> {
        let ready = dir.join("cluster.ready");
        let mut command = Command::new(program.binary);
        command.arg("dev-cluster").arg(node_count.to_string());
        command.arg("--base-dir").arg(dir.join("nodes")).arg("--ready-file").arg(&ready);
        for setting in program.set {
            command.args(["--set", setting]);
        }
        let started = Instant::now();
        let mut child = command.stdout(Stdio::null()).spawn().context("starting the cluster")?;
        let text = loop {
            if let Ok(text) = std::fs::read_to_string(&ready) {
                break text;
            }
            if let Some(status) = child.try_wait()? {
                bail!("the cluster ended with {status} before it served");
            }
            if started.elapsed() > START_LIMIT {
                let _ = child.kill();
                bail!("the cluster did not serve within {START_LIMIT:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let Ready { nodes } = serde_json::from_str(&text).context("reading the ready file")?;
        Ok(Self { child, nodes })
    }

    /// Waits until no partition moves any more, since the nodes joined a cluster of one.
    pub(crate) fn settle(&self, binary: &Path) -> Result<()> {
        let began = Instant::now();
        while !is_settled(binary, self.nodes[0].http)? {
            ensure!(began.elapsed() < START_LIMIT, "partitions move after {START_LIMIT:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// All nodes, as a target of the driver.
    pub(crate) fn target(&self) -> Target {
        Target {
            addresses: self.nodes.iter().map(|node| node.pb).collect(),
            pids: self.nodes.iter().map(|node| node.pid).collect(),
            transport: Transport::Plain,
        }
    }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        // The process stops its nodes when it is asked to stop; if it were killed, the nodes would stay.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < STOP_LIMIT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

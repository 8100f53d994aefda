//! Cost of TLS between nodes: a cluster with mutual TLS compared with one without TLS.

use crate::CommonOptions;
use crate::dev_cluster::DevCluster;
use crate::drive::{Target, drive};
use crate::protocol::Exchange;
use crate::report::{Row, interleave, print};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const NODE_COUNT: usize = 3;
/// Time limit for all nodes to obtain certificates and to reconnect.
const CLOSE_LIMIT: Duration = Duration::from_secs(60);

/// Measures the processor time of all nodes for a get (r=2) and a put (w=2, dw=0), with and without mutual
/// TLS between the nodes. Client connections are unencrypted in both cases.
pub(crate) fn nodes(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let start = |name: &str, mode: &str| -> Result<DevCluster> {
        let (path, mut set) = (dir.path().join(name), common.set.clone());
        std::fs::create_dir(&path)?;
        set.push(format!("internode.tls={mode}"));
        DevCluster::start(common.program_with(&set), &path, NODE_COUNT)
    };
    let plain = start("plain", "plain")?;
    // The nodes join without TLS, and change to TLS as soon as they hold certificates.
    let secured = start("secured", "both")?;
    wait_until_closed(&common.quoit, &secured)?;
    for cluster in [&plain, &secured] {
        let mut load = common.load(common.put(Some(0)));
        (load.operations, load.sequential) = (common.keys, true);
        drive(&cluster.target(), &load).context("filling the store")?;
    }
    for (kind, exchange) in [("get r=2", Exchange::PbGet), ("put w=2 dw=0", common.put(Some(0)))] {
        println!("PB {kind}, {} bytes, processor time of three nodes", common.value_bytes);
        let row = |name: &'static str, target: Target| {
            Row::new(name, target, common.load(exchange.clone()))
        };
        let mut rows = [row("plain", plain.target()), row("mutual TLS", secured.target())];
        interleave(&mut rows, common.rounds)?;
        print(&rows, &["plain"]);
        println!();
    }
    Ok(())
}

/// Waits until all connections between nodes use TLS.
fn wait_until_closed(binary: &Path, cluster: &DevCluster) -> Result<()> {
    let began = Instant::now();
    for node in &cluster.nodes {
        while !is_closed(binary, &format!("http://{}", node.http))? {
            if began.elapsed() > CLOSE_LIMIT {
                bail!("the nodes did not connect by TLS within {CLOSE_LIMIT:?}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

fn is_closed(binary: &Path, url: &str) -> Result<bool> {
    let shown = Command::new(binary)
        .args(["admin", "--url", url, "cluster", "tls", "--format", "json"])
        .output()
        .context("asking for the connections between nodes")?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
    let Some(members) = shown["members"].as_array() else { return Ok(false) };
    // The node itself is listed too, without a connection.
    let over_tls = members.iter().filter(|member| member["plain"] == false).count();
    Ok(over_tls + 1 == NODE_COUNT)
}

//! Cost of replication: three nodes compared with one.

use crate::CommonOptions;
use crate::dev_cluster::DevCluster;
use crate::drive::{Target, drive};
use crate::protocol::Exchange;
use crate::report::{Row, interleave, print};
use crate::servers;
use anyhow::{Context, Result};

const NODE_COUNT: usize = 3;

/// Published figure for three nodes of Riak on a similar machine: microseconds of all nodes per operation.
const RIAK_US: u32 = 2484;

/// Prints the processor time of all nodes for a get (r=2) and a put (w=2, dw=0), compared with that of a
/// single node.
pub(crate) fn cluster(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let (one, _) = servers::quoit(common.program(), &dir.path().join("one"))?;
    let three = DevCluster::start(common.program(), dir.path(), NODE_COUNT)?;
    let targets = [one.target(), three.target()];
    for target in &targets {
        fill(common, target)?;
    }
    for (kind, exchange) in [("get", Exchange::PbGet), ("put dw=0", common.put(Some(0)))] {
        println!("PB {kind}, {} bytes, processor time of all nodes", common.value_bytes);
        let rows = [("one node", &targets[0]), ("three nodes", &targets[1])];
        let row = |(name, target): (&'static str, &Target)| {
            Row::new(name, target.clone(), common.load(exchange.clone()))
        };
        let mut rows = rows.map(row);
        interleave(&mut rows, common.rounds)?;
        print(&rows, &["one node"]);
        println!();
    }
    println!("Riak, three nodes on such a machine: {RIAK_US} us an operation");
    Ok(())
}

/// Stores every key once. When the reads begin, all replicas have it, so that reads find equal copies.
fn fill(common: &CommonOptions, target: &Target) -> Result<()> {
    let mut load = common.load(common.put(Some(0)));
    load.operations = common.keys;
    load.sequential = true;
    drive(target, &load).context("filling the store")?;
    Ok(())
}

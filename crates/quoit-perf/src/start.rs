//! Time from start until a node with many keys serves, and the memory that the keys take.

use crate::CommonOptions;
use crate::processes::resident_bytes;
use crate::servers;
use anyhow::Result;

/// Fills a node, then measures starts after a clean stop and starts after a kill.
pub(crate) fn start(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let data = dir.path().join("data");
    let (node, empty) = servers::quoit(common.program(), &data)?;
    println!("start with no keys: {empty:?}, resident {} MiB", resident_bytes(node.pid())? >> 20);
    common.fill(&node, node.address, common.put(Some(0)))?;
    println!("{} keys written, resident {} MiB", common.keys, resident_bytes(node.pid())? >> 20);
    node.stop()?;
    for _ in 0..common.rounds {
        let (node, took) = servers::quoit(common.program(), &data)?;
        let resident = resident_bytes(node.pid())?;
        println!(
            "start after a clean stop: {took:?}, resident {} MiB, {:.1} bytes a key in all",
            resident >> 20,
            resident as f64 / common.keys as f64
        );
        node.stop()?;
    }
    for _ in 0..common.rounds {
        let (node, _) = servers::quoit(common.program(), &data)?;
        // Records that the next start has to read again, since the last index snapshot does not have them.
        let mut extra = common.clone();
        extra.keys = (common.keys / 20).max(1);
        extra.fill(&node, node.address, extra.put(Some(0)))?;
        node.kill()?;
        let (node, took) = servers::quoit(common.program(), &data)?;
        println!("start after SIGKILL: {took:?}");
        node.stop()?;
    }
    Ok(())
}

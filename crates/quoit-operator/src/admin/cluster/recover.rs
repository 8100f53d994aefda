//! `quoit admin cluster recover`, which works on a stopped node.

use crate::admin::print;
use anyhow::{Context, Result};
use clap::Args;
use quoit_cli::Format;
use quoit_seam::RealDisk;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args, Debug)]
pub(crate) struct RecoverArgs {
    /// Data directory of the stopped node, which becomes the only voter.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Name of a node that is lost for good; repeat for each.
    #[arg(long, value_name = "NAME", required = true)]
    lost: Vec<String>,
}

/// Makes a stopped node continue without the lost nodes.
pub(super) fn recover(args: &RecoverArgs, format: Format) -> Result<()> {
    let disk = RealDisk::open(&args.data_dir).context("opening the data directory")?;
    let recovered = quoit_cluster::recover(Arc::new(disk), &args.lost)?;
    let document = json!({
        "node": *recovered.node,
        "removed": recovered.removed.iter().map(|name| &**name).collect::<Vec<_>>(),
        "left": recovered.left.iter().map(|name| &**name).collect::<Vec<_>>(),
    });
    print(&document, format, |_| {
        format!(
            "Success: {} decides alone now; removed for ever: {}\n\
             Start it, then restart the other nodes that are left. Do this on no other node.",
            recovered.node,
            recovered.removed.join(", "),
        )
    });
    Ok(())
}

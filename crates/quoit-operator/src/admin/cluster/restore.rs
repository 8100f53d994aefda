//! `quoit admin cluster restore`: prepares copies of stopped nodes' data to start as a cluster.

use crate::admin::print;
use anyhow::{Context, Result};
use clap::Args;
use quoit_cli::Format;
use quoit_cluster::{ClusterId, RestoreRole, Restored, inspect_copy, restore};
use quoit_seam::{Disk, RealDisk};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args, Debug)]
pub(crate) struct RestoreArgs {
    /// Data directory of a stopped node, restored from a copy.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Begin a new cluster epoch with this node's state of the cluster; run this on one node, before all
    /// others.
    #[arg(long, conflicts_with = "epoch")]
    begin: bool,
    /// Join the epoch with this id, which the command with --begin has printed.
    #[arg(long, value_name = "ID", value_parser = epoch_of)]
    epoch: Option<ClusterId>,
}

/// Parses the id of an epoch: 32 hexadecimal digits.
fn epoch_of(text: &str) -> Result<ClusterId, String> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
    let number = number.ok_or_else(|| {
        "wanted the 32 hexadecimal digits that `restore --begin` has printed".to_owned()
    })?;
    Ok(ClusterId(number.to_be_bytes()))
}

/// Makes the copy part of a restored cluster, or shows its contents.
pub(super) fn restore_node(args: &RestoreArgs, format: Format) -> Result<()> {
    let disk = RealDisk::open(&args.data_dir).context("opening the data directory")?;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let (role, epoch) = match args.epoch {
        Some(epoch) => (RestoreRole::Follows, epoch),
        None if args.begin => {
            let mut id = [0; 16];
            getrandom::fill(&mut id).context("asking the system for random bytes")?;
            (RestoreRole::Begins, ClusterId(id))
        }
        None => {
            let copy = inspect_copy(disk)?;
            print(&document(&copy, None), format, |_| shown(&copy));
            return Ok(());
        }
    };
    let restored = restore(disk, epoch, role)?;
    print(&document(&restored, Some(epoch)), format, |_| restored_text(&restored, epoch, role));
    Ok(())
}

fn document(restored: &Restored, epoch: Option<ClusterId>) -> serde_json::Value {
    let members = restored.members.iter().map(|name| &**name);
    json!({
        "node": *restored.node,
        "members": members.collect::<Vec<_>>(),
        "revision": restored.revision,
        "epoch": epoch.map(|epoch| epoch.to_string()),
    })
}

fn shown(copy: &Restored) -> String {
    format!(
        "The copy of {} knows of {} decisions of the cluster; members: {}\n\
         Nothing was changed. Run the command with --begin for the copy that knows of the most decisions, \
         then with --epoch for all others.",
        copy.node,
        copy.revision,
        copy.members.join(", "),
    )
}

fn restored_text(restored: &Restored, epoch: ClusterId, role: RestoreRole) -> String {
    let name = &restored.node;
    if role == RestoreRole::Follows {
        return format!(
            "Success: {name} follows in epoch {epoch}. Start it when all copies are prepared."
        );
    }
    let others = restored.members.iter().filter(|member| *member != name);
    let others: Vec<&str> = others.map(|member| &**member).collect();
    if others.is_empty() {
        return format!("Success: {name} begins epoch {epoch}. Start it.");
    }
    format!(
        "Success: {name} begins epoch {epoch}.\n\
         For each other node ({}) run\n\
         \n    quoit admin cluster restore --data-dir DIR --epoch {epoch}\n\
         \nthen start all of them. Remove nodes without a copy with `quoit admin cluster force-remove`.",
        others.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_read_as_they_are_printed() {
        let epoch = ClusterId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(epoch_of(&epoch.to_string()), Ok(epoch));
        for wrong in ["", "12", &"g".repeat(32), &"0".repeat(33), &format!("+{}", "0".repeat(31))] {
            assert!(epoch_of(wrong).unwrap_err().contains("restore --begin"), "{wrong}");
        }
    }
}

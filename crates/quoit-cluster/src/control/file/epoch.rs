//! A new epoch of the cluster, with data that were restored from copies.

use super::found::give_up;
use super::{ControlFile, KEY_CLUSTER_ID, NODE, STARTS, STORES};
use crate::ClusterId;
use crate::error::StoreError;
use redb::ReadableTable as _;

/// Openings and incarnations of a store that may have been since the copy was made.
const OPENINGS_FORGOTTEN: u64 = 1 << 32;

impl ControlFile {
    /// Gives the cluster the identity `epoch`. A node that `follows` forgets its log as well, and knows
    /// nothing of the cluster until another node tells it.
    ///
    /// Starts of other nodes are forgotten: this copy may know of starts that are later than those of copies
    /// that were made before it. Each store counts as older than the node, so that its next opening reports
    /// the loss of what was written after the copy, and begins an incarnation that the lost time cannot have
    /// had.
    pub(crate) fn begin_epoch(&self, epoch: ClusterId, follows: bool) -> Result<(), StoreError> {
        self.commit(|transaction| {
            if follows {
                give_up(transaction, epoch)?;
            }
            transaction.delete_table(STARTS)?;
            let mut stores = transaction.open_table(STORES)?;
            let mut noted = Vec::new();
            for row in stores.iter()? {
                let (name, opening) = row?;
                noted.push((name.value().to_owned(), opening.value()));
            }
            for (name, (store_id, mark, incarnation)) in noted {
                let later = (store_id, mark + OPENINGS_FORGOTTEN, incarnation + OPENINGS_FORGOTTEN);
                stores.insert(&*name, later)?;
            }
            transaction.open_table(NODE)?.insert(KEY_CLUSTER_ID, epoch.0.as_slice())?;
            Ok(())
        })
    }
}

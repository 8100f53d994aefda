//! The change of a control file for a new epoch of the cluster, which begins with restored copies.

use super::found::give_up;
use super::{ControlFile, KEY_CLUSTER_ID, NODE, STARTS, STORES};
use crate::ClusterId;
use crate::error::StoreError;
use redb::ReadableTable as _;

/// Amount by which the numbers of a store's openings and incarnations are advanced. It exceeds every number
/// that the store can have used since the copy was made.
const OPENINGS_FORGOTTEN: u64 = 1 << 32;

impl ControlFile {
    /// Gives the cluster the identity `epoch`. If `follows`, the node also drops its log, and knows
    /// nothing of the cluster until another node sends it a snapshot.
    ///
    /// The recorded starts of other nodes are deleted: the copies of those nodes may be older than this copy,
    /// so their counts may be lower. The recorded openings of each store are advanced, so that the store
    /// looks older than the control file. Its next opening then reports the loss of the records written after
    /// the copy, and begins an incarnation that was never used since the copy was made.
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

//! Grants: of conditional writes that are based on one version of a record, at most one is acknowledged.
//!
//! This is what the bucket property `conditional_put_mode` = `require_token` promises.
//!
//! # Protocol
//!
//! 1. The coordinator asks all primaries of every live layout for a grant. A primary gives a *number* that it
//!    never gave before, and shows its copy, which it reads after it has noted the grant. It remembers the
//!    latest grant of each record, in memory only.
//! 2. With grants from a majority of the positions of every live layout, the coordinator merges the copies
//!    that it was shown into its own, checks the condition, and makes its event, in one step under the
//!    record's lock. No fallback is asked. Without a majority nothing is written.
//! 3. Each primary is sent the object with the number of its own grant. It takes it only if that grant is
//!    still its latest one of the record; while it merges the object it grants nothing. A primary that has
//!    given no grant is not sent the object, and is noted a hint.
//! 4. The write is acknowledged when a majority of the positions of every live layout has taken it in this
//!    way **and synced it**, and no newer layout has come meanwhile. Anything else is a `timeout`:
//!    unknown.
//!
//! # Why it holds
//!
//! Let two acknowledged writes W and X have grants at the same time in layouts that share one. Each has
//! taken a majority of its positions, so some primary p has granted and taken both. p has taken W while
//! W's grant was its latest, so X's grant at p came before W's grant or after p had taken W; in the first
//! case W's grant came after p had taken X, by the same argument. So one of them, say X, was granted at p
//! after p had taken W, and was shown a copy with W. X's coordinator checked its condition against an
//! object with W in it: X is based on W, not on the version that W is based on.
//!
//! - *A coordinator stalls and writes late.* Its grants have been replaced or have not. If p has given a
//!   later grant it refuses the write, whatever the clocks say. The lease only bounds how long a
//!   coordinator that has died keeps others waiting.
//! - *p restarts.* It has forgotten its grants and takes none of their writes. It need not wait before it
//!   grants anew: no write that it took is forgotten, as only synced ones count, and numbers are drawn from
//!   the store's counter of events, which is durable ahead of use.
//! - *Two requests of one coordinator* have different numbers, and each asks the coordinator's own copy for
//!   a grant like any other primary.
//! - *Layouts.* Requests name the newest layout, and a node that knows it to be retired refuses. A layout
//!   retires when every member writes by the next one and its copies are complete, so what a majority of the
//!   old one has taken a majority of the new one shows. In the layout that serves reads only complete copies
//!   count for step 2.
//! - *A copy is lost* (its disk is wiped, or goes back in time): a copy that is filling is not complete, and
//!   does not count in step 2. Where a majority is lost at once nothing can be promised.
//! - *`n_val` changes*: majorities of different numbers need not meet. The promise does not span such a
//!   change.
//!
//! Unconditional writes take no part: they are neither excluded nor held up.
//!
//! With `prefer_token` the grants only keep conditional writes from each other's way. Without a majority the
//! write goes on without them, and a primary takes it whatever it has granted: no promise.

pub(crate) mod majority;
mod service;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use table::GrantNumber;

use crate::local_node::LocalNode;
use crate::replica::Replica;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use table::GrantTable;

/// The grants that this node gives as a primary. Shared; every method takes `&self`.
pub(crate) struct Grants {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    table: Mutex<GrantTable>,
}

/// The right to merge the object of a granted write. While it lasts no other write gets a grant of the
/// record.
pub(crate) struct GrantedWrite {
    grants: Arc<Grants>,
    record: Bytes,
    number: GrantNumber,
}

impl Grants {
    pub(crate) fn new(local: &Arc<LocalNode>, replica: &Arc<Replica>) -> Arc<Self> {
        let (local, replica) = (Arc::clone(local), Arc::clone(replica));
        Arc::new(Self { local, replica, table: Mutex::default() })
    }

    pub(crate) fn grant(&self, record: &[u8], number: GrantNumber, now_us: u64) -> bool {
        self.table.lock().grant(record, number, now_us)
    }

    pub(crate) fn release(&self, record: &[u8], number: GrantNumber) {
        self.table.lock().release(record, number);
    }

    /// Begins the write of a grant; `None` when the grant is no longer the latest of the record.
    pub(crate) fn begin(
        self: &Arc<Self>,
        record: &Bytes,
        number: GrantNumber,
    ) -> Option<GrantedWrite> {
        let has_begun = self.table.lock().begin(record, number);
        has_begun.then(|| GrantedWrite { grants: Arc::clone(self), record: record.clone(), number })
    }
}

impl Drop for GrantedWrite {
    fn drop(&mut self) {
        self.grants.table.lock().end(&self.record, self.number);
    }
}

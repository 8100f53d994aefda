//! Grants: of several conditional writes that are based on one version of a record, at most one is
//! acknowledged.
//!
//! The bucket property `conditional_put_mode` = `require_token` promises this.
//!
//! # Protocol
//!
//! 1. The coordinator asks all primaries of every live layout for a grant. A primary answers with a
//!    *number* that it has never given before and with its copy, which it reads after it has noted the
//!    grant. It remembers the latest grant of each record, in memory only.
//! 2. With grants from a majority of the positions of every live layout, the coordinator merges the
//!    copies that it received into its own, checks the condition, and makes its event, in one step under
//!    the record's lock. No fallback is asked. Without a majority nothing is written.
//! 3. The coordinator sends the object to each primary with the number of that primary's grant. A primary
//!    takes the object only if the grant is still the latest one of the record, and gives no grant while
//!    it merges the object. A primary that has given no grant is not sent the object; the coordinator
//!    notes a hint for it.
//! 4. The write is acknowledged when a majority of the positions of every live layout has taken it in
//!    this way **and synced it**, and no newer layout has come in the meantime. Otherwise the client gets
//!    a `timeout`: the outcome is unknown.
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
//! - *A coordinator stalls and writes late.* If p has given a later grant, it refuses the write, whatever
//!   the clocks say; otherwise the write is as good as a prompt one. The lease only bounds how long a
//!   coordinator that has died keeps others waiting.
//! - *p restarts.* It has forgotten its grants and refuses writes under them. It can grant anew at once:
//!   no write that counts is forgotten, because only synced ones count, and numbers are drawn from the
//!   store's counter of events, which is durable ahead of use.
//! - *Two requests of one coordinator* have different numbers, and each asks the coordinator's own copy
//!   for a grant as it asks any other primary.
//! - *Layouts change.* Requests name the newest layout, and a node that knows it to be retired refuses. A
//!   layout retires when every member writes by the next one and the copies of that one are complete, so
//!   a majority of the new layout shows what a majority of the old one has taken. In the layout that
//!   serves reads only complete copies count in step 2.
//! - *A copy is lost* (its disk is wiped or goes back in time). A copy that is being filled is not
//!   complete and does not count in step 2. If a majority is lost at once, nothing can be promised.
//! - *`n_val` changes.* Majorities of different numbers need not meet, so the promise does not span such
//!   a change.
//!
//! Unconditional writes take no part: they are neither excluded nor delayed.
//!
//! With `prefer_token` the grants only keep conditional writes out of each other's way. Without a
//! majority the write proceeds without them, and a primary takes it whatever it has granted, so nothing
//! is promised.

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

/// Grants that this node gives as a primary. Shared; every method takes `&self`.
pub(crate) struct Grants {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    table: Mutex<GrantTable>,
}

/// The right to merge the object of a granted write. While it is held, no other write gets a grant of the
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

    /// Begins the write under a grant; `None` if the grant is no longer the latest of the record.
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

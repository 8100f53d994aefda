//! Checks of the values that a loss of power would leave on disks.

use crate::copies::VALUE_PREFIX_BYTES;
use crate::history::{FoundValue, KeyNumber, WriteNumber};
use crate::machine::Machine;
use crate::majorities::settled_values;
use crate::names::RecordName;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::value::found_in;
use crate::violation::{Violation, ViolationKind};
use memchr::memmem;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of disks that have to hold an acknowledged value until it is replaced, if a majority accepted
/// and synced it.
const DISKS_MIN: usize = 2;

/// Results of earlier checks at disks.
#[derive(Default)]
pub(super) struct ValuesOnDisks {
    /// Last value of each key, the number of disks on which it was found, at most n_val, and the time.
    holders: BTreeMap<KeyNumber, (WriteNumber, usize, u64)>,
}

impl ValuesOnDisks {
    /// Checks that enough disks hold each acknowledged value, whichever machines they belong to by now.
    /// Once more disks hold it, their number must not go down again, except by a loss of files or of
    /// power: a copy that moves is on its new disk before it leaves the old one.
    pub(super) fn check(
        &mut self,
        run_context: &RunContext,
        snapshot: &StoreSnapshot,
    ) -> Result<(), Violation> {
        let Some(newest) = snapshot.newest() else { return Ok(()) };
        let (state, now_us) = (newest.control().read(), run_context.time.now_us());
        let machines = run_context.in_service();
        let history = run_context.history.lock();
        for (key, number, n_val) in settled_values(&history, now_us) {
            let since_us = history.writes[number.0 as usize].start_us;
            let name = RecordName::of(key, history.keys[key.0 as usize]);
            let layouts = snapshot.read_layouts(&state, &name);
            // A node at several positions of a preference list has several votes; such keys are not
            // checked.
            let is_spread = layouts.values().all(|layout| {
                name.primaries(layout, state.ring_size(), n_val).len() == n_val as usize
            });
            let is_lost = history.hardships.files_lost_us.iter().any(|at_us| *at_us >= since_us);
            let objects =
                snapshot.contents.iter().filter_map(|contents| contents.objects.get(&key));
            let mut siblings = objects.flat_map(|object| &object.siblings);
            let sibling = siblings.find(|each| found_in(each) == FoundValue::Value(number));
            let (true, false, Some(sibling)) = (is_spread, is_lost, sibling) else { continue };
            let value_prefix = &sibling.value[..sibling.value.len().min(VALUE_PREFIX_BYTES)];
            let finder = memmem::Finder::new(value_prefix);
            let has = |machine: &&Arc<Machine>| {
                machine.disks().data.has_durable(|bytes| finder.find(bytes).is_some())
            };
            let replica_count = n_val as usize;
            let holders = machines.iter().filter(has).map(|machine| &machine.name);
            let holders: Vec<_> = holders.take(replica_count).collect();
            let former = self.holders.get(&key).filter(|(of, ..)| *of == number);
            let losses_us = &history.hardships.power_losses_us;
            let former =
                former.filter(|(.., at_us)| losses_us.iter().all(|loss_us| loss_us < at_us));
            let former = former.map_or(0, |(_, count, _)| *count);
            // The next start cuts off unsynced writes that a loss of power has left on the disk.
            if snapshot.stores.len() == machines.len() {
                self.holders.insert(key, (number, holders.len(), now_us));
            }
            let needed = DISKS_MIN.max(former).min(replica_count);
            if holders.len() < needed {
                let text = format!(
                    "at {} ms, key {}: a loss of power would leave {number} to {holders:?} only, of {needed} \
                 disks: {}",
                    now_us / 1_000,
                    key.0,
                    snapshot.words(key)
                );
                return Err(Violation::new(ViolationKind::Unsynced, text));
            }
        }
        Ok(())
    }
}

//! Differences between clusters that are allowed to last after all faults were repaired.

use crate::data_type_clients::finish::digest_at;
use crate::data_types::Record;
use crate::history::Outcome;
use crate::machine::Machine;
use crate::names::{RecordName, bucket_type, partition_of, primaries_of};
use crate::replica_counts::N_VAL_DEFAULT;
use crate::run_context::RunContext;
use quoit_model::key::KeyRef;
use std::collections::BTreeMap;

/// True if some write of the record was never answered. One cluster may have received such a write, while
/// another lost it with its process. Only a comparison of the clusters finds that.
pub(super) fn is_half_written(run_context: &RunContext, name: &[u8]) -> bool {
    let Ok(KeyRef { bucket, key }) = KeyRef::decode(name) else { return false };
    let history = run_context.history.lock();
    let number = RecordName::number_of(key).filter(|number| {
        let policy = history.keys.get(number.0 as usize);
        policy.is_some_and(|policy| bucket_type(*policy).as_bytes() == bucket.bucket_type)
    });
    let mut writes = number.into_iter().flat_map(|number| history.writes_of(number));
    let records =
        Record::all().filter(|record| record.key_ref(&record.name()).encoded()[..] == *name);
    let data_types = run_context.data_types.lock();
    let mut updates = records.flat_map(|record| data_types.updates_of(record));
    writes.any(|(_, write)| write.outcome == Outcome::Unknown)
        || updates.any(|update| update.outcome == Outcome::Unknown)
}

/// True if the primaries of one cluster have different copies of a record. Without anti-entropy this
/// lasts if a process has ended before it wrote its copy. A comparison of clusters asks only one of the
/// primaries.
pub(super) fn do_primaries_differ(run_context: &RunContext, name: &[u8]) -> bool {
    let Ok(key) = KeyRef::decode(name) else { return false };
    let mut by_cluster: BTreeMap<usize, Vec<Option<u64>>> = BTreeMap::new();
    for machine in run_context.in_service() {
        let Some(store) = machine.store() else { continue };
        let state = store.control().read();
        let partition = partition_of(key, state.ring_size());
        let primaries = primaries_of(partition, state.layouts().newest(), N_VAL_DEFAULT);
        if primaries.contains(&Machine::node_id_at(machine.index)) {
            let digest = digest_at(&store, name).unwrap_or_default();
            by_cluster.entry(machine.cluster).or_default().push(digest);
        }
    }
    by_cluster.values().any(|digests| digests.windows(2).any(|pair| pair[0] != pair[1]))
}

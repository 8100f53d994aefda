//! The stores of all running nodes at one moment of a run, read directly from their engines.

use crate::contents::Contents;
use crate::engine_model::EngineModel;
use crate::history::KeyNumber;
use crate::machine::Machine;
use crate::names::RecordName;
use crate::run_context::RunContext;
use crate::value::{Events, found_in_object};
use quoit_cluster::{NodeId, State};
use quoit_core::ReplicatedStore;
use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use quoit_model::object::Object;
use quoit_store::index::Tag;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The stores of all running nodes.
pub(crate) struct StoreSnapshot {
    /// Stores, each with the index of its machine.
    pub(crate) stores: Vec<(usize, Arc<ReplicatedStore>)>,
    /// Contents of the stores, in the same order.
    pub(crate) contents: Vec<Contents>,
    /// Index of the machine whose node founds the cluster.
    founder: Option<usize>,
}

impl StoreSnapshot {
    /// Reads all stores; `None` if a store can't be read.
    pub(crate) fn at(run_context: &RunContext) -> Option<Self> {
        let machines = run_context.in_service();
        let (mut stores, mut contents) = (Vec::new(), Vec::new());
        for machine in &machines {
            let Some(store) = machine.store() else { continue };
            let read = || Contents::of(&store);
            contents.push(EngineModel::read_for_run(&machine.engine_model(), read).ok()?);
            stores.push((machine.index, store));
        }
        let founder = run_context.machines.iter().find(|machine| run_context.has(machine));
        let founder = founder.map(|machine| machine.index);
        Some(Self { stores, contents, founder })
    }

    /// Returns the store of the member that knows the newest layouts; of several, that of the first
    /// machine. A spare that has not joined yet is left out: it is a cluster of its own, with a first
    /// layout of its own. A node that has left is left out too, because its state no longer has it as a
    /// member.
    pub(crate) fn newest(&self) -> Option<&Arc<ReplicatedStore>> {
        let version = |(place, store): &&(usize, Arc<ReplicatedStore>)| {
            let state = store.control().read();
            let layouts = state.layouts();
            (layouts.newest().version(), layouts.oldest_version(), Reverse(*place))
        };
        let is_member = |(place, store): &&(usize, Arc<ReplicatedStore>)| {
            let state = store.control().read();
            let newest = state.layouts().newest();
            let is_spare = newest.version() == 1 && self.founder != Some(*place);
            state.members().get(state.node_id()).is_some() && !is_spare
        };
        self.stores.iter().filter(is_member).max_by_key(version).map(|(_, store)| store)
    }

    /// Returns the layouts by which members read a key, without those that replicas refuse. A joining
    /// node is left out: it uses its own layout until it knows the cluster's.
    pub(crate) fn read_layouts(
        &self,
        newest: &State,
        name: &RecordName,
    ) -> BTreeMap<u64, Arc<Layout>> {
        let partition = name.partition(newest.ring_size());
        let members = self.stores.iter().filter(|(place, store)| {
            newest.members().get(Machine::node_id_at(*place)).is_some()
                && store.control().read().members().get(newest.node_id()).is_some()
        });
        let layouts = members.map(|(_, store)| {
            let state = store.control().read();
            let layout = state.layouts().for_reads(partition);
            (layout.version(), Arc::clone(layout))
        });
        layouts.filter(|(version, _)| *version >= newest.layouts().oldest_version()).collect()
    }

    /// Returns the nodes whose copies of a partition are known, at any node, to have lost records.
    pub(crate) fn lost(&self, partition: Partition) -> BTreeSet<NodeId> {
        let known = self.stores.iter().flat_map(|(_, store)| {
            let state = store.control().read();
            let lost = state.layouts().lost_copies().filter(|(of, _)| *of == partition);
            lost.map(|(_, node)| node).collect::<Vec<_>>()
        });
        known.collect()
    }

    /// Describes the copies of a key on all running nodes.
    pub(crate) fn words(&self, key: KeyNumber) -> String {
        let words = self.stores.iter().zip(&self.contents).map(|((place, _), contents)| {
            let found = found_in_object(contents.objects.get(&key), Events::CountEach);
            format!("n{} holds {found:?}", place + 1)
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Returns the nodes that have a key and can't read it, because their copies are damaged.
    pub(crate) fn unread(&self, at: (Partition, Tag)) -> BTreeSet<NodeId> {
        let all = self.stores.iter().zip(&self.contents);
        let unread = all.filter(|(_, contents)| contents.unread.contains(&at));
        unread.map(|((place, _), _)| Machine::node_id_at(*place)).collect()
    }

    /// Returns a node's copy of a key; the outer `None` if the node does not run.
    pub(crate) fn copy(&self, node: NodeId, key: KeyNumber) -> Option<Option<&Object>> {
        let place = self.stores.iter().position(|(place, _)| Machine::node_id_at(*place) == node);
        place.map(|place| self.contents[place].objects.get(&key))
    }
}

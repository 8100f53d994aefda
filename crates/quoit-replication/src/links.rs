//! Changes of links that apply to all nodes, including nodes that were down or join later.
//!
//! A command for all nodes that defines or suspends a queue or a sink, or pauses full-sync, is kept
//! with a version. Nodes ask each other for the changes that they know, and execute newer ones. The
//! last change of each part of a link therefore wins on all nodes
//! (`docs/decisions/0063-links-by-version.md`). A change on one node alone stays there until the next
//! change for all nodes.

use crate::command::{ChangeVersion, DEFINITION, ReplicationCommand, SharedChange, SharedChanges};
use crate::json_file::JsonFile;
use parking_lot::Mutex;
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of changes that are kept. Each of 64 queues and 64 sinks has some, and so have
/// removed ones.
const CHANGE_COUNT_MAX: usize = 4_096;

/// The changes that a node knows, and their file.
pub(crate) struct SharedLinks {
    changes: Mutex<SharedChanges>,
    file: JsonFile<SharedChanges>,
}

impl SharedLinks {
    pub(crate) fn new(disk: Option<Arc<dyn Disk>>) -> Result<Self, StoreError> {
        let remedy = "the node learns the changes for all nodes from the others";
        let file = JsonFile::new("LINKS.json", disk, remedy);
        let changes = Mutex::new(file.load()?.unwrap_or_default());
        Ok(Self { changes, file })
    }

    /// True if a command changes a link.
    pub(crate) fn is_change(command: &ReplicationCommand) -> bool {
        command.target().is_some()
    }

    /// The changes that the node knows, for other nodes.
    pub(crate) fn shared_changes(&self) -> SharedChanges {
        self.changes.lock().clone()
    }

    /// Notes a change that the node was given, and returns it with its version; `None` for commands
    /// that change no link.
    pub(crate) fn begin(
        &self,
        command: &ReplicationCommand,
        node: &str,
        now_us: u64,
    ) -> Option<SharedChanges> {
        let (name, part) = command.target()?;
        let mut changes = self.changes.lock();
        let newest_us = changes.values().map(|change| change.version.time_us).max().unwrap_or(0);
        let time_us = now_us.max(newest_us + 1);
        let version = ChangeVersion { time_us, node: node.to_owned() };
        let change = SharedChange { version, command: Box::new(command.clone()) };
        let key = format!("{name} {part}");
        take(&mut changes, key.clone(), change.clone());
        self.keep(&changes);
        Some(BTreeMap::from([(key, change)]))
    }

    /// Adopts changes that are newer than the known ones, and returns their commands, oldest first.
    pub(crate) fn merge(&self, told: SharedChanges) -> Vec<ReplicationCommand> {
        let mut changes = self.changes.lock();
        let mut told: Vec<(String, SharedChange)> = told.into_iter().collect();
        told.sort_by(|one, other| one.1.version.cmp(&other.1.version));
        let mut news = Vec::new();
        for (_, change) in told {
            // The key is computed again, because the other node may run another release.
            let Some((name, part)) = change.command.target() else { continue };
            let command = (*change.command).clone();
            if take(&mut changes, format!("{name} {part}"), change) {
                news.push(command);
            }
        }
        if !news.is_empty() {
            self.keep(&changes);
        }
        news
    }

    fn keep(&self, changes: &SharedChanges) {
        if let Err(fault) = self.file.store(changes) {
            tracing::error!(%fault, "changes of links could not be kept; other nodes keep them as well");
        }
    }
}

/// Adopts a change if it is newer than the known change of the same part, and than the definition of
/// the link. True if it was adopted.
fn take(changes: &mut SharedChanges, key: String, change: SharedChange) -> bool {
    let is_known = changes.get(&key).is_some_and(|known| known.version >= change.version);
    let (name, part) = key.rsplit_once(' ').unwrap_or((&key, ""));
    let definition = format!("{name} {DEFINITION}");
    let is_void = part != DEFINITION
        && changes.get(&definition).is_some_and(|known| known.version > change.version);
    if is_known || is_void || (changes.len() >= CHANGE_COUNT_MAX && !changes.contains_key(&key)) {
        return false;
    }
    if part == DEFINITION {
        let of_thing = |other: &str| other.rsplit_once(' ').is_some_and(|(of, _)| of == name);
        changes.retain(|other, known| !of_thing(other) || known.version > change.version);
    }
    changes.insert(key, change);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quoit_seam::FaultyDisk;

    fn links() -> SharedLinks {
        SharedLinks::new(None).expect("no disk refuses")
    }

    fn commands() -> [ReplicationCommand; 6] {
        use ReplicationCommand as C;
        let name = || "q".to_owned();
        [
            C::QueueAdd { name: name(), filter: "any".to_owned() },
            C::QueueAdd { name: name(), filter: "block_rtq".to_owned() },
            C::QueueRemove { name: name() },
            C::QueueSuspend { name: name() },
            C::QueueResume { name: name() },
            C::FullSyncPause,
        ]
    }

    proptest! {
        #[test]
        fn nodes_agree_whatever_the_order_in_which_they_learn(
            given in proptest::collection::vec((0..3_usize, 0..6_usize), 1..20),
            order in proptest::collection::vec((0..3_usize, 0..3_usize), 0..20),
        ) {
            let nodes = [links(), links(), links()];
            for (at, (node, command)) in given.iter().enumerate() {
                let now_us = 100 + at as u64 % 4;
                nodes[*node].begin(&commands()[*command], &node.to_string(), now_us);
                if let Some((from, to)) = order.get(at) {
                    let told = nodes[*from].shared_changes();
                    nodes[*to].merge(told);
                }
            }
            for _ in 0..2 {
                for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 1)] {
                    let told = nodes[from].shared_changes();
                    nodes[to].merge(told);
                }
            }
            prop_assert_eq!(nodes[0].shared_changes(), nodes[1].shared_changes());
            prop_assert_eq!(nodes[0].shared_changes(), nodes[2].shared_changes());
        }
    }

    #[test]
    fn a_new_definition_makes_older_changes_of_the_thing_void() {
        let (one, other) = (links(), links());
        let [add, change, _, suspend, ..] = commands();
        one.begin(&add, "a", 1);
        one.begin(&suspend, "a", 2);
        let before = one.shared_changes();
        assert_eq!(before.len(), 2);
        one.begin(&change, "a", 3);
        assert_eq!(other.merge(one.shared_changes()), [change]);
        assert!(other.merge(before).is_empty(), "what comes late is old");
        assert_eq!(other.shared_changes(), one.shared_changes());
    }

    #[test]
    fn changes_outlast_the_process() {
        let disk = FaultyDisk::new(4);
        let open =
            |disk: &FaultyDisk| SharedLinks::new(Some(Arc::new(disk.clone()))).expect("it opens");
        let links = open(&disk);
        links.begin(&commands()[0], "a", 5);
        assert_eq!(open(&disk.kill()).shared_changes(), links.shared_changes());
    }
}

//! Memtables and tables that `fjall` no longer needs, because they became tables or were merged.
//!
//! `fjall` drops both while it holds the lock that every read and write of the keyspace takes. If it has
//! the last reference, dropping frees a memtable record by record and removes a table's files: tenths of a
//! second in which all requests wait. So this module holds references too, and drops them on a thread that
//! no request waits for.

use fjall::{AbstractTree, Keyspace};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

type Memtable = Arc<dyn Any + Send + Sync>;

/// One version of a keyspace's tables. A reference to it keeps their files.
struct Tables {
    version: u64,
    _held: Box<dyn Any + Send>,
}

/// References to retired parts of one keyspace, the oldest first.
#[derive(Default)]
pub(super) struct RetiredParts {
    /// The active memtable and earlier ones.
    memtables: VecDeque<Memtable>,
    /// The current version of the tables and earlier ones.
    tables: VecDeque<Tables>,
}

impl RetiredParts {
    /// Takes references to the current parts of the keyspace, and drops those that only this object still
    /// has. Returns true if the keyspace has changed since the last call: then more will have to be
    /// dropped.
    pub(super) fn look(&mut self, keyspace: &Keyspace) -> bool {
        let has_changed =
            self.hold_memtable(keyspace.tree.active_memtable()) | self.hold_tables(keyspace);
        self.memtables.retain(|memtable| Arc::strong_count(memtable) > 1);
        self.forget_tables(keyspace.tree.version_free_list_len() as u64);
        has_changed
    }

    fn hold_memtable(&mut self, memtable: Memtable) -> bool {
        let is_new = self.memtables.back().is_none_or(|last| !Arc::ptr_eq(last, &memtable));
        if is_new {
            self.memtables.push_back(memtable);
        }
        is_new
    }

    fn hold_tables(&mut self, keyspace: &Keyspace) -> bool {
        let held = keyspace.tree.current_version();
        let version = held.id();
        let is_new = self.tables.back().is_none_or(|last| last.version != version);
        if is_new {
            self.tables.push_back(Tables { version, _held: Box::new(held) });
        }
        is_new
    }

    /// Drops the versions that the keyspace has dropped. It still has the current one and `former_count`
    /// before it; their numbers are consecutive.
    fn forget_tables(&mut self, former_count: u64) {
        let last = self.tables.back().map_or(0, |last| last.version);
        let known = last.saturating_sub(former_count);
        while self.tables.front().is_some_and(|first| first.version < known) {
            self.tables.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fjall::compaction::Leveled;
    use fjall::{Database, KeyspaceCreateOptions};
    use std::path::Path;

    /// Number of files of tables.
    fn file_count(directory: &Path) -> usize {
        let folders = std::fs::read_dir(directory.join("keyspaces")).unwrap();
        folders
            .map(|folder| folder.unwrap().path().join("tables"))
            .filter(|tables| tables.is_dir())
            .map(|tables| std::fs::read_dir(tables).unwrap().count())
            .sum()
    }

    /// A keyspace that never compacts by itself.
    fn keyspace(database: &Database) -> Keyspace {
        let never = || {
            let never = Arc::new(Leveled::default().with_l0_threshold(u8::MAX));
            KeyspaceCreateOptions::default().compaction_strategy(never)
        };
        database.keyspace("records", never).unwrap()
    }

    fn write_table(keyspace: &Keyspace, number: u8) {
        keyspace.insert([number % 2], [number; 100]).unwrap();
        keyspace.rotate_memtable_and_wait().unwrap();
    }

    #[test]
    fn files_of_merged_tables_go_when_nobody_else_has_them() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::builder(directory.path()).open().unwrap();
        let keyspace = keyspace(&database);
        let mut retired = RetiredParts::default();
        for number in 0..4 {
            write_table(&keyspace, number);
        }
        let others_count = file_count(directory.path()) - keyspace.table_count();
        assert!(retired.look(&keyspace));
        assert!(!retired.look(&keyspace), "nothing has changed");

        keyspace.major_compact().unwrap();
        // The next change makes `fjall` drop the merged tables.
        write_table(&keyspace, 4);
        write_table(&keyspace, 5);
        let left_count = file_count(directory.path()) - others_count - keyspace.table_count();
        assert!(left_count >= 4, "files of {left_count} merged tables are left");
        assert!(retired.look(&keyspace));
        let left_count = file_count(directory.path()) - others_count - keyspace.table_count();
        assert_eq!(left_count, 0, "files of merged tables are left");
    }

    #[test]
    fn memtables_that_were_written_to_tables_are_let_go() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::builder(directory.path()).open().unwrap();
        let keyspace = keyspace(&database);
        let mut retired = RetiredParts::default();
        retired.look(&keyspace);
        let first = Arc::downgrade(&retired.memtables[0]);
        for number in 0..4 {
            write_table(&keyspace, number);
        }
        assert!(first.upgrade().is_some(), "it is held");
        retired.look(&keyspace);
        assert!(first.upgrade().is_none());
        assert_eq!(retired.memtables.len(), 1);
    }
}

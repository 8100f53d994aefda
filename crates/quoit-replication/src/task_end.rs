//! Ending the task of a connection. A task must not end while it has an entry that has left its source and is
//! not stored here yet.

use parking_lot::Mutex;

/// The end of a connection's task. The task shares it with its owner.
#[derive(Debug, Default)]
pub(crate) struct TaskEnd(Mutex<TaskEndState>);

#[derive(Debug, Default)]
struct TaskEndState {
    is_wanted: bool,
    has_entry: bool,
}

/// The time in which a task has an entry that its source does not have, or may get one.
pub(crate) struct EntryInHand<'e>(&'e TaskEnd);

impl Drop for EntryInHand<'_> {
    fn drop(&mut self) {
        let had_entry = std::mem::replace(&mut self.0.0.lock().has_entry, false);
        debug_assert!(had_entry, "an entry is given up once");
    }
}

impl TaskEnd {
    /// Notes that the task takes an entry from its source, until the returned value is dropped. `None`
    /// if the task has to end instead.
    pub(crate) fn take_entry(&self) -> Option<EntryInHand<'_>> {
        let mut state = self.0.lock();
        if state.is_wanted {
            return None;
        }
        debug_assert!(
            !state.has_entry,
            "a task has one entry at a time, which it stores before it ends"
        );
        state.has_entry = true;
        Some(EntryInHand(self))
    }

    /// Asks the task to end. True if it has an entry: it stores the entry first, and then ends. A task
    /// without one may be aborted.
    pub(crate) fn ask(&self) -> bool {
        let mut state = self.0.lock();
        state.is_wanted = true;
        state.has_entry
    }

    /// True if the task was asked to end.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.lock().is_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_was_asked_to_end_keeps_its_entry_and_takes_no_other() {
        let end = TaskEnd::default();
        let entry = end.take_entry();
        assert!(entry.is_some() && !end.is_wanted());
        assert!(end.ask(), "it has an entry");
        drop(entry);
        assert!(end.take_entry().is_none() && end.is_wanted());
        assert!(!end.ask(), "it has none");
    }
}

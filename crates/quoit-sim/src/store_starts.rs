//! Checks of the starts of a store: what a process has found out about it when it opened it.
//!
//! A start reports a loss of records only if the disk has lost some that were durable: a node with such a
//! report drops its records and receives its copies again. The actor of the store ends with a process that
//! has not closed the store, and with a loss, because no event is given out twice
//! (`docs/design/promises.md`).

use quoit_model::clock::Actor;

/// Facts about a store that its process has found out by opening it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoreStart {
    /// Actor of the events that the store makes.
    pub(crate) actor: Actor,
    /// True if durable records are lost and not replaced yet.
    pub(crate) has_lost: bool,
}

/// The starts of a store so far.
#[derive(Default, Debug)]
pub(crate) struct StoreStarts {
    /// The last start; `None` before the first one.
    last: Option<StoreStart>,
    /// True if the process of the last start has closed the store.
    is_closed: bool,
}

impl StoreStarts {
    /// Records that the process has closed the store.
    pub(crate) fn closed(&mut self) {
        self.is_closed = true;
    }

    /// Checks a start. `has_disk_lost` is true if the disk has ever lost data that was durable.
    ///
    /// # Errors
    ///
    /// The promise that the store has broken.
    pub(crate) fn check(&mut self, start: StoreStart, has_disk_lost: bool) -> Result<(), String> {
        let was_closed = std::mem::take(&mut self.is_closed);
        let last = self.last.replace(start.clone());
        let has_same_actor = last.as_ref().is_some_and(|last| last.actor == start.actor);
        let is_new_loss = start.has_lost && last.is_none_or(|last| !last.has_lost);
        let wrong = if start.has_lost && !has_disk_lost {
            "reports that it has lost records, but its disk has lost none that were durable"
        } else if has_same_actor && !was_closed {
            "goes on with the actor of a process that has not closed the store"
        } else if has_same_actor && is_new_loss {
            "goes on with its actor although it has lost records"
        } else {
            return Ok(());
        };
        Err(format!("{wrong}: {start:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(actor: u8, has_lost: bool) -> StoreStart {
        StoreStart { actor: Actor([actor][..].into()), has_lost }
    }

    #[test]
    fn an_actor_ends_unless_the_store_was_closed_and_has_lost_nothing() {
        let mut starts = StoreStarts::default();
        let mut may_start = |actor, has_lost, was_closed| {
            starts.is_closed = was_closed;
            starts.check(start(actor, has_lost), true).is_ok()
        };
        assert!(may_start(1, false, false), "the store is new");
        assert!(may_start(1, false, true));
        assert!(!may_start(1, false, false), "it was not closed");
        assert!(may_start(2, false, false));
        assert!(!may_start(2, true, true), "it has lost records");
        assert!(may_start(2, true, true), "the loss is the same");
    }

    #[test]
    fn a_start_reports_a_loss_only_if_the_disk_has_lost_data() {
        let told = StoreStarts::default().check(start(1, true), false);
        assert!(told.is_err_and(|told| told.starts_with("reports that it has lost records")));
        assert_eq!(StoreStarts::default().check(start(1, true), true), Ok(()));
    }
}

//! Checks the reads of data types against the updates that clients requested.
//!
//! The rules follow from the data types alone. An addition counts once. An element is there unless a
//! remove that may have seen it has taken it away, and it is gone if every addition was surely seen by a
//! remove.

use super::Record;
use super::history::{Change, DataTypeHistory, Fetch, ObservedValue, Update};
use crate::history::Outcome;
use crate::violation::{Violation, ViolationKind};
use std::collections::BTreeSet;

/// Updates that a read has to show, unless they were undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequiredUpdates {
    /// No update: the read may have missed acknowledged ones.
    Some,
    /// Every update that a majority had synced before the read began.
    Majority,
    /// Every update that has to survive the faults of the run.
    Everything,
}

/// Checks every read, and the values that all nodes show at the end.
///
/// # Errors
///
/// The first violation.
pub(crate) fn check(
    history: &DataTypeHistory,
    ends: &[(Record, ObservedValue)],
) -> Result<(), Violation> {
    for fetch in &history.fetches {
        let sight = match fetch.is_strict && history.is_nothing_lost() {
            true => RequiredUpdates::Majority,
            false => RequiredUpdates::Some,
        };
        judge(history, fetch, sight)?;
    }
    for (record, seen) in ends {
        let fetch = Fetch {
            record: *record,
            start_us: u64::MAX,
            end_us: u64::MAX,
            is_strict: true,
            seen: seen.clone(),
        };
        judge(history, &fetch, RequiredUpdates::Everything)?;
    }
    Ok(())
}

fn judge(
    history: &DataTypeHistory,
    fetch: &Fetch,
    sight: RequiredUpdates,
) -> Result<(), Violation> {
    let checker = Checker { history, fetch, sight };
    checker.all().map_err(|violation| {
        let (kind, record) = (fetch.record.kind(), fetch.record.0);
        let when = match sight {
            RequiredUpdates::Everything => "after the faults".to_owned(),
            _ => format!("from {} to {} ms", fetch.start_us / 1000, fetch.end_us / 1000),
        };
        let text = format!(
            "{kind:?} d{record}, a read {when} shows {:?}: {}{}",
            fetch.seen,
            violation.text,
            story(history, fetch.record),
        );
        Violation { text, ..violation }
    })
}

/// A check of one read.
struct Checker<'a> {
    history: &'a DataTypeHistory,
    fetch: &'a Fetch,
    sight: RequiredUpdates,
}

impl Checker<'_> {
    fn all(&self) -> Result<(), Violation> {
        let seen = &self.fetch.seen;
        if let Some(foreign) = seen.foreign.first() {
            return Err(Violation::new(
                ViolationKind::Fabricated,
                format!("nobody wrote {foreign}"),
            ));
        }
        self.count()?;
        let added = self.updates().filter_map(|update| match update.change {
            Change::Add(item) => Some(item),
            _ => None,
        });
        let items: BTreeSet<u8> = added.chain(seen.items.iter().copied()).collect();
        items.into_iter().try_for_each(|item| self.item(item))?;
        self.assigned()
    }

    fn updates(&self) -> impl Iterator<Item = &Update> {
        self.history.updates_of(self.fetch.record)
    }

    /// True if the read may show an update.
    fn may_show(&self, update: &Update) -> bool {
        update.is_possible() && update.start_us <= self.fetch.end_us
    }

    /// True if the read has to show an update that nothing has undone.
    fn must_show(&self, update: &Update) -> bool {
        let is_kept = update.outcome == Outcome::Acknowledged && update.is_strict;
        match self.sight {
            RequiredUpdates::Some => false,
            RequiredUpdates::Majority => is_kept && update.end_us < self.fetch.start_us,
            RequiredUpdates::Everything => self.history.must_survive(update),
        }
    }

    /// True if an update may have been undone by another one that the read may show. `saw` says whether a
    /// value includes the update.
    fn may_be_undone(&self, update: &Update, saw: impl Fn(&ObservedValue) -> bool) -> bool {
        self.updates().any(|undo| {
            let Change::Undo { items, is_delete, knew } = &undo.change else { return false };
            let is_about = match update.change {
                Change::Add(item) => *is_delete || items.contains(&item),
                Change::Count { .. } | Change::Assign(_) => *is_delete,
                Change::Undo { .. } => false,
            };
            let may_have_seen = match knew.map(|knew| &self.history.fetches[knew]) {
                Some(fetch) => update.start_us <= fetch.end_us && saw(&fetch.seen),
                None => update.start_us <= undo.done_by_us(),
            };
            is_about && may_have_seen && self.may_show(undo)
        })
    }

    /// True if a remove that the read has to show has surely seen this addition of an item.
    fn is_surely_undone(&self, update: &Update, item: u8) -> bool {
        self.updates().any(|undo| {
            let Change::Undo { items, is_delete, knew: Some(knew) } = &undo.change else {
                return false;
            };
            let fetch = &self.history.fetches[*knew];
            let has_seen = fetch.is_strict
                && self.history.is_nothing_lost()
                && update.outcome == Outcome::Acknowledged
                && update.is_strict
                && update.end_us < fetch.start_us
                && fetch.seen.items.contains(&item);
            (*is_delete || items.contains(&item)) && has_seen && self.must_show(undo)
        })
    }

    /// Checks the counter: each addition counts once, unless it was not made or was undone.
    fn count(&self) -> Result<(), Violation> {
        let mut rest = self.fetch.seen.count;
        for update in self.updates() {
            let Change::Count { power, is_negative } = update.change else { continue };
            let (times, amount) = digit(rest, power, is_negative);
            rest -= amount;
            let what = format!("the addition of {}4^{power}", if is_negative { "-" } else { "" });
            match times {
                0 if self.must_show(update)
                    && !self.may_be_undone(update, |seen| counts(self.history, update, seen)) =>
                {
                    return Err(Violation::new(ViolationKind::Lost, format!("{what} is lost")));
                }
                0 => {}
                1 if self.may_show(update) => {}
                1 => {
                    return Err(Violation::new(
                        ViolationKind::Fabricated,
                        format!("{what} was not made"),
                    ));
                }
                times => {
                    let text = format!("{what} counts {times} times");
                    return Err(Violation::new(ViolationKind::Fabricated, text));
                }
            }
        }
        match rest {
            0 => Ok(()),
            rest => {
                Err(Violation::new(ViolationKind::Fabricated, format!("{rest} was never added")))
            }
        }
    }

    /// Checks an item of the set: it is shown only if it was added, and missing only if every addition
    /// was not made or was undone.
    fn item(&self, item: u8) -> Result<(), Violation> {
        let adds = || {
            let of_item =
                move |change: &Change| matches!(change, Change::Add(added) if *added == item);
            self.updates().filter(move |update| of_item(&update.change))
        };
        let name = char::from(item);
        if self.fetch.seen.items.contains(&item) {
            let mut possible = adds().filter(|update| self.may_show(update)).peekable();
            if possible.peek().is_none() {
                let text = format!("{name} was not added");
                return Err(Violation::new(ViolationKind::Fabricated, text));
            }
            if possible.all(|update| self.is_surely_undone(update, item)) {
                let text = format!("{name} was removed by those who had seen it");
                return Err(Violation::new(ViolationKind::Resurrected, text));
            }
            return Ok(());
        }
        let is_missed = |update: &Update| {
            self.must_show(update) && !self.may_be_undone(update, |seen| seen.items.contains(&item))
        };
        if adds().any(is_missed) {
            let text = format!("{name} is lost: nobody who removes it had seen it");
            return Err(Violation::new(ViolationKind::Lost, text));
        }
        Ok(())
    }

    /// Checks the register: it shows an assigned value if there is one, and not a value that a later
    /// assignment has replaced.
    fn assigned(&self) -> Result<(), Violation> {
        let number_of = |update: &Update| match update.change {
            Change::Assign(number) => Some(number),
            _ => None,
        };
        let assigns = || self.updates().filter(move |update| number_of(update).is_some());
        let kept = |update: &Update| {
            self.must_show(update) && !self.may_be_undone(update, |seen| seen.assigned.is_some())
        };
        let Some(number) = self.fetch.seen.assigned else {
            return match assigns().find(|update| kept(update)) {
                None => Ok(()),
                Some(_) => Err(Violation::new(ViolationKind::Lost, "the register's value is lost")),
            };
        };
        let Some(shown) =
            assigns().find(|update| number_of(update) == Some(number) && self.may_show(update))
        else {
            return Err(Violation::new(
                ViolationKind::Fabricated,
                format!("{number} was not assigned"),
            ));
        };
        let replaces = |update: &Update| update.start_us > shown.done_by_us() && kept(update);
        if !self.history.hardships.are_clocks_wrong && assigns().any(replaces) {
            let text = format!("{number} was replaced by a later assignment");
            return Err(Violation::new(ViolationKind::Resurrected, text));
        }
        Ok(())
    }
}

/// Returns how often a power of four, or its negative, is in a sum without the lower powers, and their
/// total.
fn digit(rest: i128, power: u32, is_negative: bool) -> (i128, i128) {
    let unit = 4_i128.pow(power);
    let signed = if is_negative { -unit } else { unit };
    let times = (rest / signed).rem_euclid(4);
    (times, times * signed)
}

/// True if a value includes an addition.
fn counts(history: &DataTypeHistory, update: &Update, seen: &ObservedValue) -> bool {
    let mut rest = seen.count;
    for each in history.updates_of(update.record) {
        let Change::Count { power, is_negative } = each.change else { continue };
        let (times, amount) = digit(rest, power, is_negative);
        rest -= amount;
        if std::ptr::eq(each, update) {
            return times != 0;
        }
    }
    false
}

/// Describes the updates of a record, for people.
fn story(history: &DataTypeHistory, record: Record) -> String {
    let mut text = format!("\n  updates of d{}:", record.0);
    for update in history.updates_of(record) {
        let end = match update.end_us {
            u64::MAX => "never".to_owned(),
            end_us => format!("{} ms", end_us / 1000),
        };
        let knew = match &update.change {
            Change::Undo { knew: Some(knew), .. } => {
                let fetch = &history.fetches[*knew];
                let (start_ms, strict) = (fetch.start_us / 1000, fetch.is_strict);
                format!(", knew {:?} of {start_ms} ms, strict={strict}", fetch.seen)
            }
            _ => String::new(),
        };
        text.push_str(&format!(
            "\n    {:?} {:?} from {} ms to {end}, dw={}, strict={}{knew}",
            update.change,
            update.outcome,
            update.start_us / 1000,
            update.dw,
            update.is_strict,
        ));
    }
    text
}

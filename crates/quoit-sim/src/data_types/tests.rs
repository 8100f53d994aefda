//! Tests of the checker with handwritten histories: right ones pass, and each kind of fault is found.

use super::Record;
use super::check::check;
use super::history::{Change, DataTypeHistory, Fetch, ObservedValue, Update};
use crate::history::Outcome;
use crate::violation::ViolationKind;
use std::collections::BTreeSet;

const COUNTER: Record = Record(0);
const SET: Record = Record(1);
const MAP: Record = Record(2);

/// Returns an acknowledged update of a majority of the primaries that took ten microseconds.
fn update(record: Record, start_us: u64, change: Change) -> Update {
    let (end_us, outcome) = (start_us + 10, Outcome::Acknowledged);
    Update { record, change, start_us, end_us, outcome, dw: 2, is_strict: true }
}

fn unknown(update: Update) -> Update {
    Update { end_us: u64::MAX, outcome: Outcome::Unknown, ..update }
}

fn count(start_us: u64, power: u32, is_negative: bool) -> Update {
    update(COUNTER, start_us, Change::Count { power, is_negative })
}

fn items(text: &str) -> ObservedValue {
    ObservedValue { items: text.bytes().collect(), ..ObservedValue::default() }
}

fn fetch(record: Record, start_us: u64, seen: ObservedValue) -> Fetch {
    Fetch { record, start_us, end_us: start_us + 10, is_strict: true, seen }
}

fn undo(text: &str, knew: Option<usize>) -> Change {
    Change::Undo { items: text.bytes().collect(), is_delete: false, knew }
}

/// Checks a history in which a record has the value `end` at the end.
fn verdict(
    updates: &[Update],
    fetches: &[Fetch],
    record: Record,
    end: ObservedValue,
) -> Result<(), ViolationKind> {
    let (updates, fetches) = (updates.to_vec(), fetches.to_vec());
    let history = DataTypeHistory { updates, fetches, ..DataTypeHistory::default() };
    check(&history, &[(record, end)]).map_err(|violation| violation.fault)
}

#[test]
fn an_addition_counts_once() {
    let updates = [count(0, 0, false), count(100, 1, true), unknown(count(200, 2, false))];
    let end = |count| {
        verdict(&updates, &[], COUNTER, ObservedValue { count, ..ObservedValue::default() })
    };
    assert_eq!(end(1 - 4), Ok(()), "the third may not have been made");
    assert_eq!(end(1 - 4 + 16), Ok(()));
    assert_eq!(end(-4), Err(ViolationKind::Lost));
    assert_eq!(end(1), Err(ViolationKind::Lost));
    assert_eq!(end(2 - 4), Err(ViolationKind::Fabricated), "twice");
    assert_eq!(end(1 - 8), Err(ViolationKind::Fabricated), "twice");
    assert_eq!(end(1 - 4 + 64), Err(ViolationKind::Fabricated), "never");
}

#[test]
fn an_add_wins_over_a_remove_that_has_not_seen_it() {
    let seen = [fetch(SET, 50, items("a"))];
    let updates = [
        update(SET, 0, Change::Add(b'a')),
        update(SET, 100, Change::Add(b'a')),
        update(SET, 200, undo("a", Some(0))),
    ];
    assert_eq!(verdict(&updates, &seen, SET, items("a")), Ok(()));
    assert_eq!(verdict(&updates, &seen, SET, items("")), Err(ViolationKind::Lost));
    let removed = [updates[0].clone(), updates[2].clone()];
    assert_eq!(verdict(&removed, &seen, SET, items("")), Ok(()));
    assert_eq!(verdict(&removed, &seen, SET, items("a")), Err(ViolationKind::Resurrected));
    let in_doubt = [updates[0].clone(), unknown(updates[2].clone())];
    for end in ["a", ""] {
        assert_eq!(verdict(&in_doubt, &seen, SET, items(end)), Ok(()), "{end:?}");
    }
    assert_eq!(verdict(&removed, &seen, SET, items("b")), Err(ViolationKind::Fabricated));
}

#[test]
fn a_remove_without_context_takes_what_its_coordinator_has() {
    let updates = [update(SET, 0, Change::Add(b'a')), update(SET, 100, undo("a", None))];
    for end in ["a", ""] {
        assert_eq!(verdict(&updates, &[], SET, items(end)), Ok(()), "{end:?}");
    }
    let later = [updates[1].clone(), update(SET, 200, Change::Add(b'a'))];
    assert_eq!(verdict(&later, &[], SET, items("")), Err(ViolationKind::Lost));
}

#[test]
fn a_majority_shows_what_a_majority_has_taken() {
    let updates = [update(SET, 0, Change::Add(b'a'))];
    let early = [fetch(SET, 5, items(""))];
    let late = [fetch(SET, 50, items(""))];
    let end = || items("a");
    assert_eq!(verdict(&updates, &early, SET, end()), Ok(()));
    assert_eq!(verdict(&updates, &late, SET, end()), Err(ViolationKind::Lost));
    let weak = late.map(|late| Fetch { is_strict: false, ..late });
    assert_eq!(verdict(&updates, &weak, SET, end()), Ok(()));
}

#[test]
fn a_register_keeps_the_later_of_two_assignments() {
    let updates = [update(MAP, 0, Change::Assign(7)), update(MAP, 100, Change::Assign(8))];
    let end = |assigned| {
        verdict(&updates, &[], MAP, ObservedValue { assigned, ..ObservedValue::default() })
    };
    assert_eq!(end(Some(8)), Ok(()));
    assert_eq!(end(Some(7)), Err(ViolationKind::Resurrected));
    assert_eq!(end(None), Err(ViolationKind::Lost));
    assert_eq!(end(Some(9)), Err(ViolationKind::Fabricated));
}

#[test]
fn a_delete_takes_what_its_writer_has_seen() {
    let seen =
        ObservedValue { count: 1, items: BTreeSet::from([b'a']), ..ObservedValue::default() };
    let fetches = [fetch(MAP, 50, seen)];
    let delete = Change::Undo { items: BTreeSet::new(), is_delete: true, knew: Some(0) };
    let updates = [
        update(MAP, 0, Change::Add(b'a')),
        update(MAP, 20, Change::Count { power: 0, is_negative: false }),
        update(MAP, 70, Change::Count { power: 1, is_negative: false }),
        update(MAP, 100, delete),
    ];
    let end =
        |count, text| verdict(&updates, &fetches, MAP, ObservedValue { count, ..items(text) });
    assert_eq!(end(4, ""), Ok(()));
    assert_eq!(end(5, ""), Ok(()), "who counts on keeps what it had counted");
    assert_eq!(end(0, ""), Err(ViolationKind::Lost), "the second was not seen");
    assert_eq!(end(4, "a"), Err(ViolationKind::Resurrected));
}

use super::Register;
use super::check::check;
use super::history::{RegisterHistory, RegisterRead};
use crate::history::{Outcome, WriteNumber};
use crate::violation::ViolationKind;
use proptest::prelude::*;
use std::collections::BTreeSet;

const REGISTER: Register = Register(0);

fn numbers(found: &[u32]) -> BTreeSet<WriteNumber> {
    found.iter().copied().map(WriteNumber).collect()
}

/// Adds a write on a base, with the times of its start and end.
fn write(history: &mut RegisterHistory, base: &[u32], times: (u64, u64), outcome: Outcome) {
    let number = history.begin(REGISTER, numbers(base), times.0);
    history.end(number, times.1, outcome);
}

fn read(history: &mut RegisterHistory, found: &[u32], times: (u64, u64)) {
    let found = numbers(found);
    let (start_us, end_us) = times;
    let foreign = Vec::new();
    history.reads.push(RegisterRead { register: REGISTER, start_us, end_us, found, foreign });
}

fn fault(history: &RegisterHistory) -> Option<ViolationKind> {
    check(history).err().map(|violation| violation.fault)
}

const DONE: Outcome = Outcome::Acknowledged;

#[test]
fn two_acknowledged_writes_of_one_base_are_found() {
    let mut history = RegisterHistory::default();
    write(&mut history, &[], (1, 5), DONE);
    write(&mut history, &[], (2, 6), Outcome::Unknown);
    assert_eq!(fault(&history), None);
    write(&mut history, &[0], (7, 9), DONE);
    write(&mut history, &[0], (7, 9), DONE);
    assert_eq!(fault(&history), Some(ViolationKind::NotInOrder));
}

#[test]
fn a_write_that_replaces_what_is_acknowledged_later_is_found() {
    let mut history = RegisterHistory::default();
    write(&mut history, &[], (1, 2), DONE);
    // Its base is older than the write that was acknowledged before it began.
    write(&mut history, &[0], (3, 4), DONE);
    write(&mut history, &[1], (3, 5), DONE);
    assert_eq!(fault(&history), None, "the second of two at the same time replaced the first");
    write(&mut history, &[], (6, 7), DONE);
    assert_eq!(fault(&history), Some(ViolationKind::NotInOrder));
}

#[test]
fn reads_are_held_to_what_came_before_them() {
    let mut history = RegisterHistory::default();
    write(&mut history, &[], (1, 2), DONE);
    read(&mut history, &[], (1, 3));
    write(&mut history, &[0], (5, 9), Outcome::Unknown);
    read(&mut history, &[1], (6, 7));
    read(&mut history, &[0], (8, 9));
    assert_eq!(fault(&history), None);
    let mut lost = history.clone();
    read(&mut lost, &[], (10, 11));
    assert_eq!(fault(&lost), Some(ViolationKind::Lost));
    lost.losses_us.push(3);
    assert_eq!(fault(&lost), None, "a disk has lost what it had promised to keep");
    let mut twice = history.clone();
    read(&mut twice, &[0, 1], (10, 11));
    assert_eq!(fault(&twice), Some(ViolationKind::FalseSiblings));
    read(&mut history, &[7], (10, 11));
    assert_eq!(fault(&history), Some(ViolationKind::Fabricated));
}

proptest! {
    /// The history of a register under one lock has no violation. A second acknowledged write on the same
    /// base always causes one.
    #[test]
    fn a_perfect_register_raises_no_alarm(
        steps in prop::collection::vec((0_usize..3, any::<bool>()), 1..60),
        at in any::<prop::sample::Index>(),
    ) {
        let mut history = RegisterHistory::default();
        let (mut now_us, mut value): (u64, Vec<u32>) = (0, Vec::new());
        let mut known: [Option<Vec<u32>>; 3] = [const { None }; 3];
        for (client, is_answered) in steps {
            now_us += 2;
            let Some(base) = known[client].take() else {
                read(&mut history, &value, (now_us, now_us + 1));
                known[client] = Some(value.clone());
                continue;
            };
            let number = history.writes.len() as u32;
            let outcome = match (base == value, is_answered) {
                (false, _) => Outcome::Refused,
                (true, false) => Outcome::Unknown,
                (true, true) => DONE,
            };
            write(&mut history, &base, (now_us, now_us + 1), outcome);
            if base == value {
                value = vec![number];
            }
        }
        prop_assert_eq!(fault(&history), None);
        let done: Vec<_> = history.acknowledged().map(|(_, write)| write.base.clone()).collect();
        if !done.is_empty() {
            let base: Vec<u32> = at.get(&done).iter().map(|number| number.0).collect();
            write(&mut history, &base, (now_us + 2, now_us + 3), DONE);
            prop_assert_eq!(fault(&history), Some(ViolationKind::NotInOrder));
        }
    }
}

//! Checks the promise of registers that only conditional writes change: each value is replaced by one
//! other.
//!
//! Deciding whether the history of a register is linearizable is hard in general. It is easy if each read
//! names the write that it has read (Gibbons and Korach, *Testing Shared Memories*, 1997, "read-map").
//! Here each write names the values that it replaces, so the order of the acknowledged writes is known.
//! It has to be a single chain, in the order of the times at which the writes were made.
//!
//! The rule for reads is weaker: a read that begins after a write was acknowledged shows that write or
//! one that replaced it. Of two reads during a write, the first may show it and the second not, because
//! reads do not wait for their repairs.

use super::Register;
use super::history::{RegisterHistory, RegisterRead, RegisterWrite};
use crate::history::{Outcome, WriteNumber};
use crate::violation::{Violation, ViolationKind};
use std::collections::BTreeSet;

/// Checks all reads, and then all acknowledged writes.
///
/// # Errors
///
/// The first violation: of reads in the order of their ends, then of writes.
pub(crate) fn check(history: &RegisterHistory) -> Result<(), Violation> {
    let ancestors: Vec<_> = (0..history.write_count())
        .map(|number| ancestors(history, &BTreeSet::from([WriteNumber(number)])))
        .collect();
    for read in &history.reads {
        check_read(history, &ancestors, read)
            .map_err(|violation| with_story(history, read.register, violation))?;
    }
    for (number, write) in history.acknowledged() {
        check_write(history, &ancestors, number, write)
            .map_err(|violation| with_story(history, write.register, violation))?;
    }
    Ok(())
}

/// Returns all writes that these writes have replaced, directly or through others.
fn ancestors(history: &RegisterHistory, writes: &BTreeSet<WriteNumber>) -> BTreeSet<WriteNumber> {
    let mut all = BTreeSet::new();
    let mut next: Vec<_> = writes.iter().copied().collect();
    while let Some(number) = next.pop() {
        // Values that no client has written are reported by another check.
        for base in history.writes.get(number.0 as usize).into_iter().flat_map(|write| &write.base)
        {
            if all.insert(*base) {
                next.push(*base);
            }
        }
    }
    all
}

fn check_read(
    history: &RegisterHistory,
    ancestors: &[BTreeSet<WriteNumber>],
    read: &RegisterRead,
) -> Result<(), Violation> {
    let is_written = |number: &WriteNumber| {
        history.writes.get(number.0 as usize).is_some_and(|write| {
            write.register == read.register
                && write.outcome != Outcome::Refused
                && write.start_us <= read.end_us
        })
    };
    if !read.foreign.is_empty() || !read.found.iter().all(is_written) {
        let text = format!("nobody has written {:?} {:?} here", read.found, read.foreign);
        return Err(Violation::new(ViolationKind::Fabricated, text));
    }
    let of = |number: &WriteNumber| &ancestors[number.0 as usize];
    for one in &read.found {
        if read.found.iter().any(|other| of(other).contains(one)) {
            let text = format!("{one} stands beside what replaced it: {:?}", read.found);
            return Err(Violation::new(ViolationKind::FalseSiblings, text));
        }
    }
    for (number, write) in history.acknowledged() {
        let has_to_show = write.register == read.register
            && write.end_us < read.start_us
            && history.is_whole_since(write.start_us);
        let shows = |found: &WriteNumber| *found == number || of(found).contains(&number);
        if has_to_show && !read.found.iter().any(shows) {
            let text = format!(
                "{number} is neither in {:?} at {} ms nor replaced by it",
                read.found,
                read.end_us / 1_000
            );
            return Err(Violation::new(ViolationKind::Lost, text));
        }
    }
    Ok(())
}

/// Compares an acknowledged write with all later ones of its register: of each two writes, the later one
/// has replaced the earlier one. Writes that overlap in time may have either order.
fn check_write(
    history: &RegisterHistory,
    ancestors: &[BTreeSet<WriteNumber>],
    number: WriteNumber,
    write: &RegisterWrite,
) -> Result<(), Violation> {
    for (other_number, other) in history.acknowledged() {
        if other.register != write.register || other_number <= number {
            continue;
        }
        let (first, second) = if write.start_us <= other.start_us {
            ((number, write), (other_number, other))
        } else {
            ((other_number, other), (number, write))
        };
        let replaces =
            |new: WriteNumber, old: WriteNumber| ancestors[new.0 as usize].contains(&old);
        let in_order = replaces(second.0, first.0);
        let is_turned = second.1.start_us <= first.1.end_us && replaces(first.0, second.0);
        if !in_order && !is_turned && history.is_whole_since(first.1.start_us) {
            let text = format!("{} and {} were both acknowledged", first.0, second.0);
            return Err(Violation::new(ViolationKind::NotInOrder, text));
        }
    }
    Ok(())
}

/// Adds the writes of the register to a violation, for people.
fn with_story(history: &RegisterHistory, register: Register, violation: Violation) -> Violation {
    let mut text = format!("register {}: {}\n  writes:", register.0, violation.text);
    for (number, write) in history.writes.iter().enumerate() {
        if write.register == register {
            text.push_str(&format!(
                "\n    w{number} {:?} from {} ms to {} ms, on {:?}",
                write.outcome,
                write.start_us / 1_000,
                write.end_us / 1_000,
                write.base,
            ));
        }
    }
    Violation { text, ..violation }
}

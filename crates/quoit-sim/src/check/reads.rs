//! Rules for the values that a read may show and has to show.

use super::causes::Causes;
use crate::history::{FoundValue, KeyNumber, Outcome, Read, Reader, Write, WriteKind, WriteNumber};
use crate::policy::Policy;
use crate::violation::{Violation, ViolationKind};

impl Causes<'_> {
    /// Checks one read.
    pub(super) fn check_read(&self, read: &Read) -> Result<(), Violation> {
        let policy = self.history.keys[read.key.0 as usize];
        self.check_written(read)?;
        if read.reader != Reader::Union {
            self.check_side_by_side(read, policy)?;
            self.check_alive(read, policy)?;
        }
        for (number, write) in self.history.writes_of(read.key) {
            if self.must_show(read, number, write) {
                self.check_shown(read, policy, number, write)?;
            }
        }
        Ok(())
    }

    /// Checks that each value was written to this key, by a write that had started.
    fn check_written(&self, read: &Read) -> Result<(), Violation> {
        for found in &read.found {
            let is_written = match found {
                FoundValue::Value(number) => {
                    self.history.writes.get(number.0 as usize).is_some_and(|write| {
                        write.key == read.key
                            && !write.kind.is_delete()
                            && write.outcome != Outcome::Refused
                            && write.start_us <= read.end_us
                    })
                }
                other => self.seen_in_one(read.key, other).is_some(),
            };
            if !is_written {
                let text = format!("nobody has written {found:?} under this key");
                return Err(Violation::new(ViolationKind::Fabricated, text));
            }
        }
        Ok(())
    }

    /// Checks that no value is shown beside another one that replaced it.
    fn check_side_by_side(&self, read: &Read, policy: Policy) -> Result<(), Violation> {
        if policy.shows_one() && read.found.len() > 1 {
            let text = "more than one value where readers see one";
            return Err(Violation::new(ViolationKind::FalseSiblings, text));
        }
        for (place, one) in read.found.iter().enumerate() {
            for (other_place, other) in read.found.iter().enumerate() {
                if place != other_place && self.is_replaced_by(read, one, other) {
                    let text = format!("{other:?} had replaced {one:?}");
                    return Err(Violation::new(ViolationKind::FalseSiblings, text));
                }
            }
        }
        Ok(())
    }

    /// Checks that some of the values which a read shows had not expired when the read began. Where readers
    /// see one value, it may be stored beside others that live longer.
    fn check_alive(&self, read: &Read, policy: Policy) -> Result<(), Violation> {
        let has_expired = |found: &FoundValue| match found {
            FoundValue::Value(number) => self.history.writes[number.0 as usize]
                .expires_by_us()
                .is_some_and(|expires_us| expires_us <= read.start_us),
            FoundValue::Tombstone(..) | FoundValue::Foreign(_) => false,
        };
        if !policy.shows_one() && !read.found.is_empty() && read.found.iter().all(has_expired) {
            let text = "all of these values had expired before";
            return Err(Violation::new(ViolationKind::Resurrected, text));
        }
        Ok(())
    }

    fn is_replaced_by(&self, read: &Read, old: &FoundValue, new: &FoundValue) -> bool {
        if old == new {
            return true;
        }
        let FoundValue::Value(old) = old else { return false };
        if self.may_have_two_events(read.key, *old) {
            return false;
        }
        self.seen_in_one(read.key, new).is_some_and(|seen| seen.certain.contains(old))
    }

    /// True if the read has to show the write: its value, or a value that replaced it.
    pub(super) fn must_show(&self, read: &Read, number: WriteNumber, write: &Write) -> bool {
        let hardships = &self.history.hardships;
        let came_before = write.outcome == Outcome::Acknowledged && write.end_us < read.start_us;
        match read.reader {
            Reader::Client => false,
            Reader::Writer(writer) => writer == number,
            Reader::Union => came_before && self.history.must_survive(write),
            Reader::Final => came_before && write.is_strict && self.history.must_survive(write),
            // Fallbacks may still have a deleted value.
            Reader::Majority if write.kind.is_delete() => false,
            Reader::Strict | Reader::Majority => {
                // A copy that is known to have lost records counts like the copy of a fallback.
                let lost_us = match read.reader {
                    Reader::Majority => &hardships.files_lost_us,
                    _ => &hardships.unnoticed_losses_us,
                };
                let is_between = |at_us: &u64| (write.start_us..=read.end_us).contains(at_us);
                came_before
                    && write.is_strict
                    && !lost_us.iter().any(is_between)
                    && self.have_quorums_met(read, write)
                    && !self.may_be_gone(read, write)
            }
        }
    }

    /// True if each majority of the primaries at the time of the write overlaps each one at the time of
    /// the read. Majorities for different values of n_val need not overlap. When n_val is raised, reads
    /// of primaries count only the former primaries until the new ones are filled.
    fn have_quorums_met(&self, read: &Read, write: &Write) -> bool {
        let policy = self.history.keys[read.key.0 as usize];
        let (counts, between_us) = (&self.history.replica_counts, write.start_us..=read.end_us);
        !counts.changed_within(policy, between_us.clone())
            || read.reader == Reader::Strict && counts.only_raised(policy, between_us)
    }

    /// True if the write may have been on a single disk that was lost before the read ended.
    fn may_be_gone(&self, read: &Read, write: &Write) -> bool {
        let policy = self.history.keys.get(read.key.0 as usize).copied();
        let n_val = self.history.replica_counts.least_from(policy, write.start_us);
        let hardships = &self.history.hardships;
        let mut losses_us = hardships.losses_us.iter().chain(&hardships.files_lost_us);
        n_val < 2 && losses_us.any(|at_us| (write.start_us..=read.end_us).contains(at_us))
    }

    fn check_shown(
        &self,
        read: &Read,
        policy: Policy,
        number: WriteNumber,
        write: &Write,
    ) -> Result<(), Violation> {
        let certain = &self.seen[number.0 as usize].certain;
        // A fallback may still have a value that the primaries have replaced.
        let has_stand_ins = matches!(read.reader, Reader::Union | Reader::Majority);
        let shown = if has_stand_ins { &[][..] } else { &read.found };
        for found in shown {
            if let FoundValue::Value(value) = found
                && *value != number
                && certain.contains(value)
                && !self.may_have_two_events(read.key, *value)
                && policy != Policy::LastWriteWins
            {
                let text = format!("{number} had replaced {value}");
                return Err(Violation::new(ViolationKind::Resurrected, text));
            }
        }
        // A fallback may still have the old value after the primaries have reaped the tombstone.
        let is_kept = match (policy.shows_one(), read.reader) {
            (true, Reader::Union) => {
                self.is_later_shown(read, write) || self.is_deleted_later(read, write)
            }
            (true, _) => self.is_later_shown(read, write),
            (false, _) => self.is_kept(read, number),
        };
        if is_kept || write.kind.is_delete() && read.found.is_empty() {
            return Ok(());
        }
        let fault =
            if write.kind.is_delete() { ViolationKind::Resurrected } else { ViolationKind::Lost };
        Err(Violation::new(fault, format!("{number} is neither there nor replaced")))
    }

    /// True if a value was found under two events, or may have two events of which one was replaced before
    /// any read could show it: the write took so long that it may have been forwarded twice, and no read
    /// that ended before the first surely replaced it shows the value.
    fn may_have_two_events(&self, key: KeyNumber, value: WriteNumber) -> bool {
        if self.history.was_made_twice(value) {
            return true;
        }
        if self.history.writes_are_made_once
            || !self.history.writes[value.0 as usize].may_be_made_late()
        {
            return false;
        }
        let replaced_us = self
            .history
            .writes_of(key)
            .filter(|(number, _)| *number != value)
            .filter(|(number, _)| self.seen[number.0 as usize].certain.contains(&value))
            .map(|(_, write)| write.end_us)
            .min();
        let is_shown = |read: &Read| read.found.contains(&FoundValue::Value(value));
        let mut reads = self.history.reads_of(key).map(|(_, read)| read);
        !reads.any(|read| Some(read.end_us) < replaced_us && is_shown(read))
    }

    /// True if the read shows the write or a value that replaced it, or if a delete or an expired value
    /// may have replaced it and left nothing.
    fn is_kept(&self, read: &Read, number: WriteNumber) -> bool {
        let is_there = self.seen_in(read).possible.contains(&number);
        let deletes = self.history.writes_of(read.key).filter(|(_, write)| {
            write.deletes_by(read.end_us)
                && write.outcome != Outcome::Refused
                && write.start_us <= read.end_us
        });
        let mut deletes = deletes.map(|(delete, _)| &self.seen[delete.0 as usize]);
        is_there || deletes.any(|seen| seen.possible.contains(&number))
    }

    /// True if the shown value may be later than the write, in a bucket where readers see one value.
    ///
    /// A write whose outcome is unknown may be made at any time. With wrong clocks any order is possible.
    fn is_later_shown(&self, read: &Read, write: &Write) -> bool {
        match read.found.first() {
            None | Some(FoundValue::Tombstone(..)) => self.is_deleted_later(read, write),
            Some(FoundValue::Value(shown)) => {
                let shown = &self.history.writes[shown.0 as usize];
                // A delete without a context reads before it deletes, and may miss values that only
                // fallbacks or another cluster have.
                let is_elsewhere = !shown.is_strict || shown.cluster != write.cluster;
                let is_unseen = write.kind == WriteKind::DeleteUnseen && is_elsewhere;
                is_unseen || self.may_be_later(shown, write)
            }
            Some(FoundValue::Foreign(_)) => false,
        }
    }

    /// True if a delete or an expired value may be later than the write.
    fn is_deleted_later(&self, read: &Read, write: &Write) -> bool {
        let mut writes = self.history.writes_of(read.key).map(|(_, write)| write);
        writes.any(|other| {
            let is_possible = other.outcome != Outcome::Refused && other.start_us <= read.end_us;
            other.deletes_by(read.end_us) && is_possible && self.may_be_later(other, write)
        })
    }

    fn may_be_later(&self, one: &Write, other: &Write) -> bool {
        self.history.hardships.are_clocks_wrong
            || one.may_be_made_late()
            || one.end_us >= other.start_us
    }
}

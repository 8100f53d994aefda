//! The share of one connection in the budget.

use super::ANSWERS_BYTES_FREE;
use super::budget::{ALLOWANCE_BYTES, MemoryBudget, NoRoom, Unmeasured};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An object is in memory so many times on its way to a client: as it was read, and in the answer.
pub(crate) const READ_COPIES: usize = 2;

/// Room for what an answer has beside its value, about.
const ANSWER_HEAD_BYTES: usize = 1024;

/// The account of a connection. Its allowance goes back to the budget with it.
#[derive(Debug)]
pub struct Account {
    budget: Arc<MemoryBudget>,
    /// Bytes that its rooms have together.
    held_bytes: AtomicU64,
}

impl Account {
    pub(super) const fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, held_bytes: AtomicU64::new(0) }
    }

    /// A room that has nothing of the budget yet. `free_bytes` of what it needs are in the allowance.
    pub(crate) fn room(self: &Arc<Self>, free_bytes: usize) -> Room {
        Room { account: Arc::clone(self), free_bytes, floor_bytes: 0, held_bytes: 0 }
    }

    /// Admits the read of an object, which lasts as long as the answer of this function is kept. Its size is
    /// looked up, and memory for it asked for in `room`, when any object might be too large. `out` are the
    /// answers that have gathered.
    pub(crate) fn admit_read(
        &self,
        room: &mut Room,
        out: &[u8],
        size_bytes_max: impl FnOnce() -> Option<u64>,
    ) -> Result<Option<Unmeasured<'_>>, NoRoom> {
        let unmeasured = self.budget.begin_unmeasured();
        if unmeasured.is_none() {
            room.hold_read(out, size_bytes_max())?;
        }
        Ok(unmeasured)
    }

    /// Looks whether there would be room for so many bytes more. Takes nothing.
    pub(crate) fn check(&self, bytes: u64) -> Result<(), NoRoom> {
        self.budget.check(bytes, self.held_bytes.load(Ordering::Relaxed))
    }

    fn take(&self, bytes: u64) -> Result<(), NoRoom> {
        self.budget.take(bytes, self.held_bytes.load(Ordering::Relaxed))?;
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.give_back_large(bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        assert_eq!(*self.held_bytes.get_mut(), 0, "rooms hold their account");
        self.budget.give_back(ALLOWANCE_BYTES);
    }
}

/// Memory of one use: what arrives, what is sent, or what a request gathers.
#[derive(Debug)]
pub(crate) struct Room {
    account: Arc<Account>,
    /// Bytes that need not be asked for.
    free_bytes: usize,
    /// Bytes that are kept until the request is over, whatever is in use.
    floor_bytes: u64,
    held_bytes: u64,
}

impl Room {
    /// Asks for so many bytes in all. What there is already stays.
    pub(crate) fn hold(&mut self, needed_bytes: usize) -> Result<(), NoRoom> {
        let wanted = self.wanted(needed_bytes);
        if wanted > self.held_bytes {
            self.account.take(wanted - self.held_bytes)?;
            self.held_bytes = wanted;
        }
        Ok(())
    }

    /// Asks for so many bytes at the end of the answers that have gathered. Nearly all answers fit what
    /// need not be asked for.
    #[inline]
    pub(crate) fn hold_answer(&mut self, out: &mut Vec<u8>, bytes: usize) -> Result<(), NoRoom> {
        match out.len().saturating_add(bytes) <= ANSWERS_BYTES_FREE {
            true => Ok(()),
            false => self.hold_large_answer(out, bytes),
        }
    }

    #[cold]
    fn hold_large_answer(&mut self, out: &mut Vec<u8>, bytes: usize) -> Result<(), NoRoom> {
        self.hold(out.len().saturating_add(bytes))?;
        // Not twice as much as is there already, as a buffer grows by itself.
        out.reserve_exact(bytes + ANSWER_HEAD_BYTES);
        Ok(())
    }

    /// Asks for memory for an object that is read and answered next, if it is known how large it may be.
    /// `out` are the answers that have gathered.
    pub(crate) fn hold_read(
        &mut self,
        out: &[u8],
        size_bytes_max: Option<u64>,
    ) -> Result<(), NoRoom> {
        let size_bytes = size_bytes_max.map_or(0, as_bytes);
        self.hold(out.len().saturating_add(size_bytes.saturating_mul(READ_COPIES)))
    }

    /// Gives back all but so many bytes.
    pub(crate) fn keep(&mut self, needed_bytes: usize) {
        let wanted = self.wanted(needed_bytes);
        if wanted < self.held_bytes {
            self.account.give_back(self.held_bytes - wanted);
            self.held_bytes = wanted;
        }
    }

    /// Asks for so many bytes beside those that need not be asked for, and keeps them until
    /// [`Room::drop_floor`]: for what comes piece by piece, so that no piece is refused in the midst of it.
    pub(crate) fn hold_floor(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.hold(self.free_bytes.saturating_add(bytes))?;
        self.floor_bytes = self.floor_bytes.max(bytes as u64);
        Ok(())
    }

    /// Ends what [`Room::hold_floor`] began.
    pub(crate) fn drop_floor(&mut self, needed_bytes: usize) {
        if self.floor_bytes > 0 {
            self.floor_bytes = 0;
            self.keep(needed_bytes);
        }
    }

    /// Bytes that it has of the budget.
    pub(crate) const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn wanted(&self, needed_bytes: usize) -> u64 {
        (needed_bytes.saturating_sub(self.free_bytes) as u64).max(self.floor_bytes)
    }
}

/// A size in bytes; the largest there is for one that can't be in memory anyway.
fn as_bytes(size_bytes: u64) -> usize {
    usize::try_from(size_bytes).unwrap_or(usize::MAX)
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.held_bytes > 0 {
            self.account.give_back(self.held_bytes);
        }
    }
}

/// Values that a request gathers before it answers. They are in memory so many times: as they were read, in
/// the form in which they are gathered, as one document, and in the answer.
const GATHERED_COPIES: usize = 4;

/// Memory of what a request gathers before it answers.
#[derive(Debug)]
pub(crate) struct Gathered {
    room: Room,
    values_bytes: usize,
}

impl Gathered {
    /// Nothing yet.
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self { room: account.room(0), values_bytes: 0 }
    }

    /// Asks for memory for an object that is read next, if it is known how large it may be.
    pub(crate) fn hold_read(&mut self, size_bytes_max: Option<u64>) -> Result<(), NoRoom> {
        let values_bytes = self.values_bytes.saturating_add(size_bytes_max.map_or(0, as_bytes));
        self.room.hold(values_bytes.saturating_mul(GATHERED_COPIES))
    }

    /// Asks for memory for so many bytes of values more.
    pub(crate) fn add(&mut self, values_bytes: usize) -> Result<(), NoRoom> {
        self.values_bytes = self.values_bytes.saturating_add(values_bytes);
        self.room.hold(self.values_bytes.saturating_mul(GATHERED_COPIES))
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemorySettings;
    use super::*;

    #[test]
    fn a_room_asks_for_what_exceeds_its_free_part_and_gives_it_back() {
        let settings = MemorySettings {
            budget_bytes: 1 << 20,
            share_bytes: 1 << 19,
            request_bytes_max: 1 << 18,
        };
        let budget = Arc::new(MemoryBudget::new(settings));
        let account = budget.open().expect("room for an allowance");
        let used = || budget.figures().used_bytes - ALLOWANCE_BYTES;
        let mut room = account.room(1_000);
        room.hold(1_000).expect("it is free");
        assert_eq!(used(), 0);
        room.hold(5_000).expect("there is room");
        room.hold(3_000).expect("it has more");
        assert_eq!((used(), room.held_bytes()), (4_000, 4_000));
        room.keep(1_500);
        assert_eq!(used(), 500);
        room.hold_floor(2_000).expect("there is room");
        room.keep(0);
        assert_eq!(used(), 2_000, "the floor is kept");
        room.drop_floor(1_200);
        assert_eq!(used(), 200);
        drop(room);
        assert_eq!(used(), 0);
    }
}

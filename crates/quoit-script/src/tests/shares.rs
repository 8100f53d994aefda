//! The memory of sessions, of their jobs, and of all jobs.

use super::{job, limits};
use crate::shares::{JobShares, SessionMemory};
use quoit_heap::MemoryBudget;
use std::sync::Arc;

const MIB: usize = 1 << 20;

fn session(all: &Arc<JobShares>, number: u8) -> SessionMemory {
    SessionMemory::new(all.of(&job(number)))
}

#[test]
fn memory_that_all_jobs_have_no_room_for_is_not_counted_for_the_job() {
    let all = JobShares::new(limits());
    let (mut first, mut second) = (session(&all, 1), session(&all, 2));
    assert!(first.take(8 * MIB) && second.take(4 * MIB));
    assert!(!second.take(4 * MIB), "all jobs have 12 MiB");
    first.give_all_back();
    assert!(second.take(4 * MIB), "a job has 8 MiB");
    assert!(!second.take(1));
}

#[test]
fn the_last_memory_of_a_job_is_had_though_it_is_less_than_a_step() {
    let all = JobShares::new(limits());
    let mut memory = session(&all, 1);
    assert!(memory.take(8 * MIB - 1000) && memory.take(1000));
    assert!(!memory.take(1));
}

#[test]
fn a_session_that_goes_on_gives_back_what_it_has_freed() {
    let all = JobShares::new(limits());
    let (mut first, mut second, mut third) = (session(&all, 1), session(&all, 2), session(&all, 3));
    assert!(first.take(8 * MIB) && second.take(4 * MIB));
    assert!(!third.take(7 * MIB));
    first.give_back(8 * MIB);
    assert!(third.take(7 * MIB));
}

//! Threads that only use idle processor time.

use std::process::Command;

/// The lowest priority, for systems that do not permit the idle policy.
const LOWEST_PRIORITY: i32 = 19;

/// Lets the calling thread run only while no other thread wants its processor. The clients run on the
/// server's processors and must not take its time. A low priority does not suffice, since Linux lets a
/// thread finish its time slice; a thread of the policy SCHED_IDLE is preempted at once.
pub(crate) fn run_at_idle_priority() {
    let thread = rustix::thread::gettid().to_string();
    let set = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status();
    if !set.is_ok_and(|status| status.success()) {
        // If the priority can't be changed, the figures get worse, not better.
        let _ = rustix::process::nice(LOWEST_PRIORITY);
    }
}

//! Threads that take what others leave of a processor.

use std::process::Command;

/// The lowest priority, where the system has no policy of idle threads.
const LOWEST_PRIORITY: i32 = 19;

/// Has the calling thread run only while no other wants its processor: the clients run beside the server,
/// whose time is not to be theirs. A low priority alone is not enough, since Linux lets a thread end its time
/// slice; a thread of the policy SCHED_IDLE is put aside at once.
pub(crate) fn take_what_is_left() {
    let thread = rustix::thread::gettid().to_string();
    let set = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status();
    if !set.is_ok_and(|status| status.success()) {
        // A priority that stays makes the figures worse, not better.
        let _ = rustix::process::nice(LOWEST_PRIORITY);
    }
}

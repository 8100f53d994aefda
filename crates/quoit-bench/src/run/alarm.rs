//! A timer that wakes the workers of a thread within microseconds of the time that they ask for.
//!
//! The event loop's own timers have a resolution of one millisecond. That is coarser than the latencies
//! that are measured: an operation that starts half a millisecond late would be reported half a millisecond
//! too slow. So each thread has one kernel timer (`timerfd`), and the event loop waits for its descriptor
//! as for a socket.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// The timer of one thread.
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    sleepers: RefCell<Sleepers>,
}

/// Tasks that wait, the latest first, so that the earliest is the last entry. The number distinguishes
/// tasks that wait for the same instant.
#[derive(Default)]
struct Sleepers {
    by_time: BTreeMap<Reverse<(Instant, u64)>, oneshot::Sender<()>>,
    count: u64,
}

impl Alarm {
    /// Creates the timer of the current event loop. A task of that loop must run [`ring`](Self::ring).
    ///
    /// # Errors
    ///
    /// When the system provides no timer.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "what takes its place is unsafe; this descriptor is not moved"
        )]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self { timer, sleepers: RefCell::default() })
    }

    /// Waits until `until`. Returns at once if that time has passed.
    pub(super) async fn sleep_until(&self, until: Instant) {
        if until <= Instant::now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        let is_first = {
            let mut sleepers = self.sleepers.borrow_mut();
            sleepers.count += 1;
            let key = Reverse((until, sleepers.count));
            sleepers.by_time.insert(key, wake);
            sleepers.by_time.last_key_value().is_some_and(|(last, _)| *last == key)
        };
        if is_first {
            self.set(until);
        }
        // The sender is only dropped with the alarm, when the thread ends.
        let _ = woken.await;
    }

    /// Wakes sleepers when their times come. Never returns unless the timer fails.
    pub(super) async fn ring(&self) {
        loop {
            match self.timer.readable().await {
                Ok(mut guard) => guard.clear_ready(),
                Err(_) => return,
            }
            let mut sleepers = self.sleepers.borrow_mut();
            let now = Instant::now();
            while let Some(entry) = sleepers.by_time.last_entry() {
                let Reverse((until, _)) = *entry.key();
                if until > now {
                    self.set(until);
                    break;
                }
                // Fails if the sleeper has given up, which is harmless.
                let _ = entry.remove().send(());
            }
        }
    }

    fn set(&self, until: Instant) {
        // The kernel takes a time of 0 as a request to disarm the timer.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let it_value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time)
            .expect("a timer takes any time above 0");
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn sleepers_wake_in_the_order_of_their_times_and_not_before() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default())
            .expect("an event loop");
        runtime.block_on(async {
            let alarm = Rc::new(Alarm::new().expect("a timer"));
            let ringing = alarm.clone();
            tokio::task::spawn_local(async move { ringing.ring().await });
            let start = Instant::now();
            let woken = Rc::new(RefCell::new(Vec::new()));
            let mut tasks = Vec::new();
            for ms in [9, 3, 0, 6, 3] {
                let (alarm, woken) = (alarm.clone(), woken.clone());
                tasks.push(tokio::task::spawn_local(async move {
                    let until = start + Duration::from_millis(ms);
                    alarm.sleep_until(until).await;
                    assert!(Instant::now() >= until);
                    woken.borrow_mut().push(ms);
                }));
            }
            // A sleeper that gives up does not disturb the others.
            let given_up = alarm.sleep_until(start + Duration::from_millis(1));
            let _ = tokio::time::timeout(Duration::ZERO, given_up).await;
            for task in tasks {
                task.await.expect("no panic");
            }
            assert_eq!(*woken.borrow(), [0, 3, 3, 6, 9]);
        });
    }
}

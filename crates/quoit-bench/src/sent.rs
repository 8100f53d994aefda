//! When the operation that a worker is at sent its first request. Links note it, and the worker takes it: so
//! the moment need not be passed up through the layers of every driver.

use std::cell::Cell;
use std::time::Instant;

tokio::task_local! {
    /// When the operation that a worker's task is at gave its first request to the system.
    static SENT: Cell<Option<Instant>>;
}

/// Runs the task of a worker, whose links [note](note_sent) when they send.
pub(crate) async fn noting_sent<F: Future>(work: F) -> F::Output {
    SENT.scope(Cell::new(None), work).await
}

/// Notes that a request is being sent now. Only the first one of an operation counts; outside of a worker's
/// task nothing is noted.
#[inline]
pub(crate) fn note_sent() {
    let _ = SENT.try_with(|sent| {
        if sent.get().is_none() {
            sent.set(Some(Instant::now()));
        }
    });
}

/// Takes the noted moment of the operation that has ended.
#[inline]
pub(crate) fn take_sent() -> Option<Instant> {
    SENT.try_with(Cell::take).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_request_of_each_operation_is_noted() {
        note_sent();
        assert_eq!(take_sent(), None);
        noting_sent(async {
            let before = Instant::now();
            note_sent();
            let after = Instant::now();
            note_sent();
            let sent = take_sent().expect("a moment");
            assert!((before..=after).contains(&sent));
            assert_eq!(take_sent(), None);
        })
        .await;
    }
}

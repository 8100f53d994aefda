//! The moment when a worker's current operation sent its first request. Connections note the moment and the
//! worker takes it, so that it need not be passed up through the layers of every driver.

use std::cell::Cell;
use std::time::Instant;

tokio::task_local! {
    /// When the current operation of a worker's task gave its first request to the operating system.
    static SENT: Cell<Option<Instant>>;
}

/// Runs the task of a worker. Within it, connections [note](note_sent) when they send.
pub(crate) async fn with_sent_tracking<F: Future>(work: F) -> F::Output {
    SENT.scope(Cell::new(None), work).await
}

/// Notes that a request is being sent now. Only the first request of an operation counts. Outside of a
/// worker's task the call does nothing.
#[inline]
pub(crate) fn note_sent() {
    let _ = SENT.try_with(|sent| {
        if sent.get().is_none() {
            sent.set(Some(Instant::now()));
        }
    });
}

/// Takes the moment that was noted for the operation that has just ended.
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
        with_sent_tracking(async {
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

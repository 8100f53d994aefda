//! Decides when to log that a peer is down, and that it is back.

use super::error::Fault;
use quoit_wire::internode::code;
use std::time::Duration;
use tokio::time::Instant;

/// Time for which a peer may refuse this node as unknown before that is logged. A joining node learns of
/// the members one by one, and refuses those that it does not know yet: for a moment, or for many seconds
/// if its disk or its processors are busy.
const JOINING_PATIENCE: Duration = Duration::from_secs(60);

/// Reachability of one peer, as it was logged.
#[derive(Default)]
pub(super) struct Reachability {
    down_since: Option<Instant>,
    /// The fault that was logged since then.
    told: Option<String>,
}

impl Reachability {
    /// Notes that the peer cannot be reached. Returns true if that is to be logged: once, and again when
    /// the peer refuses for another reason, since an operator has to act on that.
    pub(super) fn failed(&mut self, now: Instant, fault: &Fault) -> bool {
        let since = *self.down_since.get_or_insert(now);
        let is_joining = matches!(fault, Fault::Refused { code: code::CLUSTER, .. });
        if is_joining && now.saturating_duration_since(since) < JOINING_PATIENCE {
            return false;
        }
        let is_refused = !matches!(fault, Fault::Io(_) | Fault::Closed | Fault::Timeout { .. });
        let text = fault.to_string();
        let is_logged = self.told.as_ref().is_some_and(|told| !is_refused || *told == text);
        if !is_logged {
            self.told = Some(text);
        }
        !is_logged
    }

    /// Notes that the peer is connected. Returns the time for which it was down, if that was logged.
    pub(super) fn connected(&mut self, now: Instant) -> Option<Duration> {
        let since = self.down_since.take()?;
        self.told.take()?;
        Some(now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn refused(code: u32) -> Fault {
        Fault::Refused { code, text: format!("refused with {code}") }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_down_is_told_once_and_once_more_when_it_is_back() {
        let mut peer = Reachability::default();
        assert!(peer.failed(Instant::now(), &Fault::Closed));
        for _ in 0..1_000 {
            advance(Duration::from_secs(1)).await;
            let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            assert!(!peer.failed(Instant::now(), &Fault::Io(refused)));
        }
        assert_eq!(peer.connected(Instant::now()), Some(Duration::from_secs(1_000)));
        assert_eq!(peer.connected(Instant::now()), None);
        assert!(peer.failed(Instant::now(), &Fault::Closed), "the next time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_refuses_for_another_reason_is_told_again() {
        let mut peer = Reachability::default();
        assert!(peer.failed(Instant::now(), &Fault::Closed));
        assert!(peer.failed(Instant::now(), &refused(code::CLOCK)));
        assert!(!peer.failed(Instant::now(), &refused(code::CLOCK)));
        assert!(!peer.failed(Instant::now(), &Fault::Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_joins_may_refuse_for_a_moment() {
        let mut peer = Reachability::default();
        assert!(!peer.failed(Instant::now(), &refused(code::CLUSTER)));
        assert_eq!(peer.connected(Instant::now()), None);
        assert!(!peer.failed(Instant::now(), &refused(code::CLUSTER)));
        advance(JOINING_PATIENCE).await;
        assert!(peer.failed(Instant::now(), &refused(code::CLUSTER)));
    }
}

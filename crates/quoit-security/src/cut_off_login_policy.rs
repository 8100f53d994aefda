//! Logins at a node that does not learn of changed users.

use quoit_planted::planted;
use std::time::Duration;

/// Setting for logins at a node that is cut off and so does not learn of users and permissions that change
/// elsewhere. The node continues to serve clients that have already logged in, under the rules that it knows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CutOffLoginPolicy {
    /// Time after which the node refuses logins; `None` if it never does.
    pub refuses_after: Option<Duration>,
}

impl CutOffLoginPolicy {
    /// Returns true if a node accepts a login. `cut_off_for` is the time since the node was cut off, or
    /// `None` if it is not cut off.
    #[must_use]
    pub fn takes_logins(&self, cut_off_for: Option<Duration>) -> bool {
        let max = match self.refuses_after {
            None if planted!(RefusesUnasked) => Duration::ZERO,
            None => return true,
            Some(max) => max,
        };
        cut_off_for.is_none_or(|lasts| lasts < max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_refused_after_the_time_that_was_set_and_never_without() {
        let secs = |secs| Some(Duration::from_secs(secs));
        let (serving, strict) =
            (CutOffLoginPolicy::default(), CutOffLoginPolicy { refuses_after: secs(60) });
        for cut_off_for in [None, secs(0), secs(59)] {
            assert!(serving.takes_logins(cut_off_for) && strict.takes_logins(cut_off_for));
        }
        assert!(serving.takes_logins(secs(1_000_000)));
        assert!(!strict.takes_logins(secs(60)));
    }
}

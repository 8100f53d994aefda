//! Checks of a node's own report that it is cut off: for how long, and whether it accepts logins
//! meanwhile. The checks compare the report with the node's answers to earlier observations.

use crate::violation::{Violation, ViolationKind};
use quoit_cluster::ControlPlane;
use quoit_security::CutOffLoginPolicy;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Time after which a node has surely noticed a change, in microseconds: it checks once a second whether
/// it is cut off.
const NOTED_US: u64 = 1_500_000;
/// Time after which a node that is cut off has surely logged it, in microseconds.
const TOLD_US: u64 = 5_000_000 + NOTED_US;

/// State of a node at one observation.
#[derive(Debug, Clone, Copy)]
pub struct CutOffObservation {
    is_cut_off: bool,
    lasts_us: Option<u64>,
    is_told: bool,
    takes_logins: bool,
}

impl CutOffObservation {
    /// Observes a node that has this setting.
    #[must_use]
    pub fn at(control: &ControlPlane, setting: CutOffLoginPolicy) -> Self {
        let lasts = control.cut_off_for();
        Self {
            is_cut_off: control.is_cut_off(),
            lasts_us: lasts.map(micros),
            is_told: control.cut_off().is_some_and(|cut_off| cut_off.is_logged),
            takes_logins: setting.takes_logins(lasts),
        }
    }

    /// True if the node says that it is cut off.
    #[must_use]
    pub const fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// True if the node is not cut off, reports no time, and accepts logins.
    #[must_use]
    pub const fn is_at_rest(&self) -> bool {
        !self.is_cut_off && self.lasts_us.is_none() && self.takes_logins
    }
}

/// A series of observations of one node with the same answer.
#[derive(Debug, Clone, Copy)]
struct AnswerSeries {
    is_cut_off: bool,
    began_us: u64,
}

/// Observer of one node, which knows bounds of the time for which the node has been cut off.
#[derive(Debug)]
pub struct CutOffObserver {
    setting: CutOffLoginPolicy,
    spell: Option<AnswerSeries>,
    /// Time at which the node was last known to reach a majority and to have noticed that it does.
    reached_us: Option<u64>,
}

impl CutOffObserver {
    /// Creates an observer of a node with this setting.
    #[must_use]
    pub const fn new(setting: CutOffLoginPolicy) -> Self {
        Self { setting, spell: None, reached_us: None }
    }

    /// Forgets all earlier observations, because the node has paused or was started again.
    pub fn begin_anew(&mut self) {
        (self.spell, self.reached_us) = (None, None);
    }

    /// Checks an observation, given the time from the question to the answer.
    ///
    /// # Errors
    ///
    /// When the node reports a wrong time for which it has been cut off, does not log that it is, or
    /// accepts or refuses logins wrongly.
    pub fn judge(
        &mut self,
        observation: CutOffObservation,
        answered_us: RangeInclusive<u64>,
    ) -> Result<(), Violation> {
        let (asked_at_us, now_us) = answered_us.into_inner();
        let is_cut_off = observation.is_cut_off;
        let spell = self.spell.filter(|spell| spell.is_cut_off == is_cut_off);
        let spell =
            *self.spell.insert(spell.unwrap_or(AnswerSeries { is_cut_off, began_us: now_us }));
        let seen_us = asked_at_us.saturating_sub(spell.began_us);
        if !is_cut_off && seen_us >= NOTED_US {
            self.reached_us = Some(asked_at_us);
        }
        // Bounds of the time that the node should report.
        let least_us = if is_cut_off { seen_us.saturating_sub(NOTED_US) } else { 0 };
        let most_us = match (is_cut_off, self.reached_us) {
            (false, _) => Some(0),
            (true, Some(reached_us)) => Some(now_us - reached_us + NOTED_US),
            (true, None) => None,
        };
        let said_us = observation.lasts_us.unwrap_or(0);
        if said_us < least_us || most_us.is_some_and(|most_us| said_us > most_us) {
            return Err(wrong(format!(
                "says that it has been cut off for {said_us} us, which is not in {least_us}..{most_us:?}"
            )));
        }
        if least_us >= TOLD_US && !observation.is_told {
            return Err(wrong(format!(
                "was cut off for {least_us} us, and its log does not say so"
            )));
        }
        let max_us = self.setting.refuses_after.map(micros);
        let must_take = max_us.is_none_or(|max_us| most_us.is_some_and(|most_us| most_us < max_us));
        let must_refuse = max_us.is_some_and(|max_us| least_us >= max_us);
        if must_take && !observation.takes_logins || must_refuse && observation.takes_logins {
            let does = if observation.takes_logins { "takes" } else { "refuses" };
            return Err(wrong(format!(
                "{does} logins, was cut off for {least_us}..{most_us:?} us, and refuses them after {max_us:?}"
            )));
        }
        Ok(())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn wrong(text: String) -> Violation {
    Violation::new(ViolationKind::WrongCutOff, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT_OFF: CutOffObservation =
        CutOffObservation { is_cut_off: true, lasts_us: None, is_told: false, takes_logins: true };
    const FINE: CutOffObservation = CutOffObservation { is_cut_off: false, ..CUT_OFF };
    const SECOND_US: u64 = 1_000_000;

    /// Checks observations every 100 ms of a node that is cut off after ten seconds. `observation_at` returns
    /// the answer for a number of microseconds since then.
    fn judged(
        refuses_after: Option<u64>,
        observation_at: impl Fn(u64) -> CutOffObservation,
    ) -> Result<(), Violation> {
        let refuses_after = refuses_after.map(Duration::from_secs);
        let mut observer = CutOffObserver::new(CutOffLoginPolicy { refuses_after });
        let cut_us = 10 * SECOND_US;
        (0..300).map(|number| number * SECOND_US / 10).try_for_each(|now_us| {
            let observation = if now_us < cut_us { FINE } else { observation_at(now_us - cut_us) };
            observer.judge(observation, now_us..=now_us)
        })
    }

    fn true_observation(refuses_after: Option<u64>, since_us: u64) -> CutOffObservation {
        let lasts_us = since_us.checked_sub(SECOND_US);
        let takes_logins =
            refuses_after.is_none_or(|max| lasts_us.is_none_or(|lasts| lasts < max * SECOND_US));
        CutOffObservation { lasts_us, is_told: since_us >= 6 * SECOND_US, takes_logins, ..CUT_OFF }
    }

    #[test]
    fn a_node_that_says_what_is_so_passes() {
        for refuses_after in [None, Some(5), Some(60)] {
            assert_eq!(
                judged(refuses_after, |since_us| true_observation(refuses_after, since_us)),
                Ok(())
            );
        }
    }

    #[test]
    fn a_node_that_says_something_else_does_not() {
        let lies: [fn(u64) -> CutOffObservation; 5] = [
            |us| CutOffObservation { lasts_us: None, ..true_observation(Some(5), us) },
            |us| CutOffObservation {
                lasts_us: Some(us + 3 * SECOND_US),
                ..true_observation(Some(5), us)
            },
            |us| CutOffObservation { is_told: false, ..true_observation(Some(5), us) },
            |us| CutOffObservation { takes_logins: true, ..true_observation(Some(5), us) },
            |us| CutOffObservation { takes_logins: false, ..true_observation(Some(5), us) },
        ];
        for (number, lie) in lies.into_iter().enumerate() {
            assert!(judged(Some(5), lie).is_err(), "lie {number}");
        }
        let unasked =
            |us| CutOffObservation { takes_logins: us < SECOND_US, ..true_observation(None, us) };
        assert!(judged(None, unasked).is_err(), "logins are refused although no setting says so");
    }
}

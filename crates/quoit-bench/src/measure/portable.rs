//! Conversion between measurements and the messages of agents. The conversion is exact: the windows of all
//! agents add up to the window that one process would have had.

use hdrhistogram::Histogram;
use thiserror::Error;

use super::breakdown::Breakdown;
use super::client::ThreadLoad;
use super::stats::{OperationStats, SIGNIFICANT_DIGITS, Window};
use crate::link::{ErrorForm, LoadForm, StatsForm, WindowForm};
use crate::term::{Term, parse_terms};

/// Faults of a message that a correct agent never sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PortableFormError {
    /// The number of operations differs from the number in the run.
    #[error("it has other operations than the run")]
    Operations,
    /// The minimum, maximum or sum contradict the counts.
    #[error("the exact figures of a distribution do not fit its counts")]
    Figures,
}

impl OperationStats {
    /// The message form of the statistics.
    fn to_form(&self) -> StatsForm {
        let counts = self.histogram_ns().iter_recorded();
        let counts = counts.map(|step| (step.value_iterated_to(), step.count_at_value()));
        let (sum_ns, min_ns, max_ns) = self.exact_ns();
        StatsForm {
            counts: counts.collect(),
            sum_ns: (quoit_number::low_u64(sum_ns >> 64), quoit_number::low_u64(sum_ns)),
            min_ns,
            max_ns,
            error_count: self.error_count(),
        }
    }

    /// The statistics of a message form.
    fn of_form(form: &StatsForm) -> Result<Self, PortableFormError> {
        let mut histogram =
            Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are in the range of the crate");
        for (value, count) in &form.counts {
            let recorded = histogram.record_n(*value, *count);
            recorded.expect("a histogram that grows takes any latency");
        }
        let total: Option<u64> =
            form.counts.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
        let count = total.ok_or(PortableFormError::Figures)?;
        let sum_ns = (u128::from(form.sum_ns.0) << 64) | u128::from(form.sum_ns.1);
        let count_wide = u128::from(count);
        let bounds = u128::from(form.min_ns) * count_wide..=u128::from(form.max_ns) * count_wide;
        if form.min_ns > form.max_ns || !bounds.contains(&sum_ns) {
            return Err(PortableFormError::Figures);
        }
        let filled = (count > 0).then_some(histogram);
        Ok(Self::from_parts(filled, sum_ns, (form.min_ns, form.max_ns), form.error_count))
    }
}

/// The statistics of each of `count` operations.
fn of_forms(forms: &[StatsForm], count: usize) -> Result<Vec<OperationStats>, PortableFormError> {
    if forms.len() != count {
        return Err(PortableFormError::Operations);
    }
    forms.iter().map(OperationStats::of_form).collect()
}

impl Window {
    /// The message form of the window.
    pub(crate) fn to_form(&self) -> WindowForm {
        let each = |stats: &[OperationStats]| stats.iter().map(OperationStats::to_form).collect();
        let breakdown = self.breakdown();
        let errors = self.errors().iter().map(|((operation, reason), count)| ErrorForm {
            operation: *operation,
            reason: reason.to_string(),
            count: *count,
        });
        WindowForm {
            operations: each(self.operations()),
            canary: breakdown.canary().to_form(),
            queueing: breakdown.queueing().to_form(),
            client_delay: breakdown.client_delay().to_form(),
            service: each(breakdown.service()),
            failed: each(breakdown.failed()),
            errors: errors.collect(),
        }
    }

    /// The window of a message form, for a run of `operation_count` operations.
    ///
    /// # Errors
    ///
    /// When the form can't be that of such a run.
    pub(crate) fn of_form(
        form: &WindowForm,
        operation_count: usize,
    ) -> Result<Self, PortableFormError> {
        let breakdown = Breakdown::of_parts(
            [&form.canary, &form.queueing, &form.client_delay].map(OperationStats::of_form),
            of_forms(&form.service, operation_count)?,
            of_forms(&form.failed, operation_count)?,
        )?;
        let operations = of_forms(&form.operations, operation_count)?;
        let mut window = Self::of_parts(operations, breakdown);
        for ErrorForm { operation, reason, count } in &form.errors {
            if *operation >= operation_count {
                return Err(PortableFormError::Operations);
            }
            window.count_errors(*operation, reason_of(reason), *count);
        }
        Ok(window)
    }
}

/// Parses the reason of a failure. A text that is not a term becomes an atom.
fn reason_of(text: &str) -> Term {
    let parsed = parse_terms(&format!("{text}.")).ok();
    let only = parsed.filter(|terms| terms.len() == 1).and_then(|mut terms| terms.pop());
    only.map_or_else(|| Term::atom(text), |located| located.term)
}

impl ThreadLoad {
    /// The message form of the load.
    pub(crate) fn to_form(self) -> LoadForm {
        let Self { watched_s, busy_s, waiting_s, saturated_s } = self;
        LoadForm { watched_s, busy_s, waiting_s, saturated_s }
    }

    /// The load of a message form.
    pub(crate) fn of_form(form: LoadForm) -> Self {
        let LoadForm { watched_s, busy_s, waiting_s, saturated_s } = form;
        Self { watched_s, busy_s, waiting_s, saturated_s }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::measure::OperationTimes;

    /// A drawn operation: its index, its latency in nanoseconds and, if it failed, the reason.
    type Drawn = (usize, u64, Option<&'static str>);

    fn drawn() -> impl Strategy<Value = Drawn> {
        let latency_ns = prop_oneof![0_u64..3000, 1_u64 << 20..1 << 32, 1_u64 << 40..1 << 45];
        let reason = prop::option::weighted(
            0.2,
            prop::sample::select(vec!["timeout", "{http, 503}", "\"a text\"", "'two words'"]),
        );
        (0_usize..2, latency_ns, reason)
    }

    fn window_of<'a>(draws: impl Iterator<Item = &'a Drawn>) -> Window {
        let start = Instant::now();
        let mut window = Window::new(2);
        for (operation, latency_ns, reason) in draws {
            let latency = Duration::from_nanos(*latency_ns);
            match reason {
                Some(reason) => window.record_error(*operation, reason_of(reason), latency),
                None => window.record(
                    *operation,
                    &OperationTimes {
                        due: Some(start),
                        free: start + latency / 5,
                        started: start + latency / 4,
                        sent: start + latency / 3,
                        ended: start + latency,
                    },
                ),
            }
            window.record_canary(latency / 7);
        }
        window
    }

    proptest! {
        // Each case creates some hundred histograms, which takes half a second in a debug build.
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_merged_windows_of_agents_equal_that_of_one_process(
            draws in prop::collection::vec(drawn(), 0..300),
            agent_count in 1_usize..6,
        ) {
            let whole = window_of(draws.iter());
            let mut merged = Window::new(2);
            for agent in 0..agent_count {
                let part = window_of(draws.iter().skip(agent).step_by(agent_count));
                let text = serde_json::to_string(&part.to_form()).expect("JSON");
                let form: WindowForm = serde_json::from_str(&text).expect("the same form");
                merged.add(&Window::of_form(&form, 2).expect("a window"));
            }
            // Forms hold every count of every histogram, the exact figures, and the failures by reason.
            prop_assert_eq!(merged.to_form(), whole.to_form());
            prop_assert_eq!(merged.is_empty(), whole.is_empty());
            for (merged, whole) in merged.operations().iter().zip(whole.operations()) {
                prop_assert_eq!(merged.latencies(), whole.latencies());
            }
        }
    }

    #[test]
    fn measurements_that_cannot_be_are_refused() {
        let form = window_of([(0, 5000, None)].iter()).to_form();
        assert_eq!(Window::of_form(&form, 1).err(), Some(PortableFormError::Operations));
        let mut other = form.clone();
        other.operations[0].sum_ns.1 = 1;
        assert_eq!(Window::of_form(&other, 2).err(), Some(PortableFormError::Figures));
        let mut other = form.clone();
        other.errors.push(ErrorForm { operation: 2, reason: "timeout".to_owned(), count: 1 });
        assert_eq!(Window::of_form(&other, 2).err(), Some(PortableFormError::Operations));
        let mut other = form;
        other.canary.counts = vec![(1, u64::MAX), (2, 1)];
        assert_eq!(Window::of_form(&other, 2).err(), Some(PortableFormError::Figures));
    }

    #[test]
    fn any_text_is_a_reason() {
        for text in ["{a,1}", "", "a. b", "{", "\u{1F}"] {
            reason_of(text);
        }
        assert_eq!(reason_of("{http,503}").to_string(), "{http,503}");
    }
}

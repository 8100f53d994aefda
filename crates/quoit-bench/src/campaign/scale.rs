//! The scale of a campaign, which applies to durations and to the numbers that its file marks.

use crate::config::{RunLength, time_of};
use crate::term::Term;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;
use thiserror::Error;

/// Minimum duration of a scaled run.
pub(super) const LENGTH_MIN: Duration = Duration::from_secs(2);
/// Scaled runs of at most this duration have rows of one second.
const SHORT_RUN: Duration = Duration::from_secs(300);

/// A factor above 0 and at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CampaignScale(f64);

/// The text is not a valid scale.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the scale `{0}` is not valid: write a number above 0 and at most 1, such as 0.01")]
pub struct ScaleError(String);

impl Display for CampaignScale {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl CampaignScale {
    /// The scale 1, at which the published experiment ran.
    pub const WHOLE: Self = Self(1.0);

    /// Parses a factor.
    ///
    /// # Errors
    ///
    /// When it is not a number above 0 and at most 1.
    pub fn parse(text: &str) -> Result<Self, ScaleError> {
        let factor = text.trim().parse::<f64>().ok();
        let factor = factor.filter(|factor| *factor > 0.0 && *factor <= 1.0);
        factor.map(Self).ok_or_else(|| ScaleError(text.to_owned()))
    }

    /// True at the scale of the published experiment.
    pub fn is_whole(self) -> bool {
        self.0 >= 1.0
    }

    /// Scales the number in `{scaled, N}` or `{scaled, N, Least}`.
    pub(super) fn number(self, term: &Term) -> Result<Term, String> {
        let fault = || format!("{term}: write {{scaled, Number}} or {{scaled, Number, Least}}");
        let parts = term.as_tuple().unwrap_or_default();
        let (number, least) = match parts {
            [_, number] => (number.as_integer(), Some(1)),
            [_, number, least] => (number.as_integer(), least.as_integer()),
            _ => (None, None),
        };
        let (number, least) = number.zip(least).ok_or_else(fault)?;
        if self.is_whole() {
            return Ok(Term::Integer(number));
        }
        let scaled = quoit_number::whole_i128((number as f64 * self.0).round());
        Ok(Term::Integer(scaled.max(least).min(number.max(least))))
    }

    /// Scales a duration to at least [`LENGTH_MIN`], but never above the unscaled duration.
    pub(super) fn length(self, length: Duration) -> Duration {
        if self.is_whole() {
            return length;
        }
        length.mul_f64(self.0).max(LENGTH_MIN.min(length))
    }

    /// Scales a time within a run.
    pub(super) fn moment(self, moment: Duration) -> Duration {
        moment.mul_f64(self.0)
    }

    /// Scales `duration` and `warmup` of a configuration, and returns the scaled duration; `None` for a run
    /// that ends by itself. Short scaled runs get rows of one second, so that their plots have enough
    /// points.
    pub(super) fn lengths(self, keys: &mut Vec<(String, Term)>) -> Option<Duration> {
        let mut length = None;
        for (key, value) in keys.iter_mut() {
            if key == "duration"
                && let Some(RunLength::For(whole)) = RunLength::of_term(value)
            {
                let scaled = self.length(whole);
                length = Some(scaled);
                if !self.is_whole() {
                    *value = Term::Float(scaled.as_secs_f64() / 60.0);
                }
            } else if key == "warmup"
                && !self.is_whole()
                && let Some(whole) = time_of(value)
            {
                *value = Term::Float(whole.as_secs_f64() * self.0);
            }
        }
        if !self.is_whole() && length.is_some_and(|length| length <= SHORT_RUN) {
            keys.retain(|(key, _)| key != "report_interval");
            keys.push(("report_interval".to_owned(), Term::Integer(1)));
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(pairs: &[(&str, Term)]) -> Vec<(String, Term)> {
        pairs.iter().map(|(key, term)| ((*key).to_owned(), term.clone())).collect()
    }

    #[test]
    fn a_scale_is_above_0_and_at_most_1() {
        assert_eq!(CampaignScale::parse("1"), Ok(CampaignScale::WHOLE));
        assert!(!CampaignScale::parse("0.01").expect("a scale").is_whole());
        for text in ["0", "-1", "1.5", "nan", "inf", "x", ""] {
            let told = CampaignScale::parse(text).expect_err(text).to_string();
            assert!(told.contains(&format!("`{text}`")) && told.contains("0.01"), "{told}");
        }
    }

    #[test]
    fn marked_numbers_are_scaled_but_not_below_the_least() {
        let scaled = |scale: &str, numbers: &[i128]| {
            let mut parts = vec![Term::atom("scaled")];
            parts.extend(numbers.iter().map(|number| Term::Integer(*number)));
            CampaignScale::parse(scale).expect("a scale").number(&Term::Tuple(parts))
        };
        assert_eq!(scaled("0.01", &[35_000]), Ok(Term::Integer(350)));
        assert_eq!(scaled("0.01", &[10]), Ok(Term::Integer(1)), "never 0");
        assert_eq!(scaled("0.01", &[1000, 50]), Ok(Term::Integer(50)));
        assert_eq!(scaled("0.01", &[10, 50]), Ok(Term::Integer(50)));
        assert_eq!(scaled("1", &[10, 50]), Ok(Term::Integer(10)), "as published");
        let told = scaled("1", &[]).expect_err("no number");
        assert!(told.contains("{scaled, Number}"), "{told}");
    }

    #[test]
    fn lengths_are_scaled_down_to_two_seconds_and_short_runs_have_short_rows() {
        let scale = CampaignScale::parse("0.01").expect("a scale");
        let mut long = keys(&[("duration", Term::Integer(720)), ("warmup", Term::Integer(100))]);
        assert_eq!(scale.lengths(&mut long), Some(Duration::from_secs(432)));
        assert_eq!(long, keys(&[("duration", Term::Float(7.2)), ("warmup", Term::Float(1.0))]));
        let mut short =
            keys(&[("report_interval", Term::Integer(10)), ("duration", Term::Integer(1))]);
        assert_eq!(scale.lengths(&mut short), Some(LENGTH_MIN));
        assert_eq!(short[1], ("report_interval".to_owned(), Term::Integer(1)));
        let published = keys(&[("duration", Term::Integer(1))]);
        let mut whole = published.clone();
        assert_eq!(CampaignScale::WHOLE.lengths(&mut whole), Some(Duration::from_secs(60)));
        assert_eq!(whole, published);
        let mut endless = keys(&[("duration", Term::atom("infinity"))]);
        assert_eq!(scale.lengths(&mut endless), None);
        assert_eq!(endless, keys(&[("duration", Term::atom("infinity"))]));
    }
}

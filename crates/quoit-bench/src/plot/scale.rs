//! Mapping from values to positions, and the round values at the ticks of an axis.

/// A labelled value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// Maps a range of values to a range of positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

impl Scale {
    /// Maps values `low..=high` linearly to positions `from..=to`. An empty range is widened by 1.
    pub(crate) fn linear((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, from, to, is_logarithmic: false }
    }

    /// As [`linear`](Self::linear), but by the logarithm. `low` must be above 0. An empty range is widened
    /// to a decade.
    pub(crate) fn logarithmic((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        debug_assert!(low > 0.0, "{low} has no logarithm");
        let high = if high > low { high } else { low * 10.0 };
        Self { low, high, from, to, is_logarithmic: true }
    }

    /// Position of a value. A value outside of the range lies outside of the positions, except that on a
    /// logarithmic scale a value below `low` lies at the low end.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value.max(self.low).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }
}

/// Round values in `low..=high` with their labels. Their distance is 1, 2 or 5 times a power of ten. At
/// most one more than `count_max`; empty if the range contains no round value.
pub(crate) fn linear_ticks((low, high): (f64, f64), count_max: usize) -> Vec<Tick> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 {
        return vec![Tick { value: low, label: grouped(low, 0) }];
    }
    let step = round_step(span / count_max.max(1) as f64);
    let digits = quoit_number::index(quoit_number::whole(-step.log10().floor()));
    let first = quoit_number::whole_i64((low / step - 1e-9).ceil());
    let last = quoit_number::whole_i64((high / step + 1e-9).floor());
    (first..=last)
        .map(|multiple| multiple as f64 * step)
        .map(|value| Tick { value, label: grouped(value, digits) })
        .collect()
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    // The last candidate is always large enough, whatever the rounding of the logarithm.
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(power * 10.0)
}

/// The powers of ten in `low..=high`, and multiples of them if the range spans few decades.
pub(crate) fn log_ticks((low, high): (f64, f64)) -> Vec<Tick> {
    let decades = (high / low).log10();
    let factors: &[f64] = match decades {
        decades if decades <= 1.5 => &[1.0, 2.0, 3.0, 5.0, 7.0],
        decades if decades <= 3.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let (first, last) = (exponent(low.log10().floor()), exponent(high.log10().ceil()));
    (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| (factor * 10_f64.powi(power), power)))
        .filter(|(value, _)| *value >= low * (1.0 - 1e-9) && *value <= high * (1.0 + 1e-9))
        .map(|(value, power)| Tick {
            value,
            label: grouped(value, usize::try_from(-power).unwrap_or(0)),
        })
        .collect()
}

/// A power of ten as an integer. The powers of finite numbers lie between -324 and 309.
fn exponent(power: f64) -> i32 {
    let power = quoit_number::whole_i64(power.clamp(-400.0, 400.0));
    i32::try_from(power).expect("a power of ten is at most 400")
}

/// A number with `digits` decimal places and thin spaces between groups of thousands.
pub(crate) fn grouped(value: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", value.abs());
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text.as_str(), None),
    };
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let mut out = String::from(if value < 0.0 && !is_zero { "-" } else { "" });
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

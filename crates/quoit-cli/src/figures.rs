//! Sizes and times as people read them.

use serde_json::Value;

/// Bytes, as in `512 B`, `1.5 KB` and `40.1 GB`, in units of 1024 as the configuration has them.
pub fn size(bytes: &Value) -> String {
    let bytes = bytes.as_f64().unwrap_or_default();
    let mut scaled = bytes;
    for unit in ["B", "KB", "MB", "GB"] {
        if scaled < 999.5 {
            let is_whole = unit == "B" || scaled >= 99.95;
            return if is_whole {
                format!("{scaled:.0} {unit}")
            } else {
                format!("{scaled:.1} {unit}")
            };
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.1} TB")
}

/// Seconds, as in `under 0.1 s`, `0.4 s`, `12 s`, `3 min 20 s` and `2 h 5 min`.
pub fn duration(secs: &Value) -> String {
    let secs = secs.as_f64().unwrap_or_default();
    if secs < 0.05 {
        return "under 0.1 s".to_owned();
    }
    if secs < 9.95 {
        return format!("{secs:.1} s");
    }
    let secs = secs.round() as u64;
    match secs {
        0..60 => format!("{secs} s"),
        60..3600 => format!("{} min {} s", secs / 60, secs % 60),
        _ => format!("{} h {} min", secs / 3600, secs % 3600 / 60),
    }
}

/// A whole number with a blank between thousands.
#[must_use]
pub fn count(number: &Value) -> String {
    let digits = number.as_u64().unwrap_or_default().to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(' ');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_have_three_digits_and_a_unit() {
        let of = |bytes: u64| size(&json!(bytes));
        let all =
            [of(0), of(512), of(1536), of(200 << 10), of(999 << 20), of(1 << 30), of(3 << 40)];
        assert_eq!(all, ["0 B", "512 B", "1.5 KB", "200 KB", "999 MB", "1.0 GB", "3.0 TB"]);
    }

    #[test]
    fn times_have_one_or_two_units() {
        let of = |secs: f64| duration(&json!(secs));
        let all = [of(0.0), of(0.44), of(9.96), of(59.4), of(200.0), of(7_530.0)];
        assert_eq!(all, ["under 0.1 s", "0.4 s", "10 s", "59 s", "3 min 20 s", "2 h 5 min"]);
    }
}

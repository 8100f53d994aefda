//! Sizes, durations and counts of a node's JSON answers as readable text.

use quoit_progress::figures;
use serde_json::Value;

/// Formats bytes like [`figures::size`].
pub fn size(bytes: &Value) -> String {
    figures::size(bytes.as_f64().unwrap_or_default())
}

/// Formats seconds like [`figures::duration`].
pub fn duration(secs: &Value) -> String {
    figures::duration(secs.as_f64().unwrap_or_default())
}

/// Formats an integer with a space between groups of three digits.
#[must_use]
pub fn count(number: &Value) -> String {
    figures::count(number.as_u64().unwrap_or_default())
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

//! Formats sizes, times and counts for people.

use quoit_number::rounded;

/// Formats bytes, as in `512 B`, `1.5 KB` and `40.1 GB`, in units of 1024 as in the configuration.
#[must_use]
pub fn size(bytes: f64) -> String {
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

/// Formats seconds, as in `under 0.1 s`, `0.4 s`, `12 s`, `3 min 20 s` and `2 h 5 min`.
#[must_use]
pub fn duration(secs: f64) -> String {
    if secs < 0.05 {
        return "under 0.1 s".to_owned();
    }
    if secs < 9.95 {
        return format!("{secs:.1} s");
    }
    let secs = rounded(secs);
    match secs {
        0..60 => format!("{secs} s"),
        60..3600 => format!("{} min {} s", secs / 60, secs % 60),
        _ => format!("{} h {} min", secs / 3600, secs % 3600 / 60),
    }
}

/// Formats a whole number with a space between groups of three digits.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(' ');
        }
        shown.push(digit);
    }
    shown
}

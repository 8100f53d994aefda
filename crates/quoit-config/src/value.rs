//! Values of configuration keys: durations, sizes, flags, addresses.

use std::net::SocketAddr;
use std::time::Duration;

/// Type of a key's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueType {
    /// Any non-empty text.
    Name,
    /// A whole number between two bounds, both included.
    Integer(i64, i64),
    /// A quorum: `one`, `quorum`, `all` or a number.
    Quorum,
    /// A duration such as `10s` or `1h30m`, of at least this many milliseconds.
    Duration(u64),
    /// A duration of at least a second, or the word that switches it off.
    DurationOr(&'static str),
    /// A number of bytes such as `5MB` between two bounds, both included; units are powers of 1024.
    Size(u64, u64),
    /// `on` or `off` (also `enabled`, `disabled`, `true`, `false`, `yes`, `no`).
    Flag,
    /// A log level: one of Quoit's, or one of Riak's, which is mapped to the nearest.
    Level,
    /// One of these words.
    Word(&'static [&'static str]),
    /// `host:port`.
    Address,
    /// Several `host:port`, separated by commas.
    Addresses,
    /// `keep`, `immediate` or milliseconds.
    DeleteMode,
    /// A percentage from 0 to 100, with or without the sign.
    Percent,
}

impl ValueType {
    /// The valid form of a value, for an error message.
    pub fn valid_form(self) -> String {
        match self {
            Self::Name => "any text".into(),
            Self::Integer(low, high) => format!("a whole number from {low} to {high}"),
            Self::Quorum => "one, quorum, all or a number of replicas".into(),
            Self::Duration(least_ms) => {
                let least = duration_text(least_ms);
                format!("a duration such as 500ms, 10s, 5m or 1h30m, at least {least}")
            }
            Self::DurationOr(word) => format!("a duration such as 10s or 1d, or {word}"),
            Self::Size(low, high) => {
                format!("a size such as 512KB, from {} to {}", size_text(low), size_text(high))
            }
            Self::Flag => "on or off".into(),
            Self::Level => format!("one of {}", LEVELS.join(", ")),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Address => "HOST:PORT such as 127.0.0.1:8087 (port 0 picks a free one)".into(),
            Self::Addresses => "HOST:PORT, several separated by commas".into(),
            Self::DeleteMode => "keep, immediate or a number of milliseconds".into(),
            Self::Percent => "a percentage from 0 to 100".into(),
        }
    }

    /// True if the value has this type.
    pub fn accepts(self, value: &str) -> bool {
        match self {
            Self::Name => !value.is_empty(),
            Self::Integer(low, high) => {
                value.parse::<i64>().is_ok_and(|number| (low..=high).contains(&number))
            }
            Self::Quorum => value.parse::<quoit_model::props::Quorum>().is_ok(),
            Self::Duration(least_ms) => {
                duration(value).is_some_and(|given| given.as_millis() >= u128::from(least_ms))
            }
            Self::DurationOr(word) => {
                value == word || duration(value).is_some_and(|given| given.as_secs() >= 1)
            }
            Self::Size(low, high) => {
                size_bytes(value).is_some_and(|size| (low..=high).contains(&size))
            }
            Self::Flag => flag(value).is_some(),
            Self::Level => level(value).is_some(),
            Self::Word(words) => words.contains(&value),
            Self::Address => is_address(value),
            Self::Addresses => value.split(',').all(|address| is_address(address.trim())),
            Self::DeleteMode => {
                matches!(value, "keep" | "immediate") || value.parse::<u64>().is_ok()
            }
            Self::Percent => percent(value).is_some(),
        }
    }
}

fn is_address(value: &str) -> bool {
    value.parse::<SocketAddr>().is_ok() || host_and_port(value)
}

fn host_and_port(value: &str) -> bool {
    value.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(char::is_whitespace) && port.parse::<u16>().is_ok()
    })
}

/// Log levels, the most important first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// The level with this name. A level of Riak is mapped to the nearest coarser one.
pub fn level(value: &str) -> Option<&'static str> {
    match value {
        "none" | "emergency" | "alert" | "critical" => Some("error"),
        "warning" => Some("warn"),
        "notice" => Some("info"),
        "all" => Some("trace"),
        _ => LEVELS.into_iter().find(|level| *level == value),
    }
}

/// Formats a number of bytes in the largest unit that divides it.
fn size_text(bytes: u64) -> String {
    let units = [(1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

fn duration_text(ms: u64) -> String {
    if ms.is_multiple_of(1_000) { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
}

/// Parses a flag in any of its spellings.
pub fn flag(value: &str) -> Option<bool> {
    match value {
        "on" | "enabled" | "true" | "yes" => Some(true),
        "off" | "disabled" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// Parses a percentage with or without its sign.
pub fn percent(value: &str) -> Option<u8> {
    let number = value.strip_suffix('%').unwrap_or(value).trim();
    number.parse::<u8>().ok().filter(|number| *number <= 100)
}

/// Parses a duration: one or more numbers with units `ms s m h d w f` (f = fortnight).
pub fn duration(value: &str) -> Option<Duration> {
    let mut total_ms: u64 = 0;
    let mut rest = value;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit_ms = match rest.get(..end)? {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "f" => 14 * 86_400_000,
            _ => return None,
        };
        total_ms = total_ms.checked_add(number.checked_mul(unit_ms)?)?;
        rest = rest.get(end..)?;
    }
    Some(Duration::from_millis(total_ms))
}

/// Parses a number of bytes with an optional unit `B KB MB GB TB`, in powers of 1024.
pub fn size_bytes(value: &str) -> Option<u64> {
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value.get(..digits)?.parse().ok()?;
    let unit: u64 = match value.get(digits..)?.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "KB" | "K" => 1 << 10,
        "MB" | "M" => 1 << 20,
        "GB" | "G" => 1 << 30,
        "TB" | "T" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_add_up_their_parts() {
        assert_eq!(duration("1h30m"), Some(Duration::from_secs(5_400)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        for bad in ["", "10", "s", "1x", "1h30"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_are_of_1024() {
        assert_eq!(size_bytes("5MB"), Some(5 << 20));
        assert_eq!(size_bytes("2 GB"), Some(2 << 30));
        assert_eq!(size_bytes("123"), Some(123));
        for bad in ["", "MB", "5XB", "-1", "99999999999999999999"] {
            assert_eq!(size_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn riaks_levels_become_the_next_coarser_one() {
        assert_eq!(level("notice"), Some("info"));
        assert_eq!(level("critical"), Some("error"));
        assert_eq!(level("debug"), Some("debug"));
        assert_eq!(level("loud"), None);
    }

    #[test]
    fn bounds_are_told_and_kept() {
        let size = ValueType::Size(1 << 16, 1 << 32);
        assert_eq!(size.valid_form(), "a size such as 512KB, from 64KB to 4GB");
        assert!(size.accepts("64KB") && size.accepts("4GB"));
        assert!(!size.accepts("65535") && !size.accepts("5GB"));
        let duration = ValueType::Duration(1_000);
        assert!(duration.valid_form().ends_with("at least 1s"));
        assert!(duration.accepts("1000ms") && !duration.accepts("999ms"));
    }

    #[test]
    fn addresses_need_a_port() {
        assert!(ValueType::Address.accepts("127.0.0.1:8087"));
        assert!(ValueType::Address.accepts("[::1]:0"));
        assert!(ValueType::Address.accepts("localhost:8098"));
        assert!(!ValueType::Address.accepts("127.0.0.1"));
        assert!(ValueType::Addresses.accepts("10.0.0.1:8099, db2.example:8099"));
        assert!(!ValueType::Addresses.accepts("10.0.0.1:8099,"));
        assert!(!ValueType::Addresses.accepts("10.0.0.1:8099 10.0.0.2:8099"));
        assert!(!ValueType::Address.accepts("localhost:99999"));
    }
}

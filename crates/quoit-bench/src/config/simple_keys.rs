//! Keys of the run whose values are read on their own.

use super::error::ConfigError;
use super::settings::Settings;
use crate::log_level::LogLevel;
use crate::random::{RandomKind, Seed};
use crate::term::Term;

/// Reads `driver`.
pub(super) fn read_driver(settings: &Settings) -> Result<String, ConfigError> {
    let expected = "write the name of a driver such as basho_bench_driver_http_raw";
    settings.read("driver", "http_raw".to_owned(), expected, |term| {
        let name = term.as_atom()?;
        Some(name.strip_prefix("basho_bench_driver_").unwrap_or(name).to_owned())
    })
}

/// Reads `rng`.
pub(super) fn read_random_kind(settings: &Settings) -> Result<RandomKind, ConfigError> {
    settings.read("rng", RandomKind::default(), "write default or as183", |term| {
        match term.as_atom()? {
            "default" => Some(RandomKind::Xoshiro),
            "as183" => Some(RandomKind::As183),
            _ => None,
        }
    })
}

pub(super) fn read_seed(settings: &Settings) -> Result<Seed, ConfigError> {
    settings.read("rng_seed", Seed::default(), "write {A, B, C} of integers, or now", |term| {
        if term.as_atom() == Some("now") {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
            let seconds = quoit_number::saturating_i64(now.as_secs());
            let micros = i64::from(now.subsec_micros());
            return Some(Seed([seconds / 1_000_000, seconds % 1_000_000, micros]));
        }
        let numbers: Option<Vec<i64>> = term
            .as_tuple()?
            .iter()
            .map(|part| part.as_integer().and_then(|number| i64::try_from(number).ok()))
            .collect();
        Some(Seed(numbers?.try_into().ok()?))
    })
}

pub(super) fn read_log_level(settings: &Settings) -> Result<LogLevel, ConfigError> {
    let expected = "write debug, info, notice, warning, error, critical or none";
    settings.read("log_level", LogLevel::Debug, expected, |term| {
        Some(match term.as_atom()? {
            "debug" => LogLevel::Debug,
            "info" => LogLevel::Info,
            "notice" => LogLevel::Notice,
            "warning" => LogLevel::Warning,
            "error" => LogLevel::Error,
            "critical" | "alert" | "emergency" | "none" => LogLevel::Critical,
            _ => return None,
        })
    })
}

/// Warns about other settings of `stats`: only the CSV files are written.
pub(super) fn check_stats(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<(), ConfigError> {
    let sink = settings.read("stats", "csv".to_owned(), "write csv", |term| match term {
        Term::Atom(name) => Some(name.clone()),
        Term::Tuple(parts) => Some(parts.first()?.as_atom()?.to_owned()),
        _ => None,
    })?;
    if sink != "csv" {
        let place = settings.place("stats");
        warnings.push(format!("{place}stats {sink} is not written to: the CSV files are"));
    }
    Ok(())
}

//! `quoit bench check`: shows what a configuration would do, without doing it.

use super::{BenchOptions, ExitStatus, failed, load};
use crate::config::{
    Config, ConfigError, OperationEntry, Pacing, RunLength, Target, unread_target_keys,
};
use crate::driver::{SystemRequirements, check_target_lists};
use crate::keygen::KeyKind;
use crate::output::Terminal;
use crate::output::text::size_text;
use crate::random::{RandomKind, Seed};
use crate::run::{ReportedOperation, build_mix, check_expectations, plan_driver};

/// Checks the configuration and prints its plan on the standard output; errors go to the standard
/// error.
pub fn check(options: &BenchOptions) -> ExitStatus {
    match check_on(options, &mut Terminal::stdout()) {
        Ok(()) => ExitStatus::Success,
        Err(error) => failed(&error),
    }
}

/// Checks the configuration and prints its plan.
///
/// # Errors
///
/// When the configuration cannot be run.
pub fn check_on(options: &BenchOptions, terminal: &mut Terminal) -> Result<(), ConfigError> {
    let config = load(options)?;
    let CheckedConfig { system_requirements, warnings, notices } = look(&config)?;
    for (name, text) in plan_lines(&config, &system_requirements) {
        terminal.line(&format!("{name:<13}{text}"));
    }
    for warning in config.warnings.iter().chain(&warnings) {
        terminal.line(&format!("warning: {warning}"));
    }
    for notice in &notices {
        terminal.line(&format!("notice: {notice}"));
    }
    Ok(())
}

/// Checks the parts that only the driver knows: its settings, its operations, the kinds of keys and values.
///
/// # Errors
///
/// When no driver has the configured name, or the driver rejects a part of the configuration.
pub(super) fn look(config: &Config) -> Result<CheckedConfig, ConfigError> {
    let driver = plan_driver(config)?;
    let (_, operations) = build_mix(&config.operations);
    check_expectations(config, &operations)?;
    let system_requirements = driver.system_requirements();
    check_target_lists(config, driver.name(), driver.target_lists(), &system_requirements)?;
    // Servers of the command line replace those of any key, so an unread key misdirects nothing.
    let warnings = match config.target_overrides.is_empty() {
        true => unread_target_keys(&config.settings, driver.name()),
        false => Vec::new(),
    };
    Ok(CheckedConfig { system_requirements, warnings, notices: driver.notices() })
}

/// A driver's answers about a configuration.
pub(super) struct CheckedConfig {
    pub(super) system_requirements: SystemRequirements,
    pub(super) warnings: Vec<String>,
    notices: Vec<String>,
}

/// The lines of the plan, for the report of a run.
pub(super) fn plan(
    config: &Config,
    system_requirements: &SystemRequirements,
) -> Vec<(String, String)> {
    let lines = plan_lines(config, system_requirements).into_iter();
    lines.map(|(name, text)| (name.to_owned(), text)).collect()
}

/// The lines of the plan, each a name and a text.
fn plan_lines(
    config: &Config,
    system_requirements: &SystemRequirements,
) -> Vec<(&'static str, String)> {
    let (workers, threads) = (config.worker_count, config.thread_count);
    let mut lines = vec![
        ("driver", config.driver.clone()),
        ("targets", targets_text(system_requirements)),
        ("durability", system_requirements.durability.clone()),
        ("workers", format!("{workers} on {threads} threads, {}", pacing_text(config))),
        ("duration", duration_text(config)),
        ("operations", operations_text(config)),
        ("keys", keys_text(config)),
        ("values", values_text(config)),
    ];
    lines.push(("random", random_text(config)));
    if let Some(text) = data_text(config) {
        lines.push(("data", text));
    }
    if let Some(text) = expected_text(config) {
        lines.push(("expected", text));
    }
    if !config.expectations.is_empty() {
        lines.push(("must meet", expectations_text(config)));
    }
    lines
}

fn targets_text(system_requirements: &SystemRequirements) -> String {
    let list_of =
        |targets: &[Target]| targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if system_requirements.targets.is_empty() {
        return "none".to_owned();
    }
    let lists = system_requirements
        .additional_lists
        .iter()
        .map(|(name, targets)| format!("; {name} {}", list_of(targets)));
    list_of(&system_requirements.targets) + &lists.collect::<String>()
}

fn pacing_text(config: &Config) -> String {
    match config.knee {
        Some(plan) => {
            format!("rates from {:.0} op/s in all on, {}", plan.from_per_s, plan.arrivals.name())
        }
        None => config.pacing.to_string(),
    }
}

fn duration_text(config: &Config) -> String {
    if let Some(plan) = config.knee {
        return format!("steps of {:?}, until the knee is found", plan.step);
    }
    if config.warmup.is_zero() {
        return config.length.to_string();
    }
    format!("{}, after {:?} that are not counted", config.length, config.warmup)
}

fn random_text(config: &Config) -> String {
    let Seed([a, b, c]) = config.seed;
    let generator = match config.random_kind {
        RandomKind::Xoshiro => "xoshiro256++",
        RandomKind::As183 => "AS 183, as basho_bench before 2018",
    };
    format!("seed {{{a},{b},{c}}}, {generator}")
}

/// The operations, and how the order among them is decided.
fn operations_text(config: &Config) -> String {
    if config.session.is_none() {
        return mix_text(&config.operations);
    }
    let names: Vec<String> =
        config.operations.iter().map(|entry| ReportedOperation::name_of(&entry.label)).collect();
    let script =
        config.settings.get("session").map(|term| config.settings.spelled("session", term));
    format!("{} in the order of {}", names.join(", "), script.unwrap_or_default())
}

/// Each label with its percentage of the draws.
fn mix_text(operations: &[OperationEntry]) -> String {
    let total: f64 = operations.iter().map(|entry| f64::from(entry.weight)).sum();
    let share = |entry: &OperationEntry| {
        let percent = f64::from(entry.weight) / total * 100.0;
        let name = ReportedOperation::name_of(&entry.label);
        if entry.label == entry.operation {
            format!("{name} {percent:.1} %")
        } else {
            format!("{name} ({}) {percent:.1} %", entry.operation)
        }
    };
    operations.iter().map(share).collect::<Vec<_>>().join(", ")
}

fn keys_text(config: &Config) -> String {
    let kind = match config.key_generator.kind() {
        KeyKind::Integer => "integers",
        KeyKind::String => "strings",
        KeyKind::Binary => "binaries",
    };
    let dimension = match config.key_generator.dimension() {
        Some(dimension) => format!("about {dimension} distinct"),
        None => "their number is not known beforehand".to_owned(),
    };
    let spelled = config.settings.spelled("key_generator", &config.key_term());
    format!("{spelled}: {kind}, {dimension}")
}

fn values_text(config: &Config) -> String {
    let spelled = config.settings.spelled("value_generator", &config.value_term());
    format!("{spelled}: {}", config.value_generator.size_text())
}

/// Total size of the values once every key is written, without keys and without the server's overhead.
fn data_text(config: &Config) -> Option<String> {
    let size_bytes = config.estimated_size_bytes()?;
    Some(format!("about {} of values when every key is written", size_text(size_bytes)))
}

/// The expectations, and whether missing one stops the run.
fn expectations_text(config: &Config) -> String {
    let texts: Vec<&str> = config.expectations.iter().map(|it| it.text.as_str()).collect();
    let early = if config.aborts_early { "; a run that misses one is stopped" } else { "" };
    format!("{}{early}", texts.join(", "))
}

/// The number of operations to expect, where the pacing sets a rate.
fn expected_text(config: &Config) -> Option<String> {
    if let Some(plan) = config.knee {
        let bound = plan.p99_max;
        return Some(format!("the highest rate with a 99th percentile of at most {bound:?}"));
    }
    let per_second = match config.pacing {
        Pacing::Max | Pacing::Trace(_) => return None,
        Pacing::Rate(rate) => rate * f64::from(config.worker_count),
        Pacing::Open { rate_per_s, .. } => rate_per_s,
    };
    Some(match config.length {
        RunLength::For(length) => {
            let count = per_second * length.as_secs_f64();
            format!("{per_second:.0} op/s at most, {count:.0} operations in all")
        }
        RunLength::Unlimited => format!("{per_second:.0} op/s at most"),
    })
}

//! `quoit config from-riak`: converts a configuration of Riak, with a remark for each key.

use anyhow::{Context, Result, bail};
use clap::Args;
use quoit_cli::{Format, say};
use quoit_config::{KeyMatch, KeyValue, key_match, unsupported_effect};
use quoit_import::{AdvancedSetting, advanced_settings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Settings of advanced.config that have a key with the same name here.
const ADVANCED: [&str; 1] = ["delete_mode"];

/// Settings of advanced.config without meaning here, and the reasons.
const ADVANCED_WITHOUT_MEANING: [(&str, &str); 6] = [
    ("vnode_overload_threshold", "requests are admitted by max_concurrent_requests, not queued"),
    ("vnode_check_interval", "there are no vnode queues to look at"),
    ("vnode_check_request_interval", "there are no vnode queues to look at"),
    ("vnode_inactivity_timeout", "fallback data is handed back as soon as its primary is up"),
    ("read_repair_max", "read repair is part of the read"),
    ("read_repair_soft", "read repair is part of the read"),
];

/// Arguments of `quoit config from-riak`.
#[derive(Args, Debug)]
pub struct FromRiakArgs {
    /// The riak.conf to convert.
    file: PathBuf,
    /// The advanced.config of the same Riak node.
    advanced: Option<PathBuf>,
    /// Memory of the machine in bytes, for settings in percent of it [default: memory of this machine].
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Outcome for a key.
enum KeyOutcome {
    Kept,
    /// It has another name or another value, for this reason.
    Changed {
        key: String,
        value: String,
        reason: String,
    },
    WithoutMeaning(String),
    /// It requires a feature that Quoit does not have.
    Refused(String),
}

/// A setting of Riak and its outcome.
struct RiakSetting {
    from: String,
    key: String,
    value: String,
    outcome: KeyOutcome,
}

pub(crate) fn from_riak(args: &FromRiakArgs) -> Result<()> {
    let lines = read(args)?;
    let refused =
        lines.iter().filter(|line| matches!(line.outcome, KeyOutcome::Refused(_))).count();
    match args.format {
        Format::Json => say!("{}", Value::from(lines.iter().map(document).collect::<Vec<_>>())),
        Format::Human => print(&lines),
    }
    match refused {
        0 => Ok(()),
        count => {
            bail!(
                "{count} settings ask for functions that Quoit does not have; read their remarks before \
                 the move"
            )
        }
    }
}

fn read(args: &FromRiakArgs) -> Result<Vec<RiakSetting>> {
    let path = &args.file;
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let entries = quoit_config::parse_text(path, &bytes, &mut |file| std::fs::read(file))?;
    // If a key is set twice, the last setting counts.
    let mut last = BTreeMap::new();
    for entry in entries {
        last.insert(entry.key.clone(), entry);
    }
    let memory = args.memory.or_else(machine_memory_bytes);
    let mut lines: Vec<RiakSetting> = last
        .into_values()
        .map(|entry| RiakSetting {
            from: entry.origin.to_string(),
            outcome: outcome_of(KeyValue { key: &entry.key, value: &entry.value }, memory),
            key: entry.key,
            value: entry.value,
        })
        .collect();
    if let Some(path) = &args.advanced {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let settings = advanced_settings(&text).with_context(|| path.display().to_string())?;
        lines.extend(settings.into_iter().map(|setting| RiakSetting {
            from: format!("{}:{}", path.display(), setting.line),
            outcome: advanced_outcome(&setting),
            key: setting.key,
            value: setting.value,
        }));
    }
    Ok(lines)
}

fn outcome_of(setting: KeyValue<'_>, memory_bytes: Option<u64>) -> KeyOutcome {
    let KeyValue { key, value } = setting;
    if key == "leveldb.maximum_memory.percent" {
        return percentage(value, memory_bytes);
    }
    if let Some(reason) = unsupported_effect(setting) {
        return KeyOutcome::Refused(reason.to_owned());
    }
    match key_match(key) {
        KeyMatch::Key(here) if here.name == key || here.name.contains('$') => KeyOutcome::Kept,
        // A key of one of several engines contains the name of the engine, so its name can't equal the
        // pattern.
        KeyMatch::Key(_) if key.starts_with("multi_backend.") => KeyOutcome::Kept,
        KeyMatch::Key(here) => KeyOutcome::Changed {
            key: here.name.to_owned(),
            value: value.to_owned(),
            reason: format!("it is called {} here", here.name),
        },
        KeyMatch::RiakOnly => KeyOutcome::WithoutMeaning(why_without_meaning(key)),
        KeyMatch::Unknown(near) => KeyOutcome::Refused(format!(
            "no key of Riak has this name{}",
            near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
        )),
    }
}

/// Converts a share of the machine's memory to bytes.
fn percentage(value: &str, memory_bytes: Option<u64>) -> KeyOutcome {
    let Some((percent, memory)) = value.parse::<u64>().ok().zip(memory_bytes) else {
        return KeyOutcome::Refused(
            "the share of this machine's memory is not known; give --memory".to_owned(),
        );
    };
    let bytes = memory / 100 * percent.min(100);
    KeyOutcome::Changed {
        key: "leveldb.maximum_memory".to_owned(),
        value: format!("{}MB", bytes >> 20),
        reason: format!("{percent} % of {} MB", memory >> 20),
    }
}

/// The reason why a key has no meaning here, by its prefix.
fn why_without_meaning(key: &str) -> String {
    let families = [
        ("erlang.", "there is no Erlang runtime"),
        ("anti_entropy.", "trees are part of the index and never built"),
        ("tictacaae_", "digests are part of the index; see anti_entropy"),
        ("replrtq_", "replication is set up by quoit repl"),
        ("ttaaefs_", "replication is set up by quoit repl"),
        ("bitcask.", "the log has no such setting; see docs/configuration.md"),
        ("leveldb.", "the engine has no such setting; see docs/configuration.md"),
        ("leveled.", "the engine has no such setting; see docs/configuration.md"),
        ("log", "log lines go to standard error, and the service manager keeps them"),
        ("javascript.", "scripts are limited by mapreduce.javascript.*"),
        ("search", "there is no search"),
        ("platform_", "packages decide it"),
        ("handoff", "transfers are resumable and limited by transfer_rate and transfer_limit"),
        ("runtime_health.", "there are no Erlang processes to watch"),
    ];
    let found = families.iter().find(|(start, _)| key.starts_with(start));
    found.map_or("nothing here depends on it", |(_, why)| why).to_owned()
}

fn advanced_outcome(setting: &AdvancedSetting) -> KeyOutcome {
    let AdvancedSetting { application, key, value, .. } = setting;
    let key = key.as_str();
    if ADVANCED.contains(&key) {
        return KeyOutcome::Kept;
    }
    if let Some((_, why)) = ADVANCED_WITHOUT_MEANING.iter().find(|(name, _)| *name == key) {
        return KeyOutcome::WithoutMeaning((*why).to_owned());
    }
    match key_match(key) {
        KeyMatch::Key(here) if here.name == key => KeyOutcome::Kept,
        KeyMatch::Key(_) | KeyMatch::RiakOnly => {
            KeyOutcome::WithoutMeaning(why_without_meaning(key))
        }
        KeyMatch::Unknown(_) if value == "false" || value == "undefined" => {
            KeyOutcome::WithoutMeaning("it is off".to_owned())
        }
        KeyMatch::Unknown(_) => KeyOutcome::Refused(format!(
            "setting of {application} that is not known here: see whether it matters"
        )),
    }
}

fn machine_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn document(line: &RiakSetting) -> Value {
    let (what, key, value, reason) = match &line.outcome {
        KeyOutcome::Kept => ("kept", Some(&line.key), Some(&line.value), None),
        KeyOutcome::Changed { key, value, reason } => {
            ("changed", Some(key), Some(value), Some(reason))
        }
        KeyOutcome::WithoutMeaning(reason) => ("without_meaning", None, None, Some(reason)),
        KeyOutcome::Refused(reason) => ("refused", None, None, Some(reason)),
    };
    json!({
        "from": line.from,
        "riak_key": line.key,
        "riak_value": line.value,
        "remark": what,
        "key": key,
        "value": value,
        "why": reason,
    })
}

fn print(lines: &[RiakSetting]) {
    for RiakSetting { from, key, value, outcome } in lines {
        match outcome {
            KeyOutcome::Kept => say!("# kept ({from})\n{key} = {value}\n"),
            KeyOutcome::Changed { key: here, value: ours, reason } => {
                say!("# changed from {key} = {value} ({from}): {reason}\n{here} = {ours}\n");
            }
            KeyOutcome::WithoutMeaning(reason) => {
                say!("# without meaning here ({from}): {reason}\n# {key} = {value}\n");
            }
            KeyOutcome::Refused(reason) => {
                say!("# REFUSED ({from}): {reason}\n# {key} = {value}\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(setting: KeyValue<'_>) -> String {
        let line = RiakSetting {
            from: String::new(),
            key: setting.key.to_owned(),
            value: setting.value.to_owned(),
            outcome: outcome_of(setting, Some(100 << 30)),
        };
        let document = document(&line);
        let here = match (document["key"].as_str(), document["value"].as_str()) {
            (Some(key), Some(value)) => format!(" {key} = {value}"),
            _ => String::new(),
        };
        format!("{}{here}", document["remark"].as_str().unwrap_or_default())
    }

    #[test]
    fn every_key_gets_a_remark() {
        for (key, value, expected) in [
            ("ring_size", "128", "kept ring_size = 128"),
            (
                "listener.http.internal",
                "0.0.0.0:8098",
                "kept listener.http.internal = 0.0.0.0:8098",
            ),
            ("log.console.level", "info", "changed log.level = info"),
            ("leveldb.maximum_memory.percent", "50", "changed leveldb.maximum_memory = 51200MB"),
            ("erlang.async_threads", "64", "without_meaning"),
            ("strong_consistency", "on", "refused"),
            ("rign_size", "64", "refused"),
        ] {
            assert_eq!(word(KeyValue { key, value }), expected, "{key}");
        }
    }

    #[test]
    fn settings_of_advanced_config_get_one_as_well() {
        let is = |outcome| match outcome {
            KeyOutcome::Kept => "kept",
            KeyOutcome::Changed { .. } => "changed",
            KeyOutcome::WithoutMeaning(_) => "without",
            KeyOutcome::Refused(_) => "refused",
        };
        for (text, expected) in [
            ("[{riak_kv, [{delete_mode, keep}]}].", "kept"),
            ("[{riak_core, [{vnode_overload_threshold, 1}]}].", "without"),
            ("[{riak_kv, [{some_hook, mine}]}].", "refused"),
            ("[{riak_kv, [{some_hook, false}]}].", "without"),
        ] {
            let settings = advanced_settings(text).expect("a setting");
            assert_eq!(is(advanced_outcome(&settings[0])), expected, "{text}");
        }
    }
}

//! `quoit config`: describe, check, show.

use crate::from_riak::{FromRiakArgs, from_riak};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use quoit_cli::{Format, say};
use quoit_config::{Key, KeyMatch, Origin, Sources, key_match, keys, riak_keys};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Shows and checks configuration without starting a node.
#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Describe all configuration keys, or the named ones.
    Describe {
        /// Names of keys, or parts of names [default: all keys].
        keys: Vec<String>,
        /// Output format.
        #[arg(long, value_enum, default_value = "human")]
        format: Format,
    },
    /// Write a configuration file with all keys and their descriptions, commented out.
    Init {
        /// File to write; it must not exist yet.
        #[arg(default_value = "quoit.conf")]
        file: PathBuf,
        /// Print the file instead of writing it.
        #[arg(long)]
        print: bool,
    },
    /// Check a configuration file; exit status 1 if a node would not start with it.
    Check {
        /// File to check.
        file: PathBuf,
        /// Output format.
        #[arg(long, value_enum, default_value = "human")]
        format: Format,
    },
    /// Convert a riak.conf to a configuration of Quoit, with a remark for each key: kept, changed, without
    /// meaning, or refused.
    ///
    /// Exit status 1 if a setting requires a feature that Quoit does not have.
    FromRiak(FromRiakArgs),
    /// Show the effective settings from a file, the environment and --set, each with its source.
    Show {
        /// Configuration file [default: none, only environment, --set and defaults].
        file: Option<PathBuf>,
        /// Set one configuration key, as for `quoit serve`; may be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Output format.
        #[arg(long, value_enum, default_value = "human")]
        format: Format,
    },
}

/// Runs the command.
///
/// # Errors
///
/// If the configuration is refused, or a file can't be read or written.
pub fn run(command: &ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Describe { keys, format } => describe(keys, *format),
        ConfigCommand::Init { print: true, .. } => {
            say!("{}", quoit_config::commented().trim_end());
            Ok(())
        }
        ConfigCommand::Init { file, .. } => init(file),
        ConfigCommand::Check { file, format } => {
            let sources = Sources { file: Some(file.clone()), ..Sources::default() };
            check(&sources, *format)
        }
        ConfigCommand::FromRiak(args) => from_riak(args),
        ConfigCommand::Show { file, set, format } => {
            let sources = Sources {
                file: file.clone(),
                environment: Sources::process_environment(),
                command_line: set.clone(),
                ..Sources::default()
            };
            show(&sources, *format)
        }
    }
}

/// Writes the commented file.
fn init(file: &Path) -> Result<()> {
    let made = File::create_new(file)
        .and_then(|mut made| made.write_all(quoit_config::commented().as_bytes()));
    made.with_context(|| {
        format!("can't make {}; name another file, or print it with --print", file.display())
    })?;
    say!(
        "{0} has every setting, commented out; start a node with: quoit serve --config {0}",
        file.display()
    );
    Ok(())
}

fn describe(names: &[String], format: Format) -> Result<()> {
    let mut wanted: Vec<&Key> = Vec::new();
    for name in names {
        let before = wanted.len();
        wanted.extend(keys().filter(|key| key.name.contains(name.as_str())));
        if wanted.len() == before {
            match key_match(name) {
                KeyMatch::Key(key) => wanted.push(key),
                KeyMatch::RiakOnly => {
                    say!("{name}: a setting of Riak without a counterpart; accepted")
                }
                KeyMatch::Unknown(near) => {
                    let hint = near.map(|near| format!("; did you mean {near}?"));
                    bail!("no key is named {name}{}", hint.unwrap_or_default());
                }
            }
        }
    }
    if names.is_empty() {
        wanted = keys().collect();
    }
    if format == Format::Json {
        let list: Vec<Value> = wanted
            .iter()
            .map(|key| {
                json!({
                    "key": key.name,
                    "values": key.kind.valid_form(),
                    "default": key.default,
                    "about": key.about,
                })
            })
            .collect();
        say!("{}", Value::from(list));
        return Ok(());
    }
    for key in wanted {
        let default = if key.default.is_empty() { "not set" } else { key.default };
        say!(
            "{}\n  {}\n  values: {}; default: {default}\n",
            key.name,
            key.about,
            key.kind.valid_form()
        );
    }
    if names.is_empty() {
        let names: Vec<&str> = riak_keys().collect();
        say!("Settings of Riak that are accepted, mostly without effect: {}", names.join(" "));
    }
    Ok(())
}

fn check(sources: &Sources, format: Format) -> Result<()> {
    let settings = quoit_config::load(sources)?;
    settings.check_security()?;
    let broken: Vec<String> = settings
        .unsupported_settings()
        .map(|(entry, why)| format!("{}: {} = {}: {why}", entry.origin, entry.key, entry.value))
        .collect();
    let ignored: Vec<String> =
        settings.ignored.iter().map(|entry| format!("{}: {}", entry.origin, entry.key)).collect();
    if format == Format::Json {
        say!("{}", json!({"ok": true, "not_kept": broken, "ignored": ignored}));
        return Ok(());
    }
    say!("config is OK");
    if !broken.is_empty() {
        say!("promised by the file and NOT kept here:");
        for line in broken {
            say!("  {line}");
        }
    }
    if !ignored.is_empty() {
        say!("without effect here:");
        for line in ignored {
            say!("  {line}");
        }
    }
    Ok(())
}

fn show(sources: &Sources, format: Format) -> Result<()> {
    let settings = quoit_config::load(sources)?;
    let mut rows: Vec<(String, String, String)> = Vec::new();
    for key in keys() {
        if settings.entries().any(|(name, _)| name == key.name) || key.name.contains('$') {
            continue;
        }
        let value = settings.get(key.name).unwrap_or_default().to_owned();
        rows.push((key.name.to_owned(), value, "default".to_owned()));
    }
    for family in ["listener.protobuf", "listener.http"] {
        if !settings.entries().any(|(name, _)| name.starts_with(family)) {
            let value = settings.family(family).join(", ");
            rows.push((format!("{family}.default"), value, "default".to_owned()));
        }
    }
    for (name, entry) in settings.entries() {
        let origin = settings.origin(name).map_or_else(String::new, Origin::to_string);
        rows.push((name.to_owned(), entry.value.clone(), origin));
    }
    rows.sort();
    if format == Format::Json {
        let list: Vec<Value> = rows
            .iter()
            .map(|(key, value, origin)| json!({"key": key, "value": value, "origin": origin}))
            .collect();
        say!("{}", Value::from(list));
    } else {
        for (key, value, origin) in rows {
            say!("{key} = {value}  # {origin}");
        }
    }
    Ok(())
}

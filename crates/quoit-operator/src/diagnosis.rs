//! `quoit doctor` and `quoit debug`: diagnosis of a node's settings, its machine and the node itself.

use anyhow::Result;
use clap::{Args, Subcommand};
use quoit_cli::bundle::{self, BundleExtras, SettingValue};
use quoit_cli::doctor::{self, ListenerAddress, MachineRequirements};
use quoit_cli::target::TargetArgs;
use quoit_cli::{Api, Format, say};
use quoit_config::{Settings, Sources, keys};
use std::path::PathBuf;
use std::process::Command;

/// Number of journal lines in a bundle.
const JOURNAL_LINES: &str = "50000";

/// Options that select the settings of a node.
#[derive(Args, Default, Debug)]
struct DiagnosisArgs {
    /// Configuration file of the node.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of the node [default: that of the settings].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Set one configuration key, as for `quoit serve`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl DiagnosisArgs {
    fn settings(&self) -> Result<Settings> {
        Ok(quoit_config::load(&Sources {
            file: self.config.clone(),
            environment: Sources::process_environment(),
            command_line: self.set.clone(),
            ..Sources::default()
        })?)
    }

    fn needs(&self, settings: &Settings) -> MachineRequirements {
        let configured = || PathBuf::from(settings.text("platform_data_dir"));
        let mut listeners: Vec<ListenerAddress> = Vec::new();
        for family in ["listener.protobuf", "listener.http"] {
            let addresses = settings.family(family).into_iter();
            listeners.extend(addresses.map(|address| ListenerAddress { key: family, address }));
        }
        let (key, address) = ("listener.internode", settings.internode());
        listeners.push(ListenerAddress { key, address });
        MachineRequirements {
            data_dir: self.data_dir.clone().unwrap_or_else(configured),
            listeners,
            connection_count_max: settings.server().connection_count_max as u64,
        }
    }
}

/// Check this machine for problems that would harm a node, and print the remedy of each.
///
/// Limits, clock, swap, memory, user, data directory, disk and addresses. Exit status 1 if a node would not
/// start or could lose data.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  quoit doctor\n  quoit doctor --config /etc/quoit/quoit.conf")]
pub struct DoctorArgs {
    #[command(flatten)]
    node: DiagnosisArgs,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Checks the machine and prints the findings.
///
/// # Errors
///
/// If the settings are refused, or a check fails.
pub fn doctor(args: &DoctorArgs) -> Result<()> {
    let settings = args.node.settings()?;
    doctor::report(&doctor::examine(&args.node.needs(&settings)), args.format)
}

/// Checks of this machine with the settings of the environment.
pub(crate) fn checks_here() -> Result<Vec<doctor::Check>> {
    let node = DiagnosisArgs::default();
    Ok(doctor::examine(&node.needs(&node.settings()?)))
}

/// Collect information for support.
#[derive(Subcommand, Debug)]
pub enum DebugCommand {
    /// Write status, statistics, settings without secrets, slow requests, the state of the machine, and logs
    /// into one tar file. Works even if the node does not answer.
    Bundle(Box<BundleArgs>),
}

/// Arguments of `quoit debug bundle`.
#[derive(Args, Debug)]
pub struct BundleArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    node: DiagnosisArgs,
    /// File to write.
    #[arg(long, short, default_value = "quoit-debug.tar", value_name = "FILE")]
    output: PathBuf,
    /// Log file of the node; may be repeated. The last 16 MB of each are included, and for a node under
    /// systemd its journal.
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
}

/// Writes a bundle. `version` is the version of the program.
///
/// # Errors
///
/// If the file can't be written.
pub fn debug(command: &DebugCommand, version: &str) -> Result<()> {
    let DebugCommand::Bundle(args) = command;
    let mut texts = vec![("version.txt".to_owned(), format!("quoit {version}\n"))];
    match args.node.settings() {
        Ok(settings) => {
            texts.push(("config.txt".to_owned(), effective(&settings)));
            let checks = doctor::examine(&args.node.needs(&settings));
            texts.push(("doctor.txt".to_owned(), format!("{}\n", doctor::lines(&checks))));
        }
        Err(fault) => texts.push(("config.txt".to_owned(), format!("not readable: {fault:#}\n"))),
    }
    texts.extend(journal().map(|text| ("logs/journal.txt".to_owned(), text)));
    let extras = BundleExtras { texts, logs: args.log.clone() };
    let names = bundle::write(&Api::new(&args.target), extras, &args.output)?;
    say!(
        "{} has {} files; look through it before you give it away",
        args.output.display(),
        names.len()
    );
    Ok(())
}

/// All settings, one on each line, without secret values.
fn effective(settings: &Settings) -> String {
    let mut lines: Vec<String> = Vec::new();
    for key in keys().filter(|key| !key.name.contains('$')) {
        let value = settings.get(key.name).unwrap_or_default();
        let setting = SettingValue { key: key.name, value };
        lines.push(format!("{} = {}", key.name, setting.without_secret()));
    }
    for (name, entry) in settings.entries().filter(|(name, _)| keys().all(|key| key.name != *name))
    {
        let setting = SettingValue { key: name, value: &entry.value };
        lines.push(format!("{name} = {}", setting.without_secret()));
    }
    lines.sort();
    lines.join("\n") + "\n"
}

/// The end of the node's journal, if the machine has systemd and a journal of the node.
fn journal() -> Option<String> {
    let mut command = Command::new("journalctl");
    command.args([
        "--unit",
        "quoit",
        "--lines",
        JOURNAL_LINES,
        "--no-pager",
        "--output",
        "short-iso",
    ]);
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (!text.trim().is_empty() && !text.contains("-- No entries --")).then_some(text)
}

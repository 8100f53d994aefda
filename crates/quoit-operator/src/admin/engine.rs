//! `engine`: the storage engine of a stopped node.

use super::print;
use super::salvage::{SalvageArgs, SetAsideArgs, salvage, set_aside};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use quoit_cli::{Format, say};
use quoit_cluster::ControlPlane;
use quoit_config::{Settings, Sources, Storage};
use quoit_data_dir::engines::{self, Converted};
use quoit_progress::{Progress, Unit, figures};
use quoit_store::convert::Progress as Copied;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Interval of progress output.
const PRINT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Subcommand, Debug)]
pub(crate) enum EngineCommand {
    /// Move the data of a stopped node to another storage engine.
    ///
    /// Stop the node, convert, set storage_backend to the new engine, start the node:
    ///
    ///     quoit admin engine convert leveled --data-dir /var/lib/quoit
    ///
    /// The converter moves everything: objects and siblings, tombstones, index entries, large sets and maps,
    /// times of expiry. The node keeps its identity, its place in the cluster, and its hints. The converter
    /// may be stopped at any moment; run the same command to continue. Until the new data is complete and on
    /// disk, the old data stays valid and unchanged, and the node refuses to start. Then the new data takes
    /// the place of the old data, which is removed. The disk needs space for both.
    ///
    /// Engines: bitcask, leveldb, leveled, innostore. memory keeps no data to convert. With multi, convert
    /// one of its engines at a time: see --engine.
    Convert(ConvertArgs),
    /// Set the damaged data of a stopped node aside, so that the node gets its records from other nodes.
    ///
    /// For a node of a cluster whose storage engine can't open its data, or can't continue. The command
    /// renames the engine's directory to NAME.set-aside-TIME and removes nothing in it. When the node starts,
    /// it tells the cluster that its records are lost, and gets them from the other nodes. Records that no
    /// other node has (those of buckets with n_val = 1) are only in the renamed directory: see salvage.
    SetAside(SetAsideArgs),
    /// Save the readable records of the damaged data of a stopped node.
    ///
    /// For a node that is alone, or whose buckets have n_val = 1, and whose storage engine can't open its
    /// data, or can't continue. The command copies each record whose checksums are right to a new store, and
    /// lists the damaged parts and the lost records. Then the new store takes the place of the old one, which
    /// is renamed to NAME.set-aside-TIME; nothing in it is removed. The disk needs space for both. Until the
    /// new store is complete, the old one does not change, and the same command starts over.
    ///
    /// If parts of the data can't be read, older versions of records may reappear. If some names of records
    /// can't be read either, deleted records may reappear. The command reports both cases.
    Salvage(SalvageArgs),
}

/// Options that select a stopped node and its engine.
#[derive(Args, Debug)]
pub(super) struct StoppedNodeArgs {
    /// Data directory of the node [default: as for serve].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Configuration file of the node, with the settings of its engines.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one configuration key, as for serve; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// With storage_backend = multi: the name of the engine.
    #[arg(long, value_name = "NAME")]
    pub(super) engine: Option<String>,
}

/// A stopped node. It can't be started while this is held.
pub(super) struct StoppedNode {
    pub(super) data_dir: PathBuf,
    pub(super) settings: Settings,
    pub(super) control: ControlPlane,
}

impl StoppedNodeArgs {
    pub(super) fn open(&self) -> Result<StoppedNode> {
        let sources = Sources {
            file: self.config.clone(),
            environment: Sources::process_environment(),
            command_line: self.set.clone(),
            flags: Vec::new(),
        };
        let settings = quoit_config::load(&sources)?;
        let configured = || PathBuf::from(settings.text("platform_data_dir"));
        let data_dir = self.data_dir.clone().unwrap_or_else(configured);
        // Fails if the node is running.
        let control = quoit_data_dir::existing_control(&data_dir, &settings)?;
        Ok(StoppedNode { data_dir, settings, control })
    }
}

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The new engine: bitcask, leveldb, leveled or innostore.
    #[arg(value_name = "ENGINE")]
    to: String,
    #[command(flatten)]
    node: StoppedNodeArgs,
    /// Abandon an incomplete conversion; the old data is unchanged.
    #[arg(long)]
    abandon: bool,
    /// Continue without records that are damaged on disk; other replicas restore them.
    #[arg(long)]
    accept_damage: bool,
    /// Begin even if the disk may have too little space.
    #[arg(long)]
    ignore_room: bool,
    /// Number of copied bytes after which the conversion records its progress.
    #[arg(long, value_name = "N", default_value_t = 64 << 20, hide = true)]
    note_every: u64,
}

/// Runs a command.
pub(crate) fn engine(command: &EngineCommand, format: Format) -> Result<()> {
    match command {
        EngineCommand::Convert(args) => convert(args, format),
        EngineCommand::SetAside(args) => set_aside(args, format),
        EngineCommand::Salvage(args) => salvage(args, format),
    }
}

fn convert(args: &ConvertArgs, format: Format) -> Result<()> {
    let to = engine_named(&args.to)?;
    let StoppedNode { data_dir, settings, control } = args.node.open()?;
    let plan = engines::ConversionPlan {
        data_dir: &data_dir,
        named: args.node.engine.as_deref(),
        to,
        ring_size: control.ring_size(),
        settings: &settings,
        accepts_damage: args.accept_damage,
        ignores_room: args.ignore_room,
        free_bytes_of: engines::free_bytes,
        note_every_bytes: args.note_every,
    };
    if args.abandon {
        let (what, data) = plan.abandon()?;
        let document = json!({"abandoned": true, "from": what.from, "to": what.to});
        print(&document, format, |_| format!("given up; {} is as it was", data.display()));
        return Ok(());
    }
    let mut printer = Printer { format, printed: None, progress: None };
    let converted = plan.run(&mut |copied| printer.print(copied));
    printer.progress.iter_mut().for_each(Progress::clear);
    let converted = converted?;
    report(&converted, format);
    Ok(())
}

/// The engine with this name, if data can be converted to it.
fn engine_named(word: &str) -> Result<Storage> {
    let known = "bitcask, leveldb, leveled, innostore";
    match Storage::named(word) {
        None => bail!("there is no storage engine {word:?}; data can be moved to one of: {known}"),
        Some(Storage::Memory) => bail!(
            "the engine memory keeps nothing over a restart: there is nothing to move to it or from it; \
             data can be moved to one of: {known}"
        ),
        Some(Storage::Multi) => bail!(
            "multi is several engines, and buckets choose among them by the property backend; convert one of \
             them with --engine NAME to one of: {known}"
        ),
        Some(storage) => Ok(storage),
    }
}

/// Prints the progress of a conversion.
struct Printer {
    format: Format,
    printed: Option<Instant>,
    progress: Option<Progress>,
}

impl Printer {
    fn print(&mut self, copied: &Copied) {
        let Copied { record_count, record_count_all, byte_count, is_noted, .. } = *copied;
        if self.format == Format::Human {
            let begin = || {
                let all = Some(record_count_all);
                Progress::on_stderr("copying", Unit::Items("records"), all)
                    .beginning_at(record_count)
            };
            let note = || figures::size(byte_count as f64);
            return self.progress.get_or_insert_with(begin).show(record_count, note);
        }
        let is_due = self.printed.is_none_or(|printed| printed.elapsed() >= PRINT_INTERVAL);
        if is_due || is_noted {
            self.printed = Some(Instant::now());
            say!(
                "{}",
                json!({
                    "records": record_count,
                    "of": record_count_all,
                    "bytes": byte_count,
                    "noted": is_noted,
                })
            );
        }
    }
}

fn report(converted: &Converted, format: Format) {
    let Converted { from, to, record_count, lacks_records, setting, removed_directory, .. } =
        converted;
    let document = json!({
        "from": from,
        "to": to,
        "records": record_count,
        "complete": !lacks_records,
        "set": format!("{setting} = {to}"),
    });
    print(&document, format, |_| {
        let lacking = if *lacks_records {
            "\nDamaged records were left out; other replicas give them back when the node runs."
        } else {
            ""
        };
        let old = match removed_directory {
            Some(path) => path.display().to_string(),
            None => "the old data".to_owned(),
        };
        format!(
            "{record_count} records moved from {from} to {to}; {old} is gone.{lacking}\nNow set {setting} = \
             {to} in the configuration and start the node."
        )
    });
}

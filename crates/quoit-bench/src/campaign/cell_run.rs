//! The run of one cell: its servers, its loads one after another, and the events during the measured load.

use super::cell::{CampaignCell, CellPhase, PhaseLoad, configuration};
use super::error::CampaignError;
use super::event::{CellEffect, CellEvent};
use super::interruption::Interruption;
use super::server_plan::ServerPlan;
use super::servers::{NodeAction, NodeAddresses, ServerFault, ServerStarter, StartedServers};
use crate::cli::{BenchOptions, ExitStatus, run_on, status_of};
use crate::config::{EventAction, EventCall, RunEvent};
use crate::growth::GrowthKind;
use crate::growth_command::{GrowthOptions, grow_on};
use crate::output::Terminal;
use crate::report::{ReportOptions, write_reports};
use crate::run::RunEnd;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Subdirectories of a campaign's directory other than those of the cells.
pub(super) const PREPARATION: &str = "preparation";
const DATA: &str = "data";
const CONFIGURATIONS: &str = "configurations";
const SERVERS: &str = "servers-";

/// The outcome of a cell.
pub(super) enum CellOutcome {
    /// The cell has results, perhaps with a note for their readers.
    Done(Option<String>),
    /// The cell has no results or only a part of them, for this reason.
    Failed(String),
    /// The cell was interrupted.
    Interrupted,
}

/// The context of a cell's run.
pub(super) struct CellContext<'a> {
    pub(super) directory: &'a Path,
    pub(super) starter: &'a dyn ServerStarter,
    pub(super) interruption: &'a Interruption,
    pub(super) keeps_data: bool,
}

type SharedServers = Arc<Mutex<Box<dyn StartedServers>>>;

impl CellContext<'_> {
    /// Runs a cell. Leftovers of an earlier attempt are removed first.
    pub(super) fn run(
        &self,
        cell: &CampaignCell,
        terminal: &mut Terminal,
    ) -> Result<CellOutcome, CampaignError> {
        self.remove_leftovers(cell)?;
        let data = self.data_directory()?;
        let outcome = match self.start(cell, data.path()) {
            Ok(servers) => {
                let outcome = self.run_phases(cell, &servers, terminal);
                lock(&servers).stop();
                outcome
            }
            Err(fault) if self.interruption.is_asked() => {
                drop(fault);
                Ok(CellOutcome::Interrupted)
            }
            Err(fault) => Ok(CellOutcome::Failed(fault.to_string())),
        };
        if self.keeps_data && cell.server.running.is_none() {
            let kept = self.keep(data, &cell.label)?;
            terminal.line(&format!("The servers' data and logs: {}", kept.display()));
        }
        outcome
    }

    fn start(&self, cell: &CampaignCell, data: &Path) -> Result<SharedServers, ServerFault> {
        let servers: Box<dyn StartedServers> = match &cell.server.running {
            Some(_) => Box::new(RunningServers(cell.server.clone())),
            None => self.starter.start(&cell.server, data)?,
        };
        Ok(Arc::new(Mutex::new(servers)))
    }

    fn run_phases(
        &self,
        cell: &CampaignCell,
        servers: &SharedServers,
        terminal: &mut Terminal,
    ) -> Result<CellOutcome, CampaignError> {
        let mut note = None;
        for (index, phase) in cell.phases.iter().enumerate() {
            if self.interruption.is_asked() {
                return Ok(CellOutcome::Interrupted);
            }
            let is_measured = index + 1 == cell.phases.len();
            let (base, name) = match is_measured {
                true => (self.directory.to_owned(), cell.label.clone()),
                false => {
                    (self.directory.join(PREPARATION), format!("{}-{}", cell.label, phase.name))
                }
            };
            let clusters = lock(servers).clusters();
            let outcome = match &phase.load {
                PhaseLoad::Configuration(_) => {
                    let events =
                        if is_measured { events(&cell.events, servers) } else { Vec::new() };
                    let run = PhaseRun { cell, phase, base, name, events };
                    self.run_configuration(run, &clusters, terminal)?
                }
                PhaseLoad::Growth { kind, item_count, container_count } => {
                    let counts = (*item_count, *container_count);
                    self.grow(*kind, counts, &base, &name, &clusters)
                }
            };
            match outcome {
                CellOutcome::Done(told) => note = told.or(note),
                other => return Ok(other),
            }
        }
        Ok(CellOutcome::Done(note))
    }

    fn run_configuration(
        &self,
        run: PhaseRun<'_>,
        clusters: &[Vec<NodeAddresses>],
        terminal: &mut Terminal,
    ) -> Result<CellOutcome, CampaignError> {
        let PhaseRun { cell, phase, base, name, events } = run;
        let PhaseLoad::Configuration(keys) = &phase.load else {
            return Ok(CellOutcome::Done(None));
        };
        let text = match configuration(keys, clusters) {
            Ok(text) => text,
            Err(fault) => return Ok(CellOutcome::Failed(fault)),
        };
        let folder = self.directory.join(CONFIGURATIONS);
        fs::create_dir_all(&folder).map_err(CampaignError::io(&folder, "making it"))?;
        let path = folder.join(format!("{}-{}.config", cell.label, phase.name));
        fs::write(&path, text).map_err(CampaignError::io(&path, "writing"))?;
        let options = BenchOptions {
            config_paths: vec![path],
            results_dir: Some(base),
            name: Some(name),
            events,
            asks_servers: true,
            watched: watched(cell, clusters),
            ..BenchOptions::default()
        };
        let report = match run_on(&options, terminal) {
            Ok(report) => report,
            Err(_) if self.interruption.is_asked() => return Ok(CellOutcome::Interrupted),
            Err(error) => return Ok(CellOutcome::Failed(format!("{}: {error}", phase.name))),
        };
        if report.end == RunEnd::Interrupted {
            return Ok(CellOutcome::Interrupted);
        }
        let fault = match status_of(&report) {
            ExitStatus::Success => return Ok(CellOutcome::Done(None)),
            ExitStatus::Missed => {
                let note = format!("{} missed a condition", phase.name);
                return Ok(CellOutcome::Done(Some(note)));
            }
            ExitStatus::Faults => "verification has found faults",
            ExitStatus::Crash => "crashes of workers stopped it",
            ExitStatus::Failure if report.all_operations_failed() => "no operation succeeded",
            ExitStatus::Failure => "it ended early, or its results are incomplete",
        };
        Ok(CellOutcome::Failed(format!("{}: {fault}", phase.name)))
    }

    fn grow(
        &self,
        kind: GrowthKind,
        (item_count, container_count): (u64, u64),
        base: &Path,
        name: &str,
        clusters: &[Vec<NodeAddresses>],
    ) -> CellOutcome {
        let Some(node) = clusters.first().and_then(|cluster| cluster.first()) else {
            return CellOutcome::Failed("growth: there is no server".to_owned());
        };
        let options = GrowthOptions {
            kind,
            item_count,
            container_count,
            target: node.pb.clone(),
            results_dir: Some(base.to_owned()),
            name: Some(name.to_owned()),
        };
        let failed = |fault: String| CellOutcome::Failed(format!("growth: {fault}"));
        let report = match grow_on(&options, &mut io::sink()) {
            Ok(report) => report,
            Err(error) => return failed(error.to_string()),
        };
        if let Some(error) = report.failure {
            return failed(error.to_string());
        }
        // Only a signal ends it early, which the campaign may not have received yet.
        if report.rows.len() as u64 != item_count * container_count {
            return CellOutcome::Interrupted;
        }
        let options = ReportOptions { directory: report.directory, ..ReportOptions::default() };
        match write_reports(&options) {
            Ok(_) => CellOutcome::Done(None),
            Err(error) => failed(error.to_string()),
        }
    }

    /// Removes the results of an earlier attempt.
    fn remove_leftovers(&self, cell: &CampaignCell) -> Result<(), CampaignError> {
        let preparation = self.directory.join(PREPARATION);
        let phases = cell.phases.iter().map(|phase| format!("{}-{}", cell.label, phase.name));
        let mut paths: Vec<PathBuf> = phases.map(|name| preparation.join(name)).collect();
        paths.push(self.directory.join(&cell.label));
        paths.push(self.directory.join(DATA).join(&cell.label));
        for path in paths.iter().filter(|path| path.exists()) {
            fs::remove_dir_all(path).map_err(CampaignError::io(path, "removing an earlier try"))?;
        }
        Ok(())
    }

    /// Keeps the data of a cell's servers, under a name that later calls do not mistake for data of a
    /// killed campaign.
    fn keep(&self, data: tempfile::TempDir, label: &str) -> Result<PathBuf, CampaignError> {
        let base = self.directory.join(DATA);
        fs::create_dir_all(&base).map_err(CampaignError::io(&base, "making it"))?;
        let (made, kept) = (data.keep(), base.join(label));
        fs::rename(&made, &kept).map_err(CampaignError::io(&kept, "moving the data there"))?;
        Ok(kept)
    }

    /// Creates a directory for the data of servers, which is removed on drop. Each attempt gets a new one,
    /// because nodes of a killed campaign may still be closing their files.
    fn data_directory(&self) -> Result<tempfile::TempDir, CampaignError> {
        let made = tempfile::Builder::new().prefix(SERVERS).tempdir_in(self.directory);
        made.map_err(CampaignError::io(self.directory, "making a directory for servers"))
    }
}

/// A phase, with the place for its results.
struct PhaseRun<'a> {
    cell: &'a CampaignCell,
    phase: &'a CellPhase,
    base: PathBuf,
    name: String,
    events: Vec<RunEvent>,
}

/// Removes the servers' data of a campaign that was killed.
pub(super) fn remove_old_data(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(SERVERS) {
            // A node that is ending may still write there. The next call tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// HTTP addresses of the nodes whose resource use is watched.
fn watched(cell: &CampaignCell, clusters: &[Vec<NodeAddresses>]) -> Vec<String> {
    if !cell.is_watched {
        return Vec::new();
    }
    clusters.iter().flatten().map(|node| node.http.clone()).collect()
}

/// The events of a run. Events that change servers call the servers' `act`.
fn events(events: &[CellEvent], servers: &SharedServers) -> Vec<RunEvent> {
    let event = |event: &CellEvent| {
        let action = match &event.effect {
            None => EventAction::Mark,
            Some(CellEffect::Command(command)) => EventAction::Command(command.clone()),
            Some(CellEffect::Node(action)) => {
                let (servers, action) = (Arc::clone(servers), *action);
                EventAction::Call(EventCall::new(move || {
                    lock(&servers).act(action).map_err(|fault| fault.to_string())
                }))
            }
        };
        RunEvent { at: event.at, name: event.name.clone(), action }
    };
    events.iter().map(event).collect()
}

fn lock(servers: &SharedServers) -> std::sync::MutexGuard<'_, Box<dyn StartedServers>> {
    // The servers must be stopped even if an event panicked.
    servers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Servers that were running before the campaign.
struct RunningServers(ServerPlan);

impl StartedServers for RunningServers {
    fn clusters(&self) -> Vec<Vec<NodeAddresses>> {
        let (pb, http) = self.0.running.clone().unwrap_or_default();
        let node = |index: usize| NodeAddresses {
            pb: pb.get(index).cloned().unwrap_or_default(),
            http: http.get(index).cloned().unwrap_or_default(),
        };
        vec![(0..pb.len().max(http.len())).map(node).collect()]
    }

    fn act(&mut self, _: NodeAction) -> Result<(), ServerFault> {
        let told = "the servers were not started by the campaign: use a command as the effect of the event";
        Err(ServerFault(told.to_owned()))
    }

    fn stop(&mut self) {}
}

//! The command `quoit bench campaign`.

use super::cell::CampaignCell;
use super::cell_run::{CellContext, CellOutcome, remove_old_data};
use super::error::CampaignError;
use super::file::Campaign;
use super::interruption::Interruption;
use super::page::write_report;
use super::resources::FreeResources;
use super::scale::CampaignScale;
use super::select::select;
use super::servers::ServerStarter;
use super::shipped::{shipped_names, shipped_text};
use super::state::{CampaignState, CellEnd, CellRecord, DirectoryLock};
use crate::cli::{ExitStatus, failed};
use crate::output::Terminal;
use crate::output::text::clock_text;
use crate::report::CAMPAIGN_PAGE;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Parent directory of the directories of campaigns.
const BASE: &str = "campaigns";

/// A campaign, and the way in which it is run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CampaignOptions {
    /// Name of a campaign that comes with the program, or path of a file.
    pub campaign: String,
    /// Directory of the results. Default: `campaigns/NAME`, or `campaigns/NAME-SCALE` at a scale other than
    /// 1.
    pub directory: Option<PathBuf>,
    /// Factor of durations and of the numbers that the file marks. Default: 1.
    pub scale: Option<String>,
    /// Patterns of the cells to run. If empty, all cells run.
    pub cells: Vec<String>,
    /// True to also run cells for which the machine has too little disk or memory.
    pub forces: bool,
    /// True to keep the data of the servers.
    pub keeps_data: bool,
    /// True to list the cells without running any.
    pub only_plans: bool,
}

/// Runs the command. Progress goes to standard output, errors to standard error.
pub fn campaign(options: &CampaignOptions, starter: &dyn ServerStarter) -> ExitStatus {
    match campaign_on(options, starter, &mut Terminal::stdout()) {
        Ok(true) => ExitStatus::Success,
        Ok(false) => ExitStatus::Failure,
        Err(error) => failed(&error),
    }
}

/// Prints the campaigns that come with the program.
pub fn list_campaigns() -> ExitStatus {
    let mut terminal = Terminal::stdout();
    for name in shipped_names() {
        let read = Campaign::find(name)
            .and_then(|campaign| Ok((campaign.cells(CampaignScale::WHOLE)?, campaign)));
        match read {
            Ok((cells, campaign)) => {
                let time = told_length(&cells);
                let count = cells.len();
                let cells = if count == 1 { "cell" } else { "cells" };
                terminal.line(&format!("{name:<24} {}: {count} {cells}{time}", campaign.title));
            }
            Err(error) => return failed(&error),
        }
    }
    ExitStatus::Success
}

/// Prints the text of a campaign that comes with the program.
pub fn show_campaign(name: &str) -> ExitStatus {
    match shipped_text(name) {
        Ok(text) => {
            Terminal::stdout().line(text.trim_end());
            ExitStatus::Success
        }
        Err(error) => failed(&error),
    }
}

/// Total duration of the loads, as text; empty if it is not known of any load.
fn told_length(cells: &[CampaignCell]) -> String {
    let length: Duration = cells.iter().map(CampaignCell::length).sum();
    if length.is_zero() { String::new() } else { format!(", {} of load", clock_text(length)) }
}

/// Runs a campaign. Returns true if all selected cells are done.
pub(super) fn campaign_on(
    options: &CampaignOptions,
    starter: &dyn ServerStarter,
    terminal: &mut Terminal,
) -> Result<bool, CampaignError> {
    let campaign = Campaign::find(&options.campaign)?;
    let scale = options.scale.as_deref().map_or(Ok(CampaignScale::WHOLE), CampaignScale::parse)?;
    let cells = campaign.cells(scale)?;
    let selected = select(&cells, &options.cells)?;
    if options.only_plans {
        terminal.line(&format!("{}: {}", campaign.name, campaign.title));
        selected.iter().for_each(|cell| terminal.line(&cell.told()));
        return Ok(true);
    }
    let directory = options.directory.clone().unwrap_or_else(|| match scale.is_whole() {
        true => PathBuf::from(BASE).join(&campaign.name),
        false => PathBuf::from(BASE).join(format!("{}-{scale}", campaign.name)),
    });
    fs::create_dir_all(&directory).map_err(CampaignError::io(&directory, "making it"))?;
    let _lock = DirectoryLock::take(&directory)?;
    let state = CampaignState::open(&directory, &campaign, scale)?;
    state.write(&directory)?;
    let copy = directory.join(format!("{}.campaign", campaign.name));
    fs::write(&copy, &campaign.text).map_err(CampaignError::io(&copy, "writing"))?;
    remove_old_data(&directory);
    let interruption = Interruption::listen()?;
    let context = CellContext {
        directory: &directory,
        starter,
        interruption: &interruption,
        keeps_data: options.keeps_data,
    };
    let mut running = RunningCampaign { campaign: &campaign, cells: &cells, scale, context, state };
    running.run(&selected, options.forces, terminal)
}

/// A campaign that is being run in its directory.
struct RunningCampaign<'a> {
    campaign: &'a Campaign,
    cells: &'a [CampaignCell],
    scale: CampaignScale,
    context: CellContext<'a>,
    state: CampaignState,
}

impl RunningCampaign<'_> {
    fn run(
        &mut self,
        selected: &[&CampaignCell],
        forces: bool,
        terminal: &mut Terminal,
    ) -> Result<bool, CampaignError> {
        let is_open = |cell: &&CampaignCell| !self.state.is_done(&cell.label);
        let open: Vec<&CampaignCell> = selected.iter().copied().filter(is_open).collect();
        let length: Duration = open.iter().map(|cell| cell.length()).sum();
        terminal.line(&format!(
            "{}: {} of {} cells to run, {} of load, in {}",
            self.campaign.name,
            open.len(),
            selected.len(),
            clock_text(length),
            self.context.directory.display()
        ));
        let mut is_interrupted = false;
        for (index, cell) in open.iter().enumerate() {
            let number = index + 1;
            terminal.line(&format!("Cell {number} of {}: {}", open.len(), cell.told()));
            if !self.run_cell(cell, forces, terminal)? {
                is_interrupted = true;
                break;
            }
        }
        let tables = write_report(
            self.campaign,
            self.cells,
            &self.state,
            self.context.directory,
            self.scale,
        )?;
        tables.lines().iter().for_each(|line| terminal.line(line));
        let left = selected.iter().filter(|cell| !self.state.is_done(&cell.label)).count();
        let page = self.context.directory.join(CAMPAIGN_PAGE);
        terminal.line(&format!("Report: {}", page.display()));
        if left > 0 {
            let why = if is_interrupted { "Interrupted: " } else { "" };
            terminal.line(&format!(
                "{why}{left} of {} cells are left: the same command continues with them",
                selected.len()
            ));
        }
        Ok(left == 0)
    }

    /// Runs a cell and records its outcome. Returns false if the cell was interrupted.
    fn run_cell(
        &mut self,
        cell: &CampaignCell,
        forces: bool,
        terminal: &mut Terminal,
    ) -> Result<bool, CampaignError> {
        let (began, started_at) = (Instant::now(), jiff::Timestamp::now().to_string());
        let free = FreeResources::measure(self.context.directory);
        let shortage = cell.needs.shortage(&cell.server, free).filter(|_| !forces);
        let (end, note) = match shortage {
            Some(shortage) => (CellEnd::Skipped, Some(shortage)),
            None => match self.context.run(cell, terminal)? {
                CellOutcome::Done(note) => (CellEnd::Done, note),
                CellOutcome::Failed(fault) => (CellEnd::Failed, Some(fault)),
                CellOutcome::Interrupted => return Ok(false),
            },
        };
        if let Some(note) = &note {
            terminal.line(&format!("Cell {} is {}: {note}", cell.label, end.name()));
        }
        let seconds = began.elapsed().as_secs_f64();
        let label = cell.label.clone();
        let record = CellRecord { label, end, note, started_at, seconds };
        self.state.note(self.context.directory, record)?;
        write_report(self.campaign, self.cells, &self.state, self.context.directory, self.scale)?;
        Ok(true)
    }
}

//! The command that makes the reports of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::exit_status::{ExitStatus, failed};
use crate::output::Terminal;
use crate::run::RunReport;

use super::page::{draw_growth_page, draw_knee_page};
use super::periods;
use super::steadiness::Steadiness;
use super::{ChartOptions, Growth, KneeResults, ReportError, Results, draw_chart, draw_page};

/// Names of the chart and the page in the directory of their run.
const NAMES: [&str; 2] = ["summary.svg", "report.html"];

/// Name of the page of a campaign, in the campaign's directory.
pub(crate) const CAMPAIGN_PAGE: &str = "campaign.html";

/// The results to report, and the form of the report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReportOptions {
    /// Directory of the run.
    pub directory: PathBuf,
    /// Files to write. If empty: `summary.svg`, `report.html` and `periods.csv` in the directory.
    pub outputs: Vec<PathBuf>,
    /// Minimum elapsed time of a row in seconds (`-1`).
    pub start_s: Option<f64>,
    /// Maximum elapsed time of a row in seconds (`-2`).
    pub end_s: Option<f64>,
    /// Appearance of the chart.
    pub chart: ChartOptions,
}

/// The files that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenReports {
    /// Paths of the files.
    pub files: Vec<PathBuf>,
    /// Notes about results that were missing or ignored.
    pub notes: Vec<String>,
    /// A sentence that says if, and from which time on, the run is steady; `None` if that is unknown.
    pub steadiness: Option<String>,
}

/// Reads the results of a run and writes its reports.
///
/// # Errors
///
/// When the results cannot be read, or a report cannot be drawn or written.
pub fn write_reports(options: &ReportOptions) -> Result<WrittenReports, ReportError> {
    if options.directory.join(CAMPAIGN_PAGE).is_file() {
        return Err(ReportError::Campaign(options.directory.clone()));
    }
    if Growth::is_in(&options.directory) {
        return write_growth_reports(options);
    }
    if KneeResults::is_in(&options.directory) {
        return write_knee_reports(options);
    }
    let mut results = Results::read(&options.directory)?;
    if options.start_s.is_some() || options.end_s.is_some() {
        results.cut(options.start_s.unwrap_or(0.0)..=options.end_s.unwrap_or(f64::INFINITY))?;
    }
    let chart = || draw_chart(&results, &options.chart);
    let mut files = write_files(options, chart, || draw_page(&results))?;
    if options.outputs.is_empty() {
        files.extend(write_periods(&results)?);
    }
    let steadiness = Steadiness::of(&results).text();
    Ok(WrittenReports { files, notes: results.notes, steadiness })
}

/// Writes the table of the run's periods to its directory, if the run has interval logs.
fn write_periods(results: &Results) -> Result<Option<PathBuf>, ReportError> {
    let periods = periods::periods(results)?;
    if periods.is_empty() {
        return Ok(None);
    }
    let path = results.directory.join(periods::FILE);
    write_whole(&path, &periods::csv(&periods))?;
    Ok(Some(path))
}

/// Writes the reports of an experiment with a growing data type.
fn write_growth_reports(options: &ReportOptions) -> Result<WrittenReports, ReportError> {
    let mut growth = Growth::read(&options.directory)?;
    growth.notes.extend(without_time(options));
    let page = || Ok(draw_growth_page(&growth));
    let files = write_files(options, || growth.draw_chart(&options.chart), page)?;
    Ok(WrittenReports { files, notes: growth.notes, steadiness: None })
}

/// Writes the reports of a search for the knee.
fn write_knee_reports(options: &ReportOptions) -> Result<WrittenReports, ReportError> {
    let mut knee = KneeResults::read(&options.directory)?;
    knee.notes.extend(without_time(options));
    let page = || Ok(draw_knee_page(&knee));
    let files = write_files(options, || knee.draw_chart(&options.chart), page)?;
    Ok(WrittenReports { files, notes: knee.notes, steadiness: None })
}

/// A note for a user who asks for a range of time although rows have no time.
fn without_time(options: &ReportOptions) -> Option<String> {
    let is_asked = options.start_s.is_some() || options.end_s.is_some();
    is_asked.then(|| "rows have no elapsed time: --start and --end have no effect".to_owned())
}

fn write_files(
    options: &ReportOptions,
    chart: impl Fn() -> Result<String, ReportError>,
    page: impl Fn() -> Result<String, ReportError>,
) -> Result<Vec<PathBuf>, ReportError> {
    let files = if options.outputs.is_empty() {
        NAMES.map(|name| options.directory.join(name)).into()
    } else {
        options.outputs.clone()
    };
    for file in &files {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => write_whole(file, &chart()?)?,
            Some("html") => write_whole(file, &page()?)?,
            _ => return Err(ReportError::Kind(file.clone())),
        }
    }
    Ok(files)
}

/// Runs the command `quoit bench report`: prints which files were written, or why a report could not be.
pub fn report(options: &ReportOptions) -> ExitStatus {
    let mut terminal = Terminal::stdout();
    match write_reports(options) {
        Ok(written) => {
            written.notes.iter().for_each(|note| terminal.line(&format!("note: {note}")));
            written.steadiness.iter().for_each(|text| terminal.line(&format!("{text}.")));
            written.files.iter().for_each(|file| terminal.line(&file.display().to_string()));
            ExitStatus::Success
        }
        Err(error) => failed(&error),
    }
}

/// Writes the reports of a finished run or search, whose results are in `directory`, and prints their
/// paths. A failure is printed and added to what the run has lost.
pub(crate) fn write_after_run(directory: &Path, report: &mut RunReport, terminal: &mut Terminal) {
    let options = ReportOptions { directory: directory.to_owned(), ..Default::default() };
    match write_reports(&options) {
        Ok(written) => {
            let files: Vec<String> =
                written.files.iter().map(|file| file.display().to_string()).collect();
            written.steadiness.iter().for_each(|text| terminal.line(&format!("{text}.")));
            terminal.line(&format!("Report: {}", files.join(", ")));
        }
        // A run that was interrupted before its first operation has no rows.
        Err(ReportError::NoRows(_)) => {}
        Err(error) => {
            terminal.line(&format!("warning: there is no report: {error}"));
            report.lost.push("the report".to_owned());
        }
    }
}

/// Writes a file atomically. If writing fails, the previous file stays.
fn write_whole(path: &Path, text: &str) -> Result<(), ReportError> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".part");
    let part = path.with_file_name(name);
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // Nothing can be done about a temporary file that cannot be removed.
        let _ = fs::remove_file(&part);
    }
    written.map_err(ReportError::write(path))
}

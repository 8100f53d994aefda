//! `quoit bench report`: draws the report of a run.

use clap::Args;
use quoit_bench::report::{ChartOptions, ReportOptions};
use std::path::PathBuf;

/// Results to report, and options of the report. The short options are those of basho_bench's `summary.r`.
#[derive(Args, Debug)]
pub(super) struct ReportArgs {
    /// Directory of a run, for example tests/current.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// File to write, .svg for the chart or .html for the page; may be repeated [default: summary.svg and
    /// report.html in DIR].
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
    /// Width of the chart in pixels.
    #[arg(short = 'x', long, value_name = "PIXELS", default_value_t = 1280)]
    width: u32,
    /// Height of the chart in pixels.
    #[arg(short = 'y', long, value_name = "PIXELS", default_value_t = 960)]
    height: u32,
    /// Skip operations that ended before this second of the run.
    #[arg(short = '1', long = "start", value_name = "SECONDS")]
    start_s: Option<f64>,
    /// Skip operations that ended after this second of the run.
    #[arg(short = '2', long = "end", value_name = "SECONDS")]
    end_s: Option<f64>,
    /// Label of the first panel's y axis.
    #[arg(short = 'Y', long, value_name = "TEXT", default_value = "Ops/sec")]
    y_label: String,
    /// Title of the first panel.
    #[arg(short, long, value_name = "TEXT", default_value = "Throughput")]
    title: String,
}

impl ReportArgs {
    pub(super) fn options(&self) -> ReportOptions {
        ReportOptions {
            directory: self.directory.clone(),
            outputs: self.outputs.clone(),
            start_s: self.start_s,
            end_s: self.end_s,
            chart: ChartOptions {
                width: self.width,
                height: self.height,
                title: self.title.clone(),
                y_label: self.y_label.clone(),
            },
        }
    }
}

//! Reports: the tables of a run are read back and drawn.
//!
//! A report is made only from the files in the directory of a run. So it can be made long after the run,
//! and of a run of basho_bench itself.

mod attempt_rows;
mod chart;
mod command;
mod csv;
mod error;
mod events;
mod figures;
mod growth;
mod impacts;
mod knee;
mod page;
mod palette;
mod panels;
mod periods;
mod results;
mod servers;
mod steadiness;
#[cfg(test)]
mod tests;
mod thinned;
mod time_spans;

pub use chart::{ChartOptions, draw_chart};
pub(crate) use command::{CAMPAIGN_PAGE, write_after_run};
pub use command::{ReportOptions, WrittenReports, report, write_reports};
pub use error::ReportError;
pub use events::EventRow;
pub use growth::Growth;
pub use knee::KneeResults;
pub use page::draw_page;
pub(crate) use page::{
    CampaignPage, CampaignPageCell, CampaignPageRow, ComparisonPage, draw_campaign_page,
    draw_comparison_page,
};
pub(crate) use periods::rates_of_parts;
pub use results::{ErrorCount, LatencyRow, OperationRows, Results, SummaryRow};
pub(crate) use servers::used_per_operation;

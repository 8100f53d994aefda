//! Resource use of the servers over time, on the time axis of the latencies.

use super::parts::Section;
use super::plot::{Plot, PlotCaption, PlotSeries, YScale};
use super::time_plots::over_time;
use crate::output::text::size_text;
use crate::plot::{escape, grouped};
use crate::report::Results;
use crate::report::servers::{OperationCost, Servers};
use crate::watch::ServerColumn;
use std::fmt::Write as _;

/// Number of colours, which servers take in turn.
const COLOUR_COUNT: usize = 8;

/// The section, with a plot for each figure.
pub(super) fn section(results: &Results, servers: &Servers) -> String {
    let mut hint =
        "Each second, as the servers report it. If a server does not answer, its plot has a gap."
            .to_owned();
    hint.push_str(&per_operation_text(&servers.per_operation));
    let mut html = String::from("<div class=\"columns\">\n");
    for (column, values) in servers.shown() {
        let heading = escape(column.heading);
        let _ = write!(
            html,
            "<div><h3>{heading}</h3>\n{}</div>\n",
            plot(results, servers, column, values).figure()
        );
    }
    html.push_str("</div>\n");
    Section { id: "servers", heading: "Servers", hint: &hint, content: &html }.html()
}

fn per_operation_text(per_operation: &OperationCost) -> String {
    let OperationCost { cpu_us, read_bytes, written_bytes } = *per_operation;
    let bytes = |bytes: f64| size_text(quoit_number::rounded(bytes));
    let parts: Vec<String> = [
        cpu_us.map(|us| format!("{} us of processor time", grouped(us, 1))),
        written_bytes.map(|count| format!("{} written", bytes(count))),
        read_bytes.map(|count| format!("{} read", bytes(count))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(" All together, for each successful operation: {}.", parts.join(", "))
}

fn plot(
    results: &Results,
    servers: &Servers,
    column: &ServerColumn,
    values: &[Vec<Option<f64>>],
) -> Plot {
    let in_unit = |values: &Vec<Option<f64>>| -> Vec<Option<f64>> {
        values.iter().map(|value| value.map(|value| value / column.unit)).collect()
    };
    let values: Vec<Vec<Option<f64>>> = values.iter().map(in_unit).collect();
    let caption = PlotCaption {
        id: format!("server-{}", column.name),
        about: format!("{} of each server over the time of the run", column.heading),
    };
    let series =
        servers.names.iter().zip(&values).enumerate().map(|(place, (name, values))| PlotSeries {
            class: format!("op{}", place % COLOUR_COUNT),
            name: name.clone(),
            values: values.clone(),
        });
    let y = YScale::linear("", values.iter().flatten().flatten().copied());
    let size = (552.0, 230.0);
    let xs = servers.elapsed_s.clone();
    let mut plot = over_time(results, caption, size, xs, y, series.collect());
    plot.value_text = |value| grouped(value, if value < 100.0 { 2 } else { 0 });
    plot
}

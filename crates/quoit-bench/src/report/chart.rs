//! The chart that basho_bench's `summary.r` draws: five panels under each other.

use super::results::{Column, LatencyRow};
use super::{ReportError, Results, palette};
use crate::plot::{Anchor, Axis, Canvas, Frame, Scale, draw_axes, escape, linear_ticks, loess};

/// Least and greatest length of a side, in pixels.
const SIDES: std::ops::RangeInclusive<u32> = 300..=20_000;

const MARGIN_LEFT: f64 = 78.0;
const LEGEND_WIDTH: f64 = 92.0;
const MARGIN_BOTTOM: f64 = 24.0;
const TITLE_HEIGHT: f64 = 26.0;
const STRIP_HEIGHT: f64 = 18.0;
const X_LABELS_HEIGHT: f64 = 22.0;
const FACET_GAP: f64 = 10.0;

/// Places of a smoothed line, as ggplot2 has them.
const SMOOTH_COUNT: usize = 80;

/// How a chart looks; the defaults are those of `summary.r`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartOptions {
    /// Width in pixels (`-x`).
    pub width: u32,
    /// Height in pixels (`-y`).
    pub height: u32,
    /// Title of the first panel (`-t`).
    pub title: String,
    /// Label of the first panel's y axis (`-Y`).
    pub y_label: String,
}

impl Default for ChartOptions {
    fn default() -> Self {
        Self { width: 1280, height: 960, title: "Throughput".into(), y_label: "Ops/sec".into() }
    }
}

/// Points of one colour.
struct Series {
    class: &'static str,
    name: &'static str,
    points: Vec<(f64, f64)>,
}

/// One plot of a panel.
struct Facet<'a> {
    /// Stands above the plot where a panel has a plot for each operation.
    name: Option<&'a str>,
    series: Vec<Series>,
}

/// A row of plots with a common y scale.
struct Panel<'a> {
    title: &'a str,
    y_label: &'a str,
    facets: Vec<Facet<'a>>,
}

const MEAN: Column = Column { class: "mean", name: "mean", value_us: |row| row.mean_us };
const MEDIAN: Column = Column { class: "median", name: "median", value_us: |row| row.median_us };
const P95: Column = Column { class: "p95", name: "95th", value_us: |row| row.p95_us };
const P99: Column = Column { class: "p99", name: "99th", value_us: |row| row.p99_us };
const P99_9: Column = Column { class: "p999", name: "99.9th", value_us: |row| row.p99_9_us };
const MAX: Column = Column { class: "max", name: "max", value_us: |row| row.max_us };

/// The panels of latencies, from top to bottom.
const LATENCY_PANELS: [(&str, &[Column]); 4] = [
    ("Mean, Median, and 95th Percentile Latency", &[MEAN, MEDIAN, P95]),
    ("99th Percentile Latency", &[P99]),
    ("99.9th Percentile Latency", &[P99_9]),
    ("Maximum Latency", &[MAX]),
];

/// Draws the chart as an SVG document.
///
/// # Errors
///
/// [`ReportError::Size`] when a side is not of 300 to 20 000 pixels.
pub fn draw_chart(results: &Results, options: &ChartOptions) -> Result<String, ReportError> {
    let (width, height) = (options.width, options.height);
    if !SIDES.contains(&width) || !SIDES.contains(&height) {
        return Err(ReportError::Size { width, height });
    }
    let panels = panels_of(results, options);
    let mut canvas = Canvas::default();
    let panel_height = (f64::from(height) - MARGIN_BOTTOM) / panels.len() as f64;
    let x_range = results.elapsed_range_s();
    for (index, panel) in panels.iter().enumerate() {
        let top = index as f64 * panel_height;
        let place = Frame {
            left: MARGIN_LEFT,
            top,
            right: f64::from(width) - LEGEND_WIDTH,
            bottom: top + panel_height,
        };
        draw_panel(&mut canvas, place, panel, x_range);
    }
    let middle = (MARGIN_LEFT + f64::from(width) - LEGEND_WIDTH) / 2.0;
    canvas.text("label", (middle, f64::from(height) - 8.0), Anchor::Middle, "Elapsed Secs");
    Ok(document(results, options, &canvas.into_elements()))
}

fn document(results: &Results, options: &ChartOptions, elements: &str) -> String {
    let (width, height) = (options.width, options.height);
    let directory = results.directory.display().to_string();
    let title = format!("{}: throughput and latencies over time", escape(&directory));
    let names: Vec<&str> = results.operations.iter().map(|o| o.name.as_str()).collect();
    let names = escape(&names.join(", ")).into_owned();
    let css = palette::chart_css();
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
 viewBox="0 0 {width} {height}" role="img" aria-labelledby="title about">
<title id="title">{title}</title>
<desc id="about">Five panels over elapsed seconds: throughput; mean, median and 95th, 99th and
99.9th percentile and greatest latency in milliseconds of {names}.</desc>
<style>
{css}</style>
<rect class="ground" width="100%" height="100%"/>
{elements}</svg>
"#
    )
}

fn panels_of<'a>(results: &'a Results, options: &'a ChartOptions) -> Vec<Panel<'a>> {
    let rates = |count: fn(&super::SummaryRow) -> f64| {
        let rows = results.summary.iter().filter(|row| row.window_s > 0.0);
        rows.map(|row| (row.elapsed_s, count(row) / row.window_s)).collect()
    };
    let throughput = Facet {
        name: None,
        series: vec![
            Series { class: "ok", name: "ok", points: rates(|row| row.successful) },
            Series { class: "error", name: "error", points: rates(|row| row.failed) },
        ],
    };
    let mut panels =
        vec![Panel { title: &options.title, y_label: &options.y_label, facets: vec![throughput] }];
    for (title, columns) in LATENCY_PANELS {
        let facets = results.operations.iter().map(|operation| Facet {
            name: Some(&operation.name),
            series: columns.iter().map(|column| series_of(column, &operation.rows)).collect(),
        });
        panels.push(Panel { title, y_label: "Latency (ms)", facets: facets.collect() });
    }
    panels
}

/// A column in milliseconds. A row without latencies has no point: it is not a latency of zero.
fn series_of(column: &Column, rows: &[LatencyRow]) -> Series {
    let rows = rows.iter().filter(|row| row.count > 0.0);
    let points = rows.map(|row| (row.elapsed_s, column.value_ms(row))).collect();
    Series { class: column.class, name: column.name, points }
}

fn draw_panel(canvas: &mut Canvas, place: Frame, panel: &Panel<'_>, x_range: (f64, f64)) {
    let has_strips = panel.facets.iter().any(|facet| facet.name.is_some());
    let strip_height = if has_strips { STRIP_HEIGHT } else { 0.0 };
    let (top, bottom) = (place.top + TITLE_HEIGHT + strip_height, place.bottom - X_LABELS_HEIGHT);
    let highest = panel
        .facets
        .iter()
        .flat_map(|facet| &facet.series)
        .flat_map(|series| &series.points)
        .fold(0.0, |highest: f64, (_, y)| highest.max(*y));
    let y_range = (0.0, if highest > 0.0 { highest * 1.06 } else { 1.0 });
    let mut y = Axis {
        scale: Scale::linear(y_range, (bottom, top)),
        ticks: linear_ticks(y_range.0, y_range.1, ((bottom - top) / 24.0) as usize),
        has_labels: true,
    };
    canvas.text("heading", (place.left, place.top + 19.0), Anchor::Start, panel.title);
    canvas.upward_text("label", (16.0, (top + bottom) / 2.0), panel.y_label);
    let count = panel.facets.len() as f64;
    let width = (place.width() - FACET_GAP * (count - 1.0)).max(count) / count;
    for (index, facet) in panel.facets.iter().enumerate() {
        let left = place.left + index as f64 * (width + FACET_GAP);
        let frame = Frame { left, top, right: left + width, bottom };
        y.has_labels = index == 0;
        draw_facet(canvas, frame, facet, x_range, &y);
    }
    if let Some(facet) = panel.facets.first() {
        draw_legend(canvas, (place.right + 14.0, top + 10.0), &facet.series);
    }
}

fn draw_facet(canvas: &mut Canvas, frame: Frame, facet: &Facet<'_>, x_range: (f64, f64), y: &Axis) {
    if let Some(name) = facet.name {
        let top = frame.top - STRIP_HEIGHT;
        canvas.rectangle("strip", (frame.left, top), (frame.width(), STRIP_HEIGHT));
        let middle = ((frame.left + frame.right) / 2.0, top + 13.0);
        canvas.text("label", middle, Anchor::Middle, &shortened(name, frame.width()));
    }
    let x = Axis {
        scale: Scale::linear(x_range, (frame.left, frame.right)),
        ticks: linear_ticks(x_range.0, x_range.1, (frame.width() / 70.0).max(2.0) as usize),
        has_labels: true,
    };
    draw_axes(canvas, frame, &x, y);
    let place = |(at, value): &(f64, f64)| (x.scale.position(*at), y.scale.position(*value));
    for series in &facet.series {
        let dots: Vec<_> = series.points.iter().map(place).collect();
        canvas.dots(&format!("dot {}", series.class), &dots);
    }
    for series in &facet.series {
        // The line may swing beyond the points, but not out of the plot.
        let line: Vec<_> = loess(&series.points, SMOOTH_COUNT)
            .iter()
            .map(place)
            .map(|(at, value)| (at, value.clamp(frame.top, frame.bottom)))
            .collect();
        canvas.polyline(&format!("line {}", series.class), &line);
    }
}

fn draw_legend(canvas: &mut Canvas, (left, top): (f64, f64), series: &[Series]) {
    for (index, series) in series.iter().enumerate() {
        let y = top + index as f64 * 18.0;
        canvas.polyline(&format!("line {}", series.class), &[(left, y), (left + 18.0, y)]);
        canvas.text("label", (left + 25.0, y + 4.0), Anchor::Start, series.name);
    }
}

/// A name cut to a width, as far as that can be told without the font: its ends tell most.
fn shortened(name: &str, width: f64) -> String {
    const CHARACTER_WIDTH: f64 = 7.5;
    let room = (width / CHARACTER_WIDTH) as usize;
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    let (start, end) = (room / 2, room.saturating_sub(room / 2 + 1));
    name.chars().take(start).chain(['…']).chain(name.chars().skip(length - end)).collect()
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(shortened("update", 75.0), "update");
        assert_eq!(shortened("operation-number-12", 75.0), "opera…r-12");
        assert_eq!(shortened("operation", 7.5), "…");
    }
}

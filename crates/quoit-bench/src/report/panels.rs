//! Panels of points with smoothed lines, one below the other, over a common range of x.

use super::{ReportError, palette};
use crate::plot::{Anchor, Axis, Canvas, Frame, Scale, draw_axes, escape, linear_ticks, loess};

/// Range of the length of a side, in pixels.
const SIDES: std::ops::RangeInclusive<u32> = 300..=20_000;

const MARGIN_LEFT: f64 = 78.0;
const LEGEND_WIDTH: f64 = 92.0;
const MARGIN_BOTTOM: f64 = 24.0;
const TITLE_HEIGHT: f64 = 26.0;
const STRIP_HEIGHT: f64 = 18.0;
const X_LABELS_HEIGHT: f64 = 22.0;
const FACET_GAP: f64 = 10.0;

/// Space to the right of an event's line that its name needs, in pixels.
const EVENT_NAME_ROOM: f64 = 90.0;

/// Number of points of a smoothed line, as in ggplot2.
const SMOOTH_COUNT: usize = 80;

/// Points of one colour.
pub(super) struct PanelSeries {
    pub(super) class: &'static str,
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
    /// Values of x at which the line is interrupted, because nothing was measured there. A series with gaps
    /// is not smoothed, because a smooth line would rise before a gap and fall after it.
    pub(super) gaps: Vec<f64>,
}

impl PanelSeries {
    /// The lines through the points.
    fn lines(&self) -> Vec<Vec<(f64, f64)>> {
        if self.gaps.is_empty() {
            return vec![loess(&self.points, SMOOTH_COUNT)];
        }
        let gaps_before = |x: f64| self.gaps.partition_point(|gap| *gap < x);
        let parts = self.points.chunk_by(|a, b| gaps_before(a.0) == gaps_before(b.0));
        parts.map(<[_]>::to_vec).collect()
    }
}

/// One plot of a panel.
pub(super) struct Facet<'a> {
    /// Title of the plot, if the panel has a plot for each operation.
    pub(super) name: Option<&'a str>,
    pub(super) series: Vec<PanelSeries>,
}

/// A row of plots with a common y scale.
pub(super) struct Panel<'a> {
    pub(super) title: &'a str,
    pub(super) y_label: &'a str,
    pub(super) facets: Vec<Facet<'a>>,
}

/// The parts of a chart other than its panels.
pub(super) struct ChartLayout<'a> {
    /// Width and height in pixels.
    pub(super) size: (u32, u32),
    /// Title of the chart.
    pub(super) title: String,
    /// Description of the chart for readers who can't see it.
    pub(super) about: String,
    pub(super) x_label: &'a str,
    pub(super) x_range: (f64, f64),
    /// Events, by their values of x. Each is a line through all panels, with its name in the first panel.
    pub(super) events: Vec<(f64, &'a str)>,
}

/// Draws panels of equal height as an SVG document.
///
/// # Errors
///
/// [`ReportError::Size`] if a side is not between 300 and 20 000 pixels.
pub(super) fn draw_panels(
    sheet: &ChartLayout<'_>,
    panels: &[Panel<'_>],
) -> Result<String, ReportError> {
    let (width, height) = sheet.size;
    if !SIDES.contains(&width) || !SIDES.contains(&height) {
        return Err(ReportError::Size { width, height });
    }
    let mut canvas = Canvas::default();
    let panel_height = (f64::from(height) - MARGIN_BOTTOM) / panels.len() as f64;
    for (index, panel) in panels.iter().enumerate() {
        let top = index as f64 * panel_height;
        let place = Frame {
            left: MARGIN_LEFT,
            top,
            right: f64::from(width) - LEGEND_WIDTH,
            bottom: top + panel_height,
        };
        draw_panel(&mut canvas, place, panel, sheet, index == 0);
    }
    let middle = (MARGIN_LEFT + f64::from(width) - LEGEND_WIDTH) / 2.0;
    canvas.text("label", (middle, f64::from(height) - 8.0), Anchor::Middle, sheet.x_label);
    Ok(document(sheet, &canvas.into_elements()))
}

fn document(sheet: &ChartLayout<'_>, elements: &str) -> String {
    let (width, height) = sheet.size;
    let (title, about) = (escape(&sheet.title), escape(&sheet.about));
    let css = palette::chart_css();
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
 viewBox="0 0 {width} {height}" role="img" aria-labelledby="title about">
<title id="title">{title}</title>
<desc id="about">{about}</desc>
<style>
{css}</style>
<rect class="ground" width="100%" height="100%"/>
{elements}</svg>
"#
    )
}

fn draw_panel(
    canvas: &mut Canvas,
    place: Frame,
    panel: &Panel<'_>,
    sheet: &ChartLayout<'_>,
    names_events: bool,
) {
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
    let tick_count = quoit_number::index(quoit_number::whole((bottom - top) / 24.0));
    let mut y = Axis {
        scale: Scale::linear(y_range, (bottom, top)),
        ticks: linear_ticks(y_range, tick_count),
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
        draw_facet(canvas, frame, facet, sheet.x_range, &y);
        draw_events(canvas, frame, sheet, names_events);
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
    let tick_count = quoit_number::index(quoit_number::whole(frame.width() / 70.0)).max(2);
    let x = Axis {
        scale: Scale::linear(x_range, (frame.left, frame.right)),
        ticks: linear_ticks(x_range, tick_count),
        has_labels: true,
    };
    draw_axes(canvas, frame, &x, y);
    let place = |(at, value): &(f64, f64)| (x.scale.position(*at), y.scale.position(*value));
    for series in &facet.series {
        let dots: Vec<_> = series.points.iter().map(place).collect();
        canvas.dots(&format!("dot {}", series.class), &dots);
    }
    for series in &facet.series {
        for line in series.lines() {
            // A smoothed line may overshoot the points, but must stay within the plot.
            let line: Vec<_> = line
                .iter()
                .map(place)
                .map(|(at, value)| (at, value.clamp(frame.top, frame.bottom)))
                .collect();
            canvas.polyline(&format!("line {}", series.class), &line);
        }
    }
}

/// Draws the lines of events through a plot. Names alternate between two rows, because events may be close
/// together.
fn draw_events(canvas: &mut Canvas, frame: Frame, sheet: &ChartLayout<'_>, has_names: bool) {
    let x = Scale::linear(sheet.x_range, (frame.left, frame.right));
    let (first, last) = sheet.x_range;
    let shown = sheet.events.iter().filter(|(at, _)| (first..=last).contains(at));
    for (index, (at, name)) in shown.enumerate() {
        let at = x.position(*at);
        canvas.lines("event", &[[(at, frame.top), (at, frame.bottom)]]);
        if has_names {
            // To the right of the line if there is room, otherwise to its left.
            let (side, anchor) = match at + EVENT_NAME_ROOM < frame.right {
                true => (4.0, Anchor::Start),
                false => (-4.0, Anchor::End),
            };
            let line = frame.top + 12.0 + 13.0 * (index % 2) as f64;
            canvas.text("tick", (at + side, line), anchor, name);
        }
    }
}

fn draw_legend(canvas: &mut Canvas, (left, top): (f64, f64), series: &[PanelSeries]) {
    for (index, series) in series.iter().enumerate() {
        let y = top + index as f64 * 18.0;
        canvas.polyline(&format!("line {}", series.class), &[(left, y), (left + 18.0, y)]);
        canvas.text("label", (left + 25.0, y + 4.0), Anchor::Start, series.name);
    }
}

/// Shortens a name to a width, which is estimated because the font is unknown. Keeps both ends, which tell
/// the most.
fn shortened(name: &str, width: f64) -> String {
    const CHARACTER_WIDTH: f64 = 7.5;
    let room = quoit_number::index(quoit_number::whole(width / CHARACTER_WIDTH));
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    let (start, end) = (room / 2, room.saturating_sub(room / 2 + 1));
    name.chars().take(start).chain(['…']).chain(name.chars().skip(length - end)).collect()
}

#[cfg(test)]
mod tests {
    use super::{PanelSeries, shortened};

    #[test]
    fn a_line_stops_where_nothing_was_seen_and_is_not_smoothed_around_it() {
        let points: Vec<(f64, f64)> = (0..20).map(|x| (f64::from(x), f64::from(x % 3))).collect();
        let series = |gaps: &[f64], points: &[(f64, f64)]| PanelSeries {
            class: "ok",
            name: "ok",
            points: points.to_vec(),
            gaps: gaps.to_vec(),
        };
        assert_eq!(series(&[], &points).lines().len(), 1);
        assert_ne!(series(&[], &points).lines()[0], points, "it is smoothed");
        let (before, after) = (&points[..8], &points[12..]);
        let around = [before, after].concat();
        assert_eq!(series(&[8.0, 9.0, 10.0, 11.0], &around).lines(), [before, after]);
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(shortened("update", 75.0), "update");
        assert_eq!(shortened("operation-number-12", 75.0), "opera…r-12");
        assert_eq!(shortened("operation", 7.5), "…");
    }
}

//! One plot of the page: an SVG, with the values that the page's script shows under the cursor.

use serde_json::json;

use crate::plot::{
    Anchor, Axis, Canvas, Frame, Scale, Tick, draw_axes, escape, linear_ticks, log_ticks,
};

const MARGIN_LEFT: f64 = 58.0;
/// Minimum and maximum width of the margin with the names of lines, which are at the right ends of the lines.
const NAME_WIDTHS: (f64, f64) = (54.0, 190.0);
const CHARACTER_WIDTH: f64 = 6.6;
const MARGIN_TOP: f64 = 22.0;
const MARGIN_BOTTOM: f64 = 24.0;

/// Plots above this width are scrolled on a narrow screen, so that their texts do not become too small.
const WIDE_FROM: f64 = 800.0;

/// Minimum vertical distance of two texts.
const LABEL_DISTANCE: f64 = 13.0;

/// Maximum number of points that a line shows as dots.
const DOTTED_COUNT_MAX: usize = 80;

/// One line.
pub(super) struct PlotSeries {
    /// Class of the palette, which gives the colour.
    pub(super) class: String,
    pub(super) name: String,
    /// A value for each x, or `None` for a gap in the line.
    pub(super) values: Vec<Option<f64>>,
}

/// A filled rectangle behind the lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    /// Left and right edge, as values of the x axis.
    pub(super) x: (f64, f64),
    /// Lower and upper edge, as values of the y axis.
    pub(super) y: (f64, f64),
    /// Shade, from 1 for the lightest.
    pub(super) shade: usize,
    /// True for failed operations, which have another colour.
    pub(super) is_failed: bool,
}

/// The identifier and the description of a plot.
pub(super) struct PlotCaption {
    /// See [`Plot::id`].
    pub(super) id: String,
    /// See [`Plot::about`].
    pub(super) about: String,
}

/// A plot of lines over common values of x.
pub(super) struct Plot {
    /// Identifier of the plot, unique within the page.
    pub(super) id: String,
    /// Description of the chart for readers who can't see it.
    pub(super) about: String,
    pub(super) size: (f64, f64),
    pub(super) xs: Vec<f64>,
    /// Each x as shown under the cursor.
    pub(super) x_texts: Vec<String>,
    pub(super) x_range: (f64, f64),
    pub(super) x_ticks: Vec<Tick>,
    /// The y axis. Plots that are to be compared share it.
    pub(super) y: YScale,
    pub(super) series: Vec<PlotSeries>,
    /// Cells behind the lines.
    pub(super) cells: Vec<Cell>,
    /// Named marks at values of the x axis.
    pub(super) marks: Vec<(f64, String)>,
    /// Formats a value as shown under the cursor.
    pub(super) value_text: fn(f64) -> String,
}

/// The range and kind of a y axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct YScale {
    label: &'static str,
    range: (f64, f64),
    is_logarithmic: bool,
}

impl YScale {
    /// A linear axis from 0 to above all values.
    pub(super) fn linear(label: &'static str, values: impl Iterator<Item = f64>) -> Self {
        let highest = values.fold(0.0, f64::max);
        let high = if highest > 0.0 { highest * 1.06 } else { 1.0 };
        Self { label, range: (0.0, high), is_logarithmic: false }
    }

    /// A logarithmic axis around all values above 0.
    pub(super) fn logarithmic(label: &'static str, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::INFINITY, 0.0), |(low, high), v| (v.min(low), v.max(high)));
        let range = if high > 0.0 { (low * 0.85, high * 1.18) } else { (0.1, 1.0) };
        Self { label, range, is_logarithmic: true }
    }

    /// The values at both ends of the axis.
    pub(super) fn range(&self) -> (f64, f64) {
        self.range
    }

    fn axis(&self, frame: Frame) -> Axis {
        let positions = (frame.bottom, frame.top);
        if self.is_logarithmic {
            let scale = Scale::logarithmic(self.range, positions);
            Axis { scale, ticks: log_ticks(self.range), has_labels: true }
        } else {
            let scale = Scale::linear(self.range, positions);
            let count = quoit_number::index(quoit_number::whole(frame.height() / 40.0));
            Axis { scale, ticks: linear_ticks(self.range, count), has_labels: true }
        }
    }
}

impl Plot {
    /// The plot as an HTML figure.
    pub(super) fn figure(&self) -> String {
        let (width, height) = self.size;
        let frame = Frame {
            left: MARGIN_LEFT,
            top: MARGIN_TOP,
            right: width - self.name_width(),
            bottom: height - MARGIN_BOTTOM,
        };
        let x = Axis {
            scale: Scale::linear(self.x_range, (frame.left, frame.right)),
            ticks: self.x_ticks.clone(),
            has_labels: true,
        };
        let y = self.y.axis(frame);
        let mut canvas = Canvas::default();
        draw_axes(&mut canvas, frame, &x, &y);
        canvas.text("label", (0.0, 12.0), Anchor::Start, self.y.label);
        self.draw_cells(&mut canvas, &x.scale, &y.scale);
        self.draw_marks(&mut canvas, frame, &x.scale);
        self.draw_lines(&mut canvas, frame, &x.scale, &y.scale);
        let (id, about) = (&self.id, escape(&self.about));
        let class = if width > WIDE_FROM { " class=\"wide\"" } else { "" };
        format!(
            "<figure data-plot><div class=\"scroll\"><svg{class} viewBox=\"0 0 {width} {height}\" \
             role=\"img\" aria-labelledby=\"{id}-about\"><title id=\"{id}-about\">{about}</title>\n\
             {elements}<line class=\"cursor\" y1=\"{top}\" y2=\"{bottom}\"/></svg></div>\
             <script type=\"application/json\">{points}</script></figure>\n",
            elements = canvas.into_elements(),
            top = frame.top,
            bottom = frame.bottom,
            points = self.points(&x.scale),
        )
    }

    fn name_width(&self) -> f64 {
        let longest = self.series.iter().map(|series| series.name.chars().count()).max();
        let (least, most) = NAME_WIDTHS;
        (longest.unwrap_or(0) as f64 * CHARACTER_WIDTH + 12.0).clamp(least, most)
    }

    fn draw_cells(&self, canvas: &mut Canvas, x: &Scale, y: &Scale) {
        let darkest = self.cells.iter().map(|cell| cell.shade).max().unwrap_or(0);
        for (shade, is_failed) in (1..=darkest).flat_map(|shade| [(shade, false), (shade, true)]) {
            let is_alike = |cell: &&Cell| cell.shade == shade && cell.is_failed == is_failed;
            let alike = self.cells.iter().filter(is_alike);
            let corners: Vec<[(f64, f64); 2]> = alike
                .map(|cell| {
                    let at = |x_value, y_value| (x.position(x_value), y.position(y_value));
                    [at(cell.x.0, cell.y.1), at(cell.x.1, cell.y.0)]
                })
                .collect();
            if !corners.is_empty() {
                let colour = if is_failed { "heat-failed" } else { "heat-done" };
                canvas.rectangles(&format!("heat {colour} heat-{shade}"), &corners);
            }
        }
    }

    fn draw_marks(&self, canvas: &mut Canvas, frame: Frame, x: &Scale) {
        for (at, name) in &self.marks {
            let at = x.position(*at);
            canvas.lines("mark", &[[(at, frame.top), (at, frame.bottom)]]);
            canvas.text("mark-name", (at + 3.0, frame.top + 11.0), Anchor::Start, name);
        }
    }

    fn draw_lines(&self, canvas: &mut Canvas, frame: Frame, x: &Scale, y: &Scale) {
        let mut ends: Vec<(f64, &PlotSeries)> = Vec::new();
        for series in &self.series {
            let place = |(at, value): (&f64, &Option<f64>)| {
                value.map(|value| (x.position(*at), y.position(value)))
            };
            let points: Vec<Option<(f64, f64)>> =
                self.xs.iter().zip(&series.values).map(place).collect();
            for part in points.split(Option::is_none) {
                let part: Vec<(f64, f64)> = part.iter().flatten().copied().collect();
                canvas.polyline(&format!("line {}", series.class), &part);
            }
            let seen: Vec<(f64, f64)> = points.iter().flatten().copied().collect();
            if seen.len() <= DOTTED_COUNT_MAX {
                canvas.dots(&format!("dot {}", series.class), &seen);
            }
            if let Some((_, at)) = seen.last() {
                ends.push((*at, series));
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = frame.top - LABEL_DISTANCE;
        for (at, series) in ends {
            let middle = at.max(lowest + LABEL_DISTANCE);
            lowest = middle;
            let place = (frame.right + 7.0, middle + 4.0);
            canvas.text(&format!("end {}", series.class), place, Anchor::Start, &series.name);
        }
    }

    /// The points that the script reads, as JSON. A `<` is escaped because it could end the script element.
    fn points(&self, x: &Scale) -> String {
        let rounded = |value: f64| (value * 10.0).round() / 10.0;
        let series: Vec<_> = self
            .series
            .iter()
            .map(|series| {
                let text: Vec<Option<String>> =
                    series.values.iter().map(|value| value.map(self.value_text)).collect();
                json!({"name": series.name, "class": series.class, "text": text})
            })
            .collect();
        let places: Vec<f64> = self.xs.iter().map(|at| rounded(x.position(*at))).collect();
        let points = json!({"x": places, "at": self.x_texts, "series": series});
        points.to_string().replace('<', "\\u003c")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(name: &str, values: Vec<Option<f64>>) -> Plot {
        let xs: Vec<f64> = (0..values.len()).map(|x| x as f64).collect();
        Plot {
            id: "p".to_owned(),
            about: name.to_owned(),
            size: (500.0, 200.0),
            x_texts: xs.iter().map(ToString::to_string).collect(),
            x_range: (0.0, values.len() as f64),
            x_ticks: Vec::new(),
            y: YScale::linear("y", values.iter().flatten().copied()),
            series: vec![PlotSeries { class: "ok".to_owned(), name: name.to_owned(), values }],
            cells: Vec::new(),
            marks: Vec::new(),
            xs,
            value_text: |value| format!("{value} ms"),
        }
    }

    #[test]
    fn a_name_cannot_end_the_data_of_the_script() {
        let figure = plot("</script><b>", vec![Some(1.0)]).figure();
        assert_eq!(figure.matches("</script>").count(), 1, "{figure}");
        assert!(!figure.contains("<b>") && figure.contains("\\u003c/script>"), "{figure}");
    }

    #[test]
    fn a_line_has_a_gap_where_there_is_no_value() {
        let values = vec![Some(1.0), Some(2.0), None, Some(3.0), Some(4.0)];
        let figure = plot("n", values).figure();
        assert_eq!(figure.matches(r#"<path class="line ok""#).count(), 2, "{figure}");
        assert!(figure.contains(r#"["1 ms","2 ms",null,"3 ms","4 ms"]"#), "{figure}");
    }

    #[test]
    fn axes_hold_whatever_there_is_to_show() {
        assert_eq!(YScale::linear("y", [].into_iter()).range, (0.0, 1.0));
        assert_eq!(YScale::logarithmic("y", [0.0].into_iter()).range, (0.1, 1.0));
        let (low, high) = YScale::logarithmic("y", [0.0, 2.0, 8.0].into_iter()).range;
        assert!(low > 1.0 && low < 2.0 && high > 8.0, "{low} {high}");
    }
}

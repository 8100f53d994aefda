//! The picture on a campaign's page: each figure as a multiple of the published one, drawn as a bar that
//! begins at 1.

use super::campaign::CampaignPageRow;
use crate::plot::{Anchor, Canvas, Scale, escape, log_ticks};
use std::fmt::Write as _;

/// Heights of a row and of its bar.
const ROW_HEIGHT: f64 = 22.0;
const BAR_HEIGHT: f64 = 12.0;
/// Width of the picture, of the names on the left and of the values on the right; height of the axis at the
/// top.
const WIDTH: f64 = 1120.0;
const LEFT: f64 = 420.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 24.0;
/// Maximum number of bars. Further figures are only in the table.
const ROWS_MAX: usize = 60;

/// The bars of the figures that have a ratio, as an HTML element; `None` if no figure has one.
pub(super) fn ratios(rows: &[CampaignPageRow]) -> Option<String> {
    let known = rows.iter().filter_map(|row| {
        let (ratio, text) = row.ratio.as_ref()?;
        (*ratio > 0.0 && ratio.is_finite()).then_some((row, *ratio, text))
    });
    let known: Vec<_> = known.take(ROWS_MAX).collect();
    if known.is_empty() {
        return None;
    }
    let least = known.iter().map(|(_, ratio, _)| *ratio).fold(0.5, f64::min);
    let most = known.iter().map(|(_, ratio, _)| *ratio).fold(2.0, f64::max);
    let scale = Scale::logarithmic((least, most), (LEFT, WIDTH - RIGHT));
    let height = TOP + ROW_HEIGHT * known.len() as f64 + 4.0;
    let mut canvas = Canvas::default();
    canvas.rectangle("ground", (0.0, 0.0), (WIDTH, height));
    for tick in log_ticks((least, most)) {
        let x = scale.position(tick.value);
        canvas.lines("grid", &[[(x, TOP), (x, height)]]);
        canvas.text("tick", (x, TOP - 8.0), Anchor::Middle, &tick.label);
    }
    let one = scale.position(1.0);
    for (index, (row, ratio, text)) in known.iter().enumerate() {
        let top = TOP + ROW_HEIGHT * index as f64;
        let (x, middle) = (scale.position(*ratio), top + ROW_HEIGHT / 2.0 + 4.0);
        let name = format!("{}: {}", row.cell, row.figure);
        canvas.text("label", (LEFT - 12.0, middle), Anchor::End, &name);
        let bar_top = top + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
        canvas.rectangle("end ok", (x.min(one), bar_top), ((x - one).abs().max(1.0), BAR_HEIGHT));
        canvas.text("label", (x.max(one) + 6.0, middle), Anchor::Start, text);
    }
    canvas.lines("axis", &[[(one, TOP), (one, height)]]);
    let mut html = String::from("<figure><div class=\"scroll\">");
    let _ = write!(
        html,
        "<svg class=\"wide\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n{}</svg>",
        escape(
            "Each figure in times of the published one, on a logarithmic scale; the table has the values."
        ),
        canvas.into_elements()
    );
    Some(html + "</div></figure>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_with_a_ratio_has_a_bar_and_names_are_no_markup() {
        let row = |ratio: Option<f64>| CampaignPageRow {
            cell: "<cell>".to_owned(),
            figure: "rate".to_owned(),
            unit: "op/s",
            ours: Some((1.0, "1".to_owned())),
            published: "1".to_owned(),
            ratio: ratio.map(|ratio| (ratio, ratio.to_string())),
            source: "source".to_owned(),
        };
        let picture = ratios(&[row(Some(0.01)), row(None), row(Some(50.0)), row(Some(0.0))]);
        let picture = picture.expect("two have a ratio");
        assert_eq!(picture.matches("<rect class=\"end ok\"").count(), 2);
        assert!(picture.contains("&lt;cell&gt;: rate") && !picture.contains("<cell>"), "{picture}");
        assert!(ratios(&[row(None)]).is_none());
    }
}

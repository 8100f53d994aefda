//! The page of a comparison: the table of figures, and the latencies of both sides by percentile.

use super::parts::Section;
use super::{HtmlPage, spectrum};
use crate::measure::OperationStats;
use crate::plot::escape;

/// The contents of a comparison's page.
pub(crate) struct ComparisonPage<'a> {
    /// Names of the sides.
    pub(crate) title: &'a str,
    /// The verdict as a sentence.
    pub(crate) sentence: &'a str,
    /// True if the second side is worse; the page then marks the verdict as bad.
    pub(crate) is_worse: bool,
    /// The table as text.
    pub(crate) table: &'a str,
    /// Latencies of an operation on a side, each with the name of both.
    pub(crate) latencies: Vec<(String, OperationStats)>,
}

/// Draws the page of a comparison.
pub(crate) fn draw_comparison_page(page: ComparisonPage<'_>) -> String {
    let ComparisonPage { title, sentence, is_worse, table, latencies } = page;
    let class = if is_worse { "bad" } else { "good" };
    let header = format!(
        "<header>\n<p class=\"eyebrow\">Quoit bench</p>\n<h1>{}</h1>\n\
         <ul class=\"badges\"><li class=\"badge {class}\">{}</li></ul>\n</header>\n",
        escape(title),
        escape(sentence)
    );
    let table = format!("<div class=\"scroll\"><pre>{}</pre></div>\n", escape(table));
    let mut main = Section { id: "figures", heading: "Figures", hint: "", content: &table }.html();
    let line = |(name, stats)| spectrum::NamedDistribution { name, stats, failed: None };
    let lines: Vec<spectrum::NamedDistribution<'_>> =
        latencies.iter().map(|(name, stats)| line((name.as_str(), stats))).collect();
    if let Some(plot) = spectrum::spectrum("spectrum", &lines) {
        let hint = "Each step to the right has a tenth of the operations of the step before.";
        Section { id: "spectrum", heading: "Latency by percentile", hint, content: &plot.figure() }
            .add_to(&mut main);
    }
    HtmlPage { name: title, header: &header, main: &main }.html()
}

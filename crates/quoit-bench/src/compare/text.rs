//! A comparison as text.

use super::{ComparedFigure, ComparedSide, ComparedSides, FigureKind, SideVerdict, Verdict};
use std::fmt::Write as _;

/// The comparison as a table, and the verdict as a sentence.
pub(super) fn text(compared: &ComparedSides) -> String {
    let mut out = String::new();
    for (name, side) in [("base", &compared.base), ("other", &compared.other)] {
        let _ = writeln!(out, "{name:<6} {}", side_text(side));
    }
    let _ = writeln!(
        out,
        "\n{:<24} {:>12} {:>12} {:>7}  {:<15} {:<16} verdict",
        "figure", "base", "other", "ratio", "95 % interval", "spreads of runs"
    );
    for figure in &compared.figures {
        let of = &figure.compared;
        let [base, other] = [of.base, of.other].map(|value| value_text(figure.kind, value));
        let interval = format!("{:.3}..{:.3}", of.ratio_low, of.ratio_high);
        let _ = writeln!(
            out,
            "{:<24} {base:>12} {other:>12} {:>7.3}  {interval:<15} {:<16} {}",
            name_of(figure),
            of.ratio,
            format!("{:+.1}", of.effect),
            if figure.within_noise { "within the noise" } else { word_of(of.verdict) }
        );
    }
    let _ = write!(out, "\n{}", sentence(compared));
    for (name, side) in [("base", &compared.base), ("other", &compared.other)] {
        if !side.unmatched_operations.is_empty() {
            let operations = side.unmatched_operations.join(", ");
            let _ = write!(
                out,
                "\nwarning: not compared, since of the two sides only {name} has it in all runs: {operations}"
            );
        }
        if side.client_bound_runs > 0 {
            let _ = write!(
                out,
                "\nwarning: the load generator was the limit in {} of the {name} runs: they say little \
                 about the server",
                side.client_bound_runs
            );
        }
    }
    out
}

fn side_text(side: &ComparedSide) -> String {
    let names: Vec<String> = side.runs.iter().map(|run| run.display().to_string()).collect();
    let plural = |count: u64, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    };
    format!(
        "{}: {} ({}, {})",
        plural(side.runs.len() as u64, "run", "runs"),
        names.join(", "),
        plural(side.errors, "error", "errors"),
        plural(side.stalled_s, "second of standstill", "seconds of standstill")
    )
}

pub(super) fn name_of(figure: &ComparedFigure) -> String {
    let of = figure.operation.as_deref().unwrap_or("all");
    match figure.kind {
        FigureKind::Rate => "operations a second".to_owned(),
        FigureKind::Median => format!("{of} median"),
        FigureKind::P99 => format!("{of} 99th percentile"),
    }
}

fn value_text(kind: FigureKind, value: f64) -> String {
    match kind {
        FigureKind::Rate => format!("{value:.0}"),
        FigureKind::Median | FigureKind::P99 if value < 1000.0 => format!("{value:.0} us"),
        FigureKind::Median | FigureKind::P99 => format!("{:.2} ms", value / 1000.0),
    }
}

const fn word_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Lower => "lower",
        Verdict::ProbablyLower => "probably lower",
        Verdict::Same => "no difference",
        Verdict::ProbablyHigher => "probably higher",
        Verdict::Higher => "higher",
    }
}

/// The verdict with the figures that decide it, or the smallest difference that would have been detected.
pub(super) fn sentence(compared: &ComparedSides) -> String {
    let told: Vec<String> = compared
        .figures
        .iter()
        .filter(|figure| figure.compared.verdict != Verdict::Same && !figure.within_noise)
        .map(|figure| {
            let of = &figure.compared;
            let (name, low, high) = (name_of(figure), of.ratio_low, of.ratio_high);
            format!("{name} {:.3} times ({low:.3} to {high:.3})", of.ratio)
        })
        .collect();
    let (base, other) = (&compared.base, &compared.other);
    let shares = |worse: &ComparedSide, better: &ComparedSide| {
        let [worse, better] = [worse, better].map(|side| side.failed_share * 100.0);
        format!("{worse:.1} % of its operations fail, and {better:.1} %")
    };
    if compared.verdict == SideVerdict::FailsMore {
        let shares = shares(other, base);
        return format!(
            "The other side fails more: {shares} of the base's; times are those of successes alone"
        );
    }
    let failures = match base.fails_more_than(other) {
        true => format!("; the base fails more: {} of the other's", shares(base, other)),
        false => String::new(),
    };
    let what = match compared.verdict {
        SideVerdict::Same => {
            let mut deciding = compared.figures.iter().filter(|figure| figure.decides).peekable();
            if deciding.peek().is_none() {
                return format!(
                    "No difference can be seen: the latencies are within the noise of the load \
                     generator{failures}"
                );
            }
            let least = deciding.map(|figure| figure.compared.detectable).fold(1.0, f64::max);
            let percent = (least - 1.0) * 100.0;
            let more = match compared.base.runs.len().min(compared.other.runs.len()) {
                1 => {
                    ": with one run on a side the spread of runs is not known; --repeat measures it"
                }
                _ => "",
            };
            return format!(
                "No difference found; one below {percent:.1} % would not have been seen{more}{failures}"
            );
        }
        SideVerdict::Faster => "is faster",
        SideVerdict::ProbablyFaster => "is probably faster",
        SideVerdict::Slower => "is slower",
        SideVerdict::ProbablySlower => "is probably slower",
        SideVerdict::Mixed => "is faster by one figure and slower by another",
        SideVerdict::FailsMore => "fails more",
    };
    format!("The other side {what}: {}{failures}", told.join(", "))
}

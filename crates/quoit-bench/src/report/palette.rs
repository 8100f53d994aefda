//! The colours of drawings, on a light and on a dark background.

use std::fmt::Write as _;

/// A class with its two colours.
struct Colour {
    class: &'static str,
    light: &'static str,
    dark: &'static str,
}

/// Each colour has a contrast of at least 4.5 to its background, so that it can also be used for text.
const SERIES: [Colour; 16] = [
    Colour { class: "ok", light: "#2563eb", dark: "#60a5fa" },
    Colour { class: "error", light: "#dc2626", dark: "#f87171" },
    Colour { class: "mean", light: "#0e7490", dark: "#22d3ee" },
    Colour { class: "median", light: "#15803d", dark: "#4ade80" },
    Colour { class: "p95", light: "#b45309", dark: "#fbbf24" },
    Colour { class: "p99", light: "#7c3aed", dark: "#a78bfa" },
    Colour { class: "p999", light: "#be185d", dark: "#f472b6" },
    Colour { class: "max", light: "#475569", dark: "#cbd5e1" },
    Colour { class: "op0", light: "#2563eb", dark: "#60a5fa" },
    Colour { class: "op1", light: "#b45309", dark: "#fbbf24" },
    Colour { class: "op2", light: "#15803d", dark: "#4ade80" },
    Colour { class: "op3", light: "#be185d", dark: "#f472b6" },
    Colour { class: "op4", light: "#7c3aed", dark: "#a78bfa" },
    Colour { class: "op5", light: "#0e7490", dark: "#22d3ee" },
    Colour { class: "op6", light: "#dc2626", dark: "#f87171" },
    Colour { class: "op7", light: "#475569", dark: "#cbd5e1" },
];

const LINES: [Colour; 3] = [
    Colour { class: "grid", light: "#e2e8f0", dark: "#2a3344" },
    Colour { class: "axis", light: "#94a3b8", dark: "#64748b" },
    Colour { class: "event", light: "#334155", dark: "#cbd5e1" },
];

const AREAS: [Colour; 5] = [
    Colour { class: "ground", light: "#ffffff", dark: "#131a26" },
    Colour { class: "strip", light: "#eef2f7", dark: "#1d2635" },
    Colour { class: "tick", light: "#475569", dark: "#a3b1c6" },
    Colour { class: "label", light: "#334155", dark: "#cbd5e1" },
    Colour { class: "heading", light: "#0f172a", dark: "#f1f5f9" },
];

/// The style sheet for everything in a chart.
pub(super) fn chart_css() -> String {
    let mut css = String::from(
        "svg text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;\
         font-size:11.5px}\n\
         svg .heading{font-size:14px;font-weight:600}svg .label{font-size:12px}\n\
         .grid,.axis,.event{fill:none;stroke-width:1}.event{stroke-dasharray:4 3}\n\
         .line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n\
         .dot{fill:none;stroke-width:3.6;stroke-linecap:round;stroke-opacity:.42}\n",
    );
    css.push_str(&colours(|colour| colour.light));
    let dark = colours(|colour| colour.dark);
    let _ = writeln!(css, "@media (prefers-color-scheme:dark){{\n{dark}}}");
    css
}

fn colours(of: impl Fn(&Colour) -> &'static str) -> String {
    let mut css = String::new();
    for colour in &SERIES {
        let (class, colour) = (colour.class, of(colour));
        let _ = write!(css, ".line.{class},.dot.{class}{{stroke:{colour}}}");
        let _ = writeln!(css, ".end.{class}{{fill:{colour}}}.key.{class}{{background:{colour}}}");
    }
    for colour in &LINES {
        let _ = writeln!(css, ".{}{{stroke:{}}}", colour.class, of(colour));
    }
    for colour in &AREAS {
        let _ = writeln!(css, "svg .{}{{fill:{}}}", colour.class, of(colour));
    }
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of `#rrggbb`, as defined by WCAG 2.2.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("a colour");
            let share = f64::from(value) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn lines_and_texts_stand_out_from_their_ground_in_light_and_dark() {
        let ground = &AREAS[0];
        assert_eq!(ground.class, "ground");
        for colour in SERIES.iter().chain(&AREAS[2..]) {
            let class = colour.class;
            let light = contrast(colour.light, ground.light);
            let dark = contrast(colour.dark, ground.dark);
            assert!(light >= 4.5 && dark >= 4.5, "{class}: {light:.1} light, {dark:.1} dark");
        }
    }
}

//! A canvas that produces SVG text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Horizontal alignment of a text relative to its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The elements of a picture, in the order of drawing.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    elements: String,
}

impl Canvas {
    /// The elements as SVG text.
    pub(crate) fn into_elements(self) -> String {
        self.elements
    }

    /// Draws a text. `text` is escaped because it may come from outside; `class` is not and must be a
    /// constant.
    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let (x, y, text) = (number(x), number(y), escape(text));
        self.write(format_args!(r#"<text class="{class}" x="{x}" y="{y}"{anchor}>{text}</text>"#));
    }

    /// Draws a text that reads upwards.
    pub(crate) fn upward_text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y, text) = (number(x), number(y), escape(text));
        self.write(format_args!(
            "<text class=\"{class}\" transform=\"translate({x} {y}) rotate(-90)\" \
             text-anchor=\"middle\">{text}</text>"
        ));
    }

    /// Draws a filled rectangle from its upper left corner.
    pub(crate) fn rectangle(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64)) {
        let (x, y, w, h) = (number(x), number(y), number(w.max(0.0)), number(h.max(0.0)));
        self.write(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}"/>"#
        ));
    }

    /// Draws lines, each from one point to another.
    pub(crate) fn lines(&mut self, class: &str, lines: &[[(f64, f64); 2]]) {
        let mut path = String::new();
        for [(x1, y1), (x2, y2)] in lines {
            let _ =
                write!(path, "M{} {}L{} {}", number(*x1), number(*y1), number(*x2), number(*y2));
        }
        self.path(class, path);
    }

    /// Draws filled rectangles as one element, each given by its upper left and lower right corner.
    pub(crate) fn rectangles(&mut self, class: &str, corners: &[[(f64, f64); 2]]) {
        let mut path = String::new();
        for [(left, top), (right, bottom)] in corners {
            let (w, h) = (number(right - left), number(bottom - top));
            let _ = write!(path, "M{} {}h{w}v{h}H{}z", number(*left), number(*top), number(*left));
        }
        self.path(class, path);
    }

    /// Draws a line through points.
    pub(crate) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{} {}", number(*x), number(*y));
        }
        self.path(class, path);
    }

    /// Draws dots that are as wide as the class's line. Dots that would cover each other are drawn once.
    pub(crate) fn dots(&mut self, class: &str, points: &[(f64, f64)]) {
        // Among many dots, half a pixel is invisible.
        let grid = if points.len() > 2000 { 1.0 } else { 0.5 };
        let cell = |at: f64| quoit_number::whole_i64((at / grid).round());
        let mut places: Vec<(i64, i64)> =
            points.iter().map(|(x, y)| (cell(*x), cell(*y))).collect();
        places.sort_unstable();
        places.dedup();
        let mut path = String::new();
        let mut before = (0, 0);
        for (x, y) in places {
            // Draw relative to the last dot, because small numbers make small files.
            let step = |from: i64, to: i64| number((to - from) as f64 * grid);
            let _ = write!(path, "m{} {}h0", step(before.0, x), step(before.1, y));
            before = (x, y);
        }
        self.path(class, path);
    }

    fn path(&mut self, class: &str, path: String) {
        if !path.is_empty() {
            self.write(format_args!(r#"<path class="{class}" d="{path}"/>"#));
        }
    }

    fn write(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = self.elements.write_fmt(element);
        self.elements.push('\n');
    }
}

/// A coordinate with at most one decimal place.
fn number(value: f64) -> String {
    let tenths = (value * 10.0).round();
    if tenths % 10.0 == 0.0 {
        format!("{:.0}", tenths / 10.0 + 0.0)
    } else {
        format!("{:.1}", tenths / 10.0)
    }
}

/// Escapes a text for HTML and SVG, within elements and quoted attributes. Characters that XML forbids are
/// replaced.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !matches!(c, '&' | '<' | '>' | '"' | '\'') && is_xml(c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character if is_xml(character) => out.push(character),
            _ => out.push(char::REPLACEMENT_CHARACTER),
        }
    }
    Cow::Owned(out)
}

/// True for the characters that XML 1.0 allows.
fn is_xml(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        character => character >= ' ',
    }
}

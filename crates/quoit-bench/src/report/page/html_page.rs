//! The frame of all pages.

use crate::plot::escape;
use crate::report::palette;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The page loads nothing from anywhere, whatever a configuration contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:";

/// An HTML document.
pub(super) struct HtmlPage<'a> {
    /// Name in the title, not escaped yet.
    pub(super) name: &'a str,
    /// The element `header`.
    pub(super) header: &'a str,
    /// The elements within `main`.
    pub(super) main: &'a str,
}

impl HtmlPage<'_> {
    /// The document as text.
    pub(super) fn html(&self) -> String {
        let Self { name, header, main } = self;
        let (name, chart_css) = (escape(name), palette::chart_css());
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{name} - Quoit bench</title>\n<link rel=\"icon\" href=\"data:,\">\n\
             <style>\n{chart_css}{STYLE}</style>\n</head>\n<body>\n<div class=\"wrap\">\n\
             {header}<main>\n{main}</main>\n\
             <footer>Drawn by quoit bench {version} from the tables in the run's directory.</footer>\n\
             </div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }
}

//! Rendering of the view's state.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Sparkline, Table};

use super::spectrum::band_text;
use super::{OperationLine, Spectrum, ViewSecond, ViewState};

/// Width of the labels next to the spectrum, in columns.
const LABEL_WIDTH: u16 = 8;

/// Maximum number of lines for operations. Further ones are left out.
const OPERATION_LINES_MAX: u16 = 10;

/// Column headers of the operations.
const HEADINGS: [&str; 8] = ["operation", "op/s", "failed", "p50", "p95", "p99", "p99.9", "max"];

/// Shades of the spectrum, from few latencies to many.
const SHADES: [&str; 4] = ["░", "▒", "▓", "█"];

/// For each shade, the share of a second's latencies from which it is used.
const SHADES_FROM: [f64; 4] = [0.0, 0.05, 0.2, 0.5];

/// Renders the state. The result depends only on the state and the size of the frame.
pub fn draw(frame: &mut Frame<'_>, state: &ViewState) {
    let operation_count = state.last.as_ref().map_or(0, |second| second.operations.len());
    let operation_lines =
        u16::try_from(operation_count).unwrap_or(u16::MAX).clamp(1, OPERATION_LINES_MAX);
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(operation_lines + 3),
        Constraint::Length(5),
        Constraint::Min(4),
        Constraint::Length(6),
        Constraint::Length(1),
    ]);
    let [title, gauge, operations, rate, spectrum, below, keys] = parts.areas(frame.area());
    frame.render_widget(Paragraph::new(title_line(state)), title);
    draw_progress(frame, gauge, state);
    draw_operations(frame, operations, state);
    draw_rate(frame, rate, state);
    draw_spectrum(frame, spectrum, state);
    draw_below(frame, below, state);
    let help = " q  ends the run; its results are kept";
    frame.render_widget(Paragraph::new(help).style(Style::new().fg(Color::DarkGray)), keys);
}

fn block(title: &str) -> Block<'_> {
    Block::bordered().title(title).border_style(Style::new().fg(Color::DarkGray))
}

fn title_line(state: &ViewState) -> Line<'_> {
    Line::from(vec![
        Span::styled(
            format!(" {} ", state.phase.text()),
            Style::new().add_modifier(Modifier::REVERSED),
        ),
        Span::raw(" "),
        Span::styled(state.title.as_str(), Style::new().add_modifier(Modifier::BOLD)),
    ])
}

fn draw_progress(frame: &mut Frame<'_>, area: Rect, state: &ViewState) {
    let elapsed = state.elapsed();
    let label = match state.length {
        Some(length) => {
            let left = length.saturating_sub(elapsed);
            format!("{} of {}, {} left", clock(elapsed), clock(length), clock(left))
        }
        None => clock(elapsed),
    };
    match state.progress() {
        Some(share) => {
            let style = Style::new().fg(Color::Cyan).bg(Color::DarkGray);
            let gauge = Gauge::default().gauge_style(style).label(label).ratio(share);
            frame.render_widget(gauge, area);
        }
        None => frame.render_widget(Paragraph::new(format!(" {label}, without an end")), area),
    }
}

fn draw_operations(frame: &mut Frame<'_>, area: Rect, state: &ViewState) {
    let lines = state.last.as_ref().map(|second| second.operations.as_slice()).unwrap_or_default();
    let rows = lines.iter().map(operation_row);
    let heading = Row::new(HEADINGS).style(Style::new().add_modifier(Modifier::BOLD));
    let widths = HEADINGS.iter().enumerate().map(|(column, _)| match column {
        0 => Constraint::Min(12),
        _ => Constraint::Length(9),
    });
    let table = Table::new(rows, widths).header(heading).block(block(" last second, in ms "));
    frame.render_widget(table, area);
}

fn operation_row(operation: &OperationLine) -> Row<'static> {
    let latencies = match operation.latencies_us {
        Some(latencies_us) => latencies_us.map(ms),
        None => [""; 5].map(str::to_owned),
    };
    let mut cells = vec![
        operation.name.clone(),
        format!("{:.0}", operation.rate_per_s),
        operation.error_count.to_string(),
    ];
    cells.extend(latencies);
    let style = match operation.error_count {
        0 => Style::new(),
        _ => Style::new().fg(Color::Red),
    };
    Row::new(cells).style(style)
}

fn draw_rate(frame: &mut Frame<'_>, area: Rect, state: &ViewState) {
    let rates = &state.rates_per_s;
    let (last, greatest) = (rates.back().copied().unwrap_or(0), rates.iter().max().copied());
    let title = format!(" {last} op/s, at most {} ", greatest.unwrap_or(0));
    let outline = block(&title);
    let columns = usize::from(outline.inner(area).width);
    let shown: Vec<u64> = rates.iter().skip(rates.len().saturating_sub(columns)).copied().collect();
    let line = Sparkline::default().data(shown).style(Style::new().fg(Color::Green)).block(outline);
    frame.render_widget(line, area);
}

/// Draws the latencies over time. A column is a second and a row is a band of latencies; the shade shows
/// the band's share of the second's operations.
fn draw_spectrum(frame: &mut Frame<'_>, area: Rect, state: &ViewState) {
    let outline = block(" latencies: seconds to the right, slower ones above ");
    let inner = outline.inner(area);
    frame.render_widget(outline, area);
    let columns = usize::from(inner.width.saturating_sub(LABEL_WIDTH));
    let hidden = state.spectra.len().saturating_sub(columns);
    let shown: Vec<&Spectrum> = state.spectra.iter().skip(hidden).collect();
    let ranges = shown.iter().filter_map(|spectrum| spectrum.range());
    let Some((low, high)) = ranges.reduce(|(low, high), (l, h)| (low.min(l), high.max(h))) else {
        return;
    };
    // If there is not enough room, the bands of slow operations take precedence.
    let low = low.max((high + 1).saturating_sub(usize::from(inner.height)));
    let lines = (low..=high).rev().map(|band| {
        let label = format!("{:>width$} ", band_text(band), width = usize::from(LABEL_WIDTH) - 1);
        let cells: String = shown.iter().map(|spectrum| shade(spectrum, band)).collect();
        Line::from(vec![
            Span::styled(label, Style::new().fg(Color::DarkGray)),
            Span::styled(cells, Style::new().fg(Color::Yellow)),
        ])
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inner);
}

fn shade(spectrum: &Spectrum, band: usize) -> &'static str {
    let count = spectrum.band(band);
    if count == 0 {
        return " ";
    }
    let share = count as f64 / spectrum.total() as f64;
    let shades = SHADES.iter().zip(SHADES_FROM).rev();
    shades.filter(|(_, from)| share >= *from).map(|(shade, _)| *shade).next().unwrap_or(SHADES[0])
}

/// Draws errors, messages and, if any are watched, servers.
fn draw_below(frame: &mut Frame<'_>, area: Rect, state: &ViewState) {
    let servers = state.last.as_ref().map(|second| second.servers.as_slice()).unwrap_or_default();
    let weights = if servers.is_empty() { [2, 0, 3] } else { [2, 4, 3] };
    let [errors, watched, messages] = Layout::horizontal(weights.map(Constraint::Fill)).areas(area);
    draw_errors(frame, errors, state.last.as_ref());
    if let Some(first) = servers.first() {
        let heading =
            std::iter::once("server").chain(first.figures.iter().map(|(name, _)| name.as_str()));
        let heading = Row::new(heading.map(str::to_owned).collect::<Vec<_>>());
        let rows = servers.iter().map(|server| {
            let figures = server.figures.iter().map(|(_, figure)| figure.clone());
            Row::new(std::iter::once(server.server.clone()).chain(figures).collect::<Vec<_>>())
        });
        let widths = std::iter::once(Constraint::Min(16))
            .chain(first.figures.iter().map(|_| Constraint::Length(9)));
        let heading = heading.style(Style::new().add_modifier(Modifier::BOLD));
        frame.render_widget(
            Table::new(rows, widths).header(heading).block(block(" servers ")),
            watched,
        );
    }
    let outline = block(" messages ");
    let room = usize::from(outline.inner(messages).height);
    let hidden = state.messages.len().saturating_sub(room);
    let lines = state.messages.iter().skip(hidden).map(|text| Line::from(text.as_str()));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(outline), messages);
}

fn draw_errors(frame: &mut Frame<'_>, area: Rect, last: Option<&ViewSecond>) {
    let errors = last.map(|second| second.errors.as_slice()).unwrap_or_default();
    let lines: Vec<Line<'_>> = match errors {
        [] => vec![Line::from(" none")],
        errors => errors
            .iter()
            .map(|(reason, count)| Line::from(format!("{count:>8} {reason}")))
            .collect(),
    };
    let style = if errors.is_empty() { Style::new() } else { Style::new().fg(Color::Red) };
    frame.render_widget(Paragraph::new(lines).style(style).block(block(" failures ")), area);
}

/// Minutes and seconds, and hours if there are any.
fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// Converts microseconds to a text in milliseconds with about three significant digits.
fn ms(us: u64) -> String {
    match us {
        us if us >= 100_000 => format!("{}", us / 1000),
        us if us >= 1000 => format!("{:.1}", us as f64 / 1000.0),
        us => format!("{:.3}", us as f64 / 1000.0),
    }
}

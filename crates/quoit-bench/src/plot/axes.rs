//! The frame of a plot: its position, its grid, and the labels of its axes.

use super::{Anchor, Canvas, Scale, Tick};

/// Distance between the plot and the labels of its axes.
const LABEL_GAP: f64 = 6.0;

/// The rectangle that a plot fills.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Frame {
    pub(crate) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(crate) fn height(&self) -> f64 {
        self.bottom - self.top
    }
}

/// A scale, with its ticks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) scale: Scale,
    pub(crate) ticks: Vec<Tick>,
    /// False if a neighbouring plot shows the same labels.
    pub(crate) has_labels: bool,
}

/// Draws the grid and the labels of both axes.
pub(crate) fn draw_axes(canvas: &mut Canvas, frame: Frame, x: &Axis, y: &Axis) {
    canvas.rectangle("ground", (frame.left, frame.top), (frame.width(), frame.height()));
    let columns: Vec<_> = x
        .ticks
        .iter()
        .map(|tick| x.scale.position(tick.value))
        .map(|at| [(at, frame.top), (at, frame.bottom)])
        .collect();
    let rows: Vec<_> = y
        .ticks
        .iter()
        .map(|tick| y.scale.position(tick.value))
        .map(|at| [(frame.left, at), (frame.right, at)])
        .collect();
    canvas.lines("grid", &[columns, rows].concat());
    canvas.lines("axis", &[[(frame.left, frame.bottom), (frame.right, frame.bottom)]]);
    if x.has_labels {
        for tick in &x.ticks {
            let at = (x.scale.position(tick.value), frame.bottom + LABEL_GAP + 9.0);
            canvas.text("tick", at, Anchor::Middle, &tick.label);
        }
    }
    if y.has_labels {
        for tick in &y.ticks {
            let at = (frame.left - LABEL_GAP, y.scale.position(tick.value) + 4.0);
            canvas.text("tick", at, Anchor::End, &tick.label);
        }
    }
}

//! A small plotting room: scales with round ticks, a smoother, and SVG text.
//!
//! It knows nothing of benchmarks. What is drawn gets its colours from classes, so that one
//! picture can be light and dark.

mod axes;
mod canvas;
mod scale;
mod smooth;
#[cfg(test)]
mod tests;

pub(crate) use axes::{Axis, Frame, draw_axes};
pub(crate) use canvas::{Anchor, Canvas, escape};
pub(crate) use scale::{Scale, Tick, grouped, linear_ticks, log_ticks};
pub(crate) use smooth::loess;

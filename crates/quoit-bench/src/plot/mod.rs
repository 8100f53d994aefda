//! A small plotting library: scales with round ticks, a smoother, and SVG output.
//!
//! It knows nothing about benchmarks. Elements get their colours from classes, so the same picture works on
//! a light and on a dark background.

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

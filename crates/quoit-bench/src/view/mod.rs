//! The full-screen view of a run in a terminal.
//!
//! [`ViewState`] is the content; a run updates it with its phases, seconds and messages. [`draw`] renders
//! it, and depends on nothing else. [`Screen`] owns the terminal: it reads the keys, and restores the
//! terminal at the end, also after a panic.

mod board;
mod draw;
mod screen;
mod spectrum;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use board::ServerBoard;
pub use draw::draw;
pub(crate) use screen::Screen;
pub use screen::ViewError;
pub use spectrum::Spectrum;
pub use state::{OperationLine, ServerLine, ViewPhase, ViewSecond, ViewState};

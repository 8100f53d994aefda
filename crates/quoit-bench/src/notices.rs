//! Telling the log of a run something from where the log is not known.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use crate::log_level::LogLevel;

type Sink = dyn Fn(LogLevel, &str) + Send + Sync;

/// Takes notices, or drops them without a listener. Clones tell the same listener.
#[derive(Clone, Default)]
pub struct Notices(Option<Arc<Sink>>);

impl Notices {
    /// Hands every notice to `sink`.
    pub fn to(sink: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Tells something. The text is made only if there is a listener.
    pub(crate) fn tell(&self, level: LogLevel, text: impl FnOnce() -> String) {
        if let Some(sink) = &self.0 {
            sink(level, &text());
        }
    }
}

impl Debug for Notices {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notices").field(&self.0.is_some()).finish()
    }
}

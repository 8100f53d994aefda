//! A way to write to the log of a run from code that has no access to the log.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use crate::log_level::LogLevel;

type Sink = dyn Fn(LogLevel, &str) + Send + Sync;

/// Passes notices to a listener, or drops them if it has none. Clones share the listener.
#[derive(Clone, Default)]
pub struct Notices(Option<Arc<Sink>>);

impl Notices {
    /// Passes every notice to `sink`.
    pub fn to(sink: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Reports a notice. The text is only built if there is a listener.
    pub(crate) fn notify(&self, level: LogLevel, text: impl FnOnce() -> String) {
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

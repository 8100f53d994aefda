//! Traces: operations with times, keys and sizes that were recorded from a real system.

mod error;
mod reader;

pub use error::TraceError;
pub use reader::TraceReader;

use std::time::Duration;

/// The kinds of operations in traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracedKind {
    /// Reads a key.
    Get,
    /// Writes a key.
    Put,
    /// Deletes a key.
    Delete,
}

impl TracedKind {
    /// Every kind.
    pub(crate) const ALL: [Self; 3] = [Self::Get, Self::Put, Self::Delete];

    /// Names that drivers have for operations of this kind. The first is the one for messages.
    pub(crate) const fn operation_names(self) -> [&'static str; 2] {
        match self {
            Self::Get => ["get", "get_any"],
            Self::Put => ["put", "set"],
            Self::Delete => ["delete", "del"],
        }
    }

    /// The kind of an operation, from its word in a trace. Commands of caches that change a value count as
    /// puts.
    fn of_word(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "get" | "gets" | "read" => Self::Get,
            "put" | "set" | "write" | "add" | "replace" | "cas" | "append" | "prepend" | "incr"
            | "decr" => Self::Put,
            "delete" | "del" | "remove" => Self::Delete,
            _ => return None,
        })
    }
}

/// An operation of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedOperation {
    /// Time since the first operation of the trace.
    pub at: Duration,
    /// Its kind.
    pub kind: TracedKind,
    /// Its key.
    pub key: Vec<u8>,
    /// Size of the written value in bytes; 0 for other operations.
    pub value_bytes: u64,
}

/// The trace that a run replays, and the speed.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Path of the file.
    pub path: std::path::PathBuf,
    /// Factor by which the trace is replayed faster than recorded. `None` if no operation waits for its
    /// time.
    pub speed: Option<f64>,
}

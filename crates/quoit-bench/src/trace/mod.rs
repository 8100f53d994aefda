//! Traces: operations with their times, keys and sizes, as a system in use has had them.

mod error;
mod reader;

pub use error::TraceError;
pub use reader::TraceReader;

use std::time::Duration;

/// The kinds of operations that traces have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracedKind {
    /// It reads a key.
    Get,
    /// It writes a key.
    Put,
    /// It deletes a key.
    Delete,
}

impl TracedKind {
    /// Every kind.
    pub(crate) const ALL: [Self; 3] = [Self::Get, Self::Put, Self::Delete];

    /// The names that drivers have for operations of this kind, the word for people first.
    pub(crate) const fn operation_names(self) -> &'static [&'static str] {
        match self {
            Self::Get => &["get", "get_any"],
            Self::Put => &["put", "set"],
            Self::Delete => &["delete", "del"],
        }
    }

    /// The kind of an operation by its word in a trace. Words of caches that change what is stored are puts.
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
    /// When it began, from the first operation on.
    pub at: Duration,
    /// Its kind.
    pub kind: TracedKind,
    /// Its key.
    pub key: Vec<u8>,
    /// Bytes of the value that it writes; 0 for others.
    pub value_bytes: u64,
}

/// How a run replays a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// The file.
    pub path: std::path::PathBuf,
    /// By how much the times of the trace are shortened; `None`: no operation waits for its time.
    pub speed: Option<f64>,
}

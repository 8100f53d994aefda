//! Findings of the verification.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// Kind of fault of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Bytes that no write of this run has made.
    Corrupt,
    /// A value that was written to another key.
    ForeignKey,
    /// A value of another run, or of a write that has not been made yet.
    NeverWritten,
    /// Nothing, or siblings without it, where a write had been acknowledged.
    Lost,
    /// A version that an acknowledged one had replaced.
    Stale,
    /// A value where an acknowledged delete had been the last.
    Resurrected,
    /// Siblings where there can be none, or one that another of them has replaced, or one twice.
    Siblings,
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Corrupt => "corrupt",
            Self::ForeignKey => "foreign key",
            Self::NeverWritten => "never written",
            Self::Lost => "lost",
            Self::Stale => "stale",
            Self::Resurrected => "resurrected",
            Self::Siblings => "wrong siblings",
        })
    }
}

/// One read that was wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCase {
    /// Kind of fault.
    pub fault: Fault,
    /// The key; bytes that are not printable ASCII as `\xNN`.
    pub key: String,
    /// Description of the right result.
    pub expected: String,
    /// Description of the values that were read.
    pub found: String,
    /// It was found by the read-back at the end.
    pub by_read_back: bool,
}

/// Findings of a verified run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Reads whose values were checked, those of the read-back included.
    pub reads_checked: u64,
    /// Writes that the server acknowledged.
    pub writes_acknowledged: u64,
    /// Writes that may or may not have taken effect: either is right.
    pub writes_in_doubt: u64,
    /// Keys that were written.
    pub keys_written: u64,
    /// Keys that the read-back at the end has checked.
    pub keys_read_back: u64,
    /// Keys that the read-back could not read, and which are therefore not accounted for.
    pub keys_unread: u64,
    /// Reads behind an acknowledged write, where reads may be.
    pub reads_behind: u64,
    /// Faults by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// The first of them.
    pub cases: Vec<FaultCase>,
}

impl VerifyReport {
    /// True when everything that was acknowledged is accounted for and nothing else was read.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty() && self.keys_unread == 0
    }

    /// Faults of every kind.
    pub fn fault_count(&self) -> u64 {
        self.faults.values().sum()
    }
}

/// A key as people read it.
pub(super) fn key_text(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

//! Findings of the verification.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// Kinds of faults of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Bytes that no write of this run has made.
    Corrupt,
    /// A value that was written to another key.
    ForeignKey,
    /// A value of another run, or with the number of a write that was never made.
    NeverWritten,
    /// Nothing, or siblings without the value of an acknowledged write that must be there.
    Lost,
    /// A version that an acknowledged write had replaced.
    Stale,
    /// A value although an acknowledged delete was the last write.
    Resurrected,
    /// Siblings where there can't be any, a sibling that another one has replaced, or the same sibling
    /// twice.
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

/// One wrong read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCase {
    /// The kind of the fault.
    pub fault: Fault,
    /// The key. Bytes other than printable ASCII are shown as `\xNN`.
    pub key: String,
    /// Description of the right result.
    pub expected: String,
    /// Description of the values that were read.
    pub found: String,
    /// True if the read-back at the end found it.
    pub by_read_back: bool,
}

/// Findings of a verified run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Number of reads whose values were checked, including those of the read-back.
    pub reads_checked: u64,
    /// Number of writes that the server acknowledged.
    pub writes_acknowledged: u64,
    /// Number of writes that may or may not have taken effect; either is right.
    pub writes_in_doubt: u64,
    /// Number of keys that were written.
    pub keys_written: u64,
    /// Number of keys that the read-back has checked.
    pub keys_read_back: u64,
    /// Number of keys that the read-back could not read, so that they are not accounted for.
    pub keys_unread: u64,
    /// Number of reads that were behind an acknowledged write, if the settings allow that.
    pub reads_behind: u64,
    /// Number of faults by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// The first faults, in detail.
    pub cases: Vec<FaultCase>,
}

impl VerifyReport {
    /// True if every acknowledged write is accounted for and nothing else was read.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty() && self.keys_unread == 0
    }

    /// Number of faults of all kinds.
    pub fn fault_count(&self) -> u64 {
        self.faults.values().sum()
    }
}

/// A key as text for people.
pub(super) fn key_text(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

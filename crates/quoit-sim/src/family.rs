//! Families of scenarios: trouble that a run has for certain when it is asked for by name.
//!
//! A family that has found a fault of the store which is not mended yet is not among what the seed draws by
//! itself; when it is mended, the family joins the mix of the test command.

use crate::faults::Trouble;
use std::str::FromStr;

/// A family of scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Nothing but what runs had before there were families: seeds of that time tell the same story.
    Former,
    /// Disks hang from milliseconds to a minute, and machines lose their power meanwhile.
    HungDisks,
    /// Nodes are stopped in good order and started again.
    CleanStops,
    /// Bucket types have different numbers of replicas, and the operator changes them under load.
    ReplicaCounts,
    /// Nodes keep tombstones for ever, for moments, for long, or not at all.
    DeleteModes,
    /// One machine loses files of its log while it is off, or has them cut short.
    LostFiles,
    /// One machine starts with an older copy of what clients have stored.
    OlderData,
    /// The disk of one machine rots while members come and go; none of them is lost.
    RotAndMembers,
    /// Nodes that leave die for good when they have handed over everything.
    LeaverDies,
    /// A write that is passed on to another node is held to be made once.
    PassedOnOnce,
    /// Several clusters replicate to one another, over ways that lose messages.
    Clusters,
    /// There are clients of registers, which conditional writes alone change.
    Registers,
    /// Values expire, those among them that have replaced others; clocks are right.
    Expiring,
    /// An operator grants a right and revokes it, and the network is cut for longer than otherwise.
    Rights,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Former,
        Self::HungDisks,
        Self::CleanStops,
        Self::ReplicaCounts,
        Self::DeleteModes,
        Self::LostFiles,
        Self::OlderData,
        Self::RotAndMembers,
        Self::LeaverDies,
        Self::PassedOnOnce,
        Self::Clusters,
        Self::Registers,
        Self::Expiring,
        Self::Rights,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Former => "former",
            Self::HungDisks => "hung-disks",
            Self::CleanStops => "clean-stops",
            Self::ReplicaCounts => "replica-counts",
            Self::DeleteModes => "delete-modes",
            Self::LostFiles => "lost-files",
            Self::OlderData => "older-data",
            Self::RotAndMembers => "rot-and-members",
            Self::LeaverDies => "leaver-dies",
            Self::PassedOnOnce => "passed-on-once",
            Self::Clusters => "clusters",
            Self::Registers => "registers",
            Self::Expiring => "expiring",
            Self::Rights => "rights",
        }
    }

    /// The trouble that each of its runs has.
    pub(crate) const fn troubles(self) -> &'static [Trouble] {
        match self {
            Self::HungDisks => &[Trouble::HungDisk],
            Self::CleanStops | Self::ReplicaCounts => &[Trouble::CleanStop],
            Self::LostFiles => &[Trouble::LostFiles],
            Self::OlderData => &[Trouble::OlderData],
            Self::Rights => &[Trouble::LongCut],
            Self::PassedOnOnce => &[Trouble::Stall, Trouble::Partition],
            Self::Registers
            | Self::Expiring
            | Self::Former
            | Self::Clusters
            | Self::DeleteModes
            | Self::RotAndMembers
            | Self::LeaverDies => &[],
        }
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|family| family.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("there is no family {name:?}; there are {}", names()))
    }
}

//! Families of scenarios: trouble that a run has for certain when it is asked for by name.
//!
//! A run has the family that was asked for by name, or else one that its seed draws.

use crate::random::Random;
use crate::trouble::Trouble;
use std::str::FromStr;

/// A family of scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Nothing is certain: the seed draws each kind of trouble by itself.
    General,
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
    /// All machines lose their power at once, some of them with slow disks.
    Blackouts,
    /// Nothing ends a process but a stop in good order, and nodes do not compare their copies: hints and
    /// transfers alone bring what a node has missed.
    WithoutExchanges,
    /// Members come and go, and partitions move slowly, while the network is cut.
    Members,
    /// For minutes nothing is asked for: what is wrong at its beginning stays so, and what nodes remember of
    /// reaped tombstones is forgotten, where it may be.
    Lull,
    /// Machines start with a clock that is an hour ahead, while the others can be reached.
    WrongStarts,
    /// Nodes have the engine `innostore`, and all machines lose their power at once.
    Innostore,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::General,
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
        Self::Blackouts,
        Self::WithoutExchanges,
        Self::Members,
        Self::Lull,
        Self::WrongStarts,
        Self::Innostore,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::General => "general",
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
            Self::Blackouts => "blackouts",
            Self::WithoutExchanges => "without-exchanges",
            Self::Members => "members",
            Self::Lull => "lull",
            Self::WrongStarts => "wrong-starts",
            Self::Innostore => "innostore",
        }
    }

    /// Of a hundred seeds of the mix so many are of each family; what is left is general.
    const SHARES: [(Self, u64); 19] = [
        (Self::HungDisks, 4),
        (Self::CleanStops, 2),
        (Self::ReplicaCounts, 6),
        (Self::DeleteModes, 3),
        (Self::LostFiles, 6),
        (Self::OlderData, 3),
        (Self::RotAndMembers, 3),
        (Self::LeaverDies, 3),
        (Self::PassedOnOnce, 2),
        (Self::Clusters, 10),
        (Self::Registers, 4),
        (Self::Expiring, 4),
        (Self::Rights, 4),
        (Self::Blackouts, 8),
        (Self::WithoutExchanges, 8),
        (Self::Members, 8),
        (Self::Lull, 2),
        (Self::WrongStarts, 2),
        (Self::Innostore, 3),
    ];

    /// The family that a seed draws.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut chance = Random::new(seed, "family", 0).below(100);
        for (family, share) in Self::SHARES {
            match chance.checked_sub(share) {
                Some(rest) => chance = rest,
                None => return family,
            }
        }
        Self::General
    }

    /// The trouble that each of its runs has.
    pub(crate) const fn troubles(self) -> &'static [Trouble] {
        match self {
            Self::HungDisks => &[Trouble::HungDisk],
            Self::CleanStops => &[Trouble::CleanStop],
            Self::ReplicaCounts => {
                &[Trouble::CleanStop, Trouble::Partition, Trouble::OneWay, Trouble::SlowNetwork]
            }
            Self::Rights => &[Trouble::LongCut],
            Self::PassedOnOnce => &[Trouble::Stall, Trouble::Partition],
            Self::Blackouts => &[Trouble::Blackout, Trouble::SlowDisk],
            Self::WithoutExchanges => &[Trouble::Partition, Trouble::LongStop],
            Self::Members => &[Trouble::SlowNetwork, Trouble::Partition, Trouble::OneWay],
            Self::Lull => &[Trouble::LongStop, Trouble::Partition, Trouble::Process],
            Self::WrongStarts => &[Trouble::WrongStart],
            Self::Innostore => &[Trouble::Blackout, Trouble::HungDisk, Trouble::CleanStop],
            Self::Registers
            | Self::General
            | Self::LostFiles
            | Self::OlderData
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

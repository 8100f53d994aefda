//! Families of scenarios: faults that a run is certain to have.
//!
//! A run has the family that was named on the command line, or else the one that its seed draws.

use crate::fault_kind::FaultKind;
use crate::random::Random;
use std::str::FromStr;

/// A family of scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// No fault is certain: the seed draws each kind of fault by itself.
    General,
    /// Only the faults and the workload that runs had before there were families, so that old seeds still
    /// take the same course.
    Former,
    /// Disks hang from milliseconds to a minute, and machines lose their power meanwhile.
    HungDisks,
    /// Nodes shut down cleanly and start again.
    CleanStops,
    /// Bucket types have different values of n_val, and an operator changes them while clients work.
    ReplicaCounts,
    /// Nodes keep tombstones for ever, for moments, for long, or not at all.
    DeleteModes,
    /// While one machine is off, segments of its log are lost or cut short.
    LostFiles,
    /// One machine starts with an older copy of its data directory.
    OlderData,
    /// The disk of one machine rots while nodes join, leave and are replaced. No machine is destroyed.
    RotAndMembers,
    /// Segments of one machine's log are lost, and the members change before its node starts again. No
    /// machine is destroyed.
    LostFilesAndMembers,
    /// A leaving node dies for good after it has handed over everything and before it is removed.
    LeaverDies,
    /// The checkers require that a write which a node has forwarded twice is made once.
    PassedOnOnce,
    /// Several clusters replicate to one another, over connections that lose messages.
    Clusters,
    /// Some clients work on registers: records that only conditional writes change.
    Registers,
    /// Clients work on one register. Machines restart, and forget the grants that they gave, while two others
    /// can't reach each other.
    ForgottenGrants,
    /// Some values expire, including values that have replaced others. Clocks are right.
    Expiring,
    /// An operator grants and revokes a permission, and the network is cut for longer than in other
    /// families.
    Permissions,
    /// All machines lose their power at once, often while their disks are slow.
    Blackouts,
    /// Processes end only by a clean shutdown, and there is no anti-entropy. Hints and transfers alone
    /// bring a node what it has missed.
    WithoutExchanges,
    /// Members come and go while the network is cut, and partitions often move slowly.
    Members,
    /// Clients send no requests for a while. Faults that exist at its beginning last until its end, and
    /// it is long enough for reap records to retire.
    Lull,
    /// One machine starts with a clock that is an hour ahead, while it can reach the others.
    WrongStarts,
    /// Nodes have the engine `innostore`; all machines lose their power at once, disks hang and nodes
    /// shut down.
    Innostore,
    /// Machines lose their whole directories, and their nodes start again under their old names, with seeds
    /// configured. An operator replaces them later.
    WipedDirectories,
    /// A member is cut off from all others and marked as down while other machines join. It comes back with
    /// layouts that the others have retired.
    MarkedDown,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 25] = [
        Self::General,
        Self::Former,
        Self::HungDisks,
        Self::CleanStops,
        Self::ReplicaCounts,
        Self::DeleteModes,
        Self::LostFiles,
        Self::OlderData,
        Self::RotAndMembers,
        Self::LostFilesAndMembers,
        Self::LeaverDies,
        Self::PassedOnOnce,
        Self::Clusters,
        Self::Registers,
        Self::ForgottenGrants,
        Self::Expiring,
        Self::Permissions,
        Self::Blackouts,
        Self::WithoutExchanges,
        Self::Members,
        Self::Lull,
        Self::WrongStarts,
        Self::Innostore,
        Self::WipedDirectories,
        Self::MarkedDown,
    ];

    /// Name of the family on the command line.
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
            Self::LostFilesAndMembers => "lost-files-and-members",
            Self::LeaverDies => "leaver-dies",
            Self::PassedOnOnce => "passed-on-once",
            Self::Clusters => "clusters",
            Self::Registers => "registers",
            Self::ForgottenGrants => "forgotten-grants",
            Self::Expiring => "expiring",
            Self::Permissions => "rights",
            Self::Blackouts => "blackouts",
            Self::WithoutExchanges => "without-exchanges",
            Self::Members => "members",
            Self::Lull => "lull",
            Self::WrongStarts => "wrong-starts",
            Self::Innostore => "innostore",
            Self::WipedDirectories => "wiped-directories",
            Self::MarkedDown => "marked-down",
        }
    }

    /// Percentage of seeds that draw each family. All other seeds are of the family `general`. The families
    /// `former` and `forgotten-grants` are not drawn.
    const SHARES: [(Self, u64); 22] = [
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
        (Self::Permissions, 4),
        (Self::Blackouts, 8),
        (Self::WithoutExchanges, 8),
        (Self::Members, 8),
        (Self::Lull, 2),
        (Self::WrongStarts, 2),
        (Self::Innostore, 3),
        (Self::WipedDirectories, 2),
        (Self::MarkedDown, 1),
        (Self::LostFilesAndMembers, 2),
    ];

    /// Draws the family of a seed.
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

    /// True if disks may rot in runs of the family. In other families rot would hide the faults that the
    /// family tests, or take data that no other copy has.
    pub(crate) const fn allows_rot(self) -> bool {
        !matches!(
            self,
            Self::LostFiles
                | Self::OlderData
                | Self::LostFilesAndMembers
                | Self::LeaverDies
                | Self::Clusters
                | Self::ForgottenGrants
                | Self::Expiring
                | Self::WithoutExchanges
                | Self::Members
                | Self::WrongStarts
                | Self::Innostore
                | Self::WipedDirectories
                | Self::MarkedDown
        )
    }

    /// Kinds of faults that each run of the family has.
    pub(crate) const fn fault_kinds(self) -> &'static [FaultKind] {
        match self {
            Self::HungDisks => &[FaultKind::HungDisk],
            Self::CleanStops => &[FaultKind::CleanStop],
            Self::ReplicaCounts => &[
                FaultKind::CleanStop,
                FaultKind::Partition,
                FaultKind::OneWay,
                FaultKind::SlowNetwork,
            ],
            Self::Permissions => &[FaultKind::LongCut],
            Self::PassedOnOnce => &[FaultKind::Stall, FaultKind::Partition],
            Self::Blackouts => &[FaultKind::Blackout, FaultKind::SlowDisk],
            Self::WithoutExchanges => &[
                FaultKind::Partition,
                FaultKind::LongStop,
                FaultKind::OneWay,
                FaultKind::LongOneWay,
                FaultKind::FullDisk,
                FaultKind::SlowDisk,
            ],
            Self::Members => &[
                FaultKind::SlowNetwork,
                FaultKind::Partition,
                FaultKind::OneWay,
                FaultKind::SlowDisk,
            ],
            Self::Lull => &[FaultKind::LongStop, FaultKind::Partition, FaultKind::Process],
            Self::WrongStarts => &[FaultKind::WrongStart],
            Self::Innostore => &[FaultKind::Blackout, FaultKind::HungDisk, FaultKind::CleanStop],
            Self::WipedDirectories => &[FaultKind::Process, FaultKind::Partition],
            Self::Registers => {
                &[FaultKind::SlowNetwork, FaultKind::Stall, FaultKind::LongStall, FaultKind::OneWay]
            }
            Self::General
            | Self::LostFiles
            | Self::OlderData
            | Self::Expiring
            | Self::Former
            | Self::Clusters
            | Self::DeleteModes
            | Self::RotAndMembers
            | Self::LostFilesAndMembers
            | Self::LeaverDies
            | Self::ForgottenGrants
            | Self::MarkedDown => &[],
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

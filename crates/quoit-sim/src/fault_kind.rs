//! Kinds of faults.

/// Kind of faults that a run may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// A process is killed.
    Process,
    /// A machine loses its power.
    Power,
    /// A process stalls.
    Stall,
    /// The network is cut around one machine, or in two.
    Partition,
    /// The messages of one machine to another one are held back.
    OneWay,
    /// Messages take up to two seconds.
    SlowNetwork,
    /// A clock becomes wrong, by up to an hour.
    Clock,
    /// A disk takes up to three seconds for each piece of background work.
    SlowDisk,
    /// A disk becomes full.
    FullDisk,
    /// Reads have to wait for the disk.
    ColdReads,
    /// Bits flip on the disk of one machine.
    Rot,
    /// A disk begins no background work, for up to a minute.
    HungDisk,
    /// One node shuts down and starts again, or all nodes do so one after the other.
    CleanStop,
    /// Two machines are cut off for 12 to 20 s.
    LongCut,
    /// All machines lose their power at once.
    Blackout,
    /// A node shuts down for 1 to 6 s.
    LongStop,
    /// A machine starts with a clock that is an hour ahead.
    WrongStart,
    /// A process stalls for 1.5 to 4 s: often for longer than an unused grant keeps other writes away.
    LongStall,
    /// The messages of one machine to another one are held back for 4 to 10 s: for so long that the other
    /// one takes it for down, while the rest of the cluster does not.
    LongOneWay,
}

impl FaultKind {
    /// Kinds that runs have had before there were families.
    pub(crate) const FORMER: [Self; 11] = [
        Self::Process,
        Self::Power,
        Self::Stall,
        Self::Partition,
        Self::OneWay,
        Self::SlowNetwork,
        Self::Clock,
        Self::SlowDisk,
        Self::FullDisk,
        Self::ColdReads,
        Self::Rot,
    ];

    /// Kinds that were added later. They draw from a stream of their own, so that old seeds of the family
    /// `former` take the same course as before.
    pub(crate) const LATER: [Self; 3] = [Self::HungDisk, Self::CleanStop, Self::Blackout];

    /// Returns the least number of machines of a run with this kind. Rot needs three, because data that
    /// only the rotten disk has would be lost.
    pub(crate) const fn machines_needed(self) -> usize {
        match self {
            Self::Partition
            | Self::OneWay
            | Self::LongOneWay
            | Self::SlowNetwork
            | Self::LongCut => 2,
            Self::Rot => 3,
            _ => 1,
        }
    }
}

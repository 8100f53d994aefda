//! Kinds of trouble.

/// Kinds of trouble that a run may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Process,
    Power,
    Stall,
    Partition,
    OneWay,
    SlowNetwork,
    Clock,
    SlowDisk,
    FullDisk,
    ColdReads,
    Rot,
    HungDisk,
    CleanStop,
    LongCut,
    Blackout,
    LongStop,
    WrongStart,
}

impl Trouble {
    /// Kinds that runs have had from the beginning.
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

    /// Kinds that came later, decided by a stream of its own: seeds tell the same story without it.
    pub(crate) const LATER: [Self; 3] = [Self::HungDisk, Self::CleanStop, Self::Blackout];

    /// Machines that it takes at least: what one machine alone has lost is nowhere else.
    pub(crate) const fn machines_needed(self) -> usize {
        match self {
            Self::Partition | Self::OneWay | Self::SlowNetwork | Self::LongCut => 2,
            Self::Rot => 3,
            _ => 1,
        }
    }
}

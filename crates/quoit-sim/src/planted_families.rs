//! The families whose seeds are most likely to find planted faults.

use quoit_planted::PlantedFault;
use quoit_sim::Family;

/// Returns the family whose runs often have the situation in which a planted fault shows. `None` if runs of
/// the mix find the fault as well as those of any one family.
pub(crate) const fn family_that_fits(fault: PlantedFault) -> Option<Family> {
    use PlantedFault as Fault;
    Some(match fault {
        Fault::AgreesEmptyHanded
        | Fault::AgreesUnsynced
        | Fault::PassesOverConcurrent
        | Fault::ReapsOnDifference
        | Fault::ReapsOnSilence => Family::HungDisks,
        Fault::AppliesOutdated
        | Fault::CoordinatesUnaware
        | Fault::CountsUnfilled
        | Fault::FillsEarly
        | Fault::FillsWithoutReaped
        | Fault::MovesByLargestNVal => Family::ReplicaCounts,
        Fault::HearsLastPrimary | Fault::KeepsFirstReap => Family::DeleteModes,
        Fault::CompletesWithoutTombstones
        | Fault::HearsOneSource
        | Fault::KeepsActorAfterLoss
        | Fault::KeepsWhatDiffers
        | Fault::OverlooksLosses => Family::LostFiles,
        Fault::CountsReplacedCopies
        | Fault::HealsFromFirst
        | Fault::HealsFromQuorums
        | Fault::PassesOverDamage => Family::RotAndMembers,
        Fault::HearsLossySources => Family::LostFilesAndMembers,
        Fault::LeavesTagsToCoordinators | Fault::RepeatsUnanswered => Family::PassedOnOnce,
        Fault::ForgetsAlone
        | Fault::ForgetsLostEntries
        | Fault::ForwardsNothing
        | Fault::JoinsOverGaps
        | Fault::KeepsVisited
        | Fault::LosesUnconfirmed
        | Fault::OverlooksMissedDeletes
        | Fault::OverlooksQueues
        | Fault::RepairsOneWay => Family::Clusters,
        Fault::CountsGrantsShort | Fault::GrantsBesideWrites => Family::Registers,
        Fault::TakesReplacedGrants => Family::ForgottenGrants,
        Fault::ForgetsExpired | Fault::KeepsFirstExpiry => Family::Expiring,
        Fault::ForgetsSince | Fault::KeepsEpoch | Fault::RefusesUnasked => Family::Permissions,
        Fault::AcceptsTornBatches
        | Fault::CountsWritesDuringSync
        | Fault::ForgetsYoungSegments
        | Fault::IgnoresGaps
        | Fault::RetiresTooEarly
        | Fault::SnapshotsUnsynced
        | Fault::SyncsActiveOnly => Family::Blackouts,
        Fault::CountsSentAsReached
        | Fault::DeletesUnread
        | Fault::DropsHints
        | Fault::DropsLateHints
        | Fault::ForgetsUndelivered
        | Fault::RemovesChangedStrays
        | Fault::TakesTransfersUnsynced => Family::WithoutExchanges,
        Fault::ClaimsCopies
        | Fault::ForgetsReaped
        | Fault::HandsOnePage
        | Fault::HandsOverEarly
        | Fault::ReadsNewestLayout
        | Fault::RemovesOwnCopies
        | Fault::RetiresLayoutsEarly => Family::Members,
        Fault::CountsRestarted | Fault::ReapsBesideStrays => Family::Lull,
        Fault::ServesBeforeTime => Family::WrongStarts,
        Fault::ServesAstray | Fault::ServesUnanswered => Family::WipedDirectories,
        Fault::ForgetsUnfinishedWalks | Fault::TakesStaleLayouts => Family::MarkedDown,
        _ => return None,
    })
}

//! The list of planted faults.

use std::str::FromStr;

/// Declares the faults: variant, name, part of the store, and a description of the wrong decision.
macro_rules! faults {
    ($($fault:ident, $name:literal, $area:ident, $wrong:literal;)*) => {
        /// A wrong decision in the code of the store.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum PlantedFault {
            $(#[doc = $wrong] $fault,)*
        }

        impl PlantedFault {
            /// All faults, ordered by the part of the store.
            pub const ALL: &[Self] = &[$(Self::$fault,)*];

            /// Returns the name on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$fault => $name,)* }
            }

            /// Returns the name in the code.
            #[must_use]
            pub const fn variant(self) -> &'static str {
                match self { $(Self::$fault => stringify!($fault),)* }
            }

            /// Returns the part of the store.
            #[must_use]
            pub const fn area(self) -> StorePart {
                match self { $(Self::$fault => StorePart::$area,)* }
            }

            /// Returns a description of the wrong decision.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self { $(Self::$fault => $wrong,)* }
            }
        }
    };
}

/// A part of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorePart {
    /// Quorums, merging of versions, and read repair.
    Coordination,
    /// Reaping of tombstones.
    Reaping,
    /// Hints about missed writes.
    Hints,
    /// Transfers of partitions and strays.
    Transfers,
    /// Anti-entropy.
    Exchange,
    /// Events and causality of objects.
    Causality,
    /// Counters, sets and maps.
    DataTypes,
    /// Live layouts and complete copies.
    Layouts,
    /// The state that all members agree on.
    ControlPlane,
    /// Log, index snapshot, merge and start of the engine.
    Engine,
    /// Index of the engine, and digests.
    Index,
    /// Listings and index queries.
    Listings,
    /// Replication to other clusters.
    Replication,
}

impl StorePart {
    /// Returns the name in the table of faults.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Coordination => "coordination",
            Self::Reaping => "reaping",
            Self::Hints => "hints",
            Self::Transfers => "transfers",
            Self::Exchange => "exchange",
            Self::Causality => "causality",
            Self::DataTypes => "data types",
            Self::Layouts => "layouts",
            Self::ControlPlane => "control plane",
            Self::Engine => "engine",
            Self::Index => "index",
            Self::Listings => "listings",
            Self::Replication => "replication",
        }
    }
}

faults! {
    CountsReadsShort, "counts-reads-short", Coordination,
        "a read is answered with one vote less than `r`";
    CountsWritesShort, "counts-writes-short", Coordination,
        "a write is acknowledged with one vote less than each of its quorums";
    CountsFallbacksAsPrimaries, "counts-fallbacks-as-primaries", Coordination,
        "the votes of fallbacks count for `pw`";
    BelievesFallbacks, "believes-fallbacks", Coordination,
        "a read counts fallbacks although primaries have still to answer";
    SatisfiesOneLayout, "satisfies-one-layout", Coordination,
        "a write is acknowledged when the oldest live layout is satisfied";
    AnswersFirstVersion, "answers-first-version", Coordination,
        "a read of different versions answers the first one, unmerged";
    LosesRepairs, "loses-repairs", Coordination,
        "replicas that a read finds behind are not repaired";
    TakesStaleLayouts, "takes-stale-layouts", Coordination,
        "a replica takes requests made with layouts that are no longer live";
    CountsOwnCopySynced, "counts-own-copy-synced", Coordination,
        "the coordinator's own copy counts for `dw` before its sync";
    AcknowledgesUnsynced, "acknowledges-unsynced", Coordination,
        "a replica says that a write is synced before it is";
    JoinsByOldestLayout, "joins-by-oldest-layout", Coordination,
        "a change of a data type names the oldest live layout to its replicas";
    RepeatsUnanswered, "repeats-unanswered", Coordination,
        "a forwarded request that must not be made twice is sent on after a lost answer";
    LeavesTagsToCoordinators, "leaves-tags-to-coordinators", Coordination,
        "a forwarded put gets its entity tag from the coordinator, so that each has another one";
    CountsGrantsShort, "counts-grants-short", Coordination,
        "a conditional write needs one grant and one copy less than a majority";
    OverlooksShownCopies, "overlooks-shown-copies", Coordination,
        "a condition is checked without the copies that primaries have shown with their grants";
    GrantsBesideWrites, "grants-beside-writes", Coordination,
        "a primary grants a conditional write while the write of another grant is being made";
    CoordinatesUnaware, "coordinates-unaware", Coordination,
        "a node coordinates a forwarded write before it knows the bucket properties that the sender knows";
    TakesReplacedGrants, "takes-replaced-grants", Coordination,
        "a primary takes a conditional write whose grant was followed by another one";
    DeletesUnread, "deletes-unread", Coordination,
        "a delete without a context does not read what other replicas have";
    DeletesUnseen, "deletes-unseen", Coordination,
        "a delete with a context replaces also what its client had not read";
    AcceptsNewerVersions, "accepts-newer-versions", Coordination,
        "the condition on a version holds where the stored object has seen that version and more";
    ConfirmsByOne, "confirms-by-one", Coordination,
        "a read that has shown the local copy is confirmed by the first other replica with the same copy";
    HealsFromQuorums, "heals-from-quorums", Coordination,
        "a read replaces this node's damaged copy although not all other replicas have answered";
    CountsReplacedCopies, "counts-replaced-copies", Coordination,
        "a copy by which a write has replaced a damaged one votes before all other replicas were asked";
    KeepsFirstExpiry, "keeps-first-expiry", Coordination,
        "a value that replaces an expiring one expires when the replaced one would have";
    AgreesUnsynced, "agrees-unsynced", Reaping,
        "a primary agrees that a tombstone is reaped before the tombstone is on its disk";
    ReapsOnSilence, "reaps-on-silence", Reaping,
        "a primary that does not answer agrees that a tombstone is reaped";
    ReapsBesideStrays, "reaps-beside-strays", Reaping,
        "tombstones are reaped although a member has strays of their partition";
    ReapsOnDifference, "reaps-on-difference", Reaping,
        "a primary that holds something else agrees that a tombstone is reaped";
    CountsRestarted, "counts-restarted", Reaping,
        "a member that was started again between two rounds of reports counts as one that was asked in both";
    ForgetsReaped, "forgets-reaped", Reaping,
        "what a reaped tombstone covered is stored when it arrives late";
    AgreesEmptyHanded, "agrees-empty-handed", Reaping,
        "a primary that has nothing agrees that a tombstone is reaped, and keeps no reap record of it";
    ForgetsReapRecords, "forgets-reap-records", Reaping,
        "reap records are not written to the disk";
    KeepsOutSilently, "keeps-out-silently", Reaping,
        "a node that keeps a reaped value out does not tell the node which has it";
    ForgetsLeavers, "forgets-leavers", Reaping,
        "the only node of the layouts reaps without reap records although a member is still leaving";
    OverlooksLoweredReplicas, "overlooks-lowered-replicas", Reaping,
        "former primaries of a bucket do not look for strays when its n_val is lowered";
    KeepsFirstReap, "keeps-first-reap", Reaping,
        "a reap record stays as it is when another tombstone of its name is reaped";
    HearsLastPrimary, "hears-last-primary", Reaping,
        "of the primaries' answers about a tombstone only that of the last one counts";
    DropsHints, "drops-hints", Hints,
        "a write that primaries have missed is not noted for them";
    DropsLateHints, "drops-late-hints", Hints,
        "calls that fail after the write was answered leave no hint";
    ForgetsUndelivered, "forgets-undelivered", Hints,
        "a hint whose delivery failed counts as delivered";
    DropsHintsOfFormerPrimaries, "drops-hints-of-former-primaries", Hints,
        "a node that keeps hints for a former primary does not note them for the present primaries";
    KeepsHintsInMemory, "keeps-hints-in-memory", Hints,
        "hints are not written to the disk";
    CountsSentAsReached, "counts-sent-as-reached", Hints,
        "a node that was sent a write and failed counts as one that has it";
    ClaimsCopies, "claims-copies", Transfers,
        "a node reports its copy complete before its sources are through";
    KeepsWhatDiffers, "keeps-what-differs", Transfers,
        "a store that lost records keeps those in which it differs from a whole copy";
    CompletesWithoutTombstones, "completes-without-tombstones", Transfers,
        "a copy that lost records is completed without the tombstones of its sources";
    HandsNoTombstones, "hands-no-tombstones", Transfers,
        "tombstones are left out of a partition that is handed over";
    RemovesOwnCopies, "removes-own-copies", Transfers,
        "strays are removed although the node has become their primary meanwhile";
    HandsOnePage, "hands-one-page", Transfers,
        "a transfer of a partition ends after its first page";
    HandsOverEarly, "hands-over-early", Transfers,
        "copies are handed over before every member writes by the newest layout";
    TakesTransfersUnsynced, "takes-transfers-unsynced", Transfers,
        "records of a transfer are acknowledged before they are synced";
    RemovesChangedStrays, "removes-changed-strays", Transfers,
        "a stray is removed although it was written again since it was handed over";
    HandsToOnePrimary, "hands-to-one-primary", Transfers,
        "a stray goes to the first of its primaries only";
    PassesOverDamage, "passes-over-damage", Transfers,
        "a walk through a partition does not heal damaged records, and leaves them out";
    TakesAnyForSuperseded, "takes-any-for-superseded", Transfers,
        "an offered record counts as superseded by any copy that is here";
    CountsUnfilled, "counts-unfilled", Transfers,
        "reads count copies that a raised n_val has added before they are filled";
    FillsWithoutReaped, "fills-without-reaped", Transfers,
        "copies that a raised n_val has added get no reap records";
    FillsEarly, "fills-early", Transfers,
        "copies that a raised n_val has added are filled before all members write to them";
    HearsOneSource, "hears-one-source", Transfers,
        "a copy that lost records is complete when one of its whole sources is through";
    ForgetsUnfinishedWalks, "forgets-unfinished-walks", Transfers,
        "a walk that has failed to hand strays over counts as one that has left none";
    HearsLossySources, "hears-lossy-sources", Transfers,
        "a copy is handed over by a node that has lost records although other copies are whole";
    HealsFromFirst, "heals-from-first", Exchange,
        "a damaged record is replaced by the copy of the first replica that has one";
    RepairsOneSide, "repairs-one-side", Exchange,
        "an exchange repairs what the other node lacks, not what the beginner lacks";
    PassesOverDeletes, "passes-over-deletes", Exchange,
        "a live record and a tombstone are taken for equal";
    ComparesLowClasses, "compares-low-classes", Exchange,
        "the class of the highest n_val is left out of comparisons";
    PassesOverConcurrent, "passes-over-concurrent", Exchange,
        "an exchange leaves concurrent versions as they are";
    DropsConcurrent, "drops-concurrent", Causality,
        "a replica takes a concurrent object for one that replaces its own";
    KeepsReplaced, "keeps-replaced", Causality,
        "a merge keeps values that the other clock has replaced";
    KeepsRepeated, "keeps-repeated", Causality,
        "a value that two events have written stands there twice";
    ForgetsContexts, "forgets-contexts", Causality,
        "the clock of a write leaves out what its writer had read";
    DropsLater, "drops-later", Causality,
        "where readers see the latest value, a write drops later ones that its writer had not seen";
    ReusesActor, "reuses-actor", Causality,
        "a copy that is not kept for good gets events of the store's own actor";
    GivesAwaySilently, "gives-away-silently", Causality,
        "a node goes on using a partition's passing actor after the copies with its events were removed";
    ReissuesCounters, "reissues-counters", Causality,
        "after a start counters are issued again that were reserved before";
    ClosesGaps, "closes-gaps", DataTypes,
        "the clock of a data type takes all earlier events of an actor as seen when a later one arrives";
    KeepsUndone, "keeps-undone", DataTypes,
        "a merge keeps writes of an item that the other side has undone";
    UndoesUnseen, "undoes-unseen", DataTypes,
        "a merge drops writes of an item that the other side has not seen";
    ForgetsDeferred, "forgets-deferred", DataTypes,
        "a remove forgets what it undoes and has not come yet";
    AbsorbsTotals, "absorbs-totals", DataTypes,
        "an increment takes over what other incarnations have counted";
    ComparesVectorsAlone, "compares-vectors-alone", DataTypes,
        "a state has seen all of another one by their vectors, whatever is beyond gaps";
    RemovesUnseen, "removes-unseen", DataTypes,
        "a remove with a context undoes also writes of the item that its client had not seen";
    ReadsNewestLayout, "reads-newest-layout", Layouts,
        "reads go by the newest layout before its copies are complete";
    RetiresLayoutsEarly, "retires-layouts-early", Layouts,
        "a layout is taken out of use before every member has acknowledged the next";
    WritesOldestLayout, "writes-oldest-layout", Layouts,
        "writes go by the oldest live layout alone";
    MovesByLargestNVal, "moves-by-largest-n-val", Layouts,
        "a node that becomes a primary only of buckets with a smaller n_val than the largest needs no copy";
    KeepsControlUnsynced, "keeps-control-unsynced", ControlPlane,
        "the file of the control plane is not synced";
    ForgetsVotes, "forgets-votes", ControlPlane,
        "a vote in an election is not written to the file";
    ServesAstray, "serves-astray", ControlPlane,
        "a node that should be part of a cluster serves while it is alone";
    ServesUnanswered, "serves-unanswered", ControlPlane,
        "a node that is alone serves when none of its seeds answers";
    ServesBeforeTime, "serves-before-time", ControlPlane,
        "a node serves before it has heard the time of another member";
    RefusesMarks, "refuses-marks", ControlPlane,
        "a member that leaves can't be marked as absent";
    ClaimsVersions, "claims-versions", ControlPlane,
        "a node tells the cluster that it speaks a newer version than it does";
    ForgetsSince, "forgets-since", ControlPlane,
        "a node that is cut off begins to count the time anew with each look";
    KeepsEpoch, "keeps-epoch", ControlPlane,
        "changed rights have the epoch of those before, so that connections do not look at them";
    RefusesUnasked, "refuses-unasked", ControlPlane,
        "a node that is cut off refuses logins although no setting says so";
    AppliesOutdated, "applies-outdated", ControlPlane,
        "a decision is applied although the state that it was made on has changed";
    ForgetsSyncs, "forgets-syncs", Engine,
        "a commit of the log does not sync its segments";
    SyncsActiveOnly, "syncs-active-only", Engine,
        "a commit syncs the active segment and not those closed since the last one";
    SkipsDirectorySync, "skips-directory-sync", Engine,
        "the directory is not synced after a segment was made";
    OverlooksLosses, "overlooks-losses", Engine,
        "a start takes a store for complete whose files are missing or cut";
    KeepsActorAfterLoss, "keeps-actor-after-loss", Engine,
        "a store that lost records after a stop in good order goes on with its actor";
    KeepsIncarnation, "keeps-incarnation", Engine,
        "a store goes on with its actor after a stop that was not in good order";
    ForgetsExpired, "forgets-expired", Engine,
        "of an expired value that has replaced others nothing stays";
    AcceptsTornBatches, "accepts-torn-batches", Engine,
        "records of a batch count although the batch is not whole";
    ForgetsRemovals, "forgets-removals", Engine,
        "a merge forgets removals without looking for older writes of their keys";
    LeavesIndexBehind, "leaves-index-behind", Engine,
        "a merge removes segments without telling the index where their records went";
    RetiresTooEarly, "retires-too-early", Engine,
        "a merge removes segments before what replaced their records is durable";
    SnapshotsUnsynced, "snapshots-unsynced", Engine,
        "a snapshot is taken for durable although what it refers to is not";
    TakesNewerForOlder, "takes-newer-for-older", Engine,
        "a start that reads two writes of a key keeps the older one and discards the newer one";
    ForgetsDrops, "forgets-drops", Engine,
        "a start keeps the records of a partition that was dropped";
    IgnoresGaps, "ignores-gaps", Engine,
        "a start keeps writes behind others that are lost, and relies on what they say of those";
    ForgetsYoungSegments, "forgets-young-segments", Engine,
        "a start does not read the segments that were begun while the snapshot was written";
    ReusesSequences, "reuses-sequences", Engine,
        "a start goes on with sequences that records of the last segment have already";
    ReplacesSilently, "replaces-silently", Engine,
        "a record says that it replaces nothing unless all of what it replaces was read";
    CountsWritesDuringSync, "counts-writes-during-sync", Engine,
        "a commit counts also what was appended while it synced";
    ForgetsDigests, "forgets-digests", Index,
        "the digests of a partition do not change when a record is replaced";
    MovesEntriesUnsynced, "moves-entries-unsynced", Index,
        "index entries go to the tree before the records that wrote them are durable";
    ForgetsEntries, "forgets-entries", Index,
        "the tree of index entries is taken for complete although entries wait in memory";
    KeepsOldEntries, "keeps-old-entries", Index,
        "index entries of a replaced value stay";
    IndexesFirstSibling, "indexes-first-sibling", Index,
        "of an object with siblings only the first one gets index entries";
    SkipsFailedNodes, "skips-failed-nodes", Listings,
        "a listing goes on without the partitions of a node that has failed";
    ListsShort, "lists-short", Listings,
        "the plan of a listing leaves out the last partition";
    ListsTwice, "lists-twice", Listings,
        "a node lists all that it holds, whichever partitions it was asked for";
    QueriesShort, "queries-short", Listings,
        "an index query leaves out the last position of each node's answer";
    LosesUnconfirmed, "loses-unconfirmed", Replication,
        "entries of a source queue that a sink has taken and not confirmed do not wait again";
    ForwardsNothing, "forwards-nothing", Replication,
        "what has come from another cluster is not queued for further ones";
    KeepsVisited, "keeps-visited", Replication,
        "a source node sends a newly read object with the visited clusters of the older queued write";
    ForgetsLostEntries, "forgets-lost-entries", Replication,
        "a node whose machine has lost its power takes its source queues for complete";
    JoinsOverGaps, "joins-over-gaps", Replication,
        "a delta of another cluster is joined with a record that lacks what came before it";
    OverlooksQueues, "overlooks-queues", Replication,
        "reap records retire although source queues have older entries";
    ForgetsAlone, "forgets-alone", Replication,
        "a node that is a cluster by itself reaps without reap records although it has links";
    OverlooksMissedDeletes, "overlooks-missed-deletes", Replication,
        "deletes that a suspended or full source queue drops are not waited for";
    RepairsOneWay, "repairs-one-way", Replication,
        "full-sync takes concurrent states for newer ones of this cluster";
}

impl FromStr for PlantedFault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|fault| fault.name() == name);
        let names = || Self::ALL.iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ");
        found.copied().ok_or_else(|| format!("there is no fault {name:?}; there are {}", names()))
    }
}

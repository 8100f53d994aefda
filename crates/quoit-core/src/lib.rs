//! The replicated store of one node: it coordinates reads, writes and deletes of records, answers other
//! nodes' requests on its own copies, and runs the background work that keeps copies equal.
//!
//! [`ReplicatedStore`] is the entry point for the client protocols, which make one call per client
//! request. [`StoreBuilder`] assembles it. Two of its parts serve single records: the coordinator, which
//! runs a client's request on all replicas, and the replica, which reads and merges this node's own copy.
//! The other parts are listings and queries, hints, transfers, anti-entropy, removal of tombstones, and
//! replication between clusters.
//!
//! The crate knows quorums, causality and the policies of buckets. It knows no client protocol, opens no
//! socket and reads no wall clock: storage comes in as a [`quoit_store::engine::Engine`], bucket types
//! and layouts as a [`quoit_cluster::ControlPlane`], time as a [`quoit_seam::Clock`].
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod appended;
mod bitmap;
mod blocking;
mod calls;
mod changes;
mod coordinator;
mod delivery;
mod dots;
mod error;
mod exchange;
mod field_path;
mod folds;
mod grants;
mod healing;
mod hints;
mod jobs;
mod listing;
mod little_endian;
mod local_node;
mod losses;
mod machine_boot;
mod map_work;
mod node_figures;
mod options;
mod partition_set;
mod placement;
mod preflist;
mod queues;
mod reap_records;
mod reaper;
mod records;
mod refusal;
mod replica;
mod replica_server;
mod replication;
mod request_log;
mod riak_trees;
mod serving;
mod settings;
mod shared_value;
mod stats;
mod store;
mod stored;
mod suspects;
mod tombstones;
mod topology;
mod transfer;
mod votes;
mod write_clock;
mod write_hook;

pub use blocking::{Blocking, lower_thread_priority};
pub use changes::{
    ChangeBatch, ChangeEvent, ChangeFeedError, ChangeFeedSettings, ChangeFeedStatus, ChangeFeeds,
    ChangeKind, ChangeLog, ChangeQuery, ChangeStream, ChangesSince, PositionError,
};
pub use coordinator::confirm::{Confirmation, UnconfirmedRead};
pub use coordinator::data_type::{
    DataTypeRequest, FetchedDataType, ItemSink, StreamOutcome, StreamedItems,
};
pub use coordinator::imported::{BegunBatch, ImportedInPlace, ImportedObject, PendingBatch};
pub use coordinator::in_flight::AdmittedRequests;
pub use coordinator::in_place::{Pending, PlainWrite, ReadInPlace, ShownObject};
pub use coordinator::put::{DeleteOutcome, DeleteRequest, PutRequest};
pub use coordinator::started::StartedRead;
pub use delivery::limits::LimitChange;
pub use delivery::progress::{ActiveTransfer, TransferKind, TransferStats, WaitingHints};
pub use dots::{CounterReserve, DotSequence, VolatileCounters};
pub use error::{DataTypeError, QuorumKind, RequestError, UnmetCondition};
pub use exchange::{
    AntiEntropy, ExchangeStats, OtherClusterCopy, PartitionExchanges, RangesAnswer, RangesQuestion,
};
pub use folds::{Fold, FoldFound, FoldKind, FoldMode, FoldProgress, Folds};
pub use jobs::{JobError, JobInputs, JobProgress, JobRun, JobSettings, Jobs};
pub use listing::{
    BucketFold, BucketListing, CoverageEntry, CoverageError, CoverageRequest, Deadline, IndexMatch,
    IndexQuery, IndexResults, IndexSelection, InvalidContext, InvalidContinuation, KeyListing,
    Listings, PATTERN_BYTES_MAX, Pattern, PatternError, RecordRange,
};
pub use local_node::DiskSpace;
pub use machine_boot::MachineBoot;
pub use options::{EntityTags, Precondition, ReadOptions, WriteOptions};
pub use preflist::PreflistEntry;
pub use queues::{
    ChangeQueueError, EntrySequence, FullSyncNumber, Lease, QUEUE_COUNT_MAX, QueueCounts,
    QueueDefinition, QueueDefinitionError, QueueFilter, QueueLengths, QueuePriority, QueueStatus,
    SourceQueueSettings, SourceQueues, Visited, VisitedCluster,
};
pub use quoit_wire::SHARED_BYTES_MIN;
pub use reap_records::{ReapRecordLimits, ReapRecordStats};
pub use reaper::{ReapPass, ReapRecordBlockers, Reaper, ReapingBlockers};
pub use replication::{
    ArcRange, Arrival, ArrivedDelta, BatchBounds, BucketConflicts, COMPARED_RANGE_COUNT_MAX,
    ClusterDigests, ClusterQuestion, ClusterWithRecord, ComparedRecord, CopiedPage, CopiedRecord,
    DeletesOutcome, DeltaOutcome, Difference, DifferenceDirection, QueueWait, QueuedObject,
    QueuedValue, RecordVersion, Replication, ReplicationOperator, differences,
};
pub use request_log::{
    HotKey, LargeObject, RequestKind, RequestLog, RequestLogSettings, SlowRequest,
};
pub use riak_trees::{RiakTreeFigures, RiakTrees, TreeClock};
pub use settings::{
    DeleteMode, ExchangeSettings, HintCountMax, Limits, PageRecordsMax, StoreSettings,
    TIMEOUT_MS_DEFAULT, TransferLimits, TransferShareMin,
};
pub use stats::{
    Counter, Cumulative, DataTypeCounter, DataTypeDistribution, DataTypeSnapshot, Distribution,
    LatencySummary, LongRequest, Stats, StatsSnapshot,
};
pub use store::{ReplicatedStore, StoreBuilder};
pub use transfer::{NodeTransfers, PlanEstimate, TransferEstimate, Transfers};
#[cfg(any(test, feature = "testing"))]
pub use {
    hints::{fuzz_hint_file, hint_file_samples},
    queues::{fuzz_source_journal, source_journal_samples},
    reap_records::{fuzz_reap_records, reap_record_samples},
    riak_trees::{fuzz_riak_tree_file, riak_tree_file_samples},
};

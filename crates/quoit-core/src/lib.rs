//! The replicated store: coordination of get, put, delete and coverage over local engines.
//!
//! [`ReplicatedStore`] is what the client protocols call: one call for one request. It knows quorums,
//! causality and policies; it knows no protocol, no socket and no wall clock of its own. Storage comes
//! in as a [`quoit_store::engine::Engine`], bucket types and layout as a
//! [`quoit_cluster::ControlPlane`].

mod blocking;
mod calls;
mod change;
mod changes;
mod confirm;
mod coordinator;
mod data_type;
mod dots;
mod error;
mod exchange;
mod folds;
mod forward;
mod get;
mod given;
mod grants;
mod healing;
mod hints;
mod in_flight;
mod in_place;
mod jobs;
mod listing;
mod local_node;
mod losses;
mod map_work;
mod node_figures;
mod options;
mod partition_set;
mod placement;
mod precommit;
mod put;
mod read_replicas;
mod reap_records;
mod reaper;
mod records;
mod refusal;
mod replica;
mod replication;
mod request_log;
mod riak_trees;
mod service;
mod settings;
mod stats;
mod store;
mod stored;
mod suspects;
mod tombstones;
mod topology;
mod transfer;
mod votes;
mod write_clock;
mod write_replicas;

pub use blocking::{Blocking, lower_thread_priority};
pub use changes::{
    ChangeBatch, ChangeEvent, ChangeFeedError, ChangeFeedSettings, ChangeFeedStatus, ChangeFeeds,
    ChangeKind, ChangeLog, ChangeQuery, ChangeStream, ChangesSince, PositionError,
};
pub use confirm::Unconfirmed;
pub use data_type::{DataTypeRequest, FetchedDataType, ItemSink, StreamedItems};
pub use dots::{CounterReserve, DotSequence, Unreserved};
pub use error::{DataTypeError, QuorumKind, RequestError, Unmet};
pub use exchange::{
    CopyElsewhere, ExchangeStats, PartitionExchanges, RangesAnswer, RangesQuestion,
};
pub use folds::{Fold, FoldFound, FoldKind, FoldProgress, Method};
pub use given::{BegunBatch, GivenInPlace, GivenObject, PendingBatch};
pub use hints::{fuzz_hint_file, hint_file_samples};
pub use in_flight::AdmittedRequests;
pub use in_place::{Pending, PlainWrite, ShownInPlace, ShownObject};
pub use jobs::{JobError, JobInputs, JobProgress, JobRun, JobSettings};
pub use listing::{
    BucketFold, BucketListing, CoverageEntry, CoverageError, CoverageRequest, Deadline, IndexMatch,
    IndexQuery, IndexResults, IndexSelection, InvalidContext, InvalidContinuation, KeyListing,
    Listings, PATTERN_BYTES_MAX, Pattern, PatternError, RecordRange,
};
pub use options::{EntityTags, Precondition, ReadOptions, WriteOptions};
pub use put::{DeleteRequest, Deleted, PutRequest};
pub use reap_records::{ReapRecordLimits, ReapRecordStats, fuzz_reap_records, reap_record_samples};
pub use reaper::{ReapRecordsHeldUp, TombstonesHeldUp};
pub use replication::{
    ArcRange, Arrival, ArrivedDelta, BatchBounds, BucketConflicts, COMPARED_RANGE_COUNT_MAX,
    ChangeQueueError, CheckNumber, ClusterDigests, ClusterQuestion, ComparedRecord, CopiedPage,
    CopiedRecord, DeltaOutcome, Difference, DifferenceDirection, EntrySequence, Lease, OnlyIn,
    Patience, QUEUE_COUNT_MAX, QueueCounts, QueueDefinition, QueueDefinitionError, QueueFilter,
    QueueLengths, QueuePriority, QueueStatus, QueuedObject, QueuedValue, ReplicationOperator,
    SeenDeletes, SeenRecord, SourceQueueSettings, SourceQueues, Visited, VisitedCluster,
    differences, fuzz_source_journal, source_journal_samples,
};
pub use request_log::{
    HotKey, LargeObject, RequestKind, RequestLog, RequestLogSettings, SlowRequest,
};
pub use riak_trees::{
    RiakTreeFigures, RiakTrees, TreeClock, fuzz_riak_tree_file, riak_tree_file_samples,
};
pub use settings::{
    DeleteMode, ExchangeSettings, HintCountMax, Limits, PageRecordsMax, StoreSettings,
    TIMEOUT_MS_DEFAULT, TransferLimits, TransferShareMin,
};
pub use stats::{
    Counter, Cumulative, DataTypeCounter, DataTypeDistribution, DataTypeSnapshot, Distribution,
    LatencySummary, LongRequest, Stats, StatsSnapshot,
};
pub use store::{DiskRoom, PreflistPlace, ReplicatedStore, StoreBuilder};
pub use transfer::{
    ActiveTransfer, LimitChange, NodeTransfers, PlanEstimate, TransferEstimate, TransferKind,
    TransferStats, WaitingHints,
};

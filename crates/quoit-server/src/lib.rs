//! Client protocols of Quoit: Protocol Buffers and HTTP in front of the replicated store.
//!
//! A connection decodes a request, makes one call of `quoit-core`, and encodes the answer. This crate has
//! no quorum logic and no storage.
//!
//! [`Server`] accepts connections. Each connection is one task, in `pb` or in `http`, and all tasks share
//! one [`ServerContext`]. `socket` reads and writes with time limits, `memory` bounds the bytes of requests
//! and answers, `turn` and `long_work` keep one connection from starving the others, `security` logs
//! clients in and checks their grants, and `admin` has the operators' API.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod admin;
mod arriving;
mod audit;
mod context;
mod data_types;
mod disks;
mod erlang_text;
mod folds;
pub mod http;
mod index_entries;
mod index_query;
mod jobs;
mod large_answer;
mod listen;
mod long_work;
mod low_priority;
mod machine;
mod mapreduce;
mod memory;
mod pace;
pub mod pb;
mod pieces;
mod readiness;
mod refusal_rate;
mod riak_queue;
mod security;
mod socket;
mod spare_buffers;
mod stream;
mod turn;
mod warnings;

pub use audit::{
    AUDIT_FILE_BYTES, AUDIT_FILES_KEPT, AuditEntry, AuditLog, AuditOutcome, AuditSettings,
    AuditedBuckets, AuditedBucketsError, AuditedInterface,
};
pub use context::{
    ConnectionCounts, JobClasses, OpenConnection, RIAK_KV_VERSION, ReachableListeners,
    ServerContext, ServerSettings,
};
pub use folds::Folds;
pub use jobs::{Jobs, MapReduceSettings};
pub use listen::{Protocol, Server, bind, bind_local};
pub use machine::memory_bytes;
pub use memory::{
    ALLOWANCE_BYTES, ConnectionMemory, MemoryBudget, MemoryFigures, MemorySettings, NoMemory,
};
pub use pace::PaceSettings;
pub use quoit_script::ScriptLimits;
pub use readiness::ReadinessGate;
pub use security::{ConnectionSecurity, Credentials, SecurityFigures, SecuritySettings, TlsFiles};
pub use socket::StopSignal;
pub use stream::Stream;

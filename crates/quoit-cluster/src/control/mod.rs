//! The replicated log of changes: `openraft` over one `redb` file.

pub(crate) mod codec;
pub(crate) mod demoted;
pub(crate) mod fence;
pub(crate) mod file;
pub(crate) mod group;
pub(crate) mod link;
pub(crate) mod log;
pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod part_metrics;
pub(crate) mod raft_codec;
pub(crate) mod runtime;
pub(crate) mod types;
pub(crate) mod voters;

pub use runtime::seed_elections;

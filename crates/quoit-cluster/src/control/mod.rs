//! The replicated log of changes: `openraft` on top of one `redb` file.
//!
//! An entry of the log is a [`Decision`](crate::change::Decision), a change of the voters, or blank. The
//! invariants: an entry is on disk before it is acknowledged; a state is on disk, together with its position
//! in the log, before readers see it; entries at the front of the log are removed only when a state with
//! their effects is on disk.
//!
//! `group` runs the Raft instance, `file` stores the log and the state, `network` and `link` call other
//! nodes, `fence` excludes nodes with outdated data directories, `voters` chooses the voters.

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

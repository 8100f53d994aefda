//! Clusters of real processes on this machine.
//!
//! [`run`] is `quoit dev-cluster`: each node is a process of the same program, which is started with
//! `quoit serve`. [`LocalServers`] starts clusters in the same way for campaigns of the load generator.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod campaign_servers;
mod cluster;

pub use campaign_servers::LocalServers;
pub use cluster::{DevClusterArgs, run};

//! The control plane: who the node is, which bucket types there are, which properties buckets have.
//!
//! [`ControlPlane`] holds this in memory as an immutable [`State`] that every request reads without
//! a lock, and in one file that every change reaches before it is answered. Changes are
//! [`Command`]s; deciding what one means ([`State::decide`]), writing the [`Change`] down and
//! applying it ([`State::with`]) are separate steps, so that a replicated log of changes can come
//! between the first and the last.
//!
//! Not here: objects and their semantics, protocols, and what properties mean
//! ([`quoit_model::props`]). Callers are the server (requests and operators' commands) and the
//! store's coordination (properties and preference lists).
//!
//! ```
//! use quoit_cluster::{ControlPlane, NodeId, Settings};
//! use quoit_model::key::BucketRef;
//! use quoit_model::props::{BucketProps, PropUpdates};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! let settings = Settings {
//!     node_name: "quoit@127.0.0.1".to_owned(),
//!     new_node_id: NodeId(*b"sixteen random b"),
//!     ring_size: None,
//!     untyped_defaults: BucketProps::untyped(),
//! };
//! let control = ControlPlane::open(&dir.path().join("control.redb"), settings).unwrap();
//! control.create_type(b"logs", &PropUpdates::default()).unwrap();
//! control.activate_type(b"logs").unwrap();
//! let bucket = BucketRef { bucket_type: b"logs", bucket: b"web" };
//! assert!(control.read().bucket_props(bucket).unwrap().allow_mult);
//! ```

mod command;
mod error;
mod layout;
mod plane;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub use command::{BUCKET_TYPES_MAX, BUCKETS_WITH_PROPS_MAX, Change, Command};
pub use error::{ChangeError, NoSuchType, OpenError, StoreError};
pub use layout::{Layout, PreflistEntry};
pub use plane::{ControlPlane, Settings, Snapshot};
pub use quoit_model::node::NodeId;
pub use state::{Placements, State, TypeStatus};

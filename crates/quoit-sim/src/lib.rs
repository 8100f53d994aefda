//! The simulator: it runs the released code of a whole cluster under one seed, one thing after the other.
//!
//! A [`run()`] builds machines whose disks, clocks and network follow from its seed, and starts a node on
//! each. Clients send requests while faults happen. Then the run repairs all faults, waits until the
//! cluster is at rest, reads every key back and checks the history of all requests. The same seed gives
//! the same run, event by event, and the same [`Trace`]. `docs/design/simulation.md` describes the
//! design, and `docs/development.md` the use.
//!
//! - `cluster` builds the world and advances it step by step; `drive` is the course of a run.
//! - `settings`, `family` and `workload` turn the seed into choices; `faults` plans the faults, and `apply`
//!   applies and repairs them.
//! - `client`, `data_type_clients` and `register_clients` send requests and record them in histories.
//! - `check`, `data_types::check` and `registers::check` judge the histories after the run.
//! - `store_checks`, `copies`, `growth` and `modelled_engine` check the nodes during the run; `rest` and
//!   `finish` do so at its end.
//!
//! The crate has no code of the store itself, and nothing in it is released. Only its own program calls
//! it; `cargo xtask soak` and the test command start that program.
//!
//! ```
//! use quoit_sim::{Settings, run};
//!
//! let settings = Settings { operation_count: 5, ..Settings::default() };
//! let report = run(1, &settings);
//! assert_eq!(report.verdict, Ok(()), "{}", report.trace.text());
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod apply;
mod boot;
mod bucket_operator;
mod check;
mod client;
mod cluster;
mod cluster_plan;
mod contents;
mod copies;
mod cut_off;
mod data_type_clients;
mod data_types;
mod disks;
mod drive;
mod engine;
mod engine_model;
mod execution;
mod family;
mod fault_kind;
mod faults;
mod final_listings;
mod finish;
mod form;
mod growth;
mod history;
mod links;
mod listing;
mod logs;
mod losses;
mod machine;
mod majorities;
mod modelled_engine;
mod names;
mod network;
mod operator;
mod orders;
mod pausing;
mod permissions;
mod policy;
mod process;
mod property_client;
mod random;
mod read_back;
mod register_clients;
mod registers;
mod replica_counts;
mod requests;
mod rest;
mod run;
mod run_context;
mod settings;
mod slow_sync_disk;
mod stage;
mod store_checks;
mod store_snapshot;
mod store_starts;
mod time;
mod trace;
mod upgrade;
mod value;
mod versions;
mod violation;
mod workload;

pub use family::Family;
pub use run::{Report, run};
pub use settings::Settings;
pub use trace::Trace;
pub use violation::{Violation, ViolationKind};

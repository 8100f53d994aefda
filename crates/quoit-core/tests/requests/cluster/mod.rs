//! Requests to stores of several nodes in one process, with a network in memory and paused time.

mod arriving_deltas;
mod compression;
mod conditional;
mod coverage;
mod data_types;
mod failures;
mod fixture;
mod folds;
mod hooks;
mod index;
mod jobs;
mod large;
mod large_fields;
mod listing;
mod messages;
mod overload;
mod reads;
mod reaping;
mod started_reads;
mod writes;

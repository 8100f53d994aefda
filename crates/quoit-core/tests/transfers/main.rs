//! Tests of records that move to the nodes where they belong: after changes of the layout, and after
//! nodes were away.
#![allow(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

mod anti_entropy;
mod damage;
mod data_types;
mod deletes;
mod differences;
mod durability;
mod expiring_sets;
mod expiry;
mod fixture;
mod healing;
mod hints;
mod index;
mod lagging;
mod listing;
mod losses;
mod many_replicas;
mod operators;
mod ownership;
mod parts;
mod reaping;
mod refusals;
mod replica_counts;
mod staging;
mod strays;
mod yielding;

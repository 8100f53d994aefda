//! Tests of the store's promises to clients, on one node.

mod conditions;
mod data_types;
mod deletes;
mod fixture;
mod imported;
mod in_place;
mod large;
mod life;
mod overload;
mod refusals;
mod riak_trees;
mod writes;

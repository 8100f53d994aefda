//! Messages that nodes of a cluster send each other.

pub mod control;

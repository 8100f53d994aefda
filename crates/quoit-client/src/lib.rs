//! The Rust client of Quoit: Protocol Buffers, pooled, pipelined, typed.

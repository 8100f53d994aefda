//! The `quoit` binary.

fn main() {}

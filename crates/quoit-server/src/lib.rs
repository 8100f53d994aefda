//! Client protocols of Quoit: Protocol Buffers and HTTP in front of the replicated store.

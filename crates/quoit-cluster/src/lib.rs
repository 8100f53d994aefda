//! The control plane of the store: node identity, bucket types and bucket properties, kept durably.

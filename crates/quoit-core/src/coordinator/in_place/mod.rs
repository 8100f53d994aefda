//! Reads and writes of plain objects in place: the short path that serves most requests.
//!
//! A plain object has one live value without links, user metadata or index entries. It is shown to the
//! reader in the buffer that it was read into, and replaced without being decoded. If the object is not
//! plain, or if a write would have to wait for the disk, the short path declines and has written nothing.
//! The caller then takes the general path
//! ([`ReplicatedStore::get`](crate::ReplicatedStore::get),
//! [`ReplicatedStore::put`](crate::ReplicatedStore::put)). Both paths follow the same rules. A read that
//! would have to wait for the disk has begun, and continues as a [`StartedRead`](crate::StartedRead).

mod get;
mod put;

pub use get::{ReadInPlace, ShownObject};
pub use put::{Pending, PlainWrite};

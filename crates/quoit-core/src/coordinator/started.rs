//! Reads that began without waiting and have to wait before they can be answered: this node's copy has to
//! come from the disk, or another replica has a different one.
//!
//! Such a read is handed to its caller, because the caller may first have to get memory for the object. It
//! continues with everything that it has learned: the copy that this node has read, the replicas that were
//! asked, and their answers.

use crate::coordinator::Coordinator;
use crate::coordinator::confirm::OwnedRead;
use crate::coordinator::first_round::FirstRound;
use crate::coordinator::get::{object_of, show_data_type};
use crate::coordinator::read_replicas::{KnownAnswers, ReadRequest};
use crate::error::RequestError;
use crate::placement::{PlacedKey, object_props};
use crate::request_log::{AskedNodes, RequestCourse};
use crate::topology::Topology;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use std::fmt;

/// A read that has begun and has to wait.
/// [`ReplicatedStore::finish_get`](crate::ReplicatedStore::finish_get) and
/// [`ReplicatedStore::finish_fetch`](crate::ReplicatedStore::finish_fetch) continue it.
#[must_use = "a read that has begun is answered when it is finished"]
pub struct StartedRead {
    pub(crate) read: OwnedRead,
    pub(crate) known: KnownAnswers,
    /// Time at which the first replica was asked, on the monotonic clock in microseconds.
    pub(crate) started_us: u64,
}

impl StartedRead {
    /// A read of which this node's copy is not read yet. `asked` are the replicas that were asked; if
    /// there are none, this node's copy has all the votes that the read needs, and `read` makes the read.
    #[cold]
    pub(crate) fn of_unread(
        topology: &Topology,
        asked: Option<(FirstRound, OwnedRead)>,
        read: impl FnOnce() -> OwnedRead,
        started_us: u64,
    ) -> Self {
        let (first, read) = asked.unwrap_or_else(|| {
            let read = read();
            (FirstRound::of_own(topology, read.key().clone()), read)
        });
        Self { read, known: first.into(), started_us }
    }
}

impl fmt::Debug for StartedRead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { started_us, .. } = self;
        formatter
            .debug_struct("StartedRead")
            .field("started_us", started_us)
            .finish_non_exhaustive()
    }
}

impl Coordinator {
    /// As [`ReplicatedStore::finish_get`](crate::ReplicatedStore::finish_get).
    pub(crate) async fn finish_get(
        &self,
        started: StartedRead,
    ) -> Result<Option<Object>, RequestError> {
        let name = started.read.key().clone();
        let mut found = self.finish_stored(started).await?;
        if let Some(object) = found.as_mut().filter(|object| object.has_data_type()) {
            let state = self.local.control.read();
            show_data_type(object, object_props(&state, KeyRef::decode(&name)?.bucket)?);
        }
        Ok(found)
    }

    /// As [`Coordinator::finish_get`], but data types keep their internal form.
    pub(crate) async fn finish_stored(
        &self,
        started: StartedRead,
    ) -> Result<Option<Object>, RequestError> {
        let _entered = self.admit_get()?;
        let StartedRead { read, known, started_us } = started;
        let place = PlacedKey::new(read.key(), read.partition())?;
        let (read, key) = (read.request(&place), place.at().key);
        let own_at_us = self.local.clock.monotonic_us();
        let mut course = RequestCourse { own_at_us, ..RequestCourse::default() };
        let found = self.read_on(&read, known, started_us, &mut course.asked).await;
        let found = found.and_then(|found| self.with_values_of(key, found));
        self.note_read(key, started_us, &found, &course);
        found
    }

    async fn read_on(
        &self,
        read: &ReadRequest<'_>,
        known: KnownAnswers,
        started_us: u64,
        asked: &mut AskedNodes,
    ) -> Result<Option<Object>, RequestError> {
        if !self.local.topology().is_alone() {
            return self.continue_late(read, known, started_us, asked).await;
        }
        // A node that is alone answers with the fault of its copy if that is damaged.
        let own = match known.own {
            Some((_, own)) => own,
            None => self.replica.read_copy_waiting(&read.at, true).await?,
        };
        object_of(own)
    }

    /// As [`ReplicatedStore::size_bytes_max_of`](crate::ReplicatedStore::size_bytes_max_of).
    pub(crate) fn size_bytes_max_of(&self, started: &StartedRead) -> Option<u64> {
        let place = PlacedKey::new(started.read.key(), started.read.partition()).ok()?;
        self.size_bound_of(&place.at())
    }
}

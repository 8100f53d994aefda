//! Coordination of reads of whole objects.

use crate::coordinator::Coordinator;
use crate::coordinator::confirm::LARGE_PATIENCE;
use crate::coordinator::first_round::{FirstRound, FirstRoundStart};
use crate::coordinator::read_replicas::ReadRequest;
use crate::error::RequestError;
use crate::options::ReadOptions;
use crate::placement::{object_props, record_at};
use crate::replica::{Copy, Replicated, merge_rule};
use crate::request_log::{AskedNodes, Finished, RequestCourse, RequestKind};
use crate::stats::Sizes;
use crate::stored::{decode, wait_if_blocked};
use crate::topology::Topology;
use crate::votes::{ReadNeed, ReadTally, ReplicaCount};
use quoit_cluster::State;
use quoit_model::data_type::CounterForm;
use quoit_model::hash::Partition;
use quoit_model::key::{BucketRef, EncodedKey, KeyRef};
use quoit_model::object::Object;
use quoit_model::props::{BucketProps, ReadQuorums};
use quoit_store::engine::{IoMode, RecordAt, RecordMeta, SizeBound};

impl Coordinator {
    /// As [`ReplicatedStore::get`](crate::ReplicatedStore::get).
    pub(crate) async fn get(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<Option<Object>, RequestError> {
        let mut found = self.get_stored(key, options).await?;
        if let Some(object) = found.as_mut().filter(|object| object.has_data_type()) {
            let state = self.local.control.read();
            show_data_type(object, object_props(&state, key.bucket)?);
        }
        Ok(found)
    }

    /// As [`ReplicatedStore::size_bytes_max`](crate::ReplicatedStore::size_bytes_max).
    pub(crate) fn size_bytes_max(&self, key: KeyRef<'_>) -> Option<u64> {
        let encoded = check_encoded(key).ok()?;
        let state = self.local.control.read();
        let props = object_props(&state, key.bucket).ok()?;
        self.size_bound_of(&record_at(&state, props, key, &encoded))
    }

    /// Upper bound on the stored size of this node's copy of a record, in bytes; `None` if it is not known.
    pub(crate) fn size_bound_of(&self, at: &RecordAt<'_>) -> Option<u64> {
        let mut bound = self.local.engine.size_bound(at, IoMode::NoWait);
        if bound == SizeBound::WouldBlock {
            let step = || self.local.engine.size_bound(at, IoMode::Wait);
            bound = self.local.settings.blocking.in_place(step);
        }
        match bound {
            SizeBound::AtMost(size_bytes) => Some(size_bytes),
            SizeBound::Unknown | SizeBound::WouldBlock => None,
        }
    }

    /// As [`Coordinator::get`], but data types keep their internal form.
    pub(crate) async fn get_stored(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<Option<Object>, RequestError> {
        let _entered = self.admit_get()?;
        let started_us = self.local.clock.monotonic_us();
        let mut course = RequestCourse::default();
        let result = self.get_untimed(key, options, &mut course).await;
        self.note_read(key, started_us, &result, &course);
        result
    }

    /// Adds a read of a whole object to the statistics and the request log.
    pub(crate) fn note_read(
        &self,
        key: KeyRef<'_>,
        started_us: u64,
        result: &Result<Option<Object>, RequestError>,
        course: &RequestCourse,
    ) {
        let time_us = self.local.clock.monotonic_us() - started_us;
        let own_us = course.own_at_us.saturating_sub(started_us);
        let sizes = result.as_ref().map(|found| found.as_ref().map(Sizes::of_object));
        self.local.stats.record_get(time_us, &sizes);
        self.note_get(key, (time_us, own_us), &sizes, &course.asked);
    }

    /// Adds a read to the request log. The pair of times is the time from request to answer, and the part
    /// of it before any copy was read, both in microseconds.
    #[inline]
    pub(crate) fn note_get(
        &self,
        key: KeyRef<'_>,
        (total_us, own_us): (u64, u64),
        result: &Result<Option<Sizes>, &RequestError>,
        asked: &AskedNodes,
    ) {
        let sizes = result.as_ref().ok().copied().flatten();
        let finished = Finished {
            kind: RequestKind::Get,
            key,
            total_us,
            own_us,
            size_bytes: sizes.map_or(0, |sizes| sizes.value_bytes),
            sibling_count: sizes.map_or(0, |sizes| sizes.sibling_count),
            failed: result.is_err(),
            asked,
        };
        self.request_log.note(&*self.local.clock, &finished);
    }

    /// Notes in `course` when the read was planned and which nodes were asked.
    async fn get_untimed(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
        course: &mut RequestCourse,
    ) -> Result<Option<Object>, RequestError> {
        let found = self.read_unresolved(key, options, course).await?;
        self.with_values_of(key, found)
    }

    /// Reduces the object to its latest value if its bucket has allow_mult=false.
    pub(crate) fn with_values_of(
        &self,
        key: KeyRef<'_>,
        mut found: Option<Object>,
    ) -> Result<Option<Object>, RequestError> {
        if let Some(object) = &mut found {
            let state = self.local.control.read();
            if !object_props(&state, key.bucket)?.allow_mult {
                object.resolve_latest();
            }
        }
        Ok(found)
    }

    /// Reads the object as replicas store it, with all siblings even if the bucket has allow_mult=false.
    pub(crate) async fn get_unresolved(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<Option<Object>, RequestError> {
        self.read_unresolved(key, options, &mut RequestCourse::default()).await
    }

    async fn read_unresolved(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
        course: &mut RequestCourse,
    ) -> Result<Option<Object>, RequestError> {
        let encoded = check_encoded(key)?;
        let topology = self.local.settled_topology(options.timeout_ms).await;
        let read = self.planned_read(&topology, key, &encoded, options)?;
        course.own_at_us = self.local.clock.monotonic_us();
        if !topology.is_alone() {
            return self.read_replicas(&read, &mut course.asked).await;
        }
        object_of(self.own_copy(&read.at).await?)
    }

    /// The read of a record by the properties of its bucket. On a node that is alone, its quorums are
    /// checked; on other nodes that is done when the replicas are chosen.
    pub(crate) fn planned_read<'a>(
        &self,
        topology: &Topology,
        key: KeyRef<'a>,
        encoded: &'a [u8],
        options: &ReadOptions,
    ) -> Result<ReadRequest<'a>, RequestError> {
        let state = self.local.control.read();
        let props = object_props(&state, key.bucket)?;
        let quorums = options.resolve(props)?;
        let at = record_at(&state, props, key, encoded);
        if topology.is_alone() {
            self.check_read(topology, at.partition, &quorums, true)?;
        }
        Ok(self.read_of(at, props, read_need(&state, key.bucket, &quorums), options))
    }

    pub(crate) fn read_of<'a>(
        &self,
        at: RecordAt<'a>,
        props: &BucketProps,
        need: ReadNeed,
        options: &ReadOptions,
    ) -> ReadRequest<'a> {
        ReadRequest {
            at,
            need,
            sloppy: options.is_sloppy(),
            rule: merge_rule(props),
            n_val_class: RecordMeta::class_of(props.n_val),
            timeout_ms: options.timeout_ms,
        }
    }

    /// Brings this node's copy up to date: afterwards it includes everything that a read with these
    /// options would return.
    pub(crate) async fn refresh_own(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<(), RequestError> {
        let encoded = check_encoded(key)?;
        let read = {
            let state = self.local.control.read();
            let props = object_props(&state, key.bucket)?;
            let quorums = options.resolve(props)?;
            let at = record_at(&state, props, key, &encoded);
            self.read_of(at, props, read_need(&state, key.bucket, &quorums), options)
        };
        let asked = &mut AskedNodes::default();
        let started_us = self.local.clock.monotonic_us();
        let found = match self.compare_large(&read).await? {
            LargeComparison::Same => return Ok(()),
            LargeComparison::Differs(first) => {
                self.continue_read(&read, *first, started_us, asked).await?
            }
            LargeComparison::None => self.read_replicas(&read, asked).await?,
        };
        let Some(object) = found else { return Ok(()) };
        // The read may not have asked this node's copy, and then did not repair it.
        let replicated = Replicated::new(&object, read.rule, read.n_val_class);
        self.replica.merge_into_own_copy(&read.at, &replicated)?;
        Ok(())
    }

    /// Asks whether the other replicas that a read needs have the same copy as this node, if its copy is
    /// a large set or map. If they have, no node has to read the whole record.
    async fn compare_large(&self, read: &ReadRequest<'_>) -> Result<LargeComparison, RequestError> {
        let is_stream = wait_if_blocked(self.local.settings.blocking, |access| {
            Ok(self.local.records.is_stream(&read.at, access)?)
        })?;
        if !is_stream || self.replica.healing.is_replaced(read.at.encoded) {
            return Ok(LargeComparison::None);
        }
        let topology = self.local.topology();
        let first = FirstRound::ask(&topology, &read.at, &read.need, read.sloppy, None)?;
        let mut first = match first {
            FirstRoundStart::Own => return Ok(LargeComparison::Same),
            FirstRoundStart::Asked(first) => first,
            FirstRoundStart::NotHere => return Ok(LargeComparison::None),
        };
        let digest = self.local.records.head(&read.at)?.map(|meta| meta.digest);
        // Half of the time is left for another replica if one is late.
        if first.agree(digest, LARGE_PATIENCE.min(read.timeout() / 2)).await {
            return Ok(LargeComparison::Same);
        }
        first.answer_own(digest);
        Ok(LargeComparison::Differs(Box::new(first)))
    }

    /// Checks that the nodes that are up can meet a read's quorums.
    pub(crate) fn check_read(
        &self,
        topology: &Topology,
        partition: Partition,
        quorums: &ReadQuorums,
        sloppy: bool,
    ) -> Result<(), RequestError> {
        let voters =
            topology.readers(partition, ReplicaCount::all_filled(quorums.n_val), sloppy, &[]);
        ReadTally::check(&ReadNeed::from(quorums), &voters)
    }

    /// Reads this node's copy as a whole object, and waits for the disk if need be.
    pub(crate) async fn own_copy(&self, at: &RecordAt<'_>) -> Result<Copy, RequestError> {
        match self.replica.fetch_copy(at, true, IoMode::NoWait)? {
            Some(copy) => Ok(copy),
            None => self.replica.read_copy_waiting(at, true).await,
        }
    }
}

/// Comparison of this node's copy of a large set or map with the copies of other replicas.
enum LargeComparison {
    /// The copy is small, or has no vote in the read.
    None,
    /// The other replicas have the same copy.
    Same,
    /// Another replica has a different copy, failed, or is late.
    Differs(Box<FirstRound>),
}

/// The conditions that end a read of a bucket's record.
pub(crate) fn read_need(state: &State, bucket: BucketRef<'_>, quorums: &ReadQuorums) -> ReadNeed {
    let filled_n_val = state.filled_n_val(bucket, quorums.n_val);
    ReadNeed { filled_n_val, ..ReadNeed::from(quorums) }
}

fn check_encoded(key: KeyRef<'_>) -> Result<EncodedKey, RequestError> {
    key.check()?;
    Ok(key.encoded())
}

/// Converts an object to the form in which the bucket's readers receive it.
pub(crate) fn resolve(mut object: Object, props: &BucketProps) -> Object {
    if !props.allow_mult {
        object.resolve_latest();
    }
    show_data_type(&mut object, props);
    object
}

/// Decodes a copy that was read whole.
pub(crate) fn object_of(copy: Copy) -> Result<Option<Object>, RequestError> {
    match copy {
        Copy::Found(_, Some(stored)) => decode(&stored).map(Some),
        Copy::Found(_, None) | Copy::Missing => Ok(None),
    }
}

/// Converts a data type to the form that clients see when they read it as an object.
pub(crate) fn show_data_type(object: &mut Object, props: &BucketProps) {
    if object.has_data_type() {
        let form = if props.datatype.is_some() { CounterForm::Typed } else { CounterForm::Legacy };
        object.show_data_type(form);
    }
}

//! Reads in place: a plain object is shown in the buffer that it was read into.

use crate::coordinator::Coordinator;
use crate::coordinator::confirm::{CopyDigest, OwnedRead, UnconfirmedRead};
use crate::coordinator::first_round::{FirstRound, FirstRoundStart};
use crate::coordinator::get::{read_need, resolve};
use crate::coordinator::started::StartedRead;
use crate::error::RequestError;
use crate::options::ReadOptions;
use crate::placement::{object_props, record_at};
use crate::request_log::AskedNodes;
use crate::stats::Sizes;
use crate::stored::decode;
use bytes::Bytes;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::plain::PlainObject;
use quoit_model::props::BucketProps;
use quoit_store::engine::{InPlaceRead, IoMode, RecordRef};
use quoit_store::error::StoreError;
use quoit_wire::SHARED_BYTES_MIN;

/// An object as it is passed to a reader.
#[derive(Debug)]
pub enum ShownObject<'a> {
    /// A plain object, in the buffer that it was read into.
    Plain(PlainObject<'a>),
    /// A plain object with a large value, and the buffer, of which the value is a part that can be shared.
    Large(PlainObject<'a>, &'a Bytes),
    /// Any other object, decoded.
    Whole(Object),
}

impl ShownObject<'_> {
    fn sizes(&self) -> Sizes {
        match self {
            Self::Plain(plain) | Self::Large(plain, _) => Sizes::of_plain(plain),
            Self::Whole(object) => Sizes::of_object(object),
        }
    }
}

/// Result of a read in place.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most reads of a cluster wait for other replicas")]
pub enum ReadInPlace<T> {
    /// The local copy is the answer.
    Answer(T),
    /// The local copy is the answer if the other replicas that the read needs have the same copy, which
    /// [`ReplicatedStore::confirm_read`](crate::ReplicatedStore::confirm_read) finds out.
    IfConfirmed(T, UnconfirmedRead),
    /// The local copy can't be shown now: it has to be read from the disk, or is damaged. The other
    /// replicas that the read needs were asked.
    /// [`ReplicatedStore::finish_get`](crate::ReplicatedStore::finish_get) continues the read.
    Started(Box<StartedRead>),
}

/// The local copy, as a read in place finds it.
enum LocalCopy<T> {
    /// It has no vote, this node does not know yet which peers are up, or a replica that the read needs
    /// can't be asked.
    Declined,
    /// The result of showing it, with its digest and sizes.
    Answered(T, Option<CopyDigest>),
    /// It has to be read from the disk, or is damaged.
    Unread(Box<StartedRead>),
}

impl Coordinator {
    /// As [`ReplicatedStore::get_in_place`](crate::ReplicatedStore::get_in_place).
    pub(crate) fn get_in_place<T>(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
        show: impl FnOnce(Option<ShownObject<'_>>) -> T,
    ) -> Result<Option<ReadInPlace<T>>, RequestError> {
        self.check_gets()?;
        let started_us = self.local.clock.monotonic_us();
        let record = |result: &Result<Option<Sizes>, &RequestError>| {
            let time_us = self.local.clock.monotonic_us() - started_us;
            self.local.stats.record_get(time_us, result);
            self.note_get(key, (time_us, time_us), result, &AskedNodes::default());
        };
        let mut asked = None;
        match self.show_local(key, options, started_us, show, &mut asked) {
            Err(fault) => {
                record(&Err(&fault));
                Err(fault)
            }
            Ok(LocalCopy::Declined) => Ok(None),
            Ok(LocalCopy::Unread(started)) => Ok(Some(ReadInPlace::Started(started))),
            Ok(LocalCopy::Answered(made, seen)) => Ok(Some(match asked {
                None => {
                    record(&Ok(seen.map(|seen| seen.sizes)));
                    ReadInPlace::Answer(made)
                }
                Some((first, read)) => {
                    let unconfirmed = UnconfirmedRead { first, read, seen, started_us };
                    ReadInPlace::IfConfirmed(made, unconfirmed)
                }
            })),
        }
    }

    /// Shows the local copy. The other replicas that the read needs are asked first, and returned in
    /// `asked` if the copy was shown.
    fn show_local<T>(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
        started_us: u64,
        show: impl FnOnce(Option<ShownObject<'_>>) -> T,
        asked: &mut Option<(FirstRound, OwnedRead)>,
    ) -> Result<LocalCopy<T>, RequestError> {
        key.check()?;
        let state = self.local.control.read();
        let props = object_props(&state, key.bucket)?;
        let quorums = options.resolve(props)?;
        let encoded = key.encoded();
        let at = record_at(&state, props, key, &encoded);
        let topology = self.local.topology_of(&state);
        let read = || {
            let need = read_need(&state, key.bucket, &quorums);
            self.read_of(at, props, need, options)
        };
        if topology.is_alone() {
            self.check_read(&topology, at.partition, &quorums, true)?;
        } else if !self.local.internode.is_settled() {
            return Ok(LocalCopy::Declined);
        } else {
            let read = read();
            match FirstRound::ask(&topology, &at, &read.need, read.sloppy, None)? {
                FirstRoundStart::Own => {}
                FirstRoundStart::Asked(first) => {
                    let key = first.key.clone();
                    *asked = Some((first, OwnedRead::new(&read, key)));
                }
                FirstRoundStart::NotHere => return Ok(LocalCopy::Declined),
            }
        }
        let mut show = Some(show);
        let mut made = None;
        let mut look = |record: &RecordRef<'_>| {
            let show = show.take().expect("an engine shows a record once");
            made = Some(found_in(record, props).map(|found| {
                let seen = CopyDigest { digest: record.meta.digest, sizes: found.sizes() };
                (show(Some(found)), Some(seen))
            }));
        };
        let shown = match self.replica.show(&at, IoMode::NoWait, &mut look) {
            // Another replica may have a copy that is not damaged.
            Err(StoreError::Corrupt { .. }) if !topology.is_alone() => InPlaceRead::WouldBlock,
            shown => shown?,
        };
        match (shown, made, show) {
            (InPlaceRead::Found, Some(made), _) => {
                let (made, seen) = made?;
                Ok(LocalCopy::Answered(made, seen))
            }
            (InPlaceRead::Missing, _, Some(show)) => Ok(LocalCopy::Answered(show(None), None)),
            _ => {
                let read = || OwnedRead::new(&read(), Bytes::copy_from_slice(&encoded));
                let started = StartedRead::of_unread(&topology, asked.take(), read, started_us);
                Ok(LocalCopy::Unread(Box::new(started)))
            }
        }
    }
}

/// The stored object as it is passed to a reader.
fn found_in<'r>(
    record: &RecordRef<'r>,
    props: &BucketProps,
) -> Result<ShownObject<'r>, RequestError> {
    match (PlainObject::read(record.value), record.owner()) {
        (Some(plain), Some(owner)) if plain.value.len() >= SHARED_BYTES_MIN => {
            Ok(ShownObject::Large(plain, owner))
        }
        (Some(plain), _) => Ok(ShownObject::Plain(plain)),
        (None, _) => Ok(ShownObject::Whole(resolve(decode(&record.to_bytes())?, props))),
    }
}

//! Requests of clients to a node's store, and the outcomes that follow from their errors.

use crate::history::{Entry, KeyNumber, Outcome, WriteKind, WriteNumber};
use crate::names::{RecordName, bucket_type};
use crate::policy::Policy;
use crate::random::Random;
use crate::value::value_of;
use bytes::Bytes;
use quoit_core::{
    Confirmation, DeleteRequest, IndexQuery, IndexSelection, PlainWrite, PutRequest, ReadInPlace,
    ReadOptions, ReplicatedStore, RequestError, SHARED_BYTES_MIN, ShownObject, WriteOptions,
};
use quoit_model::clock::VersionVector;
use quoit_model::key::BucketRef;
use quoit_model::object::{IndexEntry, IndexTerm, Object};
use quoit_model::props::Quorum;
use std::sync::Arc;

/// Quorums and timeout of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quorums {
    /// True if only primaries count, and a majority of them has to take part.
    pub is_strict: bool,
    /// True if a write sets `pw` to the same value as `w`. Fallbacks may still take part unless
    /// `is_strict` is set.
    pub asks_primaries: bool,
    /// Number of copies that have to answer a read or accept a write: `r` or `w`.
    pub copies: Quorum,
    /// Number of copies that have to be synced: `dw`.
    pub synced: Quorum,
    /// Timeout of the store, in milliseconds.
    pub timeout_ms: u32,
}

impl Quorums {
    /// Draws the quorums of a request.
    pub fn draw(random: &mut Random) -> Self {
        let timeout_ms = random.within_narrow(500_u32..4_000);
        let any = [Quorum::One, Quorum::Quorum, Quorum::Quorum, Quorum::All];
        match random.below(10) {
            0..5 => Self::strict(timeout_ms),
            5..8 => Self {
                is_strict: false,
                asks_primaries: false,
                copies: Quorum::Quorum,
                synced: Quorum::Quorum,
                timeout_ms,
            },
            _ => {
                let synced = [Quorum::Count(0), Quorum::One, Quorum::Quorum];
                let (copies, synced) = (*random.pick(&any), *random.pick(&synced));
                Self { is_strict: false, asks_primaries: false, copies, synced, timeout_ms }
            }
        }
    }

    /// Quorums of a majority of the primaries, which have to sync writes.
    #[must_use]
    pub const fn strict(timeout_ms: u32) -> Self {
        let (copies, synced) = (Quorum::Quorum, Quorum::Quorum);
        Self { is_strict: true, asks_primaries: true, copies, synced, timeout_ms }
    }

    /// True if a majority has to take part, which may include fallbacks.
    #[must_use]
    pub fn asks_majority(self) -> bool {
        matches!(self.copies, Quorum::Quorum | Quorum::All)
    }

    /// Quorums of all primaries, for the reads at the end of a run.
    #[must_use]
    pub const fn all(timeout_ms: u32) -> Self {
        Self { copies: Quorum::All, ..Self::strict(timeout_ms) }
    }

    /// Returns the options of a read.
    pub(crate) fn read(self) -> ReadOptions {
        ReadOptions {
            r: Some(self.copies),
            pr: self.is_strict.then_some(self.copies),
            sloppy_quorum: self.is_strict.then_some(false),
            timeout_ms: Some(self.timeout_ms),
            ..ReadOptions::default()
        }
    }

    /// Returns the options of a write.
    pub(crate) fn write(self) -> WriteOptions {
        WriteOptions {
            w: Some(self.copies),
            dw: Some(self.synced),
            pw: self.asks_primaries.then_some(self.copies),
            sloppy_quorum: self.is_strict.then_some(false),
            timeout_ms: Some(self.timeout_ms),
            ..WriteOptions::default()
        }
    }
}

/// Reads a key, on the store's fast path if possible, as the client protocols do.
///
/// # Errors
///
/// Returns the error of the store.
pub async fn get(
    store: Arc<ReplicatedStore>,
    name: RecordName,
    quorums: Quorums,
) -> Result<Option<Object>, RequestError> {
    let (key, options) = (name.key_ref(), quorums.read());
    let owned = |found: Option<ShownObject<'_>>| match found {
        None => Ok(None),
        Some(ShownObject::Whole(object)) => Ok(Some(object)),
        Some(ShownObject::Plain(plain) | ShownObject::Large(plain, _)) => {
            let mut encoded = Vec::new();
            plain.encode_into(&mut encoded);
            Object::decode(&encoded.into()).map(Some)
        }
    };
    let shown = match store.get_in_place(key, &options, owned)? {
        None => return store.get(key, &options).await,
        Some(ReadInPlace::Started(started)) => return store.finish_get(*started).await,
        Some(ReadInPlace::Answer(shown)) => shown,
        Some(ReadInPlace::IfConfirmed(shown, unconfirmed)) => {
            match store.confirm_read(unconfirmed).await? {
                Confirmation::Same => shown,
                Confirmation::Other(found) => return Ok(found.map(|object| *object)),
            }
        }
    };
    shown.map_err(|error| RequestError::Damaged(error.to_string()))
}

/// A write that a client sends.
#[derive(Debug, Clone)]
pub struct WriteRequest {
    /// Number of the write.
    pub number: WriteNumber,
    /// Kind of the write.
    pub kind: WriteKind,
    /// Name of the key.
    pub name: RecordName,
    /// Causal context that the client sends.
    pub context: VersionVector,
    /// Size of the filling of a put's value, in bytes.
    pub size_bytes: usize,
    /// True if the answer has to return the object.
    pub return_object: bool,
    /// True if a put makes an index entry.
    pub makes_entry: bool,
    /// Time at which the value expires, in seconds since 1970; `None` = never.
    pub expires_at_secs: Option<u32>,
    /// Quorums and timeout.
    pub quorums: Quorums,
}

/// Makes a write, on the store's fast path if possible. Returns the object if that was requested.
///
/// # Errors
///
/// Returns the error of the store.
pub async fn write(
    store: Arc<ReplicatedStore>,
    request: WriteRequest,
) -> Result<Option<Object>, RequestError> {
    let key = request.name.key_ref();
    let options = request.quorums.write();
    if request.kind == WriteKind::Put {
        let value = value_of(request.number, request.size_bytes);
        if request.makes_entry || request.expires_at_secs.is_some() {
            let mut put = PutRequest {
                context: request.context,
                return_object: request.return_object,
                options,
                ..PutRequest::of(key, value)
            };
            if request.makes_entry {
                put.meta.indexes = vec![entry_of(request.number)];
            }
            put.meta.expires_at_secs = request.expires_at_secs;
            return store.put(put).await;
        }
        let plain = PlainWrite {
            key,
            context: request.context.clone(),
            content_type: None,
            value: &value,
            shared: (value.len() >= SHARED_BYTES_MIN).then(|| value.clone()),
            options,
        };
        if !request.return_object
            && let Some(pending) = store.put_in_place(&plain)?
        {
            store.finish(pending).await?;
            return Ok(None);
        }
        let put = PutRequest {
            context: request.context,
            return_object: request.return_object,
            options,
            ..PutRequest::of(key, value)
        };
        return store.put(put).await;
    }
    let delete = DeleteRequest {
        context: (request.kind == WriteKind::Delete).then_some(request.context),
        read: request.quorums.read(),
        write: options,
        ..DeleteRequest::of(key)
    };
    store.delete(delete).await?;
    Ok(None)
}

/// Returns the outcome of a write that failed with an error: refused only if the store can't have made
/// it.
#[must_use]
pub const fn outcome_of(error: &RequestError) -> Outcome {
    match error {
        RequestError::Key(_)
        | RequestError::NoSuchType(_)
        | RequestError::Consistent(_)
        | RequestError::NVal(_)
        | RequestError::Unmet(_)
        | RequestError::Context(_)
        | RequestError::DataType(_)
        | RequestError::RemoteDataType(_)
        | RequestError::Vetoed(_)
        | RequestError::Precommit(_)
        | RequestError::HookNotRun(_)
        | RequestError::ObjectTooLarge { .. }
        | RequestError::TooManySiblings(_) => Outcome::Refused,
        _ => Outcome::Unknown,
    }
}

/// Lists all keys of a policy's bucket.
///
/// # Errors
///
/// Returns the error of the store.
pub async fn list_keys(
    store: Arc<ReplicatedStore>,
    policy: Policy,
) -> Result<Vec<KeyNumber>, RequestError> {
    let name = RecordName::of(KeyNumber(0), policy);
    let mut listing = store.listings().list_keys(name.key_ref().bucket).await?;
    let mut keys = Vec::new();
    while let Some(chunk) = listing.next().await? {
        // A foreign key becomes a number that no key has.
        let numbers = chunk.iter().map(|key| RecordName::number_of(key));
        keys.extend(numbers.map(|number| number.unwrap_or(KeyNumber(u32::MAX))));
    }
    keys.sort_unstable();
    Ok(keys)
}

/// Lists the buckets of a policy's bucket type.
///
/// # Errors
///
/// Returns the error of the store.
pub async fn list_buckets(
    store: Arc<ReplicatedStore>,
    policy: Policy,
) -> Result<Vec<Vec<u8>>, RequestError> {
    let mut listing = store.listings().list_buckets(bucket_type(policy).as_bytes()).await?;
    let mut buckets = Vec::new();
    while let Some(chunk) = listing.next().await? {
        buckets.extend(chunk.iter().map(|name| name.to_vec()));
    }
    Ok(buckets)
}

/// Index field of the numbers of writes.
const WRITES: &[u8] = b"write_int";

/// Returns the index entry of a write.
fn entry_of(number: WriteNumber) -> IndexEntry {
    IndexEntry { field: Bytes::from_static(WRITES), term: IndexTerm::integer(number.0.into()) }
}

/// Returns the index entries of an object.
pub fn entries_of(key: KeyNumber, object: &Object) -> impl Iterator<Item = Entry> {
    let siblings = object.siblings.iter().filter(|sibling| !sibling.deleted);
    let entries = siblings.flat_map(|sibling| &sibling.meta.indexes);
    entries.map(move |entry| (number_of(Some(&entry.term)), key))
}

/// Returns the write of an index term. A foreign term becomes a number that no write has.
fn number_of(term: Option<&IndexTerm>) -> WriteNumber {
    let number = match term {
        Some(IndexTerm::Integer(number)) => {
            number.to_i128().and_then(|number| u32::try_from(number).ok())
        }
        _ => None,
    };
    WriteNumber(number.unwrap_or(u32::MAX))
}

/// Queries all entries of the index of writes in a policy's bucket, sorted or not.
///
/// # Errors
///
/// Returns the error of the store.
pub async fn list_entries(
    store: Arc<ReplicatedStore>,
    policy: Policy,
    sorted: bool,
) -> Result<Vec<Entry>, RequestError> {
    let all = IndexSelection::Terms {
        field: Bytes::from_static(WRITES),
        min: IndexTerm::integer(0),
        max: IndexTerm::integer(i128::MAX),
    };
    let bucket =
        BucketRef { bucket_type: bucket_type(policy).as_bytes(), bucket: RecordName::BUCKET };
    let mut query = IndexQuery::new(bucket, all);
    query.sorted = sorted;
    let mut results = store.listings().query_index(query).await?;
    let mut entries = Vec::new();
    while let Some(matches) = results.next().await? {
        entries.extend(matches.iter().map(|found| {
            let key = RecordName::number_of(&found.key).unwrap_or(KeyNumber(u32::MAX));
            (number_of(found.term.as_ref()), key)
        }));
    }
    Ok(entries)
}

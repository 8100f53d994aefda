//! Objects from another cluster: the requests with which `quoit import` stores and verifies them.

use super::{allow, error, no_such_path};
use crate::context::ServerContext;
use crate::http::{Method, Refusal, Request, query_value};
use bytes::Bytes;
use quoit_core::{
    BegunBatch, FoldKind, ImportedInPlace, ImportedObject, Pending, PutRequest, ReadOptions,
    RecordRange, ReplicatedStore, RequestError,
};
use quoit_model::context::decode_context;
use quoit_model::etf::Limits;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::record_batch::{BatchRecord, read_records, version_digest};
use quoit_model::riak_clock::decode_riak_clock;
use quoit_model::riak_object::decode_riak_object;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// Media type of a body of records.
const CONTENT_TYPE: &[u8] = b"application/octet-stream";

/// Number of records of a batch that are written at the same time: enough to share a sync, few enough to
/// leave capacity for clients.
const WRITES_AT_ONCE: usize = 64;

/// Number of records that are handled before the task yields.
const RECORDS_WITHOUT_PAUSE: usize = 32;

/// A record that was not stored.
struct NotStored {
    /// Its index in the batch.
    record: usize,
    message: String,
    /// True if sending it again may succeed.
    may_retry: bool,
}

/// Answers a request below `/admin/v1/import`.
pub(super) async fn answer(
    context: &ServerContext,
    request: &Request,
    method: Method,
    names: &[&[u8]],
    query: &[u8],
) -> Result<Value, Refusal> {
    match names {
        [b"objects"] => {
            allow(method, &[Method::Post])?;
            objects(context, &request.body).await
        }
        [b"check"] => {
            allow(method, &[Method::Post])?;
            check(context, &request.body).await
        }
        [b"digest"] => {
            allow(method, &[Method::Get, Method::Head])?;
            digest(context, query).await
        }
        _ => Err(no_such_path()),
    }
}

/// True if a path below `/admin` takes records.
pub(super) fn takes_records(names: &[&[u8]]) -> bool {
    matches!(names, [b"v1", b"import", b"objects" | b"check"])
}

/// Requires a media type that a form of a web page can't send.
pub(super) fn check_content_type(request: &Request) -> Result<(), Refusal> {
    match request.head.get("content-type") {
        Some(CONTENT_TYPE) => Ok(()),
        _ => Err(error(
            415,
            "content_type",
            "records must be declared as Content-Type: application/octet-stream",
        )),
    }
}

/// Stores the records of a body, each merged with the stored object. Answers with the records that could
/// not be stored.
async fn objects(context: &ServerContext, body: &Bytes) -> Result<Value, Refusal> {
    let records =
        read_records(body).map_err(|fault| error(400, "invalid_batch", &fault.to_string()))?;
    let record_count = records.len();
    let store = &context.store;
    let (given, mut refused) = decode(records).await;
    let BegunBatch { pending: together, left } = store.begin_import(given).await;
    let BegunSingly { pending, declined } = begin_singly(store, left, &mut refused).await;
    let store_one = {
        let store = Arc::clone(store);
        move |record| store_object(Arc::clone(&store), record)
    };
    refused.extend(for_each(declined, store_one).await);
    if let Some(batch) = together
        && let Err(fault) = store.finish_import(&batch).await
    {
        refused.extend(batch.numbers.iter().map(|record| not_stored(*record, &fault)));
    }
    for (record, write) in pending {
        refused.extend(store.finish(write).await.map_err(|fault| not_stored(record, &fault)).err());
    }
    refused.sort_by_key(|one| one.record);
    let stored_count = record_count - refused.len();
    let refused: Vec<Value> = refused
        .into_iter()
        .map(|one| json!({"record": one.record, "message": one.message, "again": one.may_retry}))
        .collect();
    Ok(json!({"stored": stored_count, "refused": refused}))
}

/// Decodes the objects of records. Returns the invalid ones separately.
async fn decode(records: Vec<BatchRecord>) -> (Vec<ImportedObject>, Vec<NotStored>) {
    let (mut given, mut refused) = (Vec::with_capacity(records.len()), Vec::new());
    for (number, BatchRecord { key, object }) in records.into_iter().enumerate() {
        if number % RECORDS_WITHOUT_PAUSE == RECORDS_WITHOUT_PAUSE - 1 {
            tokio::task::yield_now().await;
        }
        match decode_riak_object(&object) {
            Ok(object) => given.push(ImportedObject { number, key, object }),
            Err(fault) => {
                let message = fault.to_string();
                refused.push(NotStored { record: number, message, may_retry: false });
            }
        }
    }
    (given, refused)
}

/// Records whose writes were started one by one.
#[derive(Default)]
struct BegunSingly {
    /// Writes that are in the log and wait for a sync.
    pending: Vec<(usize, Pending)>,
    /// Records that other nodes hold, too, so that they need a coordinated write.
    declined: Vec<ImportedObject>,
}

/// Starts to store records. On a node without peers, all of them are in the log before anything waits.
async fn begin_singly(
    store: &ReplicatedStore,
    records: Vec<ImportedObject>,
    refused: &mut Vec<NotStored>,
) -> BegunSingly {
    let mut begun = BegunSingly::default();
    for (done, ImportedObject { number, key, object }) in records.into_iter().enumerate() {
        if done % RECORDS_WITHOUT_PAUSE == RECORDS_WITHOUT_PAUSE - 1 {
            tokio::task::yield_now().await;
        }
        match store.put_imported_in_place(key.as_key_ref(), object) {
            Ok(ImportedInPlace::Stored) => {}
            Ok(ImportedInPlace::Pending(write)) => begun.pending.push((number, write)),
            Ok(ImportedInPlace::Declined(object)) => {
                begun.declined.push(ImportedObject { number, key, object });
            }
            Err(fault) => refused.push(not_stored(number, &fault)),
        }
    }
    begun
}

/// Calls `deal` for all records, for several at the same time, and returns the failures. Each task handles
/// many records: the state of a write is large, and a task for each record would move it several times.
async fn for_each<R, F, D>(records: Vec<R>, deal: F) -> Vec<NotStored>
where
    R: Send + 'static,
    F: Fn(R) -> D + Clone + Send + 'static,
    D: Future<Output = Result<(), NotStored>> + Send,
{
    let task_count = records.len().min(WRITES_AT_ONCE);
    let left = Arc::new(Mutex::new(records.into_iter()));
    let mut tasks = JoinSet::new();
    for _ in 0..task_count {
        let (left, deal) = (Arc::clone(&left), deal.clone());
        tasks.spawn(async move {
            let mut failed = Vec::new();
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(record) = next else { return failed };
                failed.extend(deal(record).await.err());
            }
        });
    }
    let mut failed = Vec::new();
    // A task that the runtime has cancelled has nothing to report.
    while let Some(joined) = tasks.join_next().await {
        failed.extend(joined.unwrap_or_default());
    }
    failed
}

async fn store_object(
    store: Arc<ReplicatedStore>,
    ImportedObject { number, key, object }: ImportedObject,
) -> Result<(), NotStored> {
    let put = store.put(PutRequest::given(key.as_key_ref(), object)).await;
    put.map(drop).map_err(|fault| not_stored(number, &fault))
}

fn not_stored(record: usize, fault: &RequestError) -> NotStored {
    NotStored { record, message: fault.to_string(), may_retry: !is_for_good(fault) }
}

/// True if the same write would fail again.
const fn is_for_good(fault: &RequestError) -> bool {
    matches!(
        fault,
        RequestError::Vetoed(_)
            | RequestError::ObjectTooLarge { .. }
            | RequestError::TooManySiblings(_)
            | RequestError::NoSuchType(_)
            | RequestError::Key(_)
            | RequestError::Context(_)
    )
}

/// Compares records with the stored ones. The body is as for [`objects`], with a version vector instead of
/// each object. Answers with the records that are missing, or whose stored version has not seen all events
/// of the version vector.
async fn check(context: &ServerContext, body: &Bytes) -> Result<Value, Refusal> {
    let records =
        read_records(body).map_err(|fault| error(400, "invalid_batch", &fault.to_string()))?;
    let checked = records.len();
    let compare_one = {
        let store = Arc::clone(&context.store);
        move |(number, record)| compare(Arc::clone(&store), number, record)
    };
    let mut behind = for_each(records.into_iter().enumerate().collect(), compare_one).await;
    behind.sort_by_key(|one| one.record);
    let behind: Vec<Value> = behind
        .into_iter()
        .map(|one| json!({"record": one.record, "message": one.message, "again": one.may_retry}))
        .collect();
    Ok(json!({"checked": checked, "behind": behind}))
}

async fn compare(
    store: Arc<ReplicatedStore>,
    record: usize,
    BatchRecord { key, object: clock }: BatchRecord,
) -> Result<(), NotStored> {
    let not_stored = |message: String, may_retry| Err(NotStored { record, message, may_retry });
    let clock = match decode_riak_clock(&clock, &Limits::STORED) {
        Ok(clock) => clock,
        Err(fault) => return not_stored(fault.to_string(), false),
    };
    let last_write_wins = store
        .control()
        .read()
        .bucket_props(key.as_key_ref().bucket)
        .is_ok_and(|props| props.last_write_wins);
    match store.get(key.as_key_ref(), &ReadOptions::default()).await {
        // With last-write-wins, a later value has a version vector of its own, so the vectors can't be
        // compared.
        Ok(Some(stored)) if last_write_wins || stored.clock.descends(&clock) => Ok(()),
        Ok(Some(_)) => not_stored("an older version is stored".to_owned(), false),
        Ok(None) => not_stored("it is not stored".to_owned(), false),
        Err(fault) => {
            let may_retry = !is_for_good(&fault);
            not_stored(fault.to_string(), may_retry)
        }
    }
}

/// Number of live records of a bucket, and the sum of the digests of their versions.
async fn digest(context: &ServerContext, query: &[u8]) -> Result<Value, Refusal> {
    let named = |name: &str| Some(Bytes::from(query_value(query, name)?.into_owned()));
    let bucket_type = named("type").unwrap_or(Bytes::from_static(DEFAULT_BUCKET_TYPE));
    let Some(bucket) = named("bucket") else {
        return Err(error(400, "no_bucket", "name a bucket: ?type=T&bucket=B"));
    };
    let refused = |fault: RequestError| error(503, "unavailable", &fault.to_string());
    let bucket = BucketRef { bucket_type: &bucket_type, bucket: &bucket };
    if context.store.control().read().bucket_props_json(bucket).is_err() {
        return Err(error(404, "no_type", "there is no such bucket type, or it is not active"));
    }
    let range = RecordRange::all(bucket);
    let fold = context.store.folds().begin(range, FoldKind::FetchClocks, u64::MAX).await;
    let mut fold = fold.map_err(refused)?;
    let (mut count, mut sum) = (0u64, 0u64);
    while let Some(found) = fold.step().await.map_err(refused)? {
        for record in found {
            let clock = decode_context(&record.clock)
                .map_err(|fault| error(500, "internal", &fault.to_string()))?;
            count += 1;
            sum = sum.wrapping_add(version_digest(&record.key, &clock));
        }
    }
    Ok(json!({"count": count, "digest": format!("{sum:016x}")}))
}

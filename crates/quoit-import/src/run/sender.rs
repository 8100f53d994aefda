//! Threads that send batches of records and wait for the cluster's acknowledgements.
//!
//! Batches are numbered in the order in which they were read, and may be acknowledged out of order. Only
//! progress without a gap reaches the journal: a batch that was acknowledged before an earlier one waits
//! for it.

use super::batch_size::BatchSize;
use super::tally::Tally;
use super::{RecordPosition, SKIP_HINT};
use crate::api::{Api, FIRST_PAUSE, LAST_PAUSE};
use crate::output::note;
use anyhow::{Result, anyhow};
use quoit_model::record_batch::{BatchRecord, put_record, read_records};
use quoit_riak_files::Position;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most unacknowledged batches for each thread, including those acknowledged before an earlier one. If one
/// batch has to be repeated for minutes, the others wait, so that a kill loses seconds of work and not
/// minutes.
const BATCHES_PER_THREAD: u64 = 4;

/// Time after which the operator is told why records are sent again.
const SILENT_FOR: Duration = Duration::from_secs(5);

/// Records that are sent together.
#[derive(Default)]
pub(super) struct Batch {
    /// Records in their transport form.
    pub(super) body: Vec<u8>,
    /// Positions of the records, for messages.
    pub(super) places: Vec<RecordPosition>,
    /// The part of the pass that is done once this batch is stored.
    pub(super) stretch: BatchProgress,
}

/// A part of the pass over a partition.
#[derive(Default)]
pub(super) struct BatchProgress {
    /// Position at which it ends; `None` for an empty part.
    pub(super) end: Option<Position>,
    /// Figures of this part.
    pub(super) tally: Tally,
    /// Hashes of the copies in this part.
    pub(super) hashes: Vec<u128>,
}

impl BatchProgress {
    /// Appends the part that follows this one.
    pub(super) fn add(&mut self, later: Self) {
        self.end = later.end.or(self.end.take());
        self.tally.add(later.tally);
        self.hashes.extend(later.hashes);
    }
}

#[derive(Default)]
struct State {
    /// Number of the next batch.
    next: u64,
    /// Batches that were acknowledged before an earlier one.
    early: BTreeMap<u64, BatchProgress>,
    /// Number of the first unacknowledged batch.
    first_missing: u64,
    /// Progress that was acknowledged without a gap and not yet taken.
    acknowledged: BatchProgress,
    refused: Vec<String>,
    fault: Option<String>,
    batch_size: BatchSize,
}

impl State {
    fn acknowledge(&mut self, number: u64, stretch: BatchProgress) {
        self.early.insert(number, stretch);
        while let Some(stretch) = self.early.remove(&self.first_missing) {
            self.first_missing += 1;
            self.acknowledged.add(stretch);
        }
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    acknowledged: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending threads and the outcome of their batches.
pub(super) struct Sender {
    batches: SyncSender<(u64, Batch)>,
    shared: Arc<Shared>,
    unacknowledged_max: u64,
}

impl Sender {
    /// Starts the threads. With `skips_refused`, records that the cluster refuses permanently are left out;
    /// otherwise such a record is a fault.
    pub(super) fn start(api: &Api, thread_count: usize, skips_refused: bool) -> Self {
        let (batches, queued) = sync_channel(thread_count);
        let (shared, queued) = (Arc::new(Shared::default()), Arc::new(Mutex::new(queued)));
        for _ in 0..thread_count {
            let (api, shared, queued) = (api.clone(), Arc::clone(&shared), Arc::clone(&queued));
            std::thread::spawn(move || work(&api, &shared, &queued, skips_refused));
        }
        Self { batches, shared, unacknowledged_max: thread_count as u64 * BATCHES_PER_THREAD }
    }

    /// Hands a batch to the threads. Waits while too many batches are unacknowledged.
    pub(super) fn send(&self, batch: Batch) -> Result<()> {
        let is_full = |state: &mut State| {
            state.next - state.first_missing >= self.unacknowledged_max && state.fault.is_none()
        };
        let number = {
            let state = self.shared.state();
            let waited = self.shared.acknowledged.wait_while(state, is_full);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            state.next += 1;
            state.next - 1
        };
        self.batches.send((number, batch)).map_err(|_| anyhow!("all sending threads have ended"))
    }

    /// Waits until all batches are acknowledged, or one of them has a fault.
    pub(super) fn settle(&self) {
        let state = self.shared.state();
        let is_waiting =
            |state: &mut State| state.first_missing < state.next && state.fault.is_none();
        drop(self.shared.acknowledged.wait_while(state, is_waiting));
    }

    /// Takes the progress since the last call that the cluster has acknowledged without a gap.
    pub(super) fn take_acknowledged(&self) -> BatchProgress {
        std::mem::take(&mut self.shared.state().acknowledged)
    }

    /// The current batch size.
    pub(super) fn batch_size(&self) -> BatchSize {
        self.shared.state().batch_size
    }

    /// The fault that ends the import, if there is one.
    pub(super) fn fault(&self) -> Option<String> {
        self.shared.state().fault.clone()
    }

    /// Takes the records that the cluster has refused permanently, with its messages.
    pub(super) fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().refused)
    }
}

fn work(api: &Api, shared: &Shared, queued: &Mutex<Receiver<(u64, Batch)>>, skips_refused: bool) {
    loop {
        let next = queued.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, Batch { body, places, mut stretch })) = next else { return };
        let (record_count, began) = (places.len(), Instant::now());
        let sent = deliver(api, BatchRequest::Store, body, places);
        let mut state = shared.state();
        state.batch_size.took(record_count, began.elapsed());
        match sent {
            // The batch stays unacknowledged, so that the journal does not pass it and a restarted import
            // finds it again.
            Ok(refused) if !refused.is_empty() && !skips_refused => {
                state.fault = refused.first().map(|first| format!("{first}{SKIP_HINT}"));
            }
            Ok(refused) => {
                let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
                refused.iter().for_each(|what| stretch.tally.damaged(what.clone()));
                state.refused.extend(refused);
                state.acknowledge(number, stretch);
            }
            Err(fault) => state.fault = Some(format!("{fault:#}")),
        }
        shared.acknowledged.notify_all();
    }
}

/// A record that the answer lists as refused or behind, with the cluster's message.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct RejectedRecord<P = RecordPosition> {
    pub(super) place: P,
    message: String,
}

impl<P: Display> Display for RejectedRecord<P> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}

/// The request by which a batch of records is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum BatchRequest {
    /// Stores the records. The answer lists those that are refused.
    Store,
    /// Compares the records with those of the cluster. The answer lists those that the cluster lacks.
    Check,
}

impl BatchRequest {
    const fn path(self) -> &'static str {
        match self {
            Self::Store => "admin/v1/import/objects",
            Self::Check => "admin/v1/import/check",
        }
    }

    /// The member of the answer that lists records.
    const fn listed(self) -> &'static str {
        match self {
            Self::Store => "refused",
            Self::Check => "behind",
        }
    }
}

/// Sends records until the cluster has answered for each of them. Returns the records that the last answers
/// list as refused or behind. If the cluster refuses a batch as a whole because of its contents, the batch is
/// halved until the faulty record is alone.
pub(super) fn deliver(
    api: &Api,
    request: BatchRequest,
    body: Vec<u8>,
    places: Vec<RecordPosition>,
) -> Result<Vec<RejectedRecord>> {
    let (mut for_good, mut left) = (Vec::new(), vec![(body, places)]);
    while let Some((mut body, mut places)) = left.pop() {
        let refusal = deliver_whole(api, request, &mut body, &mut places, &mut for_good)?;
        let Some(message) = refusal else { continue };
        if let [place] = &places[..] {
            for_good.push(RejectedRecord { place: place.clone(), message });
        } else {
            let [first, second] = halves(body, places)?;
            left.extend([second, first]);
        }
    }
    Ok(for_good)
}

/// Sends a batch until the cluster has answered for each record. Returns the cluster's message if it
/// refuses all remaining records because of their contents.
fn deliver_whole(
    api: &Api,
    request: BatchRequest,
    body: &mut Vec<u8>,
    places: &mut Vec<RecordPosition>,
    for_good: &mut Vec<RejectedRecord>,
) -> Result<Option<String>> {
    let (began, mut pause, mut is_told) = (Instant::now(), FIRST_PAUSE, false);
    while !places.is_empty() {
        let (path, listed) = (request.path(), request.listed());
        let answer = api.post_records(path, body);
        let fault = match answer {
            Ok((status, document)) if status < 300 => {
                let listed = document.get(listed).unwrap_or(&Value::Null);
                let left = retain_for_resend(listed, body, places, for_good)?;
                if left == 0 {
                    break;
                }
                anyhow!(
                    "the cluster can't take {} records at the moment: {}",
                    left,
                    reason_to_wait(listed)
                )
            }
            Ok(answer @ (503 | 429, _)) => match api.done(answer) {
                Ok(_) => anyhow!("the cluster can't take records at the moment"),
                Err(fault) => fault,
            },
            Ok(answer) => {
                let is_for_good = is_about_records(&answer);
                return match api.done(answer) {
                    Err(fault) if is_for_good => Ok(Some(fault.to_string())),
                    done => done.map(|_| None),
                };
            }
            Err(fault) => fault,
        };
        if began.elapsed() > api.patience() {
            return Err(fault);
        }
        if began.elapsed() > SILENT_FOR && !is_told {
            let secs = api.patience().as_secs();
            note(format_args!("{fault:#}; they are sent again for up to {secs} seconds"));
            is_told = true;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LAST_PAUSE);
    }
    Ok(None)
}

/// True if the cluster refuses a batch because of its contents, so that repeating it is useless.
fn is_about_records((status, document): &(u16, Value)) -> bool {
    *status == 413 || (*status == 400 && document["error"] == "invalid_batch")
}

/// Splits a batch into two halves.
fn halves<P>(body: Vec<u8>, mut places: Vec<P>) -> Result<[(Vec<u8>, Vec<P>); 2]> {
    let records = read_records(&body.into())?;
    let middle = places.len() / 2;
    let second_places = places.split_off(middle);
    let (first, second) = records.split_at(middle.min(records.len()));
    Ok([(body_of(first), places), (body_of(second), second_places)])
}

/// Encodes records in their transport form.
fn body_of(records: &[BatchRecord]) -> Vec<u8> {
    let mut body = Vec::new();
    for record in records {
        put_record(record.key.as_key_ref(), &record.object, &mut body);
    }
    body
}

/// The cluster's message about the first record that it may take later.
fn reason_to_wait(named: &Value) -> &str {
    let mut records = named.as_array().into_iter().flatten();
    let waits = records.find(|record| record["again"] == true);
    waits.and_then(|record| record["message"].as_str()).unwrap_or_default()
}

/// Keeps in the batch only the records that are to be sent again, and returns their number.
fn retain_for_resend<P: Clone>(
    named: &Value,
    body: &mut Vec<u8>,
    places: &mut Vec<P>,
    for_good: &mut Vec<RejectedRecord<P>>,
) -> Result<usize> {
    let records = named.as_array().map_or(&[][..], Vec::as_slice);
    let mut again = Vec::new();
    for record in records {
        let number = record["record"].as_u64().and_then(|number| usize::try_from(number).ok());
        let sent = number.and_then(|number| Some((number, places.get(number)?)));
        let (number, place) =
            sent.ok_or_else(|| anyhow!("the cluster names a record that was not sent"))?;
        match record["again"].as_bool() {
            Some(true) => again.push(number),
            _ => for_good.push(RejectedRecord {
                place: place.clone(),
                message: record["message"].as_str().unwrap_or_default().to_owned(),
            }),
        }
    }
    let sent = read_records(&std::mem::take(body).into())?;
    let mut left = Vec::new();
    for number in &again {
        if let (Some(record), Some(place)) = (sent.get(*number), places.get(*number)) {
            put_record(record.key.as_key_ref(), &record.object, body);
            left.push(place.clone());
        }
    }
    *places = left;
    Ok(places.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::fake;
    use quoit_model::key::BucketRef;
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn a_gap_holds_back_what_is_acknowledged() {
        let stretch = |read| BatchProgress {
            tally: Tally { read, ..Tally::default() },
            hashes: vec![read.into()],
            ..BatchProgress::default()
        };
        let mut state = State { next: 3, acknowledged: stretch(10), ..State::default() };
        state.acknowledge(1, stretch(5));
        assert_eq!(state.acknowledged.tally.read, 10);
        state.acknowledge(0, stretch(4));
        assert_eq!((state.acknowledged.tally.read, state.first_missing), (19, 2));
        assert_eq!(state.acknowledged.hashes, [10, 4, 5]);
    }

    #[test]
    fn only_what_may_be_stored_later_is_sent_again() {
        let mut body = Vec::new();
        for key in [b"a", b"b", b"c"] {
            put_record(BucketRef::untyped(b"b").key(key), b"object", &mut body);
        }
        let mut places: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        let mut for_good = Vec::new();
        let named = json!([
            {"record": 0, "message": "too large", "again": false},
            {"record": 2, "message": "overload", "again": true},
        ]);
        let left =
            retain_for_resend(&named, &mut body, &mut places, &mut for_good).expect("sorted out");
        assert_eq!((left, places), (1, vec!["c".to_owned()]));
        let for_good: Vec<String> = for_good.iter().map(ToString::to_string).collect();
        assert_eq!(for_good, ["a: too large"]);
        let records = read_records(&body.into()).expect("own form");
        assert_eq!(records[0].key.key, "c");
    }

    #[test]
    fn records_that_wait_are_told_with_their_own_reason() {
        let api = fake::node(|_, _| {
            let refused = json!([
                {"record": 0, "message": "too large", "again": false},
                {"record": 1, "message": "overload", "again": true},
            ]);
            (200, json!({"refused": refused}).to_string())
        });
        let (body, places) = batch(&[(b"a", 30), (b"b", 30)]);
        let api = api.with_patience(Duration::ZERO);
        let sent = deliver(&api, BatchRequest::Store, body, places);
        let fault = sent.expect_err("no patience");
        let words = fault.to_string();
        assert_eq!(words, "the cluster can't take 1 records at the moment: overload");
    }

    /// Records with values of these lengths, in their transport form and with their positions.
    fn batch(records: &[(&[u8], usize)]) -> (Vec<u8>, Vec<RecordPosition>) {
        let mut body = Vec::new();
        for (key, len) in records {
            put_record(BucketRef::untyped(b"b").key(key), &vec![0; *len], &mut body);
        }
        let sent = read_records(&body.clone().into()).expect("own form");
        let file: Arc<Path> = Path::new("file").into();
        let place =
            |record: BatchRecord| RecordPosition { key: record.key, file: file.clone(), offset: 7 };
        (body, sent.into_iter().map(place).collect())
    }

    #[test]
    fn a_batch_that_is_too_large_goes_in_halves_and_one_record_alone_is_refused() {
        let api = fake::node(|_, body| match body.len() {
            ..100 => (200, json!({"refused": []}).to_string()),
            _ => (413, "The document is not read".to_owned()),
        });
        let (body, places) = batch(&[(b"a", 30), (b"b", 30), (b"c", 200), (b"d", 30), (b"e", 30)]);
        let refused = deliver(&api, BatchRequest::Store, body, places).expect("delivered");
        assert_eq!(refused.len(), 1);
        let words = refused[0].to_string();
        assert!(words.starts_with("default/b/c in file at byte 7: "), "{words}");
        assert!(words.ends_with("answers status 413: The document is not read"), "{words}");
    }
}

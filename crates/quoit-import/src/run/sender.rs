//! Threads that send batches of records and wait for the cluster's acknowledgement.

use super::Place;
use crate::api::{Api, FIRST_PAUSE, LAST_PAUSE, PATIENCE};
use anyhow::{Result, anyhow};
use quoit_model::record_batch::read_records;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Records on their way.
#[derive(Default)]
pub(super) struct Batch {
    /// Records in their transport form.
    pub(super) body: Vec<u8>,
    /// Where each of them is, for people.
    pub(super) places: Vec<Place>,
    /// Records of the partition that are gone through with this batch, those left out included.
    pub(super) position: u64,
}

#[derive(Default)]
struct State {
    /// Number of the next batch.
    next: u64,
    /// Batches that were acknowledged before earlier ones: what each has gone through.
    early: BTreeMap<u64, u64>,
    /// The first batch that is not acknowledged.
    first_missing: u64,
    /// Records of the partition that were gone through up to there.
    acknowledged: u64,
    refused: Vec<String>,
    fault: Option<String>,
}

impl State {
    fn acknowledge(&mut self, number: u64, position: u64) {
        self.early.insert(number, position);
        while let Some(position) = self.early.remove(&self.first_missing) {
            self.first_missing += 1;
            self.acknowledged += position;
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

/// The threads, and what has come of the batches given to them.
pub(super) struct Sender {
    batches: SyncSender<(u64, Batch)>,
    shared: Arc<Shared>,
}

impl Sender {
    pub(super) fn start(api: &Api, thread_count: usize) -> Self {
        let (batches, queued) = sync_channel(thread_count);
        let (shared, queued) = (Arc::new(Shared::default()), Arc::new(Mutex::new(queued)));
        for _ in 0..thread_count {
            let (api, shared, queued) = (api.clone(), Arc::clone(&shared), Arc::clone(&queued));
            std::thread::spawn(move || work(&api, &shared, &queued));
        }
        Self { batches, shared }
    }

    /// Begins with a partition of which `from` records are stored already.
    pub(super) fn begin(&self, from: u64) {
        let mut state = self.shared.state();
        state.acknowledged = from;
    }

    /// Sends a batch, after those before it have found a thread.
    pub(super) fn send(&self, batch: Batch) -> Result<()> {
        let number = {
            let mut state = self.shared.state();
            state.next += 1;
            state.next - 1
        };
        self.batches.send((number, batch)).map_err(|_| anyhow!("no thread is left that sends"))
    }

    /// Waits until all batches have come to an end.
    pub(super) fn settle(&self) {
        let mut state = self.shared.state();
        while state.first_missing < state.next && state.fault.is_none() {
            let waited = self.shared.acknowledged.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records of the partition that the cluster has acknowledged, without a gap.
    pub(super) fn acknowledged(&self) -> u64 {
        self.shared.state().acknowledged
    }

    /// Why the import can't go on.
    pub(super) fn fault(&self) -> Option<String> {
        self.shared.state().fault.clone()
    }

    /// Records that the cluster has refused for good, with its words.
    pub(super) fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().refused)
    }
}

fn work(api: &Api, shared: &Shared, queued: &Mutex<Receiver<(u64, Batch)>>) {
    loop {
        let next = queued.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, batch)) = next else { return };
        let position = batch.position;
        let sent = deliver(api, "admin/v1/import/objects", "refused", batch);
        let mut state = shared.state();
        match sent {
            Ok(refused) => {
                state.refused.extend(refused);
                state.acknowledge(number, position);
            }
            Err(fault) => state.fault = Some(format!("{fault:#}")),
        }
        shared.acknowledged.notify_all();
    }
}

/// Sends records until the cluster has answered for each; those that it names for good, with its words.
pub(super) fn deliver(api: &Api, path: &str, named: &str, batch: Batch) -> Result<Vec<String>> {
    let Batch { mut body, mut places, .. } = batch;
    let mut for_good = Vec::new();
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    while !places.is_empty() {
        let answer = api.post_records(path, &body);
        let fault = match answer {
            Ok((status, document)) if status < 300 => {
                let left = sort_out(&document[named], &mut body, &mut places, &mut for_good)?;
                if left == 0 {
                    break;
                }
                anyhow!(
                    "the cluster can't take {} records at the moment: {}",
                    left,
                    words(&document[named])
                )
            }
            Ok(answer @ (503 | 429, _)) => match api.done(answer) {
                Ok(_) => anyhow!("the cluster can't take records at the moment"),
                Err(fault) => fault,
            },
            Ok(answer) => return api.done(answer).map(|_| for_good),
            Err(fault) => fault,
        };
        if began.elapsed() > PATIENCE {
            return Err(fault);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LAST_PAUSE);
    }
    Ok(for_good)
}

fn words(named: &Value) -> &str {
    named[0]["message"].as_str().unwrap_or_default()
}

/// Leaves in the batch what is to be sent again, and how many records that are.
fn sort_out<P: Display + Clone>(
    named: &Value,
    body: &mut Vec<u8>,
    places: &mut Vec<P>,
    for_good: &mut Vec<String>,
) -> Result<usize> {
    let records = named.as_array().map_or(&[][..], Vec::as_slice);
    let mut again = Vec::new();
    for record in records {
        let number = record["record"].as_u64().and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|number| *number < places.len());
        let number =
            number.ok_or_else(|| anyhow!("the cluster names a record that was not sent"))?;
        match record["again"].as_bool() {
            Some(true) => again.push(number),
            _ => for_good.push(format!(
                "{}: {}",
                places[number],
                record["message"].as_str().unwrap_or_default()
            )),
        }
    }
    let sent = read_records(&std::mem::take(body).into())?;
    let mut left = Vec::new();
    for number in &again {
        if let Some(record) = sent.get(*number) {
            quoit_model::record_batch::put_record(record.key.as_key_ref(), &record.object, body);
            left.push(places[*number].clone());
        }
    }
    *places = left;
    Ok(places.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::key::BucketRef;
    use quoit_model::record_batch::put_record;
    use serde_json::json;

    #[test]
    fn a_gap_holds_back_what_is_acknowledged() {
        let mut state = State { next: 3, acknowledged: 10, ..State::default() };
        state.acknowledge(1, 5);
        assert_eq!(state.acknowledged, 10);
        state.acknowledge(0, 4);
        assert_eq!((state.acknowledged, state.first_missing), (19, 2));
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
        let left = sort_out(&named, &mut body, &mut places, &mut for_good).expect("sorted out");
        assert_eq!((left, places), (1, vec!["c".to_owned()]));
        assert_eq!(for_good, ["a: too large"]);
        let records = read_records(&body.into()).expect("own form");
        assert_eq!(records[0].key.key, "c");
    }
}

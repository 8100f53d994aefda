//! A client of data types: sends random requests to random nodes and records the answers.

use crate::data_types::history::{Change, FLAG, Fetch, ObservedValue, Update, element_of};
use crate::data_types::{Record, RecordKind};
use crate::history::Outcome;
use crate::machine::Machine;
use crate::random::Random;
use crate::requests::Quorums;
use crate::run_context::{ClientNumber, RunContext, answer_within_patience};
use bytes::Bytes;
use quoit_core::{DataTypeRequest, DeleteRequest, FetchedDataType, ReplicatedStore, RequestError};
use quoit_model::data_type::context::decode_context;
use quoit_model::data_type::{
    FieldKind, FieldName, FieldOperation, FieldUpdate, MapOperation, Operation, SetChange,
};
use quoit_model::hash::{KeyHash, PlacementRule};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Maximum pause between two requests of a client, in microseconds.
const PAUSE_US_MAX: u64 = 600_000;
/// Items of a run, each of which stands for an element.
const ITEMS: std::ops::Range<u8> = b'a'..b'u';

/// Names of the fields of maps.
const COUNT: &str = "count";
const MEMBERS: &str = "members";
const TITLE: &str = "title";
const IS_OPEN: &str = "open";

/// A client of data types.
pub struct DataTypeClient {
    place: String,
    run_context: RunContext,
    random: Random,
    /// This client's last fetch of each record: its number, and the context.
    known: BTreeMap<Record, (usize, Option<Bytes>)>,
}

impl RunContext {
    /// Reads a data type at a machine's node, records the answer, and returns its number and the context.
    ///
    /// # Errors
    ///
    /// The error of the store in words, or that no node answered.
    pub(super) async fn fetch(
        &self,
        machine: &Machine,
        record: Record,
        quorums: Quorums,
    ) -> Result<(usize, Option<Bytes>), String> {
        let start_us = self.time.now_us();
        let options = quorums.read();
        let ask = move |store: Arc<ReplicatedStore>| async move {
            let name = record.name();
            store.fetch_data_type(record.key_ref(&name), &options).await
        };
        let fetched: Option<FetchedDataType> = answer_within_patience(quorums, machine.ask(ask))
            .await
            .map_err(|failure| failure.text)?;
        let seen = ObservedValue::of(fetched.as_ref().map(|fetched| &fetched.value));
        let (end_us, is_strict) = (self.time.now_us(), quorums.is_strict);
        // Where there are several clusters, a majority in one of them need not have what another has
        // acknowledged.
        let is_strict = is_strict && self.cluster.is_none();
        let mut history = self.data_types.lock();
        history.fetches.push(Fetch { record, start_us, end_us, is_strict, seen });
        let context = fetched.and_then(|fetched| fetched.context);
        Ok((history.fetches.len() - 1, context))
    }
}

impl DataTypeClient {
    /// Creates the client with a number.
    #[must_use]
    pub fn new(number: ClientNumber, seed: u64, run_context: RunContext) -> Self {
        let random = Random::new(seed, "data type client", number.0);
        Self { place: format!("d{}", number.0), run_context, random, known: BTreeMap::new() }
    }

    /// Sends `operation_count` requests, one after the other.
    pub async fn run(mut self, operation_count: u64) {
        for _ in 0..operation_count {
            let pause_us = self.random.below(PAUSE_US_MAX);
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
            self.step().await;
        }
    }

    async fn step(&mut self) {
        let machines = self.run_context.in_service();
        let machine = &**self.random.pick(&machines);
        let record = Record(self.random.within_narrow(0..Record::COUNT));
        let quorums = Quorums::draw(&mut self.random);
        match self.draw_change(record) {
            None => self.fetch(machine, record, quorums).await,
            Some(change) => self.update(machine, record, change, quorums).await,
        }
    }

    /// Draws a change of a record; `None` means to read it.
    fn draw_change(&mut self, record: Record) -> Option<Change> {
        let item = self.random.within_narrow(ITEMS);
        let chance = self.random.below(100);
        let counts = match record.kind() {
            RecordKind::Counter => chance < 60,
            RecordKind::Set => false,
            RecordKind::Map => chance < 20,
        };
        if counts {
            let power = self.run_context.data_types.lock().next_power(record)?;
            return Some(Change::Count { power, is_negative: self.random.percent(30) });
        }
        if record.kind() == RecordKind::Counter {
            return None;
        }
        let knew = self.known.get(&record).map(|(fetch, _)| *fetch);
        let undo = |items: BTreeSet<u8>, knew| Some(Change::Undo { items, is_delete: false, knew });
        match chance {
            0..45 => Some(Change::Add(item)),
            45..50 if record.kind() == RecordKind::Map => Some(Change::Add(FLAG)),
            50..55 if record.kind() == RecordKind::Map => {
                let update_count = self.run_context.data_types.lock().updates.len();
                let number = u32::try_from(update_count).expect("a run is a few hundred updates");
                Some(Change::Assign(number))
            }
            45..65 => undo(BTreeSet::from([item]), Some(knew?)),
            65..68 => undo(BTreeSet::from([item]), None),
            68..72 if record.kind() == RecordKind::Map => undo(BTreeSet::from([FLAG]), Some(knew?)),
            // The whole field is removed.
            72..76 if record.kind() == RecordKind::Map => undo(ITEMS.collect(), Some(knew?)),
            76..79 => {
                let knew = Some(knew?);
                Some(Change::Undo { items: BTreeSet::new(), is_delete: true, knew })
            }
            _ => None,
        }
    }

    async fn fetch(&mut self, machine: &Machine, record: Record, quorums: Quorums) {
        let text = match self.run_context.fetch(machine, record, quorums).await {
            Ok((number, context)) => {
                let seen = self.run_context.data_types.lock().fetches[number].seen.clone();
                self.known.insert(record, (number, context));
                format!("{seen:?}")
            }
            Err(text) => text,
        };
        let about = if quorums.is_strict { "strictly " } else { "" };
        self.note(machine, &format!("fetch d{} {about}-> {text}", record.0));
    }

    async fn update(
        &mut self,
        machine: &Machine,
        record: Record,
        change: Change,
        quorums: Quorums,
    ) {
        let context = match &change {
            Change::Undo { knew: Some(_), .. } => {
                self.known.get(&record).and_then(|(_, context)| context.clone())
            }
            _ => None,
        };
        if matches!(change, Change::Undo { knew: Some(_), .. }) && context.is_none() {
            // A record that does not exist has no context and nothing to remove, so the client reads it
            // again.
            return self.fetch(machine, record, quorums).await;
        }
        let what = format!("{change:?} d{}", record.0);
        self.note(machine, &what);
        let start_us = self.run_context.time.now_us();
        let number = {
            let mut history = self.run_context.data_types.lock();
            history.updates.push(Update {
                record,
                change: change.clone(),
                start_us,
                end_us: u64::MAX,
                outcome: Outcome::Unknown,
                dw: quorums.synced.resolve(3),
                is_strict: quorums.is_strict,
            });
            history.updates.len() - 1
        };
        let ask = move |store: Arc<ReplicatedStore>| async move {
            send(&store, record, &change, context, quorums).await
        };
        let result = answer_within_patience(quorums, machine.ask(ask)).await;
        let (outcome, text) = match result {
            Ok(()) => (Outcome::Acknowledged, "done".to_owned()),
            Err(failure) => (failure.outcome, format!("{:?}: {}", failure.outcome, failure.text)),
        };
        {
            let mut history = self.run_context.data_types.lock();
            let update = &mut history.updates[number];
            (update.end_us, update.outcome) = (self.run_context.time.now_us(), outcome);
        }
        self.note(machine, &format!("{what} -> {text}"));
    }

    fn note(&self, machine: &Machine, text: &str) {
        self.run_context.trace.note(&self.place, &format!("{}: {text}", machine.name));
    }
}

/// Sends a change to a store.
async fn send(
    store: &ReplicatedStore,
    record: Record,
    change: &Change,
    context: Option<Bytes>,
    quorums: Quorums,
) -> Result<(), RequestError> {
    let name = record.name();
    let key = record.key_ref(&name);
    if let Change::Undo { is_delete: true, .. } = change {
        // Deletes are plain writes, whose context is the version vector itself.
        let hash = KeyHash::of(&key.encoded(), key.bucket, PlacementRule::BucketAndKey);
        let clock = decode_context(&context.unwrap_or_default(), hash.identity.0)
            .map_err(|fault| RequestError::DataType(fault.into()))?;
        let delete = DeleteRequest {
            context: Some(clock.vector().clone()),
            read: quorums.read(),
            write: quorums.write(),
            ..DeleteRequest::of(key)
        };
        return store.delete(delete).await.map(drop);
    }
    let request = DataTypeRequest {
        key,
        operation: operation_of(record.kind(), change),
        context,
        return_value: false,
        options: quorums.write(),
    };
    store.update_data_type(request).await.map(drop)
}

/// Returns a change as an operation on a record of a kind.
fn operation_of(kind: RecordKind, change: &Change) -> Operation {
    let in_map = |updates| Operation::Map(MapOperation { removes: Vec::new(), updates });
    let field = |name, operation| in_map(vec![FieldUpdate::new(name, operation)]);
    let of_set = |changes| match kind {
        RecordKind::Set => Operation::Set(changes),
        RecordKind::Counter | RecordKind::Map => field(MEMBERS, FieldOperation::Set(changes)),
    };
    match change {
        Change::Count { power, is_negative } => {
            let amount = 4_i64.pow(*power) * if *is_negative { -1 } else { 1 };
            match kind {
                RecordKind::Counter | RecordKind::Set => Operation::Counter(amount),
                RecordKind::Map => field(COUNT, FieldOperation::Counter(amount)),
            }
        }
        Change::Add(FLAG) => field(IS_OPEN, FieldOperation::Flag(true)),
        Change::Add(item) => of_set(vec![SetChange::Add(element_of(*item).into())]),
        Change::Assign(number) => field(TITLE, FieldOperation::Register(number.to_string().into())),
        Change::Undo { items, .. } if items.contains(&FLAG) => {
            field(IS_OPEN, FieldOperation::Flag(false))
        }
        Change::Undo { items, .. } if items.len() > 1 => Operation::Map(MapOperation {
            removes: vec![FieldName::new(MEMBERS, FieldKind::Set)],
            updates: Vec::new(),
        }),
        Change::Undo { items, .. } => {
            let removes = items.iter().map(|item| SetChange::Remove(element_of(*item).into()));
            of_set(removes.collect())
        }
    }
}

//! A client of plain keys: sends random requests to random nodes and records the answers.

use crate::history::{
    FoundValue, History, KeyNumber, Outcome, ReadNumber, Reader, Write, WriteKind,
};
use crate::machine::Machine;
use crate::random::Random;
use crate::register_clients;
use crate::requests::{self, Quorums, WriteRequest};
use crate::run_context::{ClientNumber, Failure, RunContext, answer_within_patience};
use crate::workload::{LIVES_SECS, RequestKind, Workload};
use quoit_model::clock::VersionVector;
use quoit_model::props::Quorum;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

/// Returns the outcome of a write, and its description.
fn outcome_of<T>(result: &Result<T, Failure>) -> (Outcome, String) {
    match result {
        Ok(_) => (Outcome::Acknowledged, "done".to_owned()),
        Err(failure) => (failure.outcome, format!("{:?}: {}", failure.outcome, failure.text)),
    }
}

/// A client of the run.
pub struct Client {
    place: String,
    run_context: RunContext,
    random: Random,
    workload: Workload,
    /// This client's last read of each key, and its causal context.
    known: BTreeMap<KeyNumber, (ReadNumber, VersionVector)>,
}

impl Client {
    /// Creates the client with a number.
    #[must_use]
    pub fn new(
        number: ClientNumber,
        seed: u64,
        run_context: RunContext,
        workload: Workload,
    ) -> Self {
        let random = Random::new(seed, "client", number.0);
        Self {
            place: format!("c{}", number.0),
            run_context,
            random,
            workload,
            known: BTreeMap::new(),
        }
    }

    /// Sends `operation_count` requests, one after the other, with a pause of `lull` in the middle.
    pub async fn run(mut self, operation_count: u64, lull: Duration) {
        for number in 0..operation_count {
            if number == operation_count / 2 {
                sleep(lull).await;
            }
            let pause_us = self.random.below(self.workload.pause_us_max);
            sleep(Duration::from_micros(pause_us)).await;
            self.step().await;
        }
    }

    async fn step(&mut self) {
        let machines = self.run_context.in_service();
        let machine = &**self.random.pick(&machines);
        let key_count = self.run_context.history.lock().key_count();
        let key = KeyNumber(self.random.within_narrow(0..key_count));
        let mut quorums = Quorums::draw(&mut self.random);
        let percent = self.workload.primaries_percent;
        if percent > 0 && !quorums.is_strict {
            quorums.asks_primaries = self.random.percent(percent);
        }
        match self.workload.step(&mut self.random) {
            RequestKind::Get => self.get(machine, key, quorums).await,
            RequestKind::Put => self.write(machine, key, WriteKind::Put, quorums).await,
            RequestKind::Delete => self.write(machine, key, WriteKind::Delete, quorums).await,
            RequestKind::DeleteUnseen => {
                self.write(machine, key, WriteKind::DeleteUnseen, quorums).await
            }
            // Listings are left out where there are several clusters: they also show records that have
            // arrived from others.
            RequestKind::List if self.run_context.cluster.is_some() => {
                self.get(machine, key, quorums).await
            }
            RequestKind::List => self.list(machine, key).await,
        }
    }

    async fn get(&mut self, machine: &Machine, key: KeyNumber, quorums: Quorums) {
        // Where there are several clusters, a majority in one of them need not have what another has
        // acknowledged.
        let is_alone = self.run_context.cluster.is_none();
        let reader = match (quorums.is_strict, quorums.asks_majority()) {
            (true, _) if is_alone => Reader::Strict,
            (false, true) if is_alone => Reader::Majority,
            _ => Reader::Client,
        };
        let result = self.run_context.read(machine, key, reader, quorums).await;
        let text = match result {
            Ok((number, clock)) => {
                let found = self.run_context.history.lock().reads[number.0 as usize].found.clone();
                self.known.insert(key, (number, clock));
                words(&found)
            }
            Err(text) => text,
        };
        let about = if quorums.is_strict { "strictly " } else { "" };
        self.note(machine, &format!("read k{} {about}-> {text}", key.0));
    }

    async fn write(
        &mut self,
        machine: &Machine,
        key: KeyNumber,
        kind: WriteKind,
        quorums: Quorums,
    ) {
        // Sometimes the client writes without the context of its last read.
        let known = self.known.get(&key).filter(|_| self.random.percent(80)).cloned();
        let kind = match (kind, &known) {
            // Without a context the client reads the key instead of deleting it, unless its request is a
            // delete of unseen values.
            (WriteKind::Delete, None) => return self.get(machine, key, quorums).await,
            (kind, _) => kind,
        };
        let context = known.as_ref().filter(|_| kind != WriteKind::DeleteUnseen);
        let (run_context, start_us) = (self.run_context.clone(), self.run_context.time.now_us());
        let (number, expires_at_secs) = {
            let mut history = run_context.history.lock();
            let (expires_at_secs, expires_us) = self.expiry(&history, key, kind);
            let number = history.begin_write(Write {
                key,
                cluster: machine.cluster,
                kind,
                context: context.map(|(read, _)| *read),
                start_us,
                end_us: u64::MAX,
                outcome: Outcome::Unknown,
                dw: copies_of(quorums.synced),
                is_strict: quorums.is_strict,
                expires_us,
            });
            (number, expires_at_secs)
        };
        let (size_bytes, layouts) = (self.size_bytes(), run_context.known_layouts(machine));
        let request = WriteRequest {
            number,
            kind,
            name: run_context.name(key),
            context: context.map(|(_, clock)| clock.clone()).unwrap_or_default(),
            size_bytes,
            return_object: self.random.percent(20),
            makes_entry: run_context.history.lock().makes_entry(number),
            expires_at_secs,
            quorums,
        };
        let wants_object = request.return_object && kind == WriteKind::Put;
        let knew = context.map_or("nothing".to_owned(), |(read, _)| {
            words(&run_context.history.lock().reads[read.0 as usize].found)
        });
        let what = format!("{number} {kind:?} k{} knowing {knew}", key.0);
        self.note(machine, &what);
        let asked = machine.ask(|store| requests::write(store, request));
        let result = answer_within_patience(quorums, asked).await;
        let (outcome, text) = outcome_of(&result);
        run_context.history.lock().end_write(number, run_context.time.now_us(), outcome);
        if outcome == Outcome::Acknowledged {
            let (size, wrong_clocks) = ((size_bytes, quorums), self.workload.wrong_clocks_at_start);
            run_context.check_promises(number, machine, size, &layouts, wrong_clocks);
        }
        if let Ok(object) = &result
            && wants_object
        {
            run_context.note_read(key, Reader::Writer(number), start_us, object.as_ref());
        }
        self.note(machine, &format!("{number} -> {text}"));
    }

    async fn list(&mut self, machine: &Machine, key: KeyNumber) {
        let policy = self.run_context.policy(key);
        let text = self.run_context.list(machine, policy).await;
        self.note(machine, &format!("list {policy:?} -> {text}"));
    }

    /// Draws the expiry of a put's value that the client asks for, in seconds since 1970. Also returns the
    /// earliest time at which the value may expire, by that or by its bucket's `ttl`, in simulated
    /// microseconds.
    fn expiry(
        &mut self,
        history: &History,
        key: KeyNumber,
        kind: WriteKind,
    ) -> (Option<u32>, Option<u64>) {
        // Values with index entries do not expire: their entries could be there or not.
        let life_secs = self.life_secs(kind);
        let life_secs = life_secs.filter(|_| !history.makes_entry(history.next_write()));
        let ttl_secs = history.ttl_secs(history.keys[key.0 as usize]);
        let ttl_secs = ttl_secs.filter(|_| kind == WriteKind::Put);
        let time = &self.run_context.time;
        let asked = life_secs.map(|secs| time.second_in(secs));
        let expires = asked.or_else(|| ttl_secs.map(|secs| time.second_in(secs)));
        (asked.map(|(unix_secs, _)| unix_secs), expires.map(|(_, us)| us))
    }

    /// Draws the seconds until the value of a put expires; `None` = never.
    fn life_secs(&mut self, kind: WriteKind) -> Option<u64> {
        let percent = self.workload.expiring_percent;
        // Runs without such values draw nothing here, so that their seeds take the same course as before.
        let expires = percent > 0 && kind == WriteKind::Put && self.random.percent(percent);
        expires.then(|| self.random.within(LIVES_SECS))
    }

    fn size_bytes(&mut self) -> usize {
        let most = if self.random.percent(2) { 100_000 } else { 300 };
        unlike_registers(self.random.index_below(most))
    }

    fn note(&self, machine: &Machine, text: &str) {
        self.run_context.trace.note(&self.place, &format!("{}: {text}", machine.name));
    }
}

/// Returns a size for a plain value that no value of a register has. Plain writes and writes of registers
/// have the same numbers, and a value follows from its number and size. Checks that search a disk for a
/// value must not find that of a register.
const fn unlike_registers(size_bytes: usize) -> usize {
    if size_bytes == register_clients::SIZE_BYTES { size_bytes + 1 } else { size_bytes }
}

/// Number of copies that a quorum means for the usual n_val of 3.
fn copies_of(quorum: Quorum) -> u32 {
    quorum.resolve(3)
}

/// Describes the values that a read found, for the trace.
fn words(found: &[FoundValue]) -> String {
    if found.is_empty() {
        return "nothing".to_owned();
    }
    let word = |found: &FoundValue| match found {
        FoundValue::Value(number) => number.to_string(),
        FoundValue::Tombstone(_, counter) => format!("tombstone {counter}"),
        FoundValue::Foreign(text) => format!("foreign {text}"),
    };
    found.iter().map(word).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::WriteNumber;
    use crate::value::value_of;

    #[test]
    fn no_plain_value_is_that_of_a_register() {
        let number = WriteNumber(4);
        let of_register = value_of(number, register_clients::SIZE_BYTES);
        let sizes = (0..300).map(unlike_registers);
        assert!(sizes.clone().all(|size_bytes| value_of(number, size_bytes) != of_register));
        assert_eq!(sizes.filter(|size_bytes| *size_bytes == 7).count(), 1, "other sizes stay");
    }
}

//! State that the clients of a run share, and their reads.

use crate::data_types::DataTypeHistory;
use crate::history::{History, KeyNumber, Outcome, Read, ReadNumber, Reader};
use crate::machine::{Machine, MachineUse, RequestOutcome, missing_at};
use crate::names::RecordName;
use crate::orders::Orders;
use crate::policy::Policy;
use crate::registers::RegisterHistory;
use crate::requests::{self, Quorums};
use crate::time::SimTime;
use crate::trace::Trace;
use crate::value::{Events, found_in_object};
use parking_lot::Mutex;
use quoit_core::RequestError;
use quoit_model::clock::VersionVector;
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Time for which a client waits beyond the store's own timeout.
const PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which missing nodes are noted during a read of a majority.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// Number of a client among those of its kind, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientNumber(pub u64);

/// State that the clients of a run share.
#[derive(Clone)]
pub struct RunContext {
    /// Cluster to which this view is limited; `None` = all machines.
    pub cluster: Option<usize>,
    /// All machines, including spares.
    pub machines: Arc<[Arc<Machine>]>,
    /// Orders of the operator that the run carries out on machines.
    pub orders: Orders,
    /// History of the requests on plain keys.
    pub history: Arc<Mutex<History>>,
    /// History of the requests on data types.
    pub data_types: Arc<Mutex<DataTypeHistory>>,
    /// History of the requests on registers.
    pub registers: Arc<Mutex<RegisterHistory>>,
    /// Simulated time.
    pub time: SimTime,
    /// The story of the run.
    pub trace: Trace,
}

impl RunContext {
    /// Returns the same state, limited to one of several clusters.
    #[must_use]
    pub fn of_cluster(&self, cluster: usize) -> Self {
        Self { cluster: Some(cluster), ..self.clone() }
    }

    /// True if a machine belongs to the cluster of this view.
    pub fn has(&self, machine: &Machine) -> bool {
        self.cluster.is_none_or(|cluster| machine.cluster == cluster)
    }

    /// Returns the machines of this view on which nodes run, or should.
    pub fn in_service(&self) -> Vec<Arc<Machine>> {
        let machines = self.machines.iter();
        let is_meant = |machine: &&Arc<Machine>| {
            machine.machine_use() == MachineUse::InService && self.has(machine)
        };
        machines.filter(is_meant).cloned().collect()
    }

    /// Reads a key at a machine's node, and records the answer.
    ///
    /// # Errors
    ///
    /// The error of the store in words, or that no node answered.
    pub async fn read(
        &self,
        machine: &Machine,
        key: KeyNumber,
        reader: Reader,
        quorums: Quorums,
    ) -> Result<(ReadNumber, VersionVector), String> {
        let start_us = self.time.now_us();
        let name = self.name(key);
        let pause = if reader == Reader::Majority { LOOK_PAUSE } else { Duration::MAX };
        // This runs on the machine itself, because only its own clock tells which peers it has heard of
        // lately.
        let asked = machine.ask_connected(move |store, internode| async move {
            let (mut missing, mut count) = (BTreeSet::new(), usize::MAX);
            let mut look = || {
                missing.extend(missing_at(&store, &internode));
                let state = store.control().read();
                let layout = state.layouts().for_reads(name.partition(state.ring_size()));
                let primaries = name.primaries(layout, state.ring_size(), name.n_val(&state));
                count = count.min(primaries.len());
            };
            let mut get = pin!(requests::get(Arc::clone(&store), name.clone(), quorums));
            let object = loop {
                look();
                tokio::select! {
                    biased;
                    object = &mut get => break object?,
                    () = sleep(pause) => {}
                }
            };
            look();
            Ok((object, missing, count))
        });
        let (object, missing, primary_count) =
            answer_within_patience(quorums, asked).await.map_err(|failure| failure.text)?;
        let clock = object.as_ref().map(|object| object.clock.clone()).unwrap_or_default();
        let reader = match reader {
            Reader::Majority
                if !includes_majority(
                    &self.history.lock(),
                    (key, start_us),
                    &missing,
                    primary_count,
                ) =>
            {
                Reader::Client
            }
            reader => reader,
        };
        Ok((self.note_read(key, reader, start_us, object.as_ref()), clock))
    }

    /// Records what a read found.
    pub fn note_read(
        &self,
        key: KeyNumber,
        reader: Reader,
        start_us: u64,
        object: Option<&Object>,
    ) -> ReadNumber {
        let end_us = self.time.now_us();
        let mut history = self.history.lock();
        let found = found_in_object(
            object,
            match history.writes_are_made_once {
                true => Events::CountEach,
                false => Events::OfOneWriteCountOnce,
            },
        );
        for sibling in object.map_or(&[][..], |object| &object.siblings) {
            history.note_event(sibling);
        }
        history.add_read(Read { key, reader, start_us, end_us, found })
    }

    pub(crate) fn name(&self, key: KeyNumber) -> RecordName {
        RecordName::of(key, self.policy(key))
    }

    /// Returns the policy of a key.
    pub fn policy(&self, key: KeyNumber) -> Policy {
        self.history.lock().keys[key.0 as usize]
    }
}

/// True if a majority that was read includes a primary with every acknowledged put. That holds if from the
/// start of the read on no more machines were missing or disturbed than a majority can do without. If fewer
/// nodes than n_val were read, one machine holds several of the replicas, and the result is false.
fn includes_majority(
    history: &History,
    (key, start_us): (KeyNumber, u64),
    missing: &BTreeSet<usize>,
    primary_count: usize,
) -> bool {
    let disturbed = history.hardships.disturbances.iter().rev();
    let since = disturbed.take_while(|(at_us, _)| *at_us >= start_us);
    let gone: BTreeSet<usize> = since.map(|(_, place)| *place).chain(missing.clone()).collect();
    let policy = history.keys[key.0 as usize];
    let n_val = history.replica_counts.least_from(Some(policy), start_us);
    let is_spread = n_val as usize <= primary_count;
    is_spread && gone.len() <= (n_val - Quorum::Quorum.resolve(n_val)) as usize
}

/// Outcome and reason of a request that has not succeeded.
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    pub(crate) text: String,
}

/// Waits for a node's answer, for longer than the store's own timeout.
pub(crate) async fn answer_within_patience<T>(
    quorums: Quorums,
    asked: impl Future<Output = RequestOutcome<Result<T, RequestError>>>,
) -> Result<T, Failure> {
    let limit = Duration::from_millis(quorums.timeout_ms.into()) + PATIENCE;
    let failure = |outcome, text: &str| Failure { outcome, text: text.to_owned() };
    match tokio::time::timeout(limit, asked).await {
        Err(_) => Err(failure(Outcome::Unknown, "no answer")),
        Ok(RequestOutcome::NoNode) => Err(failure(Outcome::Refused, "nobody there")),
        Ok(RequestOutcome::Lost) => Err(failure(Outcome::Unknown, "connection lost")),
        Ok(RequestOutcome::Answer(Ok(answer))) => Ok(answer),
        Ok(RequestOutcome::Answer(Err(error))) => {
            Err(Failure { outcome: requests::outcome_of(&error), text: error.to_string() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_was_read_if_at_most_a_minority_was_missing_or_disturbed() {
        const KEY: KeyNumber = KeyNumber(0);
        let mut history = History { keys: vec![Policy::Siblings], ..History::default() };
        history.hardships.disturbances = vec![(90, 1), (110, 2)];
        let is_there = |start_us, missing: &[usize], primary_count| {
            let missing = missing.iter().copied().collect();
            includes_majority(&history, (KEY, start_us), &missing, primary_count)
        };
        assert!(is_there(120, &[], 3) && is_there(120, &[0], 3));
        assert!(!is_there(120, &[0, 1], 3), "one primary is left, and fallbacks took its place");
        assert!(!is_there(120, &[], 2), "one machine holds two of three replicas");
        assert!(is_there(100, &[2], 3), "one machine was first disturbed and then missing");
        assert!(!is_there(100, &[0], 3) && !is_there(80, &[], 3), "two machines were away");
    }
}

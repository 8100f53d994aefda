//! The common ground of the clients of a run, and how they ask nodes.

use crate::data_types::DataTypeHistory;
use crate::history::{History, KeyNumber, Outcome, Read, ReadNumber, Reader};
use crate::machine::{Asked, Machine, Use, missing_at};
use crate::names::Name;
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

/// A client waits so much longer than the store.
const PATIENCE: Duration = Duration::from_secs(3);
/// While a majority is read, the nodes that are missing are looked at so often.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// State that the clients of a run share.
#[derive(Clone)]
pub struct Ground {
    /// The cluster that this is about, where there are several; `None`: all machines.
    pub cluster: Option<usize>,
    /// All machines, spares among them.
    pub machines: Arc<[Arc<Machine>]>,
    /// Orders of the operator for the run to carry out on machines.
    pub orders: Orders,
    /// History of the run so far.
    pub history: Arc<Mutex<History>>,
    /// The same of data types.
    pub data_types: Arc<Mutex<DataTypeHistory>>,
    /// The same of registers.
    pub registers: Arc<Mutex<RegisterHistory>>,
    /// Simulated time.
    pub time: SimTime,
    /// The story of the run.
    pub trace: Trace,
}

impl Ground {
    /// The same, about one of several clusters.
    #[must_use]
    pub fn of_cluster(&self, cluster: usize) -> Self {
        Self { cluster: Some(cluster), ..self.clone() }
    }

    /// Whether a machine belongs to the cluster that this is about.
    pub fn has(&self, machine: &Machine) -> bool {
        self.cluster.is_none_or(|cluster| machine.cluster == cluster)
    }

    /// The machines that nodes of the cluster run on, or should.
    pub fn in_service(&self) -> Vec<Arc<Machine>> {
        let machines = self.machines.iter();
        let is_meant =
            |machine: &&Arc<Machine>| machine.used() == Use::InService && self.has(machine);
        machines.filter(is_meant).cloned().collect()
    }

    /// Asks a machine's node for an object, and notes the answer.
    ///
    /// # Errors
    ///
    /// Describes the error of the store, or says that no node answered.
    pub async fn read(
        &self,
        machine: &Machine,
        key: KeyNumber,
        reader: Reader,
        quorums: Quorums,
    ) -> Result<(ReadNumber, VersionVector), String> {
        let start_us = self.time.now_us();
        let name = self.name(key);
        let internode = machine.internode();
        let pause = if reader == Reader::Majority { LOOK_PAUSE } else { Duration::MAX };
        // On the machine itself: only its own clock says who has been heard of lately.
        let asked = machine.ask(move |store| async move {
            let (mut missing, mut count) = (BTreeSet::new(), usize::MAX);
            let mut look = || {
                missing.extend(internode.iter().flat_map(|ways| missing_at(&store, ways)));
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
            patiently(quorums, asked).await.map_err(|failure| failure.text)?;
        let clock = object.as_ref().map(|object| object.clock.clone()).unwrap_or_default();
        let reader = match reader {
            Reader::Majority if !self.is_majority_there(key, start_us, missing, primary_count) => {
                Reader::Client
            }
            reader => reader,
        };
        Ok((self.note_read(key, reader, start_us, object.as_ref()), clock))
    }

    /// Whether primaries have to be part of a majority that was read: since the read began, nothing has
    /// befallen more machines than a majority can do without, those counted that were missing. Where fewer
    /// nodes than replicas are read, one machine has several of them.
    fn is_majority_there(
        &self,
        key: KeyNumber,
        start_us: u64,
        missing: BTreeSet<usize>,
        primary_count: usize,
    ) -> bool {
        let history = self.history.lock();
        let disturbed = history.hardships.disturbances.iter().rev();
        let since = disturbed.take_while(|(at_us, _)| *at_us >= start_us);
        let gone: BTreeSet<usize> = since.map(|(_, place)| *place).chain(missing).collect();
        let policy = history.keys[key.0 as usize];
        let n_val = history.replica_counts.least_from(Some(policy), start_us);
        let is_spread = n_val as usize <= primary_count;
        is_spread && gone.len() <= (n_val - Quorum::Quorum.resolve(n_val)) as usize
    }

    /// Notes what a read found.
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

    pub(crate) fn name(&self, key: KeyNumber) -> Name {
        Name::of(key, self.policy(key))
    }

    /// The policy of a key.
    pub fn policy(&self, key: KeyNumber) -> Policy {
        self.history.lock().keys[key.0 as usize]
    }
}

/// A request that has not succeeded.
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    pub(crate) text: String,
}

/// Waits for a node's answer, longer than the store itself would.
pub(crate) async fn patiently<T>(
    quorums: Quorums,
    asked: impl Future<Output = Asked<Result<T, RequestError>>>,
) -> Result<T, Failure> {
    let limit = Duration::from_millis(quorums.timeout_ms.into()) + PATIENCE;
    let failure = |outcome, text: &str| Failure { outcome, text: text.to_owned() };
    match tokio::time::timeout(limit, asked).await {
        Err(_) => Err(failure(Outcome::Unknown, "no answer")),
        Ok(Asked::NobodyThere) => Err(failure(Outcome::Refused, "nobody there")),
        Ok(Asked::Lost) => Err(failure(Outcome::Unknown, "connection lost")),
        Ok(Asked::Answer(Ok(answer))) => Ok(answer),
        Ok(Asked::Answer(Err(error))) => {
            Err(Failure { outcome: requests::outcome_of(&error), text: error.to_string() })
        }
    }
}

//! Clients of registers: each reads a register, and writes on condition that the register has not changed
//! since.

use crate::finish::{answer, retry_until_success};
use crate::history::{FoundValue, Outcome, WriteNumber};
use crate::machine::Machine;
use crate::random::Random;
use crate::registers::check::check;
use crate::registers::history::RegisterRead;
use crate::registers::{BUCKET_TYPE, Register};
use crate::requests::Quorums;
use crate::run_context::{ClientNumber, RunContext, answer_within_patience};
use crate::value::{Events, found_in_object, value_of};
use crate::violation::Violation;
use quoit_core::{Precondition, PutRequest, ReplicatedStore, WriteOptions};
use quoit_model::clock::VersionVector;
use quoit_model::props::PropUpdates;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Maximum pause between two requests of a client, in microseconds: short, so that clients compete.
const PAUSE_US_MAX: u64 = 300_000;
/// Bytes of the filling of a value.
pub(crate) const SIZE_BYTES: usize = 20;

/// Creates the bucket type of registers.
///
/// # Errors
///
/// When the request does not succeed in time, although no fault has happened yet.
pub async fn create_type(run_context: &RunContext) -> Result<(), Violation> {
    let machines = run_context.in_service();
    let create = || async {
        let create = move |store: Arc<ReplicatedStore>| async move {
            // These quorums promise nothing by themselves; the conditional writes have to keep their
            // promise without them.
            let props = json!({
                "allow_mult": true, "conditional_put_mode": "require_token", "w": 1, "dw": 0,
            });
            let props: PropUpdates = props.as_object().cloned().unwrap_or_default().into();
            let (control, name) = (store.control(), BUCKET_TYPE.as_bytes());
            control.create_type(name, &props).await?;
            control.activate_type(name).await
        };
        answer(machines[0].ask(create).await)
    };
    retry_until_success(run_context, "create the type of registers", create).await
}

/// Reads every register at every node, and checks all reads and writes of the run.
///
/// # Errors
///
/// When a read still fails after 30 s, or a promise was broken.
pub async fn read_back(run_context: &RunContext) -> Result<(), Violation> {
    for register in Register::all() {
        for machine in run_context.in_service() {
            let what = format!("read r{} at {}", register.0, machine.name);
            retry_until_success(run_context, &what, || {
                run_context.read_register(&machine, register, 2_000)
            })
            .await?;
        }
    }
    let mut history = run_context.registers.lock();
    let hardships = run_context.history.lock().hardships.clone();
    history.losses_us.extend(&hardships.files_lost_us);
    if hardships.is_disk_damaged {
        // The time at which rot damaged a register is not known.
        history.losses_us.push(u64::MAX);
    }
    check(&history)
}

impl RunContext {
    /// Reads a register at a machine's node, records the answer, and returns the values with their causal
    /// context.
    ///
    /// # Errors
    ///
    /// The error of the store in words, or that no node answered.
    async fn read_register(
        &self,
        machine: &Machine,
        register: Register,
        timeout_ms: u32,
    ) -> Result<(BTreeSet<WriteNumber>, VersionVector), String> {
        let start_us = self.time.now_us();
        let quorums = Quorums::strict(timeout_ms);
        let options = quorums.read();
        let ask = move |store: Arc<ReplicatedStore>| async move {
            store.get(Register::key_ref(&register.name()), &options).await
        };
        let object = answer_within_patience(quorums, machine.ask(ask))
            .await
            .map_err(|failure| failure.text)?;
        let (mut found, mut foreign) = (BTreeSet::new(), Vec::new());
        for value in found_in_object(object.as_ref(), Events::CountEach) {
            match value {
                FoundValue::Value(number) if found.insert(number) => {}
                other => foreign.push(format!("{other:?}")),
            }
        }
        let end_us = self.time.now_us();
        let clock = object.map(|object| object.clock).unwrap_or_default();
        let read = RegisterRead { register, start_us, end_us, found: found.clone(), foreign };
        self.registers.lock().reads.push(read);
        Ok((found, clock))
    }
}

/// A client of registers.
pub struct RegisterClient {
    place: String,
    run_context: RunContext,
    random: Random,
    register_count: u32,
    timeouts_ms: Range<u32>,
    /// Values and causal context of the client's last read of each register.
    known: BTreeMap<Register, (BTreeSet<WriteNumber>, VersionVector)>,
}

impl RegisterClient {
    /// Creates the client with a number, from 1, of the first `register_count` registers, with the range of
    /// the timeouts of its requests.
    #[must_use]
    pub fn new(
        number: ClientNumber,
        seed: u64,
        run_context: RunContext,
        (register_count, timeouts_ms): (u32, Range<u32>),
    ) -> Self {
        let random = Random::new(seed, "register client", number.0);
        let (place, known) = (format!("r{}", number.0), BTreeMap::new());
        Self { place, run_context, random, register_count, timeouts_ms, known }
    }

    /// Sends `operation_count` requests, one after the other.
    pub async fn run(mut self, operation_count: u64) {
        for _ in 0..operation_count {
            let pause_us = self.random.below(PAUSE_US_MAX);
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
            let machines = self.run_context.in_service();
            let machine = &**self.random.pick(&machines);
            let register = Register(self.random.within_narrow(0..self.register_count));
            let timeout_ms = self.random.within_narrow(self.timeouts_ms.clone());
            match self.known.remove(&register) {
                Some((base, clock)) => self.write(machine, register, base, clock, timeout_ms).await,
                None => self.read(machine, register, timeout_ms).await,
            }
        }
    }

    async fn read(&mut self, machine: &Machine, register: Register, timeout_ms: u32) {
        let text = match self.run_context.read_register(machine, register, timeout_ms).await {
            Ok((found, clock)) => {
                let text = format!("{found:?}");
                self.known.insert(register, (found, clock));
                text
            }
            Err(text) => text,
        };
        self.note(machine, &format!("read r{} -> {text}", register.0));
    }

    async fn write(
        &self,
        machine: &Machine,
        register: Register,
        base: BTreeSet<WriteNumber>,
        clock: VersionVector,
        timeout_ms: u32,
    ) {
        let run_context = &self.run_context;
        let precondition = match base.is_empty() {
            true => Precondition { not_exists: true, ..Precondition::default() },
            false => Precondition { clock: Some(clock.clone()), ..Precondition::default() },
        };
        let start_us = run_context.time.now_us();
        let what = format!("r{} on {base:?}", register.0);
        let number = run_context.registers.lock().begin(register, base, start_us);
        self.note(machine, &format!("{number} {what}"));
        let quorums = Quorums::strict(timeout_ms);
        // The bucket's `conditional_put_mode` asks for the quorums that the promise needs.
        let options = WriteOptions { timeout_ms: Some(timeout_ms), ..WriteOptions::default() };
        let ask = move |store: Arc<ReplicatedStore>| async move {
            let name = register.name();
            let value = value_of(number, SIZE_BYTES);
            let put = PutRequest {
                context: clock,
                precondition,
                options,
                ..PutRequest::of(Register::key_ref(&name), value)
            };
            store.put(put).await
        };
        let (outcome, text) = match answer_within_patience(quorums, machine.ask(ask)).await {
            Ok(_) => (Outcome::Acknowledged, "done".to_owned()),
            Err(failure) => (failure.outcome, format!("{:?}: {}", failure.outcome, failure.text)),
        };
        run_context.registers.lock().end(number, run_context.time.now_us(), outcome);
        self.note(machine, &format!("{number} -> {text}"));
    }

    fn note(&self, machine: &Machine, text: &str) {
        self.run_context.trace.note(&self.place, &format!("{}: {text}", machine.name));
    }
}

//! The driver of Riak's Protocol Buffers API, with the requests that basho_bench makes.

mod attempt_error;
mod data_types;
mod drawn_indexes;
mod jobs;
mod operation;
mod plan;
mod queries;

use std::time::Duration;

use bytes::Bytes;
use quoit_client::wire::MessageCode;
use quoit_client::wire::messages::{
    RpbContent, RpbDelReq, RpbDelResp, RpbGetReq, RpbGetResp, RpbPutReq, RpbPutResp,
};
use tokio::time::Instant;

use self::attempt_error::PbAttemptError;
use self::data_types::DataTypeOperation;
pub(super) use self::operation::PbOperation;
pub(super) use self::plan::{PbPlan, check_keys, read_bucket, read_quorum};
use self::plan::{check_generators, quorum_text, read_plan};
use super::indexes::{self, DateForm};
use super::inputs::acknowledge;
use super::pb_get::write_get;
use super::pb_link::{CallError, Reconnects, kept_metadata};
use super::pb_replicas::PbLinks;
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, key_bytes};
use crate::config::{Config, ConfigError};
use crate::term::Term;
use crate::valgen::Value;
use crate::verify::Read;
use crate::worker_place::WorkerPlace;

/// Duration of `pause_minute`.
const PAUSE: Duration = Duration::from_secs(60);

/// Pause before a put is repeated that the server refused because of overload.
const OVERLOAD_PAUSE: Duration = Duration::from_millis(10);

/// Maximum number of postcodes of an object with indexes.
const POSTCODE_COUNT_MAX: u64 = 3;

/// One worker: a connection to one target, or to each node of its cluster.
#[derive(Debug)]
pub(super) struct RiakcPb {
    links: PbLinks,
    /// Buffer for the frame of a get, reused.
    frame: Vec<u8>,
}

impl Driver for RiakcPb {
    const NAME: &'static str = "riakc_pb";
    const OPERATIONS: &'static str = "get, get_existing, put, update, update_existing, \
         update_with2i, delete, {scan, MaxCount}, listkeys, query_postcode, query_dob, \
         {get_index, Name, TermCount}, mr_bucket_erlang, mr_keylist_erlang, mr_bucket_js, mr_keylist_js, \
         pause_minute, \
         counter_incr, counter_val, {counter, increment}, {counter, value}, {team, write}, {team, read}, \
         {team, player, addition}, {team, player, removal}, {game, completed}";

    type Operation = PbOperation;
    type Plan = PbPlan;

    fn plan(config: &Config) -> Result<PbPlan, ConfigError> {
        check_generators(config)?;
        read_plan(config)
    }

    fn system_requirements(plan: &PbPlan) -> SystemRequirements {
        let (w, dw, rw) = (quorum_text(plan.w), quorum_text(plan.dw), quorum_text(plan.rw));
        let durability = format!("puts ask for w {w}, dw {dw}; deletes for rw {rw}");
        SystemRequirements {
            targets: plan.targets.clone(),
            additional_lists: Vec::new(),
            durability,
        }
    }

    fn operation(plan: &PbPlan, term: &Term) -> Option<PbOperation> {
        plan.indexes.operation(term).or_else(|| PbOperation::of(term))
    }

    fn missing(term: &Term) -> Option<&'static str> {
        let name = term.as_tuple().and_then(|parts| parts.first()).unwrap_or(term).as_atom()?;
        Some(match name {
            "search" | "search_interval" => "Quoit has no search",
            "mr_multiget" | "mmg_multiget" => {
                "it calls a module of its author that is in no release of Riak: use mr_keylist_erlang"
            }
            "get_index" => {
                "write {get_index, \"name\", TermCount} with the name of an index of secondary_indexes and \
                 a count from 1"
            }
            "get_term_index" => {
                "no release of basho_bench has it: {get_index, \"name\", TermCount} asks an index"
            }
            _ => return None,
        })
    }

    fn draws_values(operation: PbOperation) -> bool {
        use PbOperation::{DataType, Put, Update, UpdateExisting, UpdateWithIndexes};
        match operation {
            Put | Update | UpdateExisting | UpdateWithIndexes => true,
            DataType(operation) => operation.draws_number(),
            _ => false,
        }
    }

    async fn connect(plan: &PbPlan, place: WorkerPlace) -> Result<Self, StartError> {
        let links = PbLinks::open(&plan.targets, place, plan.timeout_general, plan.routing).await?;
        Ok(Self { links, frame: Vec::new() })
    }

    async fn perform(
        &mut self,
        plan: &PbPlan,
        operation: PbOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        let mut reconnects = Reconnects::within(plan.timeout_general);
        loop {
            if self.links.is_down()
                && let Err(reason) = self.links.reconnect(&mut reconnects).await
            {
                return Outcome::Failure(reason);
            }
            match self.attempt(plan, operation, inputs).await {
                Ok(()) => return Outcome::Success,
                Err(PbAttemptError::Failed(reason)) => return Outcome::Failure(reason),
                Err(PbAttemptError::Exhausted) => return Outcome::Stop,
                Err(PbAttemptError::Disconnected) => {
                    if let Err(reason) = reconnects.note_lost() {
                        return Outcome::Failure(reason);
                    }
                }
            }
        }
    }

    const VERIFIES: bool = true;

    async fn read_back(&mut self, plan: &PbPlan, key: &[u8], read: Read) -> Result<(), Term> {
        if self.links.is_down() {
            self.links.reconnect(&mut Reconnects::within(plan.timeout_general)).await?;
        }
        self.links.turn_to(plan.record(key)).await;
        match self.get(plan, &Bytes::copy_from_slice(key)).await {
            Ok(answer) => {
                read.found(values_of(&answer));
                Ok(())
            }
            Err(PbAttemptError::Failed(reason)) => Err(reason),
            Err(_) => Err(Term::atom("disconnected")),
        }
    }
}

impl RiakcPb {
    /// Makes one attempt at the operation, beginning with the draw of a key if it needs one.
    async fn attempt(
        &mut self,
        plan: &PbPlan,
        operation: PbOperation,
        inputs: &mut Inputs,
    ) -> Result<(), PbAttemptError> {
        match operation {
            PbOperation::Job(operation) => {
                self.links.turn_to_any().await;
                return self.attempt_job(plan, operation, inputs).await;
            }
            _ if !operation.draws_key() => {
                self.links.turn_to_any().await;
                return self.attempt_without_key(plan, operation, inputs).await;
            }
            _ => {}
        }
        let key = inputs.next_key()?;
        if let PbOperation::DataType(operation) = operation {
            let key = Bytes::copy_from_slice(&key_bytes(plan.key_kind, key));
            return self.attempt_with_number(plan, operation, &key, inputs).await;
        }
        self.links.turn_to(plan.record(key.bytes())).await;
        if operation == PbOperation::Get && !plan.is_verified {
            return self.get_unseen(plan, key.bytes()).await;
        }
        let key = Bytes::copy_from_slice(key.bytes());
        match operation {
            PbOperation::ListKeys
            | PbOperation::QueryPostcodes
            | PbOperation::QueryBirths
            | PbOperation::QueryDrawn { .. }
            | PbOperation::Job(_)
            | PbOperation::PauseMinute
            | PbOperation::DataType(_) => {}
            PbOperation::Get | PbOperation::GetExisting => {
                let read = inputs.begin_read(&key);
                let answer = self.get(plan, &key).await?;
                read.map(|read| read.found(values_of(&answer)));
                if answer.content.is_empty() && operation == PbOperation::GetExisting {
                    return Err(not_found(&key));
                }
            }
            PbOperation::Put => {
                let (write, value) = inputs.begin_put(&key, None)?;
                let indexes = plan.indexes.draw(inputs.random());
                let content = RpbContent { value, indexes, ..RpbContent::default() };
                self.put(plan, key, None, content).await?;
                acknowledge(write);
            }
            PbOperation::Update | PbOperation::UpdateExisting | PbOperation::UpdateWithIndexes => {
                self.update(plan, operation, key, inputs).await?;
            }
            PbOperation::Scan { count_max } => {
                self.scan(plan, key, inputs.random().uniform(count_max.into())).await?;
            }
            PbOperation::Delete => {
                let write = inputs.begin_delete(&key);
                self.delete(plan, key).await?;
                acknowledge(write);
            }
        }
        Ok(())
    }

    /// Reads a key and writes a new value to it.
    async fn update(
        &mut self,
        plan: &PbPlan,
        operation: PbOperation,
        key: Bytes,
        inputs: &mut Inputs,
    ) -> Result<(), PbAttemptError> {
        let read = inputs.begin_read(&key);
        let answer = self.get(plan, &key).await?;
        let context = read.map(|read| read.found(values_of(&answer)));
        let vclock = answer.vclock;
        let content = match answer.content.into_iter().next() {
            None if operation == PbOperation::UpdateExisting => {
                return Err(not_found(&key));
            }
            None => RpbContent::default(),
            Some(first) => kept_metadata(first),
        };
        let (write, value) = inputs.begin_put(&key, context.as_ref())?;
        let mut content = RpbContent { value, ..content };
        if operation == PbOperation::UpdateWithIndexes {
            let (random, form) = (inputs.random(), DateForm::Dashes);
            content.indexes = indexes::all_entries(random, POSTCODE_COUNT_MAX, form);
        } else if !plan.indexes.is_empty() {
            content.indexes = plan.indexes.draw(inputs.random());
        }
        self.put(plan, key, vclock, content).await?;
        acknowledge(write);
        Ok(())
    }

    /// Performs an operation on a data type, which may draw a number.
    async fn attempt_with_number(
        &mut self,
        plan: &PbPlan,
        operation: DataTypeOperation,
        key: &Bytes,
        inputs: &mut Inputs,
    ) -> Result<(), PbAttemptError> {
        let number = match operation.draws_number().then(|| inputs.next_value()).transpose()? {
            Some(Value::Integer(number)) => number,
            _ => 0,
        };
        self.links.turn_to(plan.record(key)).await;
        self.attempt_data_type(plan, operation, key, number).await
    }

    async fn attempt_without_key(
        &mut self,
        plan: &PbPlan,
        operation: PbOperation,
        inputs: &mut Inputs,
    ) -> Result<(), PbAttemptError> {
        match operation {
            PbOperation::ListKeys => self.list_keys(plan).await,
            PbOperation::QueryPostcodes => {
                self.query(plan, indexes::postcode_range(inputs.random())).await
            }
            PbOperation::QueryBirths => {
                self.query(plan, indexes::birth_range(inputs.random())).await
            }
            PbOperation::QueryDrawn { index, term_count } => {
                let query = plan.indexes.query(index, term_count, inputs.random());
                self.query_drawn(plan, query).await
            }
            _ => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
        }
    }

    /// A get that decodes nothing of its answer.
    async fn get_unseen(&mut self, plan: &PbPlan, key: &[u8]) -> Result<(), PbAttemptError> {
        write_get(&mut self.frame, plan.record(key), plan.r);
        let answered =
            self.links.link().exchange(&self.frame, MessageCode::GetResp, plan.timeout_read);
        Ok(answered.await?)
    }

    async fn get(&mut self, plan: &PbPlan, key: &Bytes) -> Result<RpbGetResp, PbAttemptError> {
        let request = RpbGetReq {
            bucket: plan.bucket.clone(),
            bucket_type: plan.bucket_type.clone(),
            key: key.clone(),
            r: plan.r,
            ..RpbGetReq::default()
        };
        Ok(self.links.link().call(&request, plan.timeout_read).await?)
    }

    async fn delete(&mut self, plan: &PbPlan, key: Bytes) -> Result<(), PbAttemptError> {
        let request = RpbDelReq {
            bucket: plan.bucket.clone(),
            bucket_type: plan.bucket_type.clone(),
            key,
            rw: plan.rw,
            ..RpbDelReq::default()
        };
        let RpbDelResp {} = self.links.link().call(&request, plan.timeout_write).await?;
        Ok(())
    }

    async fn put(
        &mut self,
        plan: &PbPlan,
        key: Bytes,
        vclock: Option<Bytes>,
        content: RpbContent,
    ) -> Result<(), PbAttemptError> {
        let content = RpbContent { content_type: Some(plan.content_type.clone()), ..content };
        let request = RpbPutReq {
            bucket: plan.bucket.clone(),
            bucket_type: plan.bucket_type.clone(),
            key: Some(key),
            vclock,
            content,
            w: plan.w,
            dw: plan.dw,
            ..RpbPutReq::default()
        };
        let repeats_until = plan.repeats_overload.then(|| Instant::now() + plan.timeout_write);
        let has_time =
            || repeats_until.is_some_and(|until| Instant::now() + OVERLOAD_PAUSE < until);
        loop {
            let answer: Result<RpbPutResp, _> =
                self.links.link().call(&request, plan.timeout_write).await;
            match answer {
                Ok(_) => return Ok(()),
                Err(CallError::Failed(reason)) if is_overload(&reason) && has_time() => {
                    tokio::time::sleep(OVERLOAD_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_overload(reason: &Term) -> bool {
    matches!(reason, Term::Binary(message) if message == b"overload")
}

/// The values of an answer, without tombstone siblings.
fn values_of(answer: &RpbGetResp) -> impl Iterator<Item = &[u8]> {
    let values = answer.content.iter().filter(|content| content.deleted != Some(true));
    values.map(|content| &content.value[..])
}

fn not_found(key: &Bytes) -> PbAttemptError {
    PbAttemptError::Failed(Term::Tuple(vec![Term::atom("not_found"), Term::Binary(key.to_vec())]))
}

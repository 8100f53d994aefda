//! The driver of large data types, sets and maps that grow, over Protocol Buffers.

mod plan;

use std::time::Duration;

use bytes::Bytes;
use quoit_client::wire::messages::{DtFetchResp, FlagOp, MapFieldType, MapOp, MapUpdate, SetOp};

use self::plan::{DtPlan, FieldOperation};
use super::pb_data_type::{
    adds, change_map, change_set, elements_of_field, field, field_of_counter, field_of_set, removes,
};
use super::pb_link::{CallError, PbLink, Reconnects};
use super::pb_replicas::{PbLinks, Routing};
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, key_bytes};
use crate::config::{Config, ConfigError};
use crate::keygen::Exhausted;
use crate::term::Term;
use crate::valgen::Value;
use crate::worker_place::WorkerPlace;

/// Key of the set, if all operations use one set.
const ONE_SET: Bytes = Bytes::from_static(b"bench_set");

/// Key of the map, if all operations use one map.
const ONE_MAP: Bytes = Bytes::from_static(b"bench_map");

/// Name of the map's field that is a set.
const SET_FIELD: &str = "set";

/// One worker: a connection to one target.
#[derive(Debug)]
pub(super) struct RiakcDtPb {
    links: PbLinks,
    /// Number of the preloaded set that gets the next element.
    next_preloaded: u64,
    /// Key of all batch inserts of this worker, once one is drawn.
    batch_key: Option<Bytes>,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DtOperation {
    Set(SetOperation),
    /// Changes one field, or those of `riakc_dt_map_multi_ops` if `field` is `None`. With `reads`, reads
    /// the map first.
    MapChange {
        field: Option<FieldOperation>,
        reads: bool,
    },
    /// Removes an element of the map's set field.
    MapRemove,
    MapRead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetOperation {
    Insert,
    Modify,
    BatchInsert,
    Read,
    IsElement,
    Remove,
}

/// Reasons why an attempt at an operation did not succeed.
enum DtAttemptError {
    Failed(Term),
    /// The connection is lost, and the operation starts over.
    Disconnected,
    /// A finite generator has ended.
    Exhausted,
}

impl From<Exhausted> for DtAttemptError {
    fn from(_: Exhausted) -> Self {
        Self::Exhausted
    }
}

impl From<CallError> for DtAttemptError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed(reason) => Self::Failed(reason),
            CallError::Disconnected => Self::Disconnected,
        }
    }
}

impl Driver for RiakcDtPb {
    const NAME: &'static str = "riakc_dt_pb";
    const OPERATIONS: &'static str = "{set, insert}, {set, modify}, {set, batch_insert}, {set, read}, \
         {set, is_element}, {set, remove}, {map, F, insert} and {map, F, modify} with F one of set, \
         register, flag, counter, map, multi_ops, {map, set, remove}, {map, read}";

    type Operation = DtOperation;
    type Plan = DtPlan;

    fn plan(config: &Config) -> Result<DtPlan, ConfigError> {
        DtPlan::read(config)
    }

    fn system_requirements(plan: &DtPlan) -> SystemRequirements {
        let durability = "updates carry no quorums: the bucket decides".to_owned();
        SystemRequirements {
            targets: plan.targets.clone(),
            additional_lists: Vec::new(),
            durability,
        }
    }

    fn operation(plan: &DtPlan, term: &Term) -> Option<DtOperation> {
        let names: Vec<&str> =
            term.as_tuple()?.iter().map(Term::as_atom).collect::<Option<Vec<_>>>()?;
        let change = |name: &str, reads| match name {
            "multi_ops" if plan.multi.is_empty() => None,
            "multi_ops" => Some(DtOperation::MapChange { field: None, reads }),
            name => {
                let field = Some(FieldOperation::named(name)?);
                Some(DtOperation::MapChange { field, reads })
            }
        };
        Some(match names.as_slice() {
            ["set", "insert"] => DtOperation::Set(SetOperation::Insert),
            ["set", "modify"] => DtOperation::Set(SetOperation::Modify),
            ["set", "batch_insert"] => DtOperation::Set(SetOperation::BatchInsert),
            ["set", "read"] => DtOperation::Set(SetOperation::Read),
            ["set", "is_element"] => DtOperation::Set(SetOperation::IsElement),
            ["set", "remove"] => DtOperation::Set(SetOperation::Remove),
            ["map", "set", "remove"] => DtOperation::MapRemove,
            ["map", "read"] => DtOperation::MapRead,
            ["map", name, "insert"] => change(name, false)?,
            ["map", name, "modify"] => change(name, true)?,
            _ => return None,
        })
    }

    fn missing(term: &Term) -> Option<&'static str> {
        match term.as_tuple()? {
            [_, fields, _] if fields.as_atom() == Some("multi_ops") => {
                Some("name its fields first: {riakc_dt_map_multi_ops, [map_set, map_counter]}")
            }
            _ => None,
        }
    }

    fn draws_values(operation: DtOperation) -> bool {
        use SetOperation::{BatchInsert, Insert, IsElement, Modify};
        match operation {
            DtOperation::Set(operation) => {
                matches!(operation, Insert | Modify | BatchInsert | IsElement)
            }
            DtOperation::MapChange { .. } => true,
            DtOperation::MapRemove | DtOperation::MapRead => false,
        }
    }

    async fn prepare(plan: &DtPlan) -> Vec<String> {
        match create_named(plan).await {
            Ok(()) => Vec::new(),
            Err(reason) => vec![format!("the named sets and maps could not be made: {reason}")],
        }
    }

    async fn connect(plan: &DtPlan, place: WorkerPlace) -> Result<Self, StartError> {
        let routing = Routing::Target;
        let links = PbLinks::open(&plan.targets, place, plan.timeout_general, routing).await?;
        Ok(Self { links, next_preloaded: u64::from(place.number), batch_key: None })
    }

    async fn perform(
        &mut self,
        plan: &DtPlan,
        operation: DtOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        let mut reconnects = Reconnects::within(plan.timeout_general);
        loop {
            if self.links.is_down()
                && let Err(reason) = self.links.reconnect(&mut reconnects).await
            {
                return Outcome::Failure(reason);
            }
            let attempt = match operation {
                DtOperation::Set(operation) => self.on_set(plan, operation, inputs).await,
                _ => self.on_map(plan, operation, inputs).await,
            };
            match attempt {
                Ok(()) => return Outcome::Success,
                Err(DtAttemptError::Failed(reason)) => return Outcome::Failure(reason),
                Err(DtAttemptError::Exhausted) => return Outcome::Stop,
                Err(DtAttemptError::Disconnected) => {}
            }
        }
    }
}

/// Creates the sets and maps that operations use by name, unless they exist.
async fn create_named(plan: &DtPlan) -> Result<(), Term> {
    let preloaded = (1..=plan.preloaded_count.unwrap_or(0)).map(preloaded_key);
    let sets = preloaded.chain(plan.one_set.then_some(ONE_SET));
    let empty_sets = sets.map(|key| (key, change_set(SetOp::default())));
    let empty_map = plan.one_map.then(|| (ONE_MAP, change_map(Vec::new())));
    let Some(target) = plan.targets.first() else { return Ok(()) };
    let mut link = PbLink::unconnected(&target.to_string(), plan.timeout_general);
    link.reconnect(&mut Reconnects::within(Duration::ZERO)).await?;
    for (key, nothing) in empty_sets.chain(empty_map) {
        if plan.records.fetch(&mut link, &key).await?.value.is_none() {
            plan.records.update(&mut link, &key, None, nothing).await?;
        }
    }
    Ok(())
}

fn preloaded_key(number: u64) -> Bytes {
    format!("{number}set").into()
}

/// The next value; a number becomes decimal digits.
fn next_element(inputs: &mut Inputs) -> Result<Bytes, Exhausted> {
    Ok(match inputs.next_value()? {
        Value::Bytes(bytes) => Bytes::copy_from_slice(bytes),
        Value::Integer(number) => number.to_string().into(),
    })
}

fn generated_key(plan: &DtPlan, inputs: &mut Inputs) -> Result<Bytes, DtAttemptError> {
    let key = inputs.next_key()?;
    Ok(Bytes::copy_from_slice(&key_bytes(plan.key_kind, key)))
}

/// The elements of a set.
fn elements(set: &DtFetchResp) -> &[Bytes] {
    set.value.as_ref().map_or(&[], |value| &value.set_value)
}

impl RiakcDtPb {
    fn set_key(
        &mut self,
        plan: &DtPlan,
        operation: SetOperation,
        inputs: &mut Inputs,
    ) -> Result<Bytes, DtAttemptError> {
        if plan.one_set {
            return Ok(ONE_SET);
        }
        match plan.preloaded_count {
            Some(count) if operation == SetOperation::Insert => {
                self.next_preloaded = self.next_preloaded % count + 1;
                Ok(preloaded_key(self.next_preloaded))
            }
            Some(count) => Ok(preloaded_key(inputs.random().uniform(count))),
            None if operation == SetOperation::BatchInsert => {
                if self.batch_key.is_none() {
                    self.batch_key = Some(generated_key(plan, inputs)?);
                }
                Ok(self.batch_key.clone().unwrap_or_default())
            }
            None => generated_key(plan, inputs),
        }
    }

    async fn on_set(
        &mut self,
        plan: &DtPlan,
        operation: SetOperation,
        inputs: &mut Inputs,
    ) -> Result<(), DtAttemptError> {
        let key = self.set_key(plan, operation, inputs)?;
        let (link, records) = (self.links.link(), &plan.records);
        let is_named = plan.one_set || plan.preloaded_count.is_some();
        match operation {
            SetOperation::Insert if !is_named => {
                let addition = change_set(adds(vec![next_element(inputs)?]));
                records.update(link, &key, None, addition).await?;
            }
            SetOperation::Insert | SetOperation::Modify => {
                let addition = change_set(adds(vec![next_element(inputs)?]));
                let set = records.fetch(link, &key).await?;
                let is_full = elements(&set).len() as u64 >= plan.preloaded_size_max;
                let is_bounded = plan.preloaded_count.is_some() && !plan.one_set;
                if operation == SetOperation::Modify || !(is_bounded && is_full) {
                    records.update(link, &key, set.context, addition).await?;
                }
            }
            SetOperation::BatchInsert => {
                let batch: Result<Vec<Bytes>, Exhausted> =
                    (0..plan.batch_size).map(|_| next_element(inputs)).collect();
                records.update(link, &key, None, change_set(adds(batch?))).await?;
            }
            SetOperation::Read => {
                records.fetch(link, &key).await?;
            }
            SetOperation::IsElement => {
                let element = next_element(inputs)?;
                let set = records.fetch(link, &key).await?;
                std::hint::black_box(elements(&set).contains(&element));
            }
            SetOperation::Remove => {
                let set = records.fetch(link, &key).await?;
                if let Some(element) = elements(&set).first() {
                    let removal = change_set(removes(element.clone()));
                    records.update(link, &key, set.context.clone(), removal).await?;
                }
            }
        }
        Ok(())
    }

    async fn on_map(
        &mut self,
        plan: &DtPlan,
        operation: DtOperation,
        inputs: &mut Inputs,
    ) -> Result<(), DtAttemptError> {
        let key = if plan.one_map { ONE_MAP } else { generated_key(plan, inputs)? };
        let (link, records) = (self.links.link(), &plan.records);
        match operation {
            DtOperation::MapChange { field, reads } => {
                let fields = field.as_ref().map_or(&plan.multi[..], std::slice::from_ref);
                let changes: Result<Vec<MapUpdate>, Exhausted> =
                    fields.iter().map(|field| field_change(*field, inputs)).collect();
                let change = change_map(changes?);
                if reads || plan.one_map {
                    records.modify(link, &key, change).await?;
                } else {
                    records.update(link, &key, None, change).await?;
                }
            }
            DtOperation::MapRemove => {
                let map = records.fetch(link, &key).await?;
                if let Some(element) = elements_of_field(&map, SET_FIELD).into_iter().next() {
                    let removal = change_map(vec![field_of_set(SET_FIELD, removes(element))]);
                    records.update(link, &key, map.context, removal).await?;
                }
            }
            DtOperation::MapRead | DtOperation::Set(_) => {
                records.fetch(link, &key).await?;
            }
        }
        Ok(())
    }
}

/// A change of the field of this kind. The field's name is its kind.
fn field_change(kind: FieldOperation, inputs: &mut Inputs) -> Result<MapUpdate, Exhausted> {
    let value = next_element(inputs)?;
    let register =
        |value| MapUpdate { register_op: Some(value), ..field("register", MapFieldType::Register) };
    Ok(match kind {
        FieldOperation::Set => field_of_set(SET_FIELD, adds(vec![value])),
        FieldOperation::Register => register(value),
        FieldOperation::Flag => {
            let flag_op = Some(FlagOp::Enable as i32);
            MapUpdate { flag_op, ..field("flag", MapFieldType::Flag) }
        }
        FieldOperation::Counter => field_of_counter("counter", 1),
        FieldOperation::Map => {
            let map_op = Some(MapOp { updates: vec![register(value)], ..MapOp::default() });
            MapUpdate { map_op, ..field("map", MapFieldType::Map) }
        }
    })
}

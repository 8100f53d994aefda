//! Operations on counters of Riak 1.4, on counters as data types, and on maps that model teams and games.

use std::time::Duration;

use bytes::Bytes;
use quoit_client::wire::messages::{
    DtFetchResp, DtOp, MapFieldType, MapUpdate, RpbCounterGetReq, RpbCounterGetResp,
    RpbCounterUpdateReq, RpbCounterUpdateResp, SetOp,
};

use super::{PbAttemptError, PbPlan, RiakcPb};
use crate::driver::pb_data_type::{
    DataTypeBucket, adds, change_map, count, elements_of_field, field, field_of_counter,
    field_of_set, removes,
};
use crate::term::Term;

/// Time limit of a fetch whose answer is not used for an update.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of replicas that such a fetch waits for.
const FETCH_REPLIES: u32 = 2;

/// The register of a team that holds its name.
const NAME: &str = "name";

/// The set of a team that holds its players.
const MEMBERS: &str = "members";

/// The counter of a game.
const SCORE: &str = "score";

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum DataTypeOperation {
    LegacyIncrement,
    LegacyValue,
    CounterIncrement,
    CounterValue,
    TeamWrite,
    TeamRead,
    PlayerAddition,
    PlayerRemoval,
    GameCompletion,
}

impl DataTypeOperation {
    /// The operation that a term names; `None` for other terms.
    pub(super) fn of(term: &Term) -> Option<Self> {
        let names: Vec<&str> = match term {
            Term::Tuple(parts) => parts.iter().map(Term::as_atom).collect::<Option<_>>()?,
            atom => vec![atom.as_atom()?],
        };
        Some(match names.as_slice() {
            ["counter_incr"] => Self::LegacyIncrement,
            ["counter_val"] => Self::LegacyValue,
            ["counter", "increment"] => Self::CounterIncrement,
            ["counter", "value"] => Self::CounterValue,
            ["team", "write"] => Self::TeamWrite,
            ["team", "read"] => Self::TeamRead,
            ["team", "player", "addition"] => Self::PlayerAddition,
            ["team", "player", "removal"] => Self::PlayerRemoval,
            ["game", "completed"] => Self::GameCompletion,
            _ => return None,
        })
    }

    /// True if the operation's keys are numbers, written in decimal digits.
    pub(super) fn numbers_keys(self) -> bool {
        use DataTypeOperation::{
            GameCompletion, PlayerAddition, PlayerRemoval, TeamRead, TeamWrite,
        };
        matches!(self, TeamWrite | TeamRead | PlayerAddition | PlayerRemoval | GameCompletion)
    }

    /// True if the operation draws a value, which is a number.
    pub(super) fn draws_number(self) -> bool {
        use DataTypeOperation::{
            CounterIncrement, GameCompletion, LegacyIncrement, PlayerAddition,
        };
        matches!(self, LegacyIncrement | CounterIncrement | PlayerAddition | GameCompletion)
    }
}

impl RiakcPb {
    /// Performs an operation on the record of a key. `number` is the drawn value.
    pub(super) async fn attempt_data_type(
        &mut self,
        plan: &PbPlan,
        operation: DataTypeOperation,
        key: &Bytes,
        number: i64,
    ) -> Result<(), PbAttemptError> {
        let (link, records) = (self.links.link(), &plan.records);
        match operation {
            DataTypeOperation::LegacyIncrement => {
                let request = RpbCounterUpdateReq {
                    bucket: plan.bucket.clone(),
                    key: key.clone(),
                    amount: number,
                    w: plan.w,
                    dw: plan.dw,
                    pw: plan.pw,
                    ..RpbCounterUpdateReq::default()
                };
                let _: RpbCounterUpdateResp = link.call(&request, plan.timeout_write).await?;
            }
            DataTypeOperation::LegacyValue => {
                let request = RpbCounterGetReq {
                    bucket: plan.bucket.clone(),
                    key: key.clone(),
                    r: plan.r,
                    pr: plan.pr,
                    ..RpbCounterGetReq::default()
                };
                let _: RpbCounterGetResp = link.call(&request, plan.timeout_read).await?;
            }
            DataTypeOperation::CounterIncrement => {
                records.modify(link, key, count(number)).await?;
            }
            DataTypeOperation::CounterValue => {
                self.fetch_only(plan, key).await?;
            }
            DataTypeOperation::TeamWrite => self.write_team(plan, key).await?,
            DataTypeOperation::TeamRead => {
                let team = self.fetch_only(plan, key).await?;
                if team.value.is_none() {
                    self.write_team(plan, key).await?;
                }
            }
            DataTypeOperation::PlayerAddition => {
                let player = Bytes::from(format!("Team member {number}"));
                records.modify(link, key, members(adds(vec![player]))).await?;
            }
            DataTypeOperation::PlayerRemoval => {
                let team = records.fetch(link, key).await?;
                if team.value.is_none() {
                    return self.write_team(plan, key).await;
                }
                if let Some(player) = elements_of_field(&team, MEMBERS).into_iter().next() {
                    let removal = members(removes(player));
                    records.update(link, key, team.context, removal).await?;
                }
            }
            DataTypeOperation::GameCompletion => {
                let score = change_map(vec![field_of_counter(SCORE, number)]);
                records.modify(link, key, score).await?;
            }
        }
        Ok(())
    }

    /// Fetches a record, with the limits of a fetch that is not followed by an update.
    async fn fetch_only(
        &mut self,
        plan: &PbPlan,
        key: &Bytes,
    ) -> Result<DtFetchResp, PbAttemptError> {
        let records = DataTypeBucket { timeout_read: FETCH_TIMEOUT, ..plan.records.clone() };
        Ok(records.fetch_of(self.links.link(), key, Some(FETCH_REPLIES)).await?)
    }

    async fn write_team(&mut self, plan: &PbPlan, key: &Bytes) -> Result<(), PbAttemptError> {
        let name = Bytes::from([b"Team ", &key[..]].concat());
        let register = MapUpdate { register_op: Some(name), ..field(NAME, MapFieldType::Register) };
        let written = plan.records.update(self.links.link(), key, None, change_map(vec![register]));
        Ok(written.await?)
    }
}

fn members(change: SetOp) -> DtOp {
    change_map(vec![field_of_set(MEMBERS, change)])
}

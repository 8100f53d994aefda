//! The driver of Riak's Protocol Buffers API, with the requests that basho_bench makes.

use std::time::Duration;

use bytes::Bytes;
use quoit_client::Quorum;
use quoit_client::wire::MessageCode;
use quoit_client::wire::messages::{
    RpbContent, RpbDelReq, RpbDelResp, RpbGetReq, RpbGetResp, RpbListKeysReq, RpbPutReq, RpbPutResp,
};
use tokio::time::Instant;

use super::indexes::{self, DateForm};
use super::inputs::acknowledge;
use super::pb_get::write_get;
use super::pb_link::{CallError, kept_metadata};
use super::pb_replicas::PbLinks;
use super::{Asks, Driver, Inputs, Outcome, StartError, check_values_are_bytes};
use crate::config::{Config, ConfigError, Settings, Target, bytes_of};
use crate::keygen::Kind;
use crate::term::Term;
use crate::verify::Read;
use crate::worker_place::WorkerPlace;

/// How long `pause_minute` takes.
const PAUSE: Duration = Duration::from_secs(60);

/// Most postcodes of an object with indexes.
const POSTCODE_COUNT_MAX: u64 = 3;

/// How long requests may take unless the configuration says otherwise.
const TIMEOUT: Duration = Duration::from_secs(62);

/// One worker: a connection to one target, or to each node of its cluster.
#[derive(Debug)]
pub(super) struct RiakcPb {
    links: PbLinks,
    /// The frame of a get, used again.
    frame: Vec<u8>,
}

/// The settings that all workers share.
#[derive(Debug)]
pub(super) struct Plan {
    targets: Vec<Target>,
    bucket: Bytes,
    bucket_type: Option<Bytes>,
    content_type: Bytes,
    r: Option<u32>,
    w: Option<u32>,
    dw: Option<u32>,
    rw: Option<u32>,
    timeout_listkeys: Duration,
    /// Bounds connecting, and an operation whose server is gone.
    timeout_general: Duration,
    timeout_read: Duration,
    timeout_write: Duration,
    is_verified: bool,
    /// Whether requests go to a node that holds their key.
    replica_aware: bool,
}

impl Plan {
    /// Requests to an untyped bucket that wait for `replies` replicas to read and to write.
    pub(super) fn of_bucket(targets: Vec<Target>, bucket: Bytes, replies: Quorum) -> Self {
        Self {
            targets,
            bucket,
            bucket_type: None,
            content_type: Bytes::from_static(b"application/octet-stream"),
            r: replies.to_field(),
            w: replies.to_field(),
            dw: None,
            rw: None,
            timeout_listkeys: TIMEOUT,
            timeout_general: TIMEOUT,
            timeout_read: TIMEOUT,
            timeout_write: TIMEOUT,
            is_verified: false,
            replica_aware: false,
        }
    }
}

/// What to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Get,
    GetExisting,
    Put,
    Update,
    UpdateExisting,
    UpdateWithIndexes,
    Delete,
    ListKeys,
    PauseMinute,
}

/// Why an attempt at an operation did not succeed.
enum Obstacle {
    /// The operation failed, for good.
    Failed(Term),
    /// The connection is gone: the operation starts over.
    Disconnected,
    /// A finite generator has ended.
    Exhausted,
}

impl From<CallError> for Obstacle {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed(reason) => Self::Failed(reason),
            CallError::Disconnected => Self::Disconnected,
        }
    }
}

impl Driver for RiakcPb {
    const NAME: &'static str = "riakc_pb";
    const OPERATIONS: &'static str = "get, get_existing, put, update, update_existing, \
         update_with2i, delete, listkeys, pause_minute";

    type Operation = Operation;
    type Plan = Plan;

    fn plan(config: &Config) -> Result<Plan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        check_keys(config, Self::NAME)?;
        read_plan(config)
    }

    fn asks(plan: &Plan) -> Asks {
        let (w, dw, rw) = (quorum_text(plan.w), quorum_text(plan.dw), quorum_text(plan.rw));
        let durability = format!("puts ask for w {w}, dw {dw}; deletes for rw {rw}");
        Asks { targets: plan.targets.clone(), durability }
    }

    fn operation(_: &Plan, term: &Term) -> Option<Operation> {
        Some(match term.as_atom()? {
            "get" => Operation::Get,
            "get_existing" => Operation::GetExisting,
            "put" => Operation::Put,
            "update" => Operation::Update,
            "update_existing" => Operation::UpdateExisting,
            "update_with2i" => Operation::UpdateWithIndexes,
            "delete" => Operation::Delete,
            "listkeys" => Operation::ListKeys,
            "pause_minute" => Operation::PauseMinute,
            _ => return None,
        })
    }

    fn missing(term: &Term) -> Option<&'static str> {
        let name = term.as_tuple().and_then(|parts| parts.first()).unwrap_or(term).as_atom()?;
        Some(match name {
            "search" | "search_interval" => "Quoit has no search",
            "mr_bucket_erlang" | "mr_bucket_js" | "mr_keylist_erlang" | "mr_keylist_js" => {
                "Quoit has not the MapReduce functions that it needs"
            }
            "counter_incr" | "counter_val" => "Quoit has no counters yet",
            "counter" | "team" | "game" => "Quoit has no data types yet",
            "query_postcode" | "query_dob" => "Quoit has no index queries yet",
            _ => return None,
        })
    }

    fn draws_values(operation: Operation) -> bool {
        use Operation::{Put, Update, UpdateExisting, UpdateWithIndexes};
        matches!(operation, Put | Update | UpdateExisting | UpdateWithIndexes)
    }

    async fn connect(plan: &Plan, place: WorkerPlace) -> Result<Self, StartError> {
        let target = &plan.targets[place.number as usize % plan.targets.len()];
        let links = PbLinks::open(target, plan.timeout_general, plan.replica_aware).await?;
        Ok(Self { links, frame: Vec::new() })
    }

    async fn perform(&mut self, plan: &Plan, operation: Operation, inputs: &mut Inputs) -> Outcome {
        let mut give_up_at = None;
        loop {
            if self.links.is_down() {
                let until =
                    *give_up_at.get_or_insert_with(|| Instant::now() + plan.timeout_general);
                if let Err(reason) = self.links.reconnect(until).await {
                    return Outcome::Failure(reason);
                }
            }
            match self.attempt(plan, operation, inputs).await {
                Ok(()) => return Outcome::Success,
                Err(Obstacle::Failed(reason)) => return Outcome::Failure(reason),
                Err(Obstacle::Exhausted) => return Outcome::Stop,
                Err(Obstacle::Disconnected) => {}
            }
        }
    }

    const VERIFIES: bool = true;

    async fn read_back(&mut self, plan: &Plan, key: &[u8], read: Read) -> Result<(), Term> {
        if self.links.is_down() {
            self.links.reconnect(Instant::now() + plan.timeout_general).await?;
        }
        self.links.turn_to(plan.bucket_type.as_deref(), &plan.bucket, key).await;
        match self.get(plan, &Bytes::copy_from_slice(key)).await {
            Ok(answer) => {
                read.found(values_of(&answer));
                Ok(())
            }
            Err(Obstacle::Failed(reason)) => Err(reason),
            Err(_) => Err(Term::atom("disconnected")),
        }
    }
}

impl RiakcPb {
    /// The operation from its start, which is the draw of a key if it needs one.
    async fn attempt(
        &mut self,
        plan: &Plan,
        operation: Operation,
        inputs: &mut Inputs,
    ) -> Result<(), Obstacle> {
        let key = match operation {
            Operation::ListKeys => return self.list_keys(plan).await,
            Operation::PauseMinute => {
                tokio::time::sleep(PAUSE).await;
                return Ok(());
            }
            _ => inputs.next_key().map_err(|_| Obstacle::Exhausted)?,
        };
        self.links.turn_to(plan.bucket_type.as_deref(), &plan.bucket, key.bytes()).await;
        if operation == Operation::Get && !plan.is_verified {
            return self.get_unseen(plan, key.bytes()).await;
        }
        let key = Bytes::copy_from_slice(key.bytes());
        match operation {
            Operation::ListKeys | Operation::PauseMinute => {}
            Operation::Get | Operation::GetExisting => {
                let read = inputs.begin_read(&key);
                let answer = self.get(plan, &key).await?;
                read.map(|read| read.found(values_of(&answer)));
                if answer.content.is_empty() && operation == Operation::GetExisting {
                    return Err(not_found(&key));
                }
            }
            Operation::Put => {
                let (write, value) = inputs.begin_put(&key, None);
                let content = RpbContent { value, ..RpbContent::default() };
                self.put(plan, key, None, content).await?;
                acknowledge(write);
            }
            Operation::Update | Operation::UpdateExisting | Operation::UpdateWithIndexes => {
                let read = inputs.begin_read(&key);
                let answer = self.get(plan, &key).await?;
                let context = read.map(|read| read.found(values_of(&answer)));
                let vclock = answer.vclock;
                let content = match answer.content.into_iter().next() {
                    None if operation == Operation::UpdateExisting => return Err(not_found(&key)),
                    None => RpbContent::default(),
                    Some(first) => kept_metadata(first),
                };
                let (write, value) = inputs.begin_put(&key, context.as_ref());
                let mut content = RpbContent { value, ..content };
                if operation == Operation::UpdateWithIndexes {
                    let (random, form) = (inputs.random(), DateForm::Dashes);
                    content.indexes = indexes::all_entries(random, POSTCODE_COUNT_MAX, form);
                }
                self.put(plan, key, vclock, content).await?;
                acknowledge(write);
            }
            Operation::Delete => {
                let write = inputs.begin_delete(&key);
                let request = RpbDelReq {
                    bucket: plan.bucket.clone(),
                    bucket_type: plan.bucket_type.clone(),
                    key,
                    rw: plan.rw,
                    ..RpbDelReq::default()
                };
                let RpbDelResp {} = self.links.link().call(&request, plan.timeout_write).await?;
                acknowledge(write);
            }
        }
        Ok(())
    }

    /// A get of whose answer nothing is used.
    async fn get_unseen(&mut self, plan: &Plan, key: &[u8]) -> Result<(), Obstacle> {
        let bucket_type = plan.bucket_type.as_deref();
        write_get(&mut self.frame, bucket_type, &plan.bucket, key, plan.r);
        let answered =
            self.links.link().exchange(&self.frame, MessageCode::GetResp, plan.timeout_read);
        Ok(answered.await?)
    }

    async fn get(&mut self, plan: &Plan, key: &Bytes) -> Result<RpbGetResp, Obstacle> {
        let request = RpbGetReq {
            bucket: plan.bucket.clone(),
            bucket_type: plan.bucket_type.clone(),
            key: key.clone(),
            r: plan.r,
            ..RpbGetReq::default()
        };
        Ok(self.links.link().call(&request, plan.timeout_read).await?)
    }

    /// Lists all keys of the bucket and throws them away.
    async fn list_keys(&mut self, plan: &Plan) -> Result<(), Obstacle> {
        let request = RpbListKeysReq {
            bucket: plan.bucket.clone(),
            bucket_type: plan.bucket_type.clone(),
            timeout: u32::try_from(plan.timeout_listkeys.as_millis()).ok(),
        };
        Ok(self.links.link().list_keys(&request, plan.timeout_listkeys).await?)
    }

    async fn put(
        &mut self,
        plan: &Plan,
        key: Bytes,
        vclock: Option<Bytes>,
        content: RpbContent,
    ) -> Result<(), Obstacle> {
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
        let _: RpbPutResp = self.links.link().call(&request, plan.timeout_write).await?;
        Ok(())
    }
}

/// The values of an answer; a sibling that is a delete is none.
fn values_of(answer: &RpbGetResp) -> impl Iterator<Item = &[u8]> {
    let values = answer.content.iter().filter(|content| content.deleted != Some(true));
    values.map(|content| &content.value[..])
}

fn not_found(key: &Bytes) -> Obstacle {
    Obstacle::Failed(Term::Tuple(vec![Term::atom("not_found"), Term::Binary(key.to_vec())]))
}

/// A quorum as configurations spell it.
fn quorum_text(field: Option<u32>) -> String {
    match Quorum::from_field(field) {
        Quorum::One => "one".to_owned(),
        Quorum::Majority => "quorum".to_owned(),
        Quorum::All => "all".to_owned(),
        Quorum::Default => "default (the bucket decides)".to_owned(),
        Quorum::Count(count) => count.to_string(),
    }
}

/// Checks that keys are bytes.
pub(super) fn check_keys(config: &Config, driver: &str) -> Result<(), ConfigError> {
    if config.key_generator.kind() == Kind::Integer {
        let expected = format!(
            "the driver {driver} takes binaries or strings: wrap the generator, as in \
             {{int_to_bin_bigendian, {{uniform_int, 100000}}}}"
        );
        return Err(config.settings.value_error("key_generator", expected));
    }
    Ok(())
}

fn read_plan(config: &Config) -> Result<Plan, ConfigError> {
    let settings = &config.settings;
    let replies = read_quorum(settings, "riakc_pb_replies", Quorum::Majority)?;
    let quorum = |key| read_quorum(settings, key, replies).map(Quorum::to_field);
    let expected = "write <<\"bucket\">> or {<<\"type\">>, <<\"bucket\">>}";
    let default_bucket = (None, Bytes::from_static(b"test"));
    let (bucket_type, bucket) =
        settings.read("riakc_pb_bucket", default_bucket, expected, |term| match term {
            Term::Tuple(parts) => match parts.as_slice() {
                [of_type, bucket] => {
                    Some((Some(bytes_of(of_type)?.into()), bytes_of(bucket)?.into()))
                }
                _ => None,
            },
            name => Some((None, bytes_of(name)?.into())),
        })?;
    settings.read("pb_connect_options", (), "TLS and credentials are not offered", |term| {
        let is_plain = |option: &Term| {
            let name = option.as_tuple().and_then(|pair| pair.first()).unwrap_or(option);
            !matches!(name.as_atom(), Some("credentials" | "cacertfile" | "ssl_opts"))
        };
        term.as_list()?.iter().all(is_plain).then_some(())
    })?;
    let timeout = |key: &str, default: Duration| {
        let range = 1..=86_400_000;
        settings.integer(key, default.as_millis() as u64, range).map(Duration::from_millis)
    };
    let timeout_general = timeout("pb_timeout_general", TIMEOUT)?;
    Ok(Plan {
        targets: config.targets("riakc_pb_ips", "riakc_pb_port", 8087)?,
        bucket,
        bucket_type,
        content_type: settings.bytes("riakc_pb_content_type", b"application/octet-stream")?.into(),
        r: quorum("riakc_pb_r")?,
        w: quorum("riakc_pb_w")?,
        dw: quorum("riakc_pb_dw")?,
        rw: quorum("riakc_pb_rw")?,
        timeout_general,
        timeout_listkeys: timeout("pb_timeout_listkeys", timeout_general)?,
        timeout_read: timeout("pb_timeout_read", timeout_general)?,
        timeout_write: timeout("pb_timeout_write", timeout_general)?,
        is_verified: config.verify.is_some(),
        replica_aware: settings.boolean("riakc_pb_replica_aware", false)?,
    })
}

pub(super) fn read_quorum(
    settings: &Settings,
    key: &str,
    default: Quorum,
) -> Result<Quorum, ConfigError> {
    let expected = "write a number of replicas, or one, quorum, all or default";
    settings.read(key, default, expected, |term| match term {
        Term::Integer(count) => {
            let count = u32::try_from(*count).ok().filter(|count| *count <= 1024)?;
            Some(Quorum::Count(count))
        }
        Term::Atom(name) => match name.as_str() {
            "one" => Some(Quorum::One),
            "quorum" => Some(Quorum::Majority),
            "all" => Some(Quorum::All),
            "default" => Some(Quorum::Default),
            _ => None,
        },
        _ => None,
    })
}

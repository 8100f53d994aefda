//! The driver of index queries, over both interfaces. It writes objects whose integer index entries equal
//! their keys, queries ranges, and checks the number of results.

mod range;

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use quoit_client::wire::messages::{
    IndexQueryType, RpbContent, RpbGetReq, RpbGetResp, RpbIndexReq, RpbIndexResp, RpbPair,
    RpbPutReq, RpbPutResp,
};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;

use self::range::{QueriedRange, WrongCount};
use super::both_targets::BothTargets;
use super::http_link::{HttpLink, Method, SEGMENT, append_to_path, check_status};
use super::pb_link::Reconnects;
use super::pb_replicas::{PbLinks, Routing};
use super::riakc_pb::read_bucket;
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, check_values_are_bytes};
use crate::config::{Config, ConfigError, Target};
use crate::http::HttpRequest;
use crate::keygen::KeyKind;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// The index that is queried.
const QUERIED: &str = "field1_int";

/// Maximum number of indexes of an object.
const INDEX_COUNT_MAX: u64 = 1000;

/// Maximum size of a range.
const RANGE_MAX: u64 = 10_000_000;

/// Maximum number of wrong counts that a worker prints. More would add no information.
const PRINTED_MAX: u32 = 10;

/// One worker: a connection for each interface.
#[derive(Debug)]
pub(super) struct IndexQueries {
    pb: PbLinks,
    http: HttpLink,
    http_target: Target,
    printed_count: u32,
}

/// The settings that all workers share.
#[derive(Debug)]
pub(super) struct IndexQueryPlan {
    targets: BothTargets,
    bucket_type: Option<Bytes>,
    bucket: Bytes,
    pb_timeout: Duration,
    http_timeout: Duration,
    /// The greatest stored key. Numbers above it in a range are not expected in the result.
    key_max: Option<i128>,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexQueryOperation {
    Get,
    Put { index_count: u64 },
    QueryByPb { range: u64 },
    QueryByHttp { range: u64 },
    QueryByJob { range: u64, reduces: bool },
}

impl Driver for IndexQueries {
    const NAME: &'static str = "2i";
    const OPERATIONS: &'static str = "get_pb, {put_pb, N}, {query_pb, N}, {query_http, N}, \
                                      {query_mr, N}, {query_mr2, N}";

    const TARGET_LISTS: &'static [&'static str] = &["pb", "http"];

    type Operation = IndexQueryOperation;
    type Plan = IndexQueryPlan;

    fn plan(config: &Config) -> Result<IndexQueryPlan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        let settings = &config.settings;
        if config.key_generator.kind() != KeyKind::Integer {
            let expected = "the driver 2i takes integers, which indexes hold: write for instance \
                            {uniform_int, 100000}";
            return Err(settings.value_error("key_generator", expected));
        }
        let (bucket_type, bucket) = read_bucket(settings, "mybucket")?;
        let timeout = |key| settings.time_limit(key, Duration::from_secs(30));
        let key_max = match settings.get("enforce_keyrange") {
            None => None,
            Some(_) => Some(settings.integer("enforce_keyrange", 0, 0..=u64::MAX)?.into()),
        };
        Ok(IndexQueryPlan {
            targets: BothTargets::read(config)?,
            bucket_type,
            bucket,
            pb_timeout: timeout("pb_timeout_general")?,
            http_timeout: timeout("http_timeout_general")?,
            key_max,
        })
    }

    fn system_requirements(plan: &IndexQueryPlan) -> SystemRequirements {
        let durability = "requests carry no quorums, the bucket decides".to_owned();
        let additional_lists = vec![("http", plan.targets.http.clone())];
        SystemRequirements { targets: plan.targets.pb.clone(), additional_lists, durability }
    }

    fn operation(_: &IndexQueryPlan, term: &Term) -> Option<IndexQueryOperation> {
        if let Some("get_pb") = term.as_atom() {
            return Some(IndexQueryOperation::Get);
        }
        let [name, count] = term.as_tuple()? else { return None };
        let count = u64::try_from(count.as_integer()?).ok()?;
        let is_range = (1..=RANGE_MAX).contains(&count);
        match name.as_atom()? {
            "put_pb" if count <= INDEX_COUNT_MAX => {
                Some(IndexQueryOperation::Put { index_count: count })
            }
            "query_pb" if is_range => Some(IndexQueryOperation::QueryByPb { range: count }),
            "query_http" if is_range => Some(IndexQueryOperation::QueryByHttp { range: count }),
            "query_mr" if is_range => {
                Some(IndexQueryOperation::QueryByJob { range: count, reduces: true })
            }
            "query_mr2" if is_range => {
                Some(IndexQueryOperation::QueryByJob { range: count, reduces: false })
            }
            _ => None,
        }
    }

    fn missing(term: &Term) -> Option<&'static str> {
        match term.as_tuple()?.first()?.as_atom()? {
            "put_pb" => Some("write {put_pb, N} with N from 0 to 1000 indexes"),
            "query_pb" | "query_http" | "query_mr" | "query_mr2" => {
                Some("write N from 1 to 10000000 as the size of the range")
            }
            _ => None,
        }
    }

    fn draws_values(operation: IndexQueryOperation) -> bool {
        matches!(operation, IndexQueryOperation::Put { .. })
    }

    async fn connect(plan: &IndexQueryPlan, place: WorkerPlace) -> Result<Self, StartError> {
        let mut http = HttpLink::new(plan.targets.security.clone());
        http.keep_bodies();
        Ok(Self {
            pb: PbLinks::open(&plan.targets.pb, place, plan.pb_timeout, Routing::Target).await?,
            http,
            http_target: place.choose(&plan.targets.http).clone(),
            printed_count: 0,
        })
    }

    async fn perform(
        &mut self,
        plan: &IndexQueryPlan,
        operation: IndexQueryOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        let Ok(key) = inputs.next_key() else { return Outcome::Stop };
        let key = key.integer();
        let value = match operation {
            IndexQueryOperation::Put { .. } => inputs.next_shared_bytes(),
            _ => Ok(Bytes::new()),
        };
        let Ok(value) = value else { return Outcome::Stop };
        match self.attempt(plan, operation, key, value).await {
            Ok(()) => Outcome::Success,
            Err(reason) => Outcome::Failure(reason),
        }
    }
}

impl IndexQueries {
    async fn attempt(
        &mut self,
        plan: &IndexQueryPlan,
        operation: IndexQueryOperation,
        key: i64,
        value: Bytes,
    ) -> Result<(), Term> {
        match operation {
            IndexQueryOperation::Get => self.get(plan, key).await,
            IndexQueryOperation::Put { index_count } => {
                self.put(plan, key, index_count, value).await
            }
            IndexQueryOperation::QueryByPb { range: count } => {
                let range = QueriedRange { first: key, count };
                let found = self.query_by_pb(plan, range).await?;
                if let Err(wrong) = range.check(found, plan.key_max) {
                    // As in basho_bench, a wrong count is printed here and not counted as an error.
                    self.print(range, &wrong);
                }
                Ok(())
            }
            IndexQueryOperation::QueryByHttp { range: count } => {
                let range = QueriedRange { first: key, count };
                let found = self.query_by_http(plan, range).await?;
                self.judge(plan, range, found)
            }
            IndexQueryOperation::QueryByJob { range: count, reduces } => {
                let range = QueriedRange { first: key, count };
                let found = self.query_by_job(plan, range, reduces).await?;
                self.judge(plan, range, found)
            }
        }
    }

    /// Prints a wrong count. It is an error only if the greatest key is known.
    fn judge(
        &mut self,
        plan: &IndexQueryPlan,
        range: QueriedRange,
        found: u64,
    ) -> Result<(), Term> {
        let Err(wrong) = range.check(found, plan.key_max) else { return Ok(()) };
        self.print(range, &wrong);
        if plan.key_max.is_some() { Err(wrong.reason()) } else { Ok(()) }
    }

    /// Reconnects if an earlier operation lost the connection.
    async fn ready(&mut self, plan: &IndexQueryPlan) -> Result<(), Term> {
        if self.pb.is_down() {
            self.pb.reconnect(&mut Reconnects::within(plan.pb_timeout)).await?;
        }
        Ok(())
    }

    async fn get(&mut self, plan: &IndexQueryPlan, key: i64) -> Result<(), Term> {
        self.ready(plan).await?;
        let request = RpbGetReq {
            bucket: plan.bucket.clone(),
            bucket_type: plan.bucket_type.clone(),
            key: key.to_string().into(),
            ..RpbGetReq::default()
        };
        let _: RpbGetResp = self.pb.link().call(&request, plan.pb_timeout).await?;
        Ok(())
    }

    async fn put(
        &mut self,
        plan: &IndexQueryPlan,
        key: i64,
        index_count: u64,
        value: Bytes,
    ) -> Result<(), Term> {
        self.ready(plan).await?;
        let key = Bytes::from(key.to_string());
        let entry = |number: u64| RpbPair {
            key: format!("field{number}_int").into(),
            value: Some(key.clone()),
        };
        let content = RpbContent {
            value,
            content_type: Some(Bytes::from_static(b"application/octet-stream")),
            indexes: (1..=index_count).map(entry).collect(),
            ..RpbContent::default()
        };
        let request = RpbPutReq {
            bucket: plan.bucket.clone(),
            bucket_type: plan.bucket_type.clone(),
            key: Some(key.clone()),
            content,
            ..RpbPutReq::default()
        };
        let _: RpbPutResp = self.pb.link().call(&request, plan.pb_timeout).await?;
        Ok(())
    }

    /// Queries one number or a range, and returns the number of keys found.
    async fn query_by_pb(
        &mut self,
        plan: &IndexQueryPlan,
        range: QueriedRange,
    ) -> Result<u64, Term> {
        self.ready(plan).await?;
        let first_text = Some(Bytes::from(range.first.to_string()));
        let mut request = RpbIndexReq {
            bucket: plan.bucket.clone(),
            bucket_type: plan.bucket_type.clone(),
            index: Bytes::from_static(QUERIED.as_bytes()),
            ..RpbIndexReq::default()
        };
        if range.count == 1 {
            (request.qtype, request.key) = (IndexQueryType::Eq as i32, first_text);
        } else {
            request.qtype = IndexQueryType::Range as i32;
            request.range_min = first_text;
            request.range_max = Some(range.last().to_string().into());
        }
        let answer: RpbIndexResp = self.pb.link().call(&request, plan.pb_timeout).await?;
        Ok(answer.keys.len() as u64)
    }

    /// The same query over HTTP; a single number is queried as a range.
    async fn query_by_http(
        &mut self,
        plan: &IndexQueryPlan,
        range: QueriedRange,
    ) -> Result<u64, Term> {
        let mut head = b"GET ".to_vec();
        if let Some(bucket_type) = &plan.bucket_type {
            head.extend_from_slice(b"/types/");
            append_to_path(&mut head, bucket_type, SEGMENT);
        }
        head.extend_from_slice(b"/buckets/");
        append_to_path(&mut head, &plan.bucket, SEGMENT);
        let (first, last, host) = (range.first, range.last(), &self.http_target);
        let rest = format!("/index/{QUERIED}/{first}/{last} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        head.extend_from_slice(rest.as_bytes());
        let (target, timeout) = (&self.http_target, plan.http_timeout);
        let request = HttpRequest { head: &head, body: &[] };
        let response = self.http.request(target, timeout, Method::Get, request).await?;
        check_status(response.status, &[200])?;
        key_count(self.http.content().body)
    }

    /// The same query as a MapReduce job, with an identity reduce phase or without phases.
    async fn query_by_job(
        &mut self,
        plan: &IndexQueryPlan,
        range: QueriedRange,
        reduces: bool,
    ) -> Result<u64, Term> {
        let name = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let bucket = match &plan.bucket_type {
            Some(bucket_type) => json!([name(bucket_type), name(&plan.bucket)]),
            None => json!(name(&plan.bucket)),
        };
        let (start, end) = (range.first.to_string(), range.last().to_string());
        let phase = json!({"reduce": {
            "language": "erlang", "module": "riak_kv_mapreduce", "function": "reduce_identity",
        }});
        let query = if reduces { vec![phase] } else { Vec::new() };
        let inputs = json!({"bucket": bucket, "index": QUERIED, "start": start, "end": end});
        let body = json!({"inputs": inputs, "query": query}).to_string();
        let (host, length) = (&self.http_target, body.len());
        let head = format!(
            "POST /mapred HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        let (target, timeout) = (&self.http_target, plan.http_timeout);
        let request = HttpRequest { head: head.as_bytes(), body: body.as_bytes() };
        let response = self.http.request(target, timeout, Method::Post, request).await?;
        check_status(response.status, &[200])?;
        let outputs: Vec<IgnoredAny> = read_answer(Method::Post, self.http.content().body)?;
        Ok(outputs.len() as u64)
    }

    fn print(&mut self, range: QueriedRange, wrong: &WrongCount) {
        if self.printed_count == PRINTED_MAX {
            return;
        }
        self.printed_count += 1;
        let (first, last) = (range.first, range.last());
        let WrongCount { found, expected } = wrong;
        // A closed standard output does not stop the run.
        let _ = writeln!(
            std::io::stdout(),
            "{QUERIED} from {first} to {last}: {found} keys, {expected} were expected"
        );
    }
}

/// Number of keys in the document of an answer.
fn key_count(body: &[u8]) -> Result<u64, Term> {
    #[derive(Deserialize)]
    struct IndexQueryAnswer {
        keys: Vec<IgnoredAny>,
    }
    let answer: IndexQueryAnswer = read_answer(Method::Get, body)?;
    Ok(answer.keys.len() as u64)
}

fn read_answer<T: DeserializeOwned>(method: Method, body: &[u8]) -> Result<T, Term> {
    serde_json::from_slice(body).map_err(|error| {
        let reason = [Term::atom("bad_response"), Term::String(error.to_string())];
        let method = if method == Method::Get { "get" } else { "post" };
        Term::Tuple(vec![Term::atom(method), Term::Tuple(reason.into())])
    })
}

//! Riak's replication over HTTP.
//!
//! Names have to be UTF-8 here. Records with other names can be compared and fetched only over Protocol
//! Buffers.

use crate::error::PeerError;
use crate::queue_lengths::QueueLengths;
use crate::side::{BucketName, RecordClock};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use quoit_client::Login;
use quoit_model::context::{decode_context, encode_riak_context};
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_model::segments::TreeSize;
use quoit_riak::{CachedFilter, FetchAnswer, Fetched, RangeFilter, SegmentFilter, Tree};
use quoit_tls::https::SecureConnector;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, RequestBuilder};

/// Maximum bytes of a body that a peer may send.
const BODY_BYTES_MAX: u64 = 256 << 20;
/// Characters that are not escaped in names.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, Debug)]
pub(crate) struct HttpPeer {
    /// Scheme, host and port.
    origin: String,
    agent: Agent,
    /// Value of the header `Authorization`.
    authorization: Option<Authorization>,
    /// Time limit for a request.
    limit: Duration,
}

/// Value of the header `Authorization`. Debug output hides it.
#[derive(Clone)]
struct Authorization(String);

impl fmt::Debug for Authorization {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Authorization")
    }
}

fn encoded(name: &[u8]) -> String {
    percent_encode(name, NAME).to_string()
}

/// Time limits of requests.
#[derive(Clone, Copy)]
pub(crate) struct HttpTimeouts {
    /// Limit of opening a connection.
    pub(crate) connect: Duration,
    /// Limit of a whole request.
    pub(crate) request: Duration,
}

impl HttpPeer {
    pub(crate) fn new(address: &str, login: Option<&Login>, limits: HttpTimeouts) -> Self {
        let HttpTimeouts { connect, request: limit } = limits;
        let config = Agent::config_builder()
            .timeout_connect(Some(connect))
            .http_status_as_error(false)
            .build();
        let Some(login) = login else {
            let origin = format!("http://{address}");
            return Self { origin, agent: config.into(), authorization: None, limit };
        };
        let connector = SecureConnector::new(Arc::clone(login.tls_config()));
        let agent = Agent::with_parts(config, connector, DefaultResolver::default());
        let pair = STANDARD.encode(format!("{}:{}", login.user(), login.password()));
        let authorization = Some(Authorization(format!("Basic {pair}")));
        Self { origin: format!("https://{address}"), agent, authorization, limit }
    }

    /// The peer with a time limit for further requests. It ends them on their threads: a caller that
    /// only gave up waiting would leave a thread of the runtime to each.
    pub(crate) const fn within(&mut self, limit: Duration) -> &mut Self {
        self.limit = limit;
        self
    }

    /// Sends a request, with a JSON body if there is one.
    async fn ask(&self, path: String, body: Option<Value>) -> Result<Bytes, PeerError> {
        let peer = self.clone();
        let asked = tokio::task::spawn_blocking(move || peer.ask_blocking(path, body)).await;
        asked.unwrap_or_else(|fault| Err(PeerError::Own(fault.to_string())))
    }

    fn ask_blocking(&self, path: String, body: Option<Value>) -> Result<Bytes, PeerError> {
        let url = format!("{}{path}", self.origin);
        let failed = |reason: String| PeerError::Http { path: path.clone(), reason };
        let answered = match body {
            None => self.prepared(self.agent.get(&url)).call(),
            Some(body) => self.prepared(self.agent.post(&url)).send_json(&body),
        };
        let mut answered = answered.map_err(|fault| failed(fault.to_string()))?;
        let status = answered.status();
        let body = answered.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_vec();
        let body = body.map_err(|fault| failed(fault.to_string()))?;
        if status.as_u16() != 200 {
            return Err(failed(format!("{status}: {}", String::from_utf8_lossy(&body).trim())));
        }
        Ok(body.into())
    }

    /// A request with the time limit and the login.
    fn prepared<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        let request = request.config().timeout_global(Some(self.limit)).build();
        match &self.authorization {
            Some(value) => request.header("Authorization", &*value.0),
            None => request,
        }
    }

    async fn ask_json(&self, path: String) -> Result<Value, PeerError> {
        serde_json::from_slice(&self.ask(path, None).await?).map_err(PeerError::malformed)
    }

    pub(crate) async fn fetch(&mut self, queue: &str) -> Result<Option<Fetched>, PeerError> {
        let body = self.ask(format!("/queuename/{}", encoded(queue.as_bytes())), None).await?;
        let Some(answer) = FetchAnswer::of_body(&body)? else { return Ok(None) };
        Ok(Some(Fetched::decode(&answer.replicated)?))
    }

    pub(crate) async fn push(
        &mut self,
        queue: &str,
        records: &[RecordClock],
    ) -> Result<Option<QueueLengths>, PeerError> {
        let elements: Vec<Value> = records.iter().map(element).collect::<Result<_, _>>()?;
        let path = format!("/queuename/{}", encoded(queue.as_bytes()));
        let answer = self.ask(path, Some(json!({ "keys-clocks": elements }))).await?;
        let text = String::from_utf8_lossy(&answer);
        let Some((_, lengths)) = text.rsplit_once(": ") else { return Ok(None) };
        let lengths: Vec<u64> =
            lengths.split_whitespace().filter_map(|length| length.parse().ok()).collect();
        match lengths[..] {
            [fold, full_sync, real_time] => Ok(Some(QueueLengths { fold, full_sync, real_time })),
            _ => Err(PeerError::malformed(format!("{text:?} as lengths of a queue"))),
        }
    }

    pub(crate) async fn members(&mut self) -> Result<Vec<(String, u16)>, PeerError> {
        let answer = self.ask_json("/membership_request".to_owned()).await?;
        let node = |node: &Value| {
            let port = match &node["port"] {
                Value::String(port) => port.parse().ok()?,
                port => port.as_u64()?.try_into().ok()?,
            };
            Some((node["ip"].as_str()?.to_owned(), port))
        };
        let nodes = answer.get("up_nodes").and_then(Value::as_array);
        let nodes = nodes.and_then(|nodes| nodes.iter().map(node).collect());
        nodes.ok_or_else(|| PeerError::malformed(format!("{answer} as members")))
    }

    pub(crate) async fn tree_root(&mut self, n_val: u32) -> Result<Bytes, PeerError> {
        let answer = &self.ask_json(format!("/cachedtrees/nvals/{n_val}/root")).await?;
        bytes_of(&answer["root"])
    }

    pub(crate) async fn tree_branches(
        &mut self,
        n_val: u32,
        numbers: &[u32],
    ) -> Result<Vec<(u32, Bytes)>, PeerError> {
        let filter = encoded(CachedFilter::Numbers(numbers.to_vec()).encode().as_bytes());
        let path = format!("/cachedtrees/nvals/{n_val}/branch?filter={filter}");
        let answer = self.ask_json(path).await?;
        let branch = |branch: &Value| {
            let number = branch["branch-id"].as_u64().and_then(|number| number.try_into().ok());
            let number = number.ok_or_else(|| PeerError::malformed("a branch without number"))?;
            Ok((number, bytes_of(&branch["branch"])?))
        };
        list(&answer, "branches")?.iter().map(branch).collect()
    }

    pub(crate) async fn tree_clocks(
        &mut self,
        n_val: u32,
        segments: &[u32],
        modified_secs: Option<(u64, u64)>,
    ) -> Result<Vec<RecordClock>, PeerError> {
        // Some releases of Riak support the form with dates only in part.
        let filter = match modified_secs {
            None => CachedFilter::Numbers(segments.to_vec()),
            Some(_) => {
                let segments = segments.to_vec();
                let filter = SegmentFilter { segments, tree_size: TreeSize::Large };
                CachedFilter::Segments(filter, modified_secs)
            }
        };
        let filter = encoded(filter.encode().as_bytes());
        let path = format!("/cachedtrees/nvals/{n_val}/keysclocks?filter={filter}");
        clocks(&self.ask_json(path).await?)
    }

    pub(crate) async fn range_tree(
        &mut self,
        bucket: &BucketName,
        size: TreeSize,
        filter: &RangeFilter,
    ) -> Result<Tree, PeerError> {
        let what = format!("trees/{}", size.name());
        let answer = self.ask_json(range_path(bucket, &what, filter)).await?;
        let branches = answer.pointer("/tree/level2").and_then(Value::as_object);
        let branches = branches.ok_or_else(|| PeerError::malformed("a tree without branches"))?;
        let mut tree = Tree::empty(size);
        for (number, branch) in branches {
            let number = number.parse().map_err(PeerError::malformed)?;
            tree.set_compressed_branch(number, &bytes_of(branch)?)?;
        }
        Ok(tree)
    }

    pub(crate) async fn range_clocks(
        &mut self,
        bucket: &BucketName,
        filter: &RangeFilter,
    ) -> Result<Vec<RecordClock>, PeerError> {
        clocks(&self.ask_json(range_path(bucket, "keysclocks", filter)).await?)
    }
}

fn range_path(bucket: &BucketName, what: &str, filter: &RangeFilter) -> String {
    let typed = bucket.typed().map(|name| format!("types/{}/", encoded(&name)));
    let typed = typed.unwrap_or_default();
    let filter = filter.encode().map(|filter| format!("?filter={}", encoded(filter.as_bytes())));
    let filter = filter.unwrap_or_default();
    format!("/rangetrees/{typed}buckets/{}/{what}{filter}", encoded(&bucket.bucket))
}

#[expect(clippy::indexing_slicing, reason = "the element is an object")]
fn element(record: &RecordClock) -> Result<Value, PeerError> {
    let text = |name: &Bytes| {
        let text = std::str::from_utf8(name);
        text.map(str::to_owned).map_err(|_| PeerError::Own(format!("{name:?} is no UTF-8")))
    };
    let mut element = json!({
        "bucket": text(&record.bucket.bucket)?,
        "key": text(&record.key)?,
        "clock": STANDARD.encode(encode_riak_context(&record.clock)),
    });
    if let Some(name) = record.bucket.typed() {
        element["bucket-type"] = text(&name)?.into();
    }
    Ok(element)
}

/// Decodes Base64, given as text or as a list of character codes.
fn bytes_of(value: &Value) -> Result<Bytes, PeerError> {
    let text: Option<Vec<u8>> = match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Array(codes) => codes.iter().map(|code| code.as_u64()?.try_into().ok()).collect(),
        _ => None,
    };
    let bytes = text.and_then(|text| STANDARD.decode(text).ok());
    bytes.map(Bytes::from).ok_or_else(|| PeerError::malformed("a text that is not Base64"))
}

fn list<'v>(answer: &'v Value, member: &str) -> Result<&'v [Value], PeerError> {
    let list = answer[member].as_array();
    list.map(Vec::as_slice).ok_or_else(|| PeerError::malformed(format!("no list {member}")))
}

fn clocks(answer: &Value) -> Result<Vec<RecordClock>, PeerError> {
    let record = |record: &Value| {
        let text = |member: &str| record[member].as_str().map(|text| Bytes::from(text.to_owned()));
        let needed =
            |member: &str| text(member).ok_or_else(|| PeerError::malformed(format!("no {member}")));
        let default = Bytes::from_static(DEFAULT_BUCKET_TYPE);
        let bucket_type = text("bucket-type").unwrap_or(default);
        Ok(RecordClock {
            bucket: BucketName { bucket_type, bucket: needed("bucket")? },
            key: needed("key")?,
            clock: decode_context(&bytes_of(&record["clock"])?).map_err(PeerError::malformed)?,
        })
    };
    list(answer, "keys-clocks")?.iter().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_request_to_a_peer_that_hangs_leaves_no_thread_behind_when_its_time_is_up() {
        // The system accepts the connection, and nothing answers.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let hour = Duration::from_secs(3_600);
        let limits = HttpTimeouts { connect: hour, request: hour };
        let mut peer = HttpPeer::new(&address, None, limits);
        let (told, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let peer = peer.within(Duration::from_millis(50));
            told.send(peer.ask_blocking("/ping".to_owned(), None))
        });
        let ended = ended.recv_timeout(Duration::from_secs(30)).expect("the request ends");
        assert!(matches!(ended, Err(PeerError::Http { .. })), "{ended:?}");
    }
}

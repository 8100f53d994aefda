//! A client of a running Riak over Protocol Buffers.

use crate::output::shown;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use quoit_client::wire::Body;
use quoit_client::wire::messages::{
    RpbAaeFoldKeyCountResp, RpbAaeFoldListBucketsReq, RpbAaeFoldListBucketsResp,
    RpbAaeFoldReplKeysReq, RpbBucketProps, RpbCommitHook, RpbGetBucketReq, RpbGetBucketResp,
    RpbGetBucketTypeReq, RpbGetServerInfoReq, RpbGetServerInfoResp, RpbKeysValue, RpbMembershipReq,
    RpbMembershipResp, RpbPushReq, RpbPushResp,
};
use quoit_client::{Bucket, Connection};
use serde_json::{Map, Value, json};
use std::fmt::Display;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Time limit of a request that Riak answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a fold, which reads all records of a bucket. Riak gives up earlier.
const FOLD_TIMEOUT: Duration = Duration::from_secs(2 * 3600);
/// Longest answer in bytes: the names of all buckets.
const FRAME_BYTES_MAX: u32 = 256 << 20;

/// Words for quorums, which the protocol encodes as the highest numbers.
const QUORUM_WORDS: [(u32, &str); 4] = [
    (u32::MAX - 1, "one"),
    (u32::MAX - 2, "quorum"),
    (u32::MAX - 3, "all"),
    (u32::MAX - 4, "default"),
];

/// Numbers of references that wait in a queue of Riak, by priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QueueLengths {
    pub(crate) fold: u64,
    pub(crate) full_sync: u64,
    pub(crate) real_time: u64,
}

/// The host by which this command reached a node.
pub(crate) struct ReachedHost<'a>(pub(crate) &'a str);

/// The address at which a member of a cluster is reached. A listener on all interfaces is reached at the
/// host by which this command reached a node.
pub(crate) fn reachable(address: &str, host: ReachedHost<'_>) -> String {
    match address.rsplit_once(':') {
        Some(("0.0.0.0" | "[::]", port)) => format!("{}:{port}", host.0),
        _ => address.to_owned(),
    }
}

/// Host and port as an address: an IPv6 address gets its brackets.
pub(crate) fn address(host: &str, port: impl Display) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A connection to a node of Riak.
pub(crate) struct RiakNode {
    runtime: Runtime,
    connection: Connection,
    address: String,
}

impl RiakNode {
    /// Connects to `host:port`.
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connected =
            async { tokio::time::timeout(ANSWER_TIMEOUT, Connection::connect(address)).await };
        let connection = runtime
            .block_on(connected)
            .with_context(|| format!("{address} does not answer"))?
            .with_context(|| {
                format!(
                    "{address} is not an address of Riak's Protocol Buffers (listener.protobuf)"
                )
            })?
            .with_frame_length_max(FRAME_BYTES_MAX);
        Ok(Self { runtime, connection, address: address.to_owned() })
    }

    /// The host of the address that was connected to.
    pub(crate) fn host(&self) -> &str {
        self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host)
    }

    fn call<Q: Body, A: Body>(&mut self, request: &Q, limit: Duration) -> Result<A> {
        let answer = async { tokio::time::timeout(limit, self.connection.call(request)).await };
        let answer = self.runtime.block_on(answer);
        Ok(answer.with_context(|| format!("{} does not answer", self.address))??)
    }

    /// The node's name and the version of its server.
    pub(crate) fn info(&mut self) -> Result<(String, String)> {
        let info: RpbGetServerInfoResp = self.call(&RpbGetServerInfoReq {}, ANSWER_TIMEOUT)?;
        let text = |bytes: Option<Bytes>| shown(&bytes.unwrap_or_default());
        Ok((text(info.node), text(info.server_version)))
    }

    /// Asks for all buckets that have keys, of all bucket types. Only a node with TicTac anti-entropy
    /// answers this.
    pub(crate) fn buckets(&mut self) -> Result<Vec<Bucket>> {
        // A coverage plan for an n_val of 1 covers every partition, whatever the n_val of the buckets.
        let request = RpbAaeFoldListBucketsReq { n_val: Some(1) };
        let listed: RpbAaeFoldListBucketsResp = self.call(&request, FOLD_TIMEOUT)?;
        let buckets = listed.bucket_list.into_iter();
        let mut buckets: Vec<Bucket> = buckets
            .map(|one| match one.bucket_type {
                Some(bucket_type) if bucket_type != "default" => {
                    Bucket::new(one.bucket).typed(bucket_type)
                }
                _ => Bucket::new(one.bucket),
            })
            .collect();
        buckets.sort();
        buckets.dedup();
        Ok(buckets)
    }

    /// Protocol Buffers addresses of the live nodes of the cluster.
    pub(crate) fn members(&mut self) -> Result<Vec<String>> {
        let members: RpbMembershipResp =
            self.call(&RpbMembershipReq { queuename: None }, ANSWER_TIMEOUT)?;
        Ok(members.up_nodes.iter().map(|node| address(&shown(&node.ip), node.port)).collect())
    }

    /// Appends references to a queue, and returns the queue's lengths afterwards. `None` if the queue does
    /// not exist.
    pub(crate) fn push(
        &mut self,
        queue: &str,
        records: Vec<RpbKeysValue>,
    ) -> Result<Option<QueueLengths>> {
        let request = RpbPushReq { queuename: queue.to_owned().into(), keys_value: records };
        let answer: RpbPushResp = match self.call(&request, ANSWER_TIMEOUT) {
            Ok(answer) => answer,
            // Depending on its version, Riak reports a missing queue in the answer or as an error.
            Err(fault) if format!("{fault:#}").contains("not defined") => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let length = |length: Option<u32>| length.unwrap_or(0).into();
        Ok(answer.queue_exists.then(|| QueueLengths {
            fold: length(answer.foldq_length),
            full_sync: length(answer.fsync_length),
            real_time: length(answer.realt_length),
        }))
    }

    /// Has Riak put references to all records of a bucket into a queue, and returns their number.
    pub(crate) fn fold_into_queue(&mut self, bucket: &Bucket, queue: &str) -> Result<u64> {
        let request = RpbAaeFoldReplKeysReq {
            bucket_type: bucket.bucket_type.clone(),
            bucket: bucket.name.clone(),
            key_range: false,
            start_key: None,
            end_key: None,
            modified_range: false,
            last_mod_start: None,
            last_mod_end: None,
            queuename: queue.to_owned().into(),
        };
        let counted: RpbAaeFoldKeyCountResp = self.call(&request, FOLD_TIMEOUT)?;
        Ok(counted.keys_count.iter().map(|one| u64::from(one.count)).sum())
    }

    /// Asks for the properties of a bucket type.
    pub(crate) fn type_props(&mut self, name: &[u8]) -> Result<Map<String, Value>> {
        let request = RpbGetBucketTypeReq { bucket_type: Bytes::copy_from_slice(name) };
        let answer: RpbGetBucketResp = self.call(&request, ANSWER_TIMEOUT)?;
        props(&answer.props)
    }

    /// Asks for the properties of a bucket.
    pub(crate) fn bucket_props(&mut self, bucket: &Bucket) -> Result<Map<String, Value>> {
        let request = RpbGetBucketReq {
            bucket: bucket.name.clone(),
            bucket_type: bucket.bucket_type.clone(),
        };
        let answer: RpbGetBucketResp = self.call(&request, ANSWER_TIMEOUT)?;
        props(&answer.props)
    }
}

/// Converts properties to the form that they have in JSON.
fn props(props: &RpbBucketProps) -> Result<Map<String, Value>> {
    let mut found = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            found.insert(name.to_owned(), value);
        }
    };
    let numbers = [
        ("n_val", props.n_val),
        ("old_vclock", props.old_vclock),
        ("young_vclock", props.young_vclock),
        ("big_vclock", props.big_vclock),
        ("small_vclock", props.small_vclock),
        ("hll_precision", props.hll_precision),
    ];
    numbers.into_iter().for_each(|(name, number)| put(name, number.map(Value::from)));
    let quorums = [
        ("pr", props.pr),
        ("r", props.r),
        ("w", props.w),
        ("pw", props.pw),
        ("dw", props.dw),
        ("rw", props.rw),
    ];
    quorums.into_iter().for_each(|(name, number)| put(name, number.map(quorum)));
    let flags = [
        ("allow_mult", props.allow_mult),
        ("last_write_wins", props.last_write_wins),
        ("basic_quorum", props.basic_quorum),
        ("notfound_ok", props.notfound_ok),
        ("consistent", props.consistent),
        ("write_once", props.write_once),
    ];
    flags.into_iter().for_each(|(name, flag)| put(name, flag.map(Value::from)));
    let texts = [("backend", &props.backend), ("datatype", &props.datatype)];
    texts
        .into_iter()
        .for_each(|(name, text)| put(name, text.as_deref().map(|text| shown(text).into())));
    let hooks = [("precommit", &props.precommit), ("postcommit", &props.postcommit)];
    hooks.into_iter().for_each(|(name, hooks)| put(name, Some(hooks.iter().map(hook).collect())));
    if found.is_empty() {
        bail!("the answer has no properties");
    }
    Ok(found)
}

fn quorum(number: u32) -> Value {
    let word = QUORUM_WORDS.iter().find(|(known, _)| *known == number);
    word.map_or_else(|| number.into(), |(_, word)| (*word).into())
}

fn hook(hook: &RpbCommitHook) -> Value {
    match (&hook.name, &hook.modfun) {
        (Some(name), _) => json!({"name": shown(name)}),
        (None, Some(named)) => {
            json!({"mod": shown(&named.module), "fun": shown(&named.function)})
        }
        (None, None) => Value::Null,
    }
}

/// A fake node for tests.
#[cfg(test)]
pub(crate) mod fake {
    use quoit_client::wire::{Body, append_message};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    /// Starts a node that answers each request with the frame that a function makes of its message code.
    pub(crate) fn node(
        listener: TcpListener,
        answer: impl Fn(u8) -> Vec<u8> + Send + Sync + 'static,
    ) {
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, answer) = (stream.expect("a connection"), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &*answer));
            }
        });
    }

    /// Answers requests until the client closes the connection.
    fn serve(mut stream: TcpStream, answer: &dyn Fn(u8) -> Vec<u8>) {
        let mut length = [0; 4];
        while stream.read_exact(&mut length).is_ok() {
            let mut request = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut request).expect("a whole frame");
            stream.write_all(&answer(request[0])).expect("a client that reads");
        }
    }

    /// A message as a frame.
    pub(crate) fn frame(message: &impl Body) -> Vec<u8> {
        let mut frame = Vec::new();
        append_message(&mut frame, message).expect("a small message");
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_come_with_the_words_that_json_has_for_them() {
        let answer = RpbBucketProps {
            n_val: Some(3),
            r: Some(u32::MAX - 2),
            w: Some(u32::MAX - 4),
            pr: Some(0),
            datatype: Some("set".into()),
            ..RpbBucketProps::default()
        };
        let expected = json!({"n_val": 3, "r": "quorum", "w": "default", "pr": 0, "datatype": "set",
            "precommit": [], "postcommit": []});
        assert_eq!(Value::Object(props(&answer).expect("properties")), expected);
    }
}

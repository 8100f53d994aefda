//! `quoit import bootstrap`: has a running Riak put references to all its records into a replication queue,
//! which a sink of the cluster consumes.
//!
//! With TicTac anti-entropy active, one fold in Riak does this. Otherwise the command lists the keys, asks
//! for the version vector of each, and pushes the references. That is slower, but works with every Riak
//! that has such queues.

use crate::Format;
use crate::api::Api;
use crate::names::{DEFAULT_TYPE, bucket_name, bucket_named, bucket_of};
use crate::output::{note, say};
use crate::riak_node::{QueueLengths, ReachedHost, RiakNode, reachable};
use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use quoit_client::wire::messages::RpbKeysValue;
use quoit_client::{Bucket, Client, Fetched, GetOptions};
use quoit_model::key::BucketRef;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Number of references in one push.
const PUSH_RECORDS: usize = 128;
/// Most concurrent requests for version vectors.
const REQUESTS_AT_ONCE: usize = 64;
/// Number of references waiting in Riak's queue above which the command pauses.
const WAITING_MAX: u64 = 100_000;
/// Interval at which the lengths of the queue are checked.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit of a listing.
const LISTING_TIMEOUT: Duration = Duration::from_secs(3600);

/// Way to put references to records into the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum QueueingMethod {
    /// Riak's fold repl_keys_range; a listing of keys where that fails.
    Auto,
    /// Riak's fold repl_keys_range, which needs tictacaae_active = active.
    Fold,
    /// List the keys, and push references to them.
    Listing,
}

/// Arguments of `quoit import bootstrap`.
#[derive(Args, Debug)]
pub struct BootstrapArgs {
    /// HTTP address of a Riak node.
    riak: String,
    /// Protocol Buffers address of the Riak node [default: its host with port 8087].
    #[arg(long, value_name = "HOST:PORT")]
    riak_pb: Option<String>,
    /// Name of the source queue of Riak that Quoit consumes.
    #[arg(long, default_value = "quoit", value_name = "NAME")]
    queue: String,
    /// Queue only this bucket; may be repeated [default: all buckets, which Riak lists if tictacaae_active =
    /// active].
    #[arg(long, value_name = "TYPE/BUCKET")]
    only: Vec<String>,
    /// Queue all buckets of this bucket type; may be repeated. For a Riak cluster that can't list all
    /// buckets.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Way to put references to records into the queue.
    #[arg(long, value_enum, default_value = "auto")]
    by: QueueingMethod,
    /// Return when all records are queued, without waiting until Quoit has fetched them.
    #[arg(long)]
    no_wait: bool,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Number of references queued for one bucket.
struct Queued {
    bucket: Bucket,
    by: &'static str,
    count: u64,
}

pub(crate) fn bootstrap(args: &BootstrapArgs) -> Result<()> {
    let api = Api::new(&args.riak);
    let pb = args.riak_pb.clone().unwrap_or_else(|| format!("{}:8087", api.host()));
    let mut riak = RiakNode::connect(&pb)?;
    let (own_name, _) = riak.info()?;
    if riak.push(&args.queue, Vec::new())?.is_none() {
        bail!(
            "Riak has no queue {}: set replrtq_enablesrc = enabled and replrtq_srcqueue = {}:any in the \
             riak.conf of every node",
            args.queue,
            args.queue
        );
    }
    let mut report = Vec::new();
    for bucket in buckets(args, &mut riak, &pb)? {
        let queued = queue_bucket(args, &mut riak, &pb, bucket)?;
        if args.format == Format::Human {
            say!(
                "{}: {} records queued by {}",
                bucket_name(&queued.bucket),
                queued.count,
                queued.by
            );
        }
        report.push(queued);
    }
    let is_fetched = !args.no_wait;
    if is_fetched {
        // A fold runs on every node, and each node fills its own queue.
        let mut nodes = other_nodes(&mut riak, &own_name);
        nodes.push(riak);
        wait_below(&mut nodes, &args.queue, 0)?;
    }
    if args.format == Format::Json {
        let buckets: Vec<Value> = report
            .iter()
            .map(|one| json!({"bucket": bucket_name(&one.bucket), "by": one.by, "queued": one.count}))
            .collect();
        let total: u64 = report.iter().map(|one| one.count).sum();
        say!("{}", json!({"buckets": buckets, "queued": total, "fetched": is_fetched}));
    } else if is_fetched {
        say!("all records were fetched; quoit repl status shows how many were stored");
    }
    Ok(())
}

/// Connects to the other live nodes of the cluster. A node is known by its name, since it may have another
/// address among the members than the one that the operator gave.
fn other_nodes(riak: &mut RiakNode, own_name: &str) -> Vec<RiakNode> {
    let (mut others, mut is_own_found) = (Vec::new(), false);
    for address in riak.members().unwrap_or_default() {
        let address = reachable(&address, ReachedHost(riak.host()));
        let connected = RiakNode::connect(&address).and_then(|mut node| {
            let (name, _) = node.info()?;
            Ok((name, node))
        });
        match connected {
            Ok((name, node)) if name != own_name => others.push(node),
            Ok(_) if !std::mem::replace(&mut is_own_found, true) => {}
            // Nodes on several machines that listen on all interfaces have one and the same address.
            Ok(_) => note(format_args!(
                "the queue of a node of Riak can't be looked at: {address} leads to {own_name}"
            )),
            Err(fault) => {
                note(format_args!("the queue of a node of Riak can't be looked at: {fault:#}"));
            }
        }
    }
    others
}

/// The buckets whose records are to be queued.
fn buckets(args: &BootstrapArgs, riak: &mut RiakNode, pb: &str) -> Result<Vec<Bucket>> {
    let mut found = Vec::new();
    for name in &args.only {
        found.push(bucket_named(name)?);
    }
    if !args.types.is_empty() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = Client::builder().node(pb).request_timeout(LISTING_TIMEOUT).build()?;
        for name in &args.types {
            let listed = (name != DEFAULT_TYPE).then_some(name.as_bytes());
            let names = runtime.block_on(async {
                client.list_buckets(listed, Some(LISTING_TIMEOUT)).await?.collect().await
            })?;
            let bucket_type = name.as_bytes();
            found.extend(names.iter().map(|bucket| bucket_of(BucketRef { bucket_type, bucket })));
        }
    }
    if args.only.is_empty() && args.types.is_empty() {
        found = riak.buckets().context(
            "Riak names its buckets only with tictacaae_active = active; give --type for each bucket type, \
             or --only for each bucket",
        )?;
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn queue_bucket(
    args: &BootstrapArgs,
    riak: &mut RiakNode,
    pb: &str,
    bucket: Bucket,
) -> Result<Queued> {
    if args.by != QueueingMethod::Listing {
        match riak.fold_into_queue(&bucket, &args.queue) {
            Ok(count) => return Ok(Queued { bucket, by: "fold", count }),
            Err(fault) if args.by == QueueingMethod::Fold => {
                return Err(fault).with_context(|| {
                    format!(
                        "Riak's fold of {} (is tictacaae_active = active?)",
                        bucket_name(&bucket)
                    )
                });
            }
            Err(fault) => {
                note(format_args!(
                    "{}: Riak's fold fails ({fault:#}); its keys are listed instead",
                    bucket_name(&bucket)
                ));
                // The failure may have broken the connection.
                *riak = RiakNode::connect(pb)?;
            }
        }
    }
    let count = push_listed(args, riak, pb, &bucket)?;
    Ok(Queued { bucket, by: "listing", count })
}

/// Pushes a reference to each key of a bucket's listing, and returns their number.
fn push_listed(
    args: &BootstrapArgs,
    riak: &mut RiakNode,
    pb: &str,
    bucket: &Bucket,
) -> Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Arc::new(Client::builder().node(pb).request_timeout(LISTING_TIMEOUT).build()?);
    let mut keys = runtime.block_on(client.list_keys(bucket, Some(LISTING_TIMEOUT)))?;
    let mut count = 0;
    while let Some(listed) = runtime.block_on(keys.next()).transpose()? {
        for some in listed.chunks(PUSH_RECORDS) {
            let references = runtime.block_on(references(&client, bucket, some))?;
            count += references.len() as u64;
            let lengths = riak.push(&args.queue, references)?;
            if lengths.is_none_or(|lengths| waiting(lengths) > WAITING_MAX) {
                wait_below(std::slice::from_mut(riak), &args.queue, WAITING_MAX / 2)?;
            }
        }
    }
    Ok(count)
}

/// Makes references to keys, with their version vectors. Keys deleted since the listing are left out.
async fn references(
    client: &Arc<Client>,
    bucket: &Bucket,
    keys: &[Bytes],
) -> Result<Vec<RpbKeysValue>> {
    let mut references = Vec::new();
    for some in keys.chunks(REQUESTS_AT_ONCE) {
        let mut asked = JoinSet::new();
        for key in some {
            asked.spawn(reference(Arc::clone(client), bucket.clone(), key.clone()));
        }
        while let Some(answered) = asked.join_next().await {
            references.extend(answered??);
        }
    }
    Ok(references)
}

async fn reference(
    client: Arc<Client>,
    bucket: Bucket,
    key: Bytes,
) -> Result<Option<RpbKeysValue>> {
    let options = GetOptions { head: true, ..GetOptions::default() };
    let fetched = client.get_with(&bucket.key(&key), &options).await?;
    Ok(match fetched {
        Fetched::Found(object) => Some(RpbKeysValue {
            bucket_type: bucket.bucket_type,
            bucket: bucket.name,
            key,
            value: object.context.0,
        }),
        Fetched::NotFound | Fetched::Tombstone(_) | Fetched::Unchanged => None,
    })
}

const fn waiting(lengths: QueueLengths) -> u64 {
    lengths.fold + lengths.full_sync
}

/// Waits until at most `most` references wait in the queues of these nodes. References of current client
/// writes do not count.
fn wait_below(nodes: &mut [RiakNode], queue: &str, most: u64) -> Result<()> {
    let mut last = None;
    loop {
        let mut left = 0;
        for node in nodes.iter_mut() {
            let lengths = node.push(queue, Vec::new())?;
            left += waiting(lengths.ok_or_else(|| anyhow!("the queue {queue} is gone from Riak"))?);
        }
        if left <= most {
            return Ok(());
        }
        if last != Some(left) {
            note(format_args!("{left} references wait in the queue {queue} of Riak"));
            last = Some(left);
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::riak_node::fake;
    use quoit_client::wire::messages::{
        Body as _, RpbClusterMemberEntry, RpbGetServerInfoReq, RpbGetServerInfoResp,
        RpbMembershipResp,
    };
    use std::net::TcpListener;

    #[test]
    fn a_node_given_by_its_host_name_is_not_among_the_others() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let ports = [0, 1].map(|node: usize| listeners[node].local_addr().expect("bound").port());
        for (name, listener) in ["riak@a", "riak@b"].into_iter().zip(listeners) {
            fake::node(listener, move |code| {
                if code == RpbGetServerInfoReq::CODE as u8 {
                    let node = Some(name.into());
                    return fake::frame(&RpbGetServerInfoResp { node, server_version: None });
                }
                let member = |ip: &'static str, port: u16| RpbClusterMemberEntry {
                    ip: ip.into(),
                    port: port.into(),
                };
                let up_nodes = vec![member("127.0.0.1", ports[0]), member("0.0.0.0", ports[1])];
                fake::frame(&RpbMembershipResp { up_nodes })
            });
        }
        let mut riak = RiakNode::connect(&format!("localhost:{}", ports[0])).expect("it listens");
        let mut others = other_nodes(&mut riak, "riak@a");
        assert_eq!(others.len(), 1);
        assert_eq!(others[0].info().expect("a name").0, "riak@b");
        assert_eq!(others[0].host(), "localhost", "a listener on all interfaces has no host");
    }
}

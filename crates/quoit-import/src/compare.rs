//! `quoit import compare`: compares the records of a running Riak and a running cluster.
//!
//! For each bucket it lists the keys on both sides and reads the version vector of each key. A digest of
//! key and vector stands for the record's version. For a sample of the keys with equal versions it also
//! compares the values.

use crate::Format;
use crate::api::Api;
use crate::names::{bucket_named, bucket_of};
use crate::output::{say, shown};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::Args;
use quoit_client::{Bucket, Client, Error, Fetched, GetOptions, Location, Object};
use quoit_model::context::decode_context;
use quoit_model::key::BucketRef;
use quoit_model::record_batch::version_digest;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Most concurrent requests for version vectors.
const REQUESTS_AT_ONCE: usize = 64;
/// Most differing keys that are named for a bucket.
const NAMED_MAX: usize = 100;
/// Time limit of a listing or a read.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

/// Arguments of `quoit import compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// HTTP address of a Riak node.
    riak: String,
    /// HTTP address of a Quoit node.
    here: String,
    /// Protocol Buffers address of the Riak node [default: its host with port 8087].
    #[arg(long, value_name = "HOST:PORT")]
    riak_pb: Option<String>,
    /// Protocol Buffers address of the Quoit node [default: its host with port 8087].
    #[arg(long, value_name = "HOST:PORT")]
    here_pb: Option<String>,
    /// Compare only this bucket, or all buckets of this type; may be repeated [default: all bucket types of
    /// the Quoit cluster].
    #[arg(long, value_name = "TYPE[/BUCKET]")]
    only: Vec<String>,
    /// Number of values in each bucket to read from both clusters and compare.
    #[arg(long, default_value_t = 100, value_name = "N")]
    samples: usize,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// The versions of a bucket's records: a digest for each key.
type DigestByKey = BTreeMap<Bytes, u64>;

/// Findings about one bucket. Each pair has the number of a side's records and the sum of their digests.
struct Compared {
    bucket: Bucket,
    riak: (usize, u64),
    here: (usize, u64),
    only_riak: Vec<Bytes>,
    only_here: Vec<Bytes>,
    versions: Vec<Bytes>,
    sampled: usize,
    values: Vec<Bytes>,
}

impl Compared {
    fn is_same(&self) -> bool {
        self.riak == self.here && self.values.is_empty()
    }
}

pub(crate) fn compare(args: &CompareArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let compared = runtime.block_on(compare_all(args))?;
    // No bucket at all counts as a difference, so that a script does not switch over because of a wrong
    // address.
    let is_same = !compared.is_empty() && compared.iter().all(Compared::is_same);
    match args.format {
        Format::Json => {
            let buckets: Vec<Value> = compared.iter().map(document).collect();
            say!("{}", json!({"same": is_same, "buckets": buckets}));
        }
        Format::Human => compared.iter().for_each(print),
    }
    if compared.is_empty() {
        bail!(
            "nothing was compared: neither {} nor {} has a bucket of {}; see that both addresses are right, \
             or name buckets (--only TYPE/BUCKET)",
            args.riak,
            args.here,
            if args.only.is_empty() { "any type".to_owned() } else { args.only.join(", ") },
        );
    }
    if is_same { Ok(()) } else { bail!("Riak and the cluster differ as printed") }
}

async fn compare_all(args: &CompareArgs) -> Result<Vec<Compared>> {
    let (riak_api, here_api) = (Api::new(&args.riak), Api::new(&args.here));
    let client = |api: &Api, given: &Option<String>| {
        let address = given.clone().unwrap_or_else(|| format!("{}:8087", api.host()));
        let built =
            Client::builder().node(address.clone()).request_timeout(REQUEST_TIMEOUT).build();
        built.map(Arc::new).with_context(|| address)
    };
    let (riak, here) = (client(&riak_api, &args.riak_pb)?, client(&here_api, &args.here_pb)?);
    let mut compared = Vec::new();
    for bucket in buckets(args, &here_api, &riak, &here).await? {
        compared.push(compare_bucket(args, &riak, &here, bucket).await?);
    }
    Ok(compared)
}

/// The buckets to compare: all that exist on either side.
async fn buckets(
    args: &CompareArgs,
    here_api: &Api,
    riak: &Client,
    here: &Client,
) -> Result<BTreeSet<Bucket>> {
    let mut found = BTreeSet::new();
    let mut types: Vec<String> = Vec::new();
    for name in &args.only {
        if name.contains('/') {
            found.insert(bucket_named(name)?);
        } else {
            types.push(name.clone());
        }
    }
    if args.only.is_empty() {
        let listed = here_api.done(here_api.get("admin/v1/bucket-types")?)?;
        let names = listed.get("types").and_then(Value::as_array).into_iter().flatten();
        types.extend(names.filter_map(|one| one["name"].as_str()).map(str::to_owned));
    }
    for bucket_type in types {
        let listed_type = (bucket_type != "default").then_some(bucket_type.as_bytes());
        for client in [riak, here] {
            let listing = match client.list_buckets(listed_type, Some(REQUEST_TIMEOUT)).await {
                Ok(listing) => listing.collect().await,
                Err(fault) => Err(fault),
            };
            let names = match listing {
                Ok(names) => names,
                // Riak does not have every type of the cluster.
                Err(Error::Server(_)) if bucket_type != "default" => continue,
                Err(fault) => return Err(fault.into()),
            };
            let bucket_type = bucket_type.as_bytes();
            found.extend(names.iter().map(|bucket| bucket_of(BucketRef { bucket_type, bucket })));
        }
    }
    Ok(found)
}

async fn compare_bucket(
    args: &CompareArgs,
    riak: &Arc<Client>,
    here: &Arc<Client>,
    bucket: Bucket,
) -> Result<Compared> {
    let (of_riak, of_here) = (versions(riak, &bucket).await?, versions(here, &bucket).await?);
    let only = |one: &DigestByKey, other: &DigestByKey| -> Vec<Bytes> {
        one.keys().filter(|key| !other.contains_key(*key)).cloned().collect()
    };
    let (mut differing, mut same) = (Vec::new(), Vec::new());
    for (key, version) in &of_riak {
        match of_here.get(key) {
            Some(here) if here == version => same.push(key.clone()),
            Some(_) => differing.push(key.clone()),
            None => {}
        }
    }
    let step = (same.len() / args.samples.max(1)).max(1);
    let mut compared = Compared {
        riak: figures(&of_riak),
        here: figures(&of_here),
        only_riak: only(&of_riak, &of_here),
        only_here: only(&of_here, &of_riak),
        versions: differing,
        sampled: 0,
        values: Vec::new(),
        bucket,
    };
    for key in same.into_iter().step_by(step).take(args.samples) {
        let location = compared.bucket.key(&key);
        let (one, other) = (riak.get(&location).await?, here.get(&location).await?);
        compared.sampled += 1;
        if values(one) != values(other) {
            compared.values.push(key);
        }
    }
    Ok(compared)
}

/// The number of records, and the sum of their versions' digests.
fn figures(versions: &DigestByKey) -> (usize, u64) {
    (versions.len(), versions.values().fold(0, |sum, digest| sum.wrapping_add(*digest)))
}

/// The live values of an object. The value of a data type is left out, since the two sides encode it
/// differently.
fn values(object: Option<Object>) -> BTreeMap<Bytes, Option<Bytes>> {
    let siblings = object.map(|object| object.siblings).unwrap_or_default();
    let live = siblings.into_iter().filter(|sibling| !sibling.deleted);
    live.map(|sibling| {
        let content_type = sibling.content_type;
        let is_data_type =
            content_type.as_deref().is_some_and(|text| text.starts_with(b"application/riak_"));
        (if is_data_type { Bytes::new() } else { sibling.value }, content_type)
    })
    .collect()
}

async fn versions(client: &Arc<Client>, bucket: &Bucket) -> Result<DigestByKey> {
    let mut versions = DigestByKey::new();
    let mut keys = client.list_keys(bucket, Some(REQUEST_TIMEOUT)).await?;
    let mut under_way = JoinSet::new();
    while let Some(some) = keys.next().await {
        for key in some? {
            if under_way.len() >= REQUESTS_AT_ONCE {
                take(under_way.join_next().await, &mut versions)?;
            }
            under_way.spawn(version(Arc::clone(client), bucket.key(key)));
        }
    }
    while let Some(joined) = under_way.join_next().await {
        take(Some(joined), &mut versions)?;
    }
    Ok(versions)
}

type FetchedVersion = Result<Option<(Bytes, u64)>>;

fn take(
    joined: Option<Result<FetchedVersion, tokio::task::JoinError>>,
    versions: &mut DigestByKey,
) -> Result<()> {
    if let Some(joined) = joined
        && let Some((key, digest)) = joined??
    {
        versions.insert(key, digest);
    }
    Ok(())
}

/// Reads the version of a record; `None` if it was deleted since the listing.
async fn version(client: Arc<Client>, location: Location) -> FetchedVersion {
    let options = GetOptions { head: true, ..GetOptions::default() };
    match client.get_with(&location, &options).await? {
        Fetched::Found(object) => {
            let clock = decode_context(&object.context.0)?;
            Ok(Some((location.key.clone(), version_digest(&location.key, &clock))))
        }
        Fetched::NotFound | Fetched::Tombstone(_) | Fetched::Unchanged => Ok(None),
    }
}

fn type_name(bucket: &Bucket) -> String {
    bucket.bucket_type.as_deref().map_or_else(|| "default".to_owned(), shown)
}

fn document(compared: &Compared) -> Value {
    let named = |keys: &[Bytes]| -> Vec<String> {
        keys.iter().take(NAMED_MAX).map(|key| shown(key)).collect()
    };
    let side =
        |(count, digest): (usize, u64)| json!({"count": count, "digest": format!("{digest:016x}")});
    json!({
        "type": type_name(&compared.bucket),
        "bucket": shown(&compared.bucket.name),
        "same": compared.is_same(),
        "riak": side(compared.riak),
        "here": side(compared.here),
        "only_riak_count": compared.only_riak.len(),
        "only_riak": named(&compared.only_riak),
        "only_here_count": compared.only_here.len(),
        "only_here": named(&compared.only_here),
        "other_version_count": compared.versions.len(),
        "other_version": named(&compared.versions),
        "sampled": compared.sampled,
        "other_value": named(&compared.values),
    })
}

fn print(compared: &Compared) {
    let word = if compared.is_same() { "same" } else { "DIFFERENT" };
    say!(
        "{}/{}: {word}: {} records in Riak (digest {:016x}), {} here (digest {:016x}), {} values compared",
        type_name(&compared.bucket),
        shown(&compared.bucket.name),
        compared.riak.0,
        compared.riak.1,
        compared.here.0,
        compared.here.1,
        compared.sampled
    );
    let lists = [
        ("only in Riak", &compared.only_riak),
        ("only here", &compared.only_here),
        ("in other versions", &compared.versions),
        ("with other values", &compared.values),
    ];
    for (what, keys) in lists.into_iter().filter(|(_, keys)| !keys.is_empty()) {
        let named: Vec<String> = keys.iter().take(NAMED_MAX).map(|key| shown(key)).collect();
        say!("  {} {what}: {}", keys.len(), named.join(" "));
    }
}

//! Facts about both clusters, gathered from their nodes and from configuration files.

use super::PlanArgs;
use super::riak_conf::RiakConf;
use crate::api::{Api, segment};
use crate::names::{DEFAULT_TYPE, bucket_name};
use crate::output::shown;
use crate::riak_node::{ReachedHost, RiakNode, address, reachable};
use anyhow::{Context, Result};
use quoit_client::Bucket;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Properties of a bucket type on both sides. An n_val is `None` if that side does not have the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TypeFacts {
    pub(super) riak_n_val: Option<u64>,
    pub(super) here_n_val: Option<u64>,
    /// True if the cluster has the type and it is active.
    pub(super) is_here: bool,
    /// Time to live of the type's records in the cluster, in seconds; 0 if they do not expire.
    pub(super) here_ttl_secs: u64,
}

/// One side of the move.
#[derive(Clone, Debug, Default)]
pub(super) struct SideFacts {
    pub(super) node: String,
    pub(super) version: String,
    /// Protocol Buffers addresses.
    pub(super) pb: Vec<String>,
    /// HTTP addresses.
    pub(super) http: Vec<String>,
}

/// All facts that the plan is made from.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) riak: SideFacts,
    pub(super) here: SideFacts,
    /// All buckets of Riak that have keys, if Riak reports them.
    pub(super) buckets: Vec<Bucket>,
    /// The reason why Riak did not report its buckets: the fault of its fold.
    pub(super) folds_fault: Option<String>,
    pub(super) types: BTreeMap<String, TypeFacts>,
    /// True if Riak has the queue for the cluster.
    pub(super) has_queue: bool,
    /// The cluster's `delete_mode`.
    pub(super) here_delete_mode: String,
    /// Time after which the cluster's records expire by default, in seconds.
    pub(super) here_expires_after_secs: Option<u64>,
    /// True if the cluster sends reaps to other clusters.
    pub(super) here_sends_reaps: bool,
    /// Buckets of the cluster with a time to live of their own, in seconds.
    pub(super) here_ttl_buckets: Vec<(String, u64)>,
    /// True if the cluster queues writes for other clusters, according to the node that was asked.
    pub(super) here_queues: bool,
    /// Riak's configuration files, by path.
    pub(super) confs: Vec<(String, RiakConf)>,
}

impl Facts {
    /// Asks both sides and reads the files.
    pub(super) fn gather(args: &PlanArgs) -> Result<Self> {
        let (riak_api, here_api) = (Api::new(&args.riak), Api::new(&args.here));
        let pb_of = |api: &Api, given: &Option<String>| {
            given.clone().unwrap_or_else(|| format!("{}:8087", api.host()))
        };
        let (riak_pb, here_pb) = (pb_of(&riak_api, &args.riak_pb), pb_of(&here_api, &args.here_pb));
        let status = here_api.done(here_api.get("admin/v1/status")?)?;
        let repl = here_api.done(here_api.get("admin/v1/repl")?)?;
        let deletes = |name: &str| status.get("deletes")?.get(name);
        let is_on = |flag: Option<&Value>| flag.and_then(Value::as_bool) == Some(true);
        let mut riak = RiakNode::connect(&riak_pb)?;
        let mut here = RiakNode::connect(&here_pb)?;
        let mut facts = Self {
            riak: side(&riak_api, &mut riak, &riak_pb)?,
            here: side(&here_api, &mut here, &here_pb)?,
            here_delete_mode: text_of(deletes("delete_mode").unwrap_or(&Value::Null)),
            here_queues: is_on(repl.pointer("/result/source/enabled")),
            here_expires_after_secs: deletes("expires_after_secs").and_then(Value::as_u64),
            here_sends_reaps: is_on(deletes("sends_reaps")),
            ..Self::default()
        };
        for path in &args.riak_conf {
            let conf = RiakConf::read(path, args.riak_advanced.as_deref())?;
            facts.confs.push((path.display().to_string(), conf));
        }
        facts.has_queue = riak.push(&args.queue, Vec::new()).is_ok_and(|found| found.is_some());
        match riak.buckets() {
            Ok(buckets) => facts.buckets = buckets,
            Err(fault) => facts.folds_fault = Some(format!("{fault:#}")),
        }
        // A failed request may have broken the connection.
        let mut riak = RiakNode::connect(&riak_pb)?;
        facts.types = types(args, &facts, &mut riak, &here_api)?;
        facts.here_ttl_buckets = ttl_buckets(&facts, &here_api)?;
        Ok(facts)
    }

    /// The bucket types except `default`.
    pub(super) fn named_types(&self) -> impl Iterator<Item = &String> {
        self.types.keys().filter(|name| *name != DEFAULT_TYPE)
    }

    /// The pairs of n_vals, of the cluster and of Riak. Full-sync compares the trees of one pair at a time.
    pub(super) fn n_vals(&self) -> BTreeSet<(u64, u64)> {
        let pair = |facts: &TypeFacts| {
            let riak = facts.riak_n_val?;
            Some((facts.here_n_val.unwrap_or(riak), riak))
        };
        self.types.values().filter_map(pair).collect()
    }
}

fn side(api: &Api, node: &mut RiakNode, pb: &str) -> Result<SideFacts> {
    let (status, _) = api.get("ping")?;
    anyhow::ensure!(status == 200, "{}/ping answers status {status}", api.base());
    let (name, version) = node.info().with_context(|| pb.to_owned())?;
    let members = node.members().unwrap_or_default();
    let (_, document) = api.get("membership_request")?;
    let listed = document.get("up_nodes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let http = listed.iter().map(|one| address(&text_of(&one["ip"]), text_of(&one["port"])));
    let reach = |one: &str| reachable(one, ReachedHost(api.host()));
    let or_own = |mut found: Vec<String>, own: &str| {
        if found.is_empty() {
            found.push(own.to_owned());
        }
        found
    };
    Ok(SideFacts {
        node: name,
        version,
        pb: or_own(members.iter().map(|one| reach(one)).collect(), pb),
        http: or_own(http.map(|one| reach(&one)).collect(), api.authority()),
    })
}

fn types(
    args: &PlanArgs,
    facts: &Facts,
    riak: &mut RiakNode,
    here: &Api,
) -> Result<BTreeMap<String, TypeFacts>> {
    let mut names: BTreeSet<String> = args.types.iter().cloned().collect();
    names.insert(DEFAULT_TYPE.to_owned());
    let seen = facts.buckets.iter().filter_map(|bucket| bucket.bucket_type.as_deref());
    names.extend(seen.map(shown));
    let mut types = BTreeMap::new();
    for name in names {
        let props = riak
            .type_props(name.as_bytes())
            .with_context(|| format!("bucket type {name} of Riak"))?;
        let path = format!("admin/v1/bucket-types/{}", segment(name.as_bytes()));
        let (status, document) = here.get(&path)?;
        let is_active = document.get("state").is_some_and(|state| state == "active");
        let is_here = status == 200 && is_active;
        let prop = |pointer: &str| document.pointer(pointer).and_then(Value::as_u64);
        types.insert(
            name,
            TypeFacts {
                riak_n_val: props.get("n_val").and_then(Value::as_u64),
                here_n_val: prop("/props/n_val").filter(|_| is_here),
                is_here,
                here_ttl_secs: prop("/props/ttl").unwrap_or(0),
            },
        );
    }
    Ok(types)
}

/// The buckets of Riak for which the cluster has a time to live that differs from their type's.
fn ttl_buckets(facts: &Facts, here: &Api) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for bucket in &facts.buckets {
        let name = bucket.bucket_type.as_deref().unwrap_or(DEFAULT_TYPE.as_bytes());
        let Some(of_type) = facts.types.get(&shown(name)).filter(|one| one.is_here) else {
            continue;
        };
        let (of, bucket_segment) = (segment(name), segment(&bucket.name));
        let path = format!("admin/v1/types/{of}/buckets/{bucket_segment}/props");
        let document = here.done(here.get(&path)?)?;
        let ttl_secs = document.pointer("/props/ttl").and_then(Value::as_u64).unwrap_or(0);
        if ttl_secs > 0 && ttl_secs != of_type.here_ttl_secs {
            found.push((bucket_name(bucket), ttl_secs));
        }
    }
    Ok(found)
}

/// Formats a string or number as text.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

//! `fold`: visits all records of a bucket, in the background of the node.

mod trees;

use super::{Api, document_of, plain, segment};
use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use percent_encoding::percent_decode_str;
use quoit_cli::figures::{duration, size};
use quoit_cli::names::{BucketName, in_path};
use quoit_cli::{Format, say, value_at};
use quoit_model::segments::TreeSize;
use quoit_progress::{Progress, Unit};
use serde_json::{Value, json};

/// Time in milliseconds that the node may wait for new results before it answers.
const WAIT_MS: u32 = 1_000;

#[derive(Subcommand, Debug)]
pub(crate) enum FoldCommand {
    /// Count records by size and number of siblings.
    #[command(alias = "object_stats")]
    ObjectStats(FoldArgs),
    /// Print the keys of records with many siblings or bytes.
    #[command(alias = "find_keys")]
    FindKeys {
        #[command(flatten)]
        walk: FoldArgs,
        /// Records with more siblings than this.
        #[arg(long, value_name = "N", required_unless_present = "bytes", conflicts_with = "bytes")]
        siblings: Option<u32>,
        /// Records with more bytes than this.
        #[arg(long, value_name = "N")]
        bytes: Option<u64>,
    },
    /// Print all keys with their version vectors.
    #[command(alias = "fetch_clocks", alias = "fetch_clocks_range")]
    FetchClocks(FoldArgs),
    /// Print the keys of tombstones.
    #[command(alias = "find_tombs")]
    FindTombs(FoldArgs),
    /// Count tombstones, or reap them, regardless of delete_mode.
    #[command(alias = "reap_tombs")]
    ReapTombs {
        #[command(flatten)]
        walk: FoldArgs,
        /// Only count, or reap.
        #[arg(long, value_enum, default_value = "count")]
        method: Method,
    },
    /// Count records, or delete those that have not changed since they were found.
    #[command(alias = "erase_keys")]
    EraseKeys {
        #[command(flatten)]
        walk: FoldArgs,
        /// Only count, or delete.
        #[arg(long, value_enum, default_value = "count")]
        method: Method,
    },
    /// Read all replicas of all records, which repairs the stale ones.
    #[command(alias = "repair_keys", alias = "repair_keys_range")]
    RepairKeys(FoldArgs),
    /// Put all keys into a replication queue, to be sent to another cluster.
    #[command(alias = "repl_keys", alias = "repl_keys_range")]
    ReplKeys {
        #[command(flatten)]
        walk: FoldArgs,
        /// Name of the queue on this node.
        #[arg(long, value_name = "NAME")]
        queue: String,
    },
    /// Print the hash tree of the records in Riak's format, without empty branches.
    #[command(alias = "merge_tree_range")]
    MergeTree {
        #[command(flatten)]
        walk: FoldArgs,
        /// Size of the tree: xxsmall, xsmall, small, medium, large or xlarge.
        #[arg(long, value_name = "SIZE", default_value_t = TreeSize::Small)]
        size: TreeSize,
        /// Rehash all version vectors with this number, to rule out hashes that are equal by chance.
        #[arg(long, value_name = "N")]
        hash_iv: Option<u32>,
    },
    /// Print the root of the hash tree over all buckets with this n_val, without empty branches.
    #[command(alias = "merge_root_nval")]
    MergeRoot {
        /// Number of replicas.
        n_val: u32,
    },
    /// Print the leaves of branches of such a tree, without empty leaves.
    #[command(alias = "merge_branch_nval")]
    MergeBranch {
        /// Number of replicas.
        n_val: u32,
        /// Numbers of the branches, separated by commas.
        #[arg(value_name = "NUMBERS", value_delimiter = ',', required = true)]
        branches: Vec<u32>,
    },
    /// Print the keys and version vectors in segments of such a tree.
    #[command(alias = "fetch_clocks_nval")]
    FetchClocksNval {
        /// Number of replicas.
        n_val: u32,
        /// Numbers of the segments, separated by commas.
        #[arg(value_name = "NUMBERS", value_delimiter = ',', required = true)]
        segments: Vec<u32>,
    },
    /// Print the buckets that have keys, of all bucket types.
    #[command(alias = "list_buckets")]
    ListBuckets {
        /// Stop after this many buckets.
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Print all folds of the node, or one of them.
    Status {
        /// Number of a fold.
        id: Option<u64>,
    },
    /// Stop a fold; the changes that it has made stay.
    Cancel {
        /// Number of the fold.
        id: u64,
    },
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// Only count the records.
    Count,
    /// Change the records.
    Local,
}

/// Selection of records, and options of a fold.
#[derive(Args, Debug)]
pub(crate) struct FoldArgs {
    /// TYPE/BUCKET, or BUCKET for the type default; %2F is a slash inside a name.
    #[arg(required_unless_present = "all_buckets")]
    bucket: Option<BucketName>,
    /// All buckets of all bucket types, one after the other.
    #[arg(long, conflicts_with_all = ["bucket", "background"])]
    all_buckets: bool,
    /// The first key.
    #[arg(long, value_name = "KEY")]
    from_key: Option<String>,
    /// The last key.
    #[arg(long, value_name = "KEY")]
    to_key: Option<String>,
    /// Only records last written at this time or later, in seconds since 1970.
    #[arg(long, value_name = "SECONDS")]
    modified_from: Option<u64>,
    /// Only records last written at this time or before, in seconds since 1970.
    #[arg(long, value_name = "SECONDS")]
    modified_to: Option<u64>,
    /// Only records in these segments of Riak's hash tree, separated by commas.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    segments: Option<Vec<u32>>,
    /// Size of that tree: xxsmall, xsmall, small, medium, large or xlarge.
    #[arg(long, value_name = "SIZE", default_value_t = TreeSize::Large, requires = "segments")]
    tree_size: TreeSize,
    /// Stop after about this many matches.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print the number of the fold and return at once; see fold status.
    #[arg(long)]
    background: bool,
}

/// Executes a command for folds.
pub(crate) fn fold(api: &Api, command: &FoldCommand, format: Format) -> Result<()> {
    match command {
        FoldCommand::ObjectStats(walk) => begin(api, walk, json!({"fold": "object_stats"}), format),
        FoldCommand::FindKeys { walk, siblings, bytes } => {
            let wanted = json!({"fold": "find_keys", "siblings": siblings, "bytes": bytes});
            begin(api, walk, wanted, format)
        }
        FoldCommand::FetchClocks(walk) => begin(api, walk, json!({"fold": "fetch_clocks"}), format),
        FoldCommand::FindTombs(walk) => begin(api, walk, json!({"fold": "find_tombs"}), format),
        FoldCommand::ReapTombs { walk, method } => {
            begin(api, walk, changing("reap_tombs", *method), format)
        }
        FoldCommand::EraseKeys { walk, method } => {
            begin(api, walk, changing("erase_keys", *method), format)
        }
        FoldCommand::RepairKeys(walk) => begin(api, walk, json!({"fold": "repair_keys"}), format),
        FoldCommand::ReplKeys { walk, queue } => {
            begin(api, walk, json!({"fold": "repl_keys", "queue": queue}), format)
        }
        FoldCommand::MergeTree { walk, size, hash_iv } => {
            let wanted = json!({"fold": "tree_entries", "hash_iv": hash_iv});
            trees::range_tree(api, walk, wanted, *size, format)
        }
        FoldCommand::MergeRoot { n_val } => trees::root(api, *n_val, format),
        FoldCommand::MergeBranch { n_val, branches } => {
            trees::branches(api, *n_val, branches, format)
        }
        FoldCommand::FetchClocksNval { n_val, segments } => {
            trees::clocks(api, *n_val, segments, format)
        }
        FoldCommand::ListBuckets { limit } => {
            list_buckets(api, limit.unwrap_or(usize::MAX), format)
        }
        FoldCommand::Status { id: None } => {
            let document = document_of(api.get("folds")?, format)?;
            super::print(&document, format, |document| {
                let all = document["folds"].as_array().map(Vec::as_slice).unwrap_or_default();
                let lines: Vec<String> = all.iter().map(line).collect();
                if lines.is_empty() { "no folds".to_owned() } else { lines.join("\n") }
            });
            Ok(())
        }
        FoldCommand::Status { id: Some(id) } => {
            let document = document_of(api.get("folds")?, format)?;
            let all =
                value_at(&document, "/folds").as_array().map(Vec::as_slice).unwrap_or_default();
            let Some(job) = all.iter().find(|job| job["id"] == *id) else {
                bail!("there is no fold {id} on this node");
            };
            super::print(job, format, line);
            Ok(())
        }
        FoldCommand::Cancel { id } => {
            let document = document_of(api.delete(&format!("folds/{id}"))?, format)?;
            super::print(&document, format, line);
            Ok(())
        }
    }
}

fn changing(fold: &str, method: Method) -> Value {
    let method = if method == Method::Local { "local" } else { "count" };
    json!({"fold": fold, "method": method})
}

fn begin(api: &Api, walk: &FoldArgs, wanted: Value, format: Format) -> Result<()> {
    let Some(bucket) = &walk.bucket else { return begin_all(api, walk, &wanted, format) };
    let (job, wanted) = started(api, walk, bucket, wanted, format)?;
    if walk.background {
        super::print(&job, format, line);
        return Ok(());
    }
    FoldRequest(&wanted).follow(api, value_at(&job, "/id"), format)
}

/// Runs a fold over one bucket after the other.
fn begin_all(api: &Api, walk: &FoldArgs, wanted: &Value, format: Format) -> Result<()> {
    for bucket in wanted_buckets(api, walk)? {
        let (job, wanted) = started(api, walk, &bucket, wanted.clone(), format)?;
        if format == Format::Human {
            say!("{}", plain(value_at(&job, "/fold")));
        }
        FoldRequest(&wanted).follow(api, value_at(&job, "/id"), format)?;
    }
    Ok(())
}

/// The selected bucket, or all buckets.
fn wanted_buckets(api: &Api, walk: &FoldArgs) -> Result<Vec<BucketName>> {
    if let Some(bucket) = &walk.bucket {
        return Ok(vec![bucket.clone()]);
    }
    let name = |(bucket_type, bucket): (String, String)| BucketName {
        bucket_type: bucket_type.into_bytes(),
        bucket: bucket.into_bytes(),
    };
    Ok(buckets(api, usize::MAX)?.into_iter().map(name).collect())
}

/// Starts a fold. Returns its state and the request. `wanted` must be an object.
#[expect(clippy::indexing_slicing, reason = "callers pass an object")]
fn started(
    api: &Api,
    walk: &FoldArgs,
    bucket: &BucketName,
    mut wanted: Value,
    format: Format,
) -> Result<(Value, Value)> {
    let named = |name: &Option<String>| name.as_deref().map(segment);
    wanted["type"] = json!(in_path(&bucket.bucket_type));
    wanted["bucket"] = json!(in_path(&bucket.bucket));
    wanted["from_key"] = json!(named(&walk.from_key));
    wanted["to_key"] = json!(named(&walk.to_key));
    wanted["modified_from"] = json!(walk.modified_from);
    wanted["modified_to"] = json!(walk.modified_to);
    if let Some(segments) = &walk.segments {
        wanted["segments"] = json!(segments);
        wanted["tree_size"] = json!(walk.tree_size.to_string());
    }
    wanted["limit"] = json!(walk.limit);
    let job = document_of(api.post("folds", Some(&wanted))?, format)?;
    Ok((job, wanted))
}

/// Prints the buckets of all bucket types, each with its type.
fn list_buckets(api: &Api, limit: usize, format: Format) -> Result<()> {
    for (name, bucket) in buckets(api, limit)? {
        match format {
            Format::Json => say!("{}", json!({"type": name, "bucket": bucket})),
            Format::Human => say!("{name}\t{bucket}"),
        }
    }
    Ok(())
}

/// Bucket types and buckets that contain keys.
fn buckets(api: &Api, limit: usize) -> Result<Vec<(String, String)>> {
    let document = document_of(api.get("bucket-types")?, Format::Human)?;
    let types = value_at(&document, "/types").as_array().map(Vec::as_slice).unwrap_or_default();
    let mut found = Vec::new();
    for bucket_type in types.iter().filter(|each| each["state"] == "active") {
        let name = plain(&bucket_type["name"]);
        let path = format!("types/{}/buckets?buckets=true", segment(&name));
        // The bucket type may have been removed meanwhile.
        let Some(listed) = api.get_data(&path)? else { continue };
        let Value::Array(buckets) = value_at(&listed, "/buckets") else {
            bail!("the node could not list the buckets of type {name}: {listed}");
        };
        let left = limit.saturating_sub(found.len());
        found.extend(buckets.iter().take(left).map(|bucket| (name.clone(), plain(bucket))));
    }
    Ok(found)
}

/// The request of a fold.
struct FoldRequest<'a>(&'a Value);

impl FoldRequest<'_> {
    /// Prints the results of the fold as they come, and its progress on a terminal.
    fn follow(&self, api: &Api, id: &Value, format: Format) -> Result<()> {
        let job = for_each_result(api, id, format, |each| match format {
            Format::Json => say!("{each}"),
            Format::Human => say!("{}", self.found_line(each)),
        })?;
        match format {
            Format::Json => say!("{job}"),
            Format::Human => say!("{}", self.summary(&job)),
        }
        Ok(())
    }

    /// A line with a key and the fold's result for it. A key that is not text stays percent-encoded.
    fn found_line(&self, found: &Value) -> String {
        let encoded = plain(&found["key"]);
        let key = percent_decode_str(&encoded).decode_utf8().map_or(encoded.clone(), Into::into);
        match self.0["fold"].as_str() {
            Some("find_keys") => format!("{}\t{key}", found["number"]),
            _ => format!("{}\t{key}", plain(&found["vclock"])),
        }
    }

    /// The final state of the fold.
    fn summary(&self, job: &Value) -> String {
        let mut lines = Vec::new();
        if self.0["fold"] == "object_stats" {
            lines.push(format!("records   {}", job["looked_at"]));
            lines.push(format!("bytes     {}", size(&job["looked_at_bytes"])));
            let bars = |name: &str| job[name].as_object().cloned().unwrap_or_default();
            for (order, count) in bars("sizes") {
                let least = 10u64.checked_pow(order.parse().unwrap_or(0)).unwrap_or(u64::MAX);
                lines.push(format!("from {:>8}   {count}", size(&json!(least))));
            }
            for (siblings, count) in bars("siblings") {
                lines.push(format!("siblings {siblings:>4}   {count}"));
            }
        }
        if self.0["method"] == "count" {
            lines.push(format!("{} would be changed; --method local does it", job["matches"]));
        }
        lines.push(line(job));
        lines.join("\n")
    }
}

/// Passes the results of a fold to `take` as they come, and shows its progress on a terminal. Returns the
/// final state of the fold.
fn for_each_result(
    api: &Api,
    id: &Value,
    format: Format,
    mut take: impl FnMut(&Value),
) -> Result<Value> {
    let mut progress = Progress::on_stderr("folding", Unit::Items("records"), None);
    loop {
        let job = document_of(api.get(&format!("folds/{id}?wait_ms={WAIT_MS}"))?, format)?;
        let found = value_at(&job, "/found").as_array().map(Vec::as_slice).unwrap_or_default();
        if !found.is_empty() {
            progress.clear();
        }
        found.iter().for_each(&mut take);
        if value_at(&job, "/state") == "running" || !found.is_empty() {
            if found.is_empty() {
                // Progress is for people who wait, and not for programs that read the output.
                let looked_at = value_at(&job, "/looked_at").as_u64().unwrap_or_default();
                progress.show(looked_at, || format!("{} matches", value_at(&job, "/matches")));
            }
            continue;
        }
        progress.clear();
        if value_at(&job, "/state") == "failed" {
            bail!("{}", plain(value_at(&job, "/message")));
        }
        return Ok(job);
    }
}

/// A fold in one line.
fn line(job: &Value) -> String {
    format!(
        "{}: {}: {}, {} records looked at, {} matches, {} failed, {}",
        job["id"],
        plain(&job["fold"]),
        plain(&job["state"]),
        job["looked_at"],
        job["matches"],
        job["failed"],
        duration(&job["elapsed_secs"]),
    )
}

//! Folds over the hash trees by which Riak compares clusters.

use super::super::{Api, document_of, plain};
use super::{FoldArgs, for_each_result, started, wanted_buckets};
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use quoit_cli::{Format, say, value_at};
use quoit_model::segments::{BRANCH_LEAVES, TreeSize};
use quoit_riak::{Tree, TreeEntry};
use serde_json::{Value, json};

/// Builds the tree of a range, and prints it.
pub(super) fn range_tree(
    api: &Api,
    walk: &FoldArgs,
    wanted: Value,
    size: TreeSize,
    format: Format,
) -> Result<()> {
    let mut tree = Tree::empty(size);
    let number = |number: &Value| number.as_u64().and_then(|number| u32::try_from(number).ok());
    let mut record_count = 0;
    // The entries of several buckets can be added to the same tree.
    for bucket in wanted_buckets(api, walk)? {
        let (job, _) = started(api, walk, &bucket, wanted.clone(), format)?;
        let ended = for_each_result(api, value_at(&job, "/id"), format, |found| {
            if let Some((segment, value)) = number(&found["segment"]).zip(number(&found["hash"])) {
                tree.toggle(TreeEntry { segment, value });
            }
        })?;
        record_count += value_at(&ended, "/matches").as_u64().unwrap_or(0);
    }
    match format {
        Format::Human => {
            print_hashes("branch", 0, &tree.root());
            say!(
                "{} of {} branches, of {record_count} records",
                tree_size_used(&tree),
                size.branch_count(),
            );
        }
        Format::Json => {
            let leaves: Vec<[u32; 2]> = tree.leaves().map(|(leaf, hash)| [leaf, hash]).collect();
            let root = STANDARD.encode(tree.root());
            say!("{}", json!({"size": size.name(), "root": root, "leaves": leaves}));
        }
    }
    Ok(())
}

/// Number of non-empty branches.
fn tree_size_used(tree: &Tree) -> usize {
    let mut branches: Vec<u32> = tree.leaves().map(|(leaf, _)| leaf / BRANCH_LEAVES).collect();
    branches.dedup();
    branches.len()
}

/// Prints the root of the tree of an `n_val`.
pub(super) fn root(api: &Api, n_val: u32, format: Format) -> Result<()> {
    let document = document_of(api.get(&format!("trees/{n_val}/root"))?, format)?;
    match format {
        Format::Json => say!("{document}"),
        Format::Human => print_hashes("branch", 0, &decoded(value_at(&document, "/root"))?),
    }
    Ok(())
}

/// Prints the leaves of branches of such a tree.
pub(super) fn branches(api: &Api, n_val: u32, numbers: &[u32], format: Format) -> Result<()> {
    let path = format!("trees/{n_val}/branches?branches={}", joined(numbers));
    let document = document_of(api.get(&path)?, format)?;
    if format == Format::Json {
        say!("{document}");
        return Ok(());
    }
    for branch in value_at(&document, "/branches").as_array().map(Vec::as_slice).unwrap_or_default()
    {
        let told = &branch["branch"];
        let number = told.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.with_context(|| {
            format!(
                "the node's answer has the branch number {told}, which does not exist in a tree"
            )
        })?;
        let first = u64::from(number) * u64::from(BRANCH_LEAVES);
        print_hashes("segment", first, &decoded(&branch["leaves"])?);
    }
    Ok(())
}

/// Prints the keys and version vectors in segments of such a tree.
pub(super) fn clocks(api: &Api, n_val: u32, segments: &[u32], format: Format) -> Result<()> {
    let path = format!("trees/{n_val}/clocks?segments={}", joined(segments));
    let document = document_of(api.get(&path)?, format)?;
    for record in value_at(&document, "/keys").as_array().map(Vec::as_slice).unwrap_or_default() {
        match format {
            Format::Json => say!("{record}"),
            Format::Human => {
                let [bucket_type, bucket, key] =
                    ["type", "bucket", "key"].map(|member| name(&record[member]));
                say!("{}\t{bucket_type}\t{bucket}\t{key}", plain(&record["vclock"]));
            }
        }
    }
    Ok(())
}

/// Decodes a name. A name that is not text stays percent-encoded.
fn name(encoded: &Value) -> String {
    let encoded = plain(encoded);
    percent_decode_str(&encoded).decode_utf8().map_or(encoded.clone(), Into::into)
}

fn joined(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn decoded(value: &Value) -> Result<Vec<u8>> {
    STANDARD.decode(plain(value)).context("the node's answer is not Base64")
}

/// Prints the 4-byte hashes that are not zero, each with its index.
fn print_hashes(what: &str, first: u64, hashes: &[u8]) {
    for (place, bytes) in (first..).zip(hashes.chunks_exact(4)) {
        let hash = bytes.iter().fold(0u32, |hash, byte| hash << 8 | u32::from(*byte));
        if hash != 0 {
            say!("{what} {place:>7}  {hash:08x}");
        }
    }
}

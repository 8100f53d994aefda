//! Messages of a Riak node about its replication queues and trees, and filters of its folds.

use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::segments::TreeSize;
use quoit_riak::{
    CachedFilter, FetchAnswer, Fetched, RangeFilter, Replicated, Tree, differing_branches,
    split_numbered,
};

use crate::Target;
use crate::targets::stored_objects::sample_objects;

pub(crate) const TARGET: Target = Target { name: "riak-replication", run, seeds };

/// Checks that a decoded record survives being encoded and decoded again, and that the other parsers do not
/// panic.
fn run(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    let replicated = match FetchAnswer::of_body(&bytes) {
        Ok(Some(answer)) => answer.replicated,
        _ => bytes,
    };
    if let Ok(fetched) = Fetched::decode(&replicated) {
        let written = fetched.encode(false);
        let again = Fetched::decode(&written).expect("what was just encoded decodes");
        assert_eq!(again.encode(false), written, "a record changes by being read and written");
    }
    let mut tree = Tree::empty(TreeSize::XxSmall);
    if let Ok((number, branch)) = split_numbered(input) {
        let _ = tree.set_branch(number % 17, branch);
        let _ = tree.set_compressed_branch(number % 17, branch);
    }
    let (one, other) = input.split_at(input.len() / 2);
    let _ = differing_branches(TreeSize::XxSmall, one, other);
    let text = String::from_utf8_lossy(input);
    if let Ok(filter) = RangeFilter::parse(&text)
        && let Some(encoded) = filter.encode()
    {
        assert_eq!(RangeFilter::parse(&encoded), Ok(filter), "a filter changes by being written");
    }
    let _ = (CachedFilter::parse_branches(&text), CachedFilter::parse_segments(&text));
}

fn seeds() -> Vec<Vec<u8>> {
    let named = |content| Fetched {
        bucket_type: Bytes::from_static(b"type"),
        bucket: Bytes::from_static(b"bucket"),
        key: Bytes::from_static(b"key"),
        content,
    };
    let mut records: Vec<Fetched> =
        sample_objects().into_iter().map(|object| named(Replicated::Object(object))).collect();
    records.push(named(Replicated::Reap { time_us: 7, clock: VersionVector::default() }));
    let mut seeds: Vec<Vec<u8>> = records.iter().map(|each| each.encode(false).to_vec()).collect();
    seeds.extend(records.iter().map(|each| each.encode(true).to_vec()));
    let body = |replicated| FetchAnswer { tombstone_clock: None, tree_entry: None, replicated };
    seeds.extend(records.iter().map(|each| body(each.encode(false)).to_body().to_vec()));
    let filter = concat!(
        r#"{"key_range":{"start":"a","end":"b"},"#,
        r#""segment_filter":{"segments":[1],"tree_size":"small"}}"#
    );
    let filter = RangeFilter::parse(&base64_of(filter)).expect("a filter");
    seeds.extend(filter.encode().map(String::into_bytes));
    seeds.push(CachedFilter::Numbers(vec![1, 2]).encode().into_bytes());
    seeds
}

fn base64_of(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

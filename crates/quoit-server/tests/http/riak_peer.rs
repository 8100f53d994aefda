//! Riak's replication as a peer sees it, over both protocols.

use crate::fixture::Node;
use bytes::Bytes;
use quoit_model::segments::{BRANCH_LEAVES, TreeSize};
use quoit_riak::{RangeFilter, Replicated, SegmentFilter, Tree, differing_branches};
use quoit_riak_peer::{BucketName, RiakPeer, RiakProtocol, Side};

const COUNT: usize = 20;
const QUEUE: &str = "q1_ttaaefs";

async fn peers(node: &Node) -> [RiakPeer; 2] {
    let pb = RiakPeer::connect(&node.pb_address.to_string(), RiakProtocol::Pb, None).await.unwrap();
    let http =
        RiakPeer::connect(&node.address.to_string(), RiakProtocol::Http, None).await.unwrap();
    [pb, http]
}

fn bucket() -> BucketName {
    BucketName { bucket_type: "default".into(), bucket: "b".into() }
}

#[test]
fn trees_and_clocks_are_those_of_the_records_over_both_protocols() {
    let node = Node::start();
    for number in 0..COUNT {
        node.put(&format!("/buckets/b/keys/{number}"), "value");
    }
    let made = node.run(async {
        let mut made = Vec::new();
        for mut peer in peers(&node).await {
            let all = RangeFilter::default();
            let tree = peer.range_tree(&bucket(), TreeSize::Large, &all).await.unwrap();
            let root = peer.tree_root(3).await.unwrap();
            assert_eq!(root, tree.root(), "the bucket is all that there is");
            let empty = Tree::empty(TreeSize::Large).root();
            let numbers = differing_branches(TreeSize::Large, &root, &empty).unwrap();
            for (number, branch) in peer.tree_branches(3, &numbers).await.unwrap() {
                assert_eq!(branch, tree.branch(number));
            }
            let leaf = tree.leaves().next().unwrap().0;
            let mut found = peer.tree_clocks(3, &[leaf], None).await.unwrap();
            let segments = SegmentFilter { segments: vec![leaf], tree_size: TreeSize::Large };
            let filter = RangeFilter { segments: Some(segments), ..all.clone() };
            assert_eq!(peer.range_clocks(&bucket(), &filter).await.unwrap(), found);
            assert_eq!(leaf / BRANCH_LEAVES, numbers[0]);
            assert_eq!(peer.tree_clocks(3, &[leaf], Some((0, 9))).await.unwrap(), []);
            assert_eq!(peer.tree_root(2).await.unwrap(), empty);
            assert_eq!(peer.range_clocks(&bucket(), &all).await.unwrap().len(), COUNT);
            made.push((tree, found.remove(0)));
        }
        made
    });
    assert_eq!(made[0], made[1]);
}

#[test]
fn pushed_references_are_fetched_with_their_objects_over_both_protocols() {
    let node = Node::start();
    node.put("/buckets/b/keys/here", "value");
    node.run(async {
        for mut peer in peers(&node).await {
            let all = RangeFilter::default();
            let records = peer.range_clocks(&bucket(), &all).await.unwrap();
            let lengths = peer.push(QUEUE, &records).await.unwrap().unwrap();
            assert_eq!((lengths.fold, lengths.full_sync, lengths.real_time), (0, 1, 0));
            let fetched = peer.fetch(QUEUE).await.unwrap().unwrap();
            assert_eq!((&fetched.bucket, &fetched.key), (&Bytes::from("b"), &Bytes::from("here")));
            let Replicated::Object(object) = fetched.content else { panic!("no object") };
            assert_eq!(object.siblings[0].value, "value");
            assert_eq!(object.clock, records[0].clock);
            assert_eq!(peer.fetch(QUEUE).await.unwrap(), None);
            // For an unknown queue, Riak answers over HTTP as for an empty queue, and over Protocol Buffers
            // with an error.
            assert!(!matches!(peer.fetch("no-such-queue").await, Ok(Some(_))));
        }
    });
}

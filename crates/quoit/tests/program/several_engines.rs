//! A node with several storage engines, across restarts.
use crate::node::Node;
use quoit_client::{Bucket, Client, Content};
use quoit_wire::messages::RpbBucketProps;

const SETTINGS: [&str; 5] = [
    "storage_backend=multi",
    "multi_backend.log.storage_backend=bitcask",
    "multi_backend.tree.storage_backend=leveled",
    "multi_backend.tree.leveled.maximum_memory=8MB",
    "multi_backend.default=log",
];

fn client_of(node: &Node) -> Client {
    Client::connect_to(node.pb.clone()).unwrap()
}

async fn value_of(client: &Client, bucket: &Bucket) -> Option<String> {
    let object = client.get(&bucket.key("key")).await.unwrap()?;
    Some(String::from_utf8(object.single().unwrap().value.to_vec()).unwrap())
}

/// True if an engine has a directory.
fn has_data(node: &Node, engine: &str) -> bool {
    node.data_dir().join("multi").join(engine).exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn bucket_types_live_in_their_engines_and_survive_restarts() {
    let mut node = Node::start_with(&SETTINGS);
    node.create_type("deep", r#"{"backend":"tree"}"#);
    node.create_type("flat", r#"{"backend":"log"}"#);
    let buckets = ["deep", "flat", "default"].map(|name| Bucket::new("bucket").typed(name));
    let client = client_of(&node);
    for bucket in &buckets {
        client.put(&bucket.key("key"), Content::text("before")).await.unwrap();
    }
    assert!(has_data(&node, "log") && has_data(&node, "tree"));

    let unknown = RpbBucketProps { backend: Some("forest".into()), ..RpbBucketProps::default() };
    let refused = client.set_bucket_props(&buckets[1], unknown).await.unwrap_err().to_string();
    assert!(refused.contains("must be one of the node's storage engines: log, tree"), "{refused}");

    // Existing keys stay in their engine and can be read and written.
    let other = RpbBucketProps { backend: Some("log".into()), ..RpbBucketProps::default() };
    client.set_bucket_props(&buckets[0], other).await.unwrap();
    for round in ["after a change", "after a restart", "after a crash"] {
        let client = client_of(&node);
        let stored = value_of(&client, &buckets[0]).await;
        assert!(stored.is_some(), "{round}");
        for bucket in &buckets {
            assert_eq!(value_of(&client, bucket).await, stored, "{round}");
            let object = client.get(&bucket.key("key")).await.unwrap().unwrap();
            let put = quoit_client::PutOptions {
                context: Some(object.context),
                ..quoit_client::PutOptions::default()
            };
            client.put_with(&bucket.key("key"), Content::text(round), &put).await.unwrap();
        }
        let listed = client.list_keys(&buckets[0], None).await.unwrap().collect().await.unwrap();
        assert_eq!(listed, ["key"]);
        node.restart(round == "after a change");
    }
    let client = client_of(&node);
    for bucket in &buckets {
        assert_eq!(value_of(&client, bucket).await.as_deref(), Some("after a crash"));
    }
}

#[test]
fn a_node_refuses_to_forget_an_engine_that_has_data() {
    let mut node = Node::start_with(&SETTINGS);
    node.stop();
    let text = node.refused(&[SETTINGS[0], SETTINGS[1], SETTINGS[4]]);
    assert!(text.contains("set multi_backend.tree.storage_backend = leveled"), "{text}");
    let text = node.refused(&["storage_backend=bitcask"]);
    assert!(text.contains("set storage_backend = multi"), "{text}");
    let other =
        SETTINGS.map(|line| line.replace("storage_backend=leveled", "storage_backend=leveldb"));
    let text = node.refused(&other.each_ref().map(String::as_str));
    for words in ["tree has data of the engine leveled", "convert leveldb --engine tree"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn an_operator_can_not_choose_an_engine_that_the_node_does_not_have() {
    let node = Node::start_with(&SETTINGS);
    node.create_type("deep", r#"{"backend":"tree"}"#);
    let unknown = r#"{"props":{"backend":"forest"}}"#;
    for words in [["create", "wide"], ["update", "deep"]] {
        let said = node.admin_refused(&["bucket-type", words[0], words[1], unknown]);
        assert!(said.contains("must be one of the node's storage engines: log, tree"), "{said}");
    }
}

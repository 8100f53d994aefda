//! Compressed values of a node process: written and read over both protocols and across restarts.
use crate::node::Node;
use quoit_client::{Bucket, Client, Content, IndexQuery, SetUpdate};
use std::io::{Read as _, Write as _};
use std::path::Path;

const COUNT: usize = 40;

fn text(number: usize) -> String {
    format!("{number} says what all the others say. ").repeat(400)
}

/// Sends an HTTP request to the node; returns the status line and the body of the response.
fn http(node: &Node, method: &str, path: &str, body: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(&node.http).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n");
    let kind = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{kind}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// Total size of the files below a directory, in bytes.
fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let size = |entry: std::fs::DirEntry| match entry.path().is_dir() {
        true => size_of(&entry.path()),
        false => entry.metadata().unwrap().len(),
    };
    entries.map(size).sum()
}

async fn put_all(client: &Client, bucket: &Bucket) {
    for number in 0..COUNT {
        let mut content = Content::text(text(number));
        let term = (number % 4).to_string();
        content.indexes.push(("group_int".into(), term.into()));
        client.put(&bucket.key(format!("k{number}")), content).await.unwrap();
    }
}

async fn check_all(client: &Client, bucket: &Bucket) {
    for number in 0..COUNT {
        let object = client.get(&bucket.key(format!("k{number}"))).await.unwrap().unwrap();
        assert_eq!(object.single().unwrap().value, text(number).into_bytes());
    }
    let group = IndexQuery::equal(bucket, "group_int", "3");
    let found = client.query(&group).await.unwrap().collect().await.unwrap();
    assert_eq!(found.len(), COUNT / 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_type_is_compressed_and_nobody_notices() {
    let mut node = Node::start();
    let files = node.data_dir().join("bitcask");
    node.create_type("logs", r#"{"compression":"lz4","allow_mult":false}"#);
    node.create_type("sets", r#"{"compression":"lz4","datatype":"set"}"#);
    let status = node.admin(&["bucket-type", "status", "logs"]);
    assert!(status.contains("compression: lz4"), "{status}");
    let bucket = Bucket::new("web").typed("logs");
    let client = Client::connect_to(node.pb.clone()).unwrap();
    let before = size_of(&files);
    put_all(&client, &bucket).await;
    let grown = size_of(&files) - before;
    let given = (0..COUNT).map(|number| text(number).len() as u64).sum::<u64>();
    assert!(grown < given / 10, "{grown} bytes for {given}");
    check_all(&client, &bucket).await;

    let guests = Bucket::new("guests").typed("sets").key("ever");
    let names: Vec<String> =
        (0..2_000).map(|number| format!("a guest of number {number}")).collect();
    for some in names.chunks(500) {
        let add = some.iter().fold(SetUpdate::new(), |add, name| add.insert(name));
        client.update_data_type(&guests, add).await.unwrap();
    }

    // The values are written again: after a crash, over HTTP, and with compression switched off for new
    // writes.
    put_all(&client, &bucket).await;
    node.restart(false);
    let client = Client::connect_to(node.pb.clone()).unwrap();
    check_all(&client, &bucket).await;
    let (status, value) = http(&node, "GET", "/types/logs/buckets/web/keys/k7", "");
    assert!(status.contains("200") && value == text(7), "{status}");
    let whole = client.fetch(&guests).await.unwrap().unwrap();
    assert_eq!(whole.value.as_set().unwrap().len(), names.len());
    node.admin(&["bucket-type", "update", "logs", r#"{"props":{"compression":"none"}}"#]);
    check_all(&client, &bucket).await;
    let before = size_of(&files);
    put_all(&client, &bucket).await;
    assert!(size_of(&files) - before >= given);
    check_all(&client, &bucket).await;
}

#[test]
fn the_property_is_set_and_shown_over_http_and_checked() {
    let node = Node::start_with(&["buckets.default.compression=lz4"]);
    let props = "/buckets/pictures/props";
    let (_, shown) = http(&node, "GET", props, "");
    assert!(shown.contains("\"compression\":\"lz4\""), "{shown}");
    let (status, why) = http(&node, "PUT", props, r#"{"props":{"compression":"gzip"}}"#);
    assert!(status.contains("400") && why.contains("must be lz4 or none"), "{status} {why}");
    let (status, _) = http(&node, "PUT", props, r#"{"props":{"compression":"none"}}"#);
    assert!(status.contains("204"), "{status}");
    let (_, shown) = http(&node, "GET", props, "");
    assert!(shown.contains("\"compression\":\"none\""), "{shown}");
}

/// True if a file below the directory contains the text.
fn has_text(directory: &Path, text: &[u8]) -> bool {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| entry.path()).any(|path| match path.is_dir() {
        true => has_text(&path, text),
        false => {
            let bytes = std::fs::read(&path).unwrap();
            bytes.windows(text.len()).any(|window| window == text)
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_several_engines_buckets_are_compressed_as_their_types_say() {
    let mut node = Node::start_with(&[
        "storage_backend=multi",
        "multi_backend.log.storage_backend=bitcask",
        "multi_backend.tree.storage_backend=innostore",
        "multi_backend.default=log",
    ]);
    node.create_type("packed_log", r#"{"backend":"log","compression":"lz4","allow_mult":false}"#);
    node.create_type("packed_tree", r#"{"backend":"tree","compression":"lz4","allow_mult":false}"#);
    node.create_type("plain_tree", r#"{"backend":"tree","allow_mult":false}"#);
    let packed = ["packed_log", "packed_tree"].map(|name| Bucket::new("bucket").typed(name));
    let plain = [Bucket::new("bucket"), Bucket::new("bucket").typed("plain_tree")];
    let [log, tree] = ["log", "tree"].map(|name| node.data_dir().join("multi").join(name));
    // Longer than the text that LZ4 leaves uncompressed at the beginning of a value.
    let run = "says what all the others say. 7 ".repeat(20);
    for (buckets, are_plain) in [(&packed, false), (&plain, true)] {
        let client = Client::connect_to(node.pb.clone()).unwrap();
        for bucket in buckets {
            put_all(&client, bucket).await;
            check_all(&client, bucket).await;
        }
        node.stop();
        for directory in [&log, &tree] {
            let is_there = has_text(directory, run.as_bytes());
            assert_eq!(is_there, are_plain, "{}", directory.display());
        }
        node.start_again();
    }
    let client = Client::connect_to(node.pb.clone()).unwrap();
    for bucket in packed.iter().chain(&plain) {
        check_all(&client, bucket).await;
    }
}

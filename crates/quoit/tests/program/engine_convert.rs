//! Conversion of a node's data from engine to engine, by a converter that is killed repeatedly.
use crate::node::Node;
use quoit_client::{Bucket, Client, Content, IndexQuery, PutOptions, SetUpdate};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const ENGINES: [&str; 5] = ["leveldb", "leveled", "innostore", "leveldb", "bitcask"];
const COUNT: usize = 150;
const ELEMENTS: usize = 2_000;

fn converter(data_dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoit"));
    command.args(["admin", "engine", "convert"]).args(words).arg("--data-dir").arg(data_dir);
    command
}

fn convert(data_dir: &Path, words: &[&str]) -> Output {
    converter(data_dir, words).output().unwrap()
}

/// Runs a conversion that must succeed; returns its standard output.
fn converted(data_dir: &Path, words: &[&str]) -> String {
    let output = convert(data_dir, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a conversion that must fail; returns its standard error.
fn refused(data_dir: &Path, words: &[&str]) -> String {
    let output = convert(data_dir, words);
    assert!(!output.status.success(), "{words:?} was done");
    String::from_utf8(output.stderr).unwrap()
}

/// Starts a conversion and kills it after it has printed `notes` progress lines. Returns false if the
/// conversion ended before that.
fn kill_after(data_dir: &Path, words: &[&str], notes: usize) -> bool {
    let mut command = converter(data_dir, words);
    command.args(["--note-every", "5000", "--format", "json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut noted = lines.filter(|line| line.contains("\"noted\":true"));
    if noted.nth(notes - 1).is_some() {
        child.kill().unwrap();
    }
    !child.wait().unwrap().success()
}

async fn fill(client: &Client) {
    let bucket = Bucket::new("plain");
    for number in 0..COUNT {
        let mut content = Content::text(format!("value {number} ").repeat(number));
        content.indexes.push(("group_int".into(), (number % 5).to_string().into()));
        client.put(&bucket.key(format!("k{number}")), content).await.unwrap();
    }
    for number in 0..20 {
        client.delete(&bucket.key(format!("k{number}"))).await.unwrap();
    }
    let siblings = Bucket::new("bucket").typed("siblings").key("both");
    for value in ["one", "other"] {
        client.put(&siblings, Content::text(value)).await.unwrap();
    }
    let packed = Bucket::new("bucket").typed("packed").key("long");
    client.put(&packed, Content::text("the same again ".repeat(5_000))).await.unwrap();
    let guests = Bucket::new("guests").typed("sets").key("ever");
    let names: Vec<String> = (0..ELEMENTS).map(|number| format!("guest {number}")).collect();
    for some in names.chunks(500) {
        let add = some.iter().fold(SetUpdate::new(), |add, name| add.insert(name));
        client.update_data_type(&guests, add).await.unwrap();
    }
}

/// Number of keys that an index query finds. After a conversion to bitcask that was killed, the node first
/// rebuilds index entries in the background, and queries are refused meanwhile.
async fn in_group(client: &Client, bucket: &Bucket) -> usize {
    let group = IndexQuery::equal(bucket, "group_int", "3");
    loop {
        let found = match client.query(&group).await {
            Ok(answer) => answer.collect().await,
            Err(fault) => Err(fault),
        };
        match found {
            Ok(found) => return found.len(),
            Err(fault) if fault.to_string().contains("indexes") => tokio::task::yield_now().await,
            Err(fault) => panic!("{fault}"),
        }
    }
}

async fn check(client: &Client, round: usize) {
    let bucket = Bucket::new("plain");
    for number in 0..COUNT {
        let object = client.get(&bucket.key(format!("k{number}"))).await.unwrap();
        let value = object.map(|object| object.single().unwrap().value.clone());
        let expected = (number >= 20).then(|| format!("value {number} ").repeat(number).into());
        assert_eq!(value, expected, "k{number} in round {round}");
    }
    let listed = client.list_keys(&bucket, None).await.unwrap().collect().await.unwrap();
    // Deleted elements still have tombstones, and the listing contains them.
    assert_eq!(listed.len(), COUNT);
    assert_eq!(in_group(client, &bucket).await, (COUNT - 20) / 5);
    let siblings = Bucket::new("bucket").typed("siblings").key("both");
    let both = client.get(&siblings).await.unwrap().unwrap();
    assert_eq!(both.siblings.len(), 2 + round, "a dot was given out twice in round {round}");
    let packed = Bucket::new("bucket").typed("packed").key("long");
    let long = client.get(&packed).await.unwrap().unwrap();
    assert_eq!(long.single().unwrap().value.len(), 75_000);
    let guests = Bucket::new("guests").typed("sets").key("ever");
    let all = client.fetch(&guests).await.unwrap().unwrap();
    assert_eq!(all.value.as_set().unwrap().len(), ELEMENTS + round);
    let page = client.data_type_page(&guests, 100, None).await.unwrap().unwrap();
    assert_eq!(page.value.as_set().unwrap().len(), 100);
    // Blind writes without a causal context: each must get an event of its own.
    client.put(&siblings, Content::text(format!("round {round}"))).await.unwrap();
    let add = SetUpdate::new().insert(format!("late guest {round}"));
    client.update_data_type(&guests, add).await.unwrap();
    let changed = bucket.key("k149");
    let seen = client.get(&changed).await.unwrap().unwrap();
    let options = PutOptions { context: Some(seen.context.clone()), ..PutOptions::default() };
    let same = seen.single().unwrap().clone();
    client.put_with(&changed, same, &options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_goes_on_with_all_of_its_data_on_one_engine_after_the_other() {
    let mut node = Node::start_with(&["storage_backend=bitcask", "delete_mode=keep"]);
    node.create_type("siblings", "{}");
    node.create_type("packed", r#"{"compression":"lz4"}"#);
    node.create_type("sets", r#"{"datatype":"set"}"#);
    let data_dir = node.data_dir();
    let client = Client::connect_to(node.pb.clone()).unwrap();
    fill(&client).await;
    let running = refused(&data_dir, &["leveldb"]);
    assert!(running.contains("in use by another process"), "{running}");
    for (round, to) in ENGINES.iter().enumerate() {
        check(&client_of(&node), round).await;
        node.stop();
        let from = node.settings()[0].replace("storage_backend=", "");
        let mut killed = 0;
        for notes in [1, 2, 1, 3] {
            killed += usize::from(kill_after(&data_dir, &[to], notes));
        }
        if killed > 0 && data_dir.join(&from).exists() {
            let early = node.refused(&[node.settings()[0].as_str()]);
            assert!(early.contains("is being converted"), "{early}");
        }
        assert!(killed >= 1, "{from} to {to} was too quick to be killed");
        // The last kill may have come after the conversion was complete.
        let done = convert(&data_dir, &[to]);
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let is_complete = said.contains(&format!("has data of the engine {to} already"));
        assert!(is_complete || said.contains(&format!("set storage_backend = {to}")), "{said}");
        assert!(!data_dir.join(&from).exists() && !data_dir.join("converting").exists());
        let former = node.refused(&[node.settings()[0].as_str()]);
        assert!(former.contains(&format!("set storage_backend = {to}")), "{former}");
        node.set(0, &format!("storage_backend={to}"));
        node.start_again();
    }
    check(&client_of(&node), ENGINES.len()).await;
    node.restart(false);
    check(&client_of(&node), ENGINES.len() + 1).await;
}

fn client_of(node: &Node) -> Client {
    Client::connect_to(node.pb.clone()).unwrap()
}

#[test]
fn what_can_not_be_converted_is_said_with_what_can() {
    let mut node = Node::start();
    node.stop();
    let data_dir = node.data_dir();
    let unknown = refused(&data_dir, &["rocksdb"]);
    assert!(
        unknown.contains("no storage engine \"rocksdb\"")
            && unknown.contains("bitcask, leveldb, leveled, innostore"),
        "{unknown}"
    );
    let memory = refused(&data_dir, &["memory"]);
    assert!(memory.contains("keeps nothing over a restart"), "{memory}");
    let multi = refused(&data_dir, &["multi"]);
    assert!(multi.contains("convert one of them with --engine NAME"), "{multi}");
    let same = refused(&data_dir, &["bitcask"]);
    assert!(same.contains("has data of the engine bitcask already"), "{same}");
    let nothing = refused(&data_dir, &["leveldb", "--abandon"]);
    assert!(nothing.contains("no conversion is under way"), "{nothing}");
    let empty = tempfile::tempdir().unwrap();
    let elsewhere = refused(empty.path(), &["leveldb"]);
    assert!(elsewhere.contains("is not the data directory of a node"), "{elsewhere}");
    let help = Command::new(env!("CARGO_BIN_EXE_quoit"))
        .args(["admin", "engine", "convert", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("Stop the node, convert, set storage_backend"), "{help}");
}

/// Checks the keys of the buckets `flat` and `deep/bucket`.
async fn check_buckets(node: &Node) {
    for bucket in [Bucket::new("flat"), Bucket::new("bucket").typed("deep")] {
        for number in 0..COUNT {
            let key = bucket.key(format!("k{number}"));
            let found = client_of(node).get(&key).await.unwrap().unwrap();
            assert_eq!(found.single().unwrap().value, vec![number as u8; 500]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_engines_is_converted_by_its_name() {
    let settings = [
        "storage_backend=multi",
        "multi_backend.log.storage_backend=bitcask",
        "multi_backend.tree.storage_backend=leveldb",
        "multi_backend.default=log",
    ];
    let mut node = Node::start_with(&settings);
    node.create_type("deep", r#"{"backend":"tree"}"#);
    let client = client_of(&node);
    for bucket in [Bucket::new("flat"), Bucket::new("bucket").typed("deep")] {
        for number in 0..COUNT {
            let content = Content::new(vec![number as u8; 500]);
            client.put(&bucket.key(format!("k{number}")), content).await.unwrap();
        }
    }
    node.stop();
    let data_dir = node.data_dir();
    let several = refused(&data_dir, &["innostore"]);
    assert!(several.contains("convert one of them with --engine NAME"), "{several}");
    for name in ["forest", "."] {
        let unknown = refused(&data_dir, &["innostore", "--engine", name]);
        assert!(unknown.contains(&format!("no data of an engine \"{name}\"")), "{unknown}");
        assert!(unknown.contains("name one of: log, tree"), "{unknown}");
    }
    let same = refused(&data_dir, &["leveldb", "--engine", "tree"]);
    assert!(same.contains("multi/tree has data of the engine leveldb already"), "{same}");
    let words = ["innostore", "--engine", "log"];
    assert!(kill_after(&data_dir, &words, 2), "it was too quick to be killed");
    let early = node.refused(&settings);
    assert!(early.contains("convert innostore --engine log"), "{early}");

    let other = refused(&data_dir, &["leveled", "--engine", "log", "--abandon"]);
    assert!(other.contains("from bitcask to innostore is under way"), "{other}");
    let given_up = converted(&data_dir, &["innostore", "--engine", "log", "--abandon"]);
    let old = data_dir.join("multi/log");
    assert!(given_up.contains(&format!("{} is as it was", old.display())), "{given_up}");
    assert!(!data_dir.join("multi/converting").exists());
    node.start_again();
    check_buckets(&node).await;
    node.stop();

    assert!(kill_after(&data_dir, &words, 1), "it was too quick to be killed");
    let done = converted(&data_dir, &words);
    assert!(done.contains("set multi_backend.log.storage_backend = innostore"), "{done}");
    assert!(done.contains("the old data is gone"), "{done}");
    node.set(1, "multi_backend.log.storage_backend=innostore");
    node.start_again();
    check_buckets(&node).await;
}

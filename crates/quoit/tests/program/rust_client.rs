//! The Rust client against a node process.
use crate::node::Node;
use quoit_client::{
    Bucket, BucketRef, Client, Content, DataTypeOptions, DataTypeUpdate, DataTypeValue, Error,
    Fetched, FieldKind, FieldPath, GetOptions, LatestModified, MapUpdate, MapValue, PutOptions,
    Quorum, SetUpdate, UpdateOptions,
};
use quoit_wire::messages::RpbBucketProps;
use std::collections::BTreeSet;

fn client_of(node: &Node) -> Client {
    Client::connect_to(node.pb.clone()).unwrap()
}

fn values(object: &quoit_client::Object) -> BTreeSet<&[u8]> {
    object.siblings.iter().map(|sibling| &sibling.value[..]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_written_read_and_deleted() {
    let node = Node::start();
    let client = client_of(&node);
    client.ping().await.unwrap();
    assert_eq!(client.server_info().await.unwrap().server_version, "3.2.2");

    let at = Bucket::new("cities").key("Nara");
    assert_eq!(client.get(&at).await.unwrap(), None);
    client.put(&at, Content::text("367353")).await.unwrap();
    let object = client.get(&at).await.unwrap().unwrap();
    assert_eq!(object.single().unwrap().value, "367353");

    let unchanged =
        GetOptions { if_modified: Some(object.context.clone()), ..GetOptions::default() };
    assert_eq!(client.get_with(&at, &unchanged).await.unwrap(), Fetched::Unchanged);

    client.delete(&at).await.unwrap();
    assert_eq!(client.get(&at).await.unwrap(), None);
    let stored = client
        .insert(&Bucket::new("cities"), Content::text("anonymous"), &PutOptions::default())
        .await
        .unwrap();
    let made = Bucket::new("cities").key(stored.key.unwrap());
    assert_eq!(client.get(&made).await.unwrap().unwrap().single().unwrap().value, "anonymous");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_updates_lose_nothing() {
    let node = Node::start();
    let client = client_of(&node);
    let at = Bucket::new("counters").key("n");
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (client, at) = (client.clone(), at.clone());
            tokio::spawn(async move {
                let options = UpdateOptions { attempts_max: 1_000, ..UpdateOptions::default() };
                for _ in 0..10 {
                    let add = |old: Option<Content>| {
                        let old = old.map_or(0, |content| {
                            std::str::from_utf8(&content.value).unwrap().parse::<u32>().unwrap()
                        });
                        Some(Content::text((old + 1).to_string()))
                    };
                    client.update(&at, &LatestModified, &options, add).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(client.get(&at).await.unwrap().unwrap().single().unwrap().value, "80");
}

#[tokio::test(flavor = "multi_thread")]
async fn siblings_are_kept_and_resolved() {
    let node = Node::start();
    let client = client_of(&node);
    let bucket = Bucket::new("carts");
    let props = RpbBucketProps { allow_mult: Some(true), ..RpbBucketProps::default() };
    client.set_bucket_props(&bucket, props).await.unwrap();
    assert_eq!(client.bucket_props(&bucket).await.unwrap().allow_mult, Some(true));

    let at = bucket.key("42");
    client.put(&at, Content::text("apples")).await.unwrap();
    client.put(&at, Content::text("pears")).await.unwrap();
    let object = client.get(&at).await.unwrap().unwrap();
    assert!(object.is_conflict());
    assert_eq!(values(&object), BTreeSet::from([&b"apples"[..], b"pears"]));

    let both = |siblings: Vec<Content>| {
        let mut names: Vec<_> =
            siblings.iter().map(|each| each.value.escape_ascii().to_string()).collect();
        names.sort();
        Content::text(names.join(","))
    };
    let (resolved, context) = client.get_resolved(&at, &both).await.unwrap().unwrap();
    assert_eq!(resolved.value, "apples,pears");
    let options = PutOptions { context: Some(context), ..PutOptions::default() };
    client.put_with(&at, resolved, &options).await.unwrap();
    let object = client.get(&at).await.unwrap().unwrap();
    assert_eq!(values(&object), BTreeSet::from([&b"apples,pears"[..]]));

    client.reset_bucket_props(&bucket).await.unwrap();
    assert_eq!(client.bucket_props(&bucket).await.unwrap().allow_mult, Some(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_writes_are_all_listed() {
    let node = Node::start();
    let client = client_of(&node);
    let bucket = Bucket::new("many");
    let tasks: Vec<_> = (0..500)
        .map(|number| {
            let (client, at) = (client.clone(), bucket.key(format!("key-{number:03}")));
            tokio::spawn(async move { client.put(&at, Content::text("v")).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let keys = client.list_keys(&bucket, None).await.unwrap().collect().await.unwrap();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 500);
    assert_eq!(keys.len(), 500);
    let buckets = client.list_buckets(None, None).await.unwrap().collect().await.unwrap();
    assert_eq!(buckets, ["many"]);
    assert_eq!(client.preflist(&bucket.key("key-000")).await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_arrive_as_the_servers_words() {
    let node = Node::start();
    let client = client_of(&node);
    let at = Bucket::new("b").key("k");
    let options = GetOptions { r: Quorum::Count(4), ..GetOptions::default() };
    let Err(Error::Server(refusal)) = client.get_with(&at, &options).await else {
        panic!("r is above n_val");
    };
    assert_eq!(refusal.message, "{n_val_violation,3}");
    let Err(Error::Server(refusal)) = client.get(&Bucket::new("b").typed("none").key("k")).await
    else {
        panic!("there is no such type");
    };
    assert_eq!(refusal.message, "no_type");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layout_names_the_node_and_follows_the_properties_of_buckets() {
    let node = Node::start();
    let client = Client::builder().node(&node.pb).replica_aware(true).build().unwrap();
    let at = Bucket::new("b").key("k");
    client.put(&at, Content::text("v")).await.unwrap();
    assert!(client.get(&at).await.unwrap().is_some());
    let layout = client.layout().await.unwrap();
    assert_eq!(layout.ring_size(), 64);
    let [only] = layout.nodes() else { panic!("{layout:?}") };
    assert_eq!((&only.name[..], &only.address), (&b"quoit@127.0.0.1"[..], &node.pb));
    assert_eq!(layout.replicas(BucketRef::untyped(b"b").key(b"k")), [0]);
    assert_eq!(client.layout().await.unwrap().tag(), layout.tag());

    let props = RpbBucketProps { n_val: Some(1), ..RpbBucketProps::default() };
    client.set_bucket_props(&at.bucket, props).await.unwrap();
    assert_ne!(client.layout().await.unwrap().tag(), layout.tag());
}

#[tokio::test(flavor = "multi_thread")]
async fn data_types_are_read_and_changed() {
    let node = Node::start();
    let client = client_of(&node);
    for (name, datatype) in [("maps", "map"), ("counters", "counter")] {
        node.create_type(name, &format!("{{\"datatype\":\"{datatype}\"}}"));
    }
    let visits = Bucket::new("visits").typed("counters").key("today");
    assert_eq!(client.fetch(&visits).await.unwrap(), None);
    client.update_data_type(&visits, DataTypeUpdate::counter(3)).await.unwrap();
    let found = client.fetch(&visits).await.unwrap().unwrap();
    assert_eq!((found.value, found.context), (DataTypeValue::Counter(3), None));

    let profile = Bucket::new("people").typed("maps").key("ann");
    let change = MapUpdate::new()
        .assign("name", "Ann")
        .update_set("languages", SetUpdate::new().insert("en").insert("ja"));
    client.update_data_type(&profile, change).await.unwrap();
    let seen = client.fetch(&profile).await.unwrap().unwrap();
    let map = seen.value.as_map().unwrap();
    assert_eq!(map.registers[&b"name"[..]], "Ann");
    let options =
        DataTypeOptions { context: seen.context, return_body: true, ..DataTypeOptions::default() };
    let change = MapUpdate::new()
        .remove(FieldKind::Register, "name")
        .update_set("languages", SetUpdate::new().remove("en"));
    let updated = client.update_data_type_with(&profile, change, &options).await.unwrap();
    let body = updated.body.unwrap();
    let map = body.value.as_map().unwrap();
    assert!(map.registers.is_empty() && map.sets[&b"languages"[..]].contains(&b"ja"[..]));

    let field = client.map_field(&profile, FieldKind::Set, "languages").await.unwrap().unwrap();
    assert_eq!(field.as_map().unwrap().sets[&b"languages"[..]], ["ja".into()].into());
    let gone = client.map_field(&profile, FieldKind::Register, "name").await.unwrap().unwrap();
    assert_eq!(gone.as_map(), Some(&MapValue::default()));
    assert_eq!(client.data_type_size(&profile).await.unwrap(), Some(1));
    let languages = client.in_field(&profile, FieldPath::new().set("languages"));
    assert_eq!(languages.size().await.unwrap(), Some(1));
    assert!(languages.contains("ja").await.unwrap() && !languages.contains("en").await.unwrap());
    let page = languages.page(10, None).await.unwrap().unwrap();
    assert_eq!(page.value, DataTypeValue::Set(["ja".into()].into()));
    let absent = client.in_field(&profile, FieldPath::new().map("m").set("s"));
    assert_eq!(absent.size().await.unwrap(), None);
    let unsuitable = client.set_contains(&profile, "x").await;
    assert!(unsuitable.unwrap_err().server().unwrap().message.contains("has no such part"));

    let wrong = client.update_data_type(&visits, DataTypeUpdate::gset(["x"])).await;
    let text = "Operation type is `gset` but  bucket type is `counter`.";
    assert_eq!(wrong.unwrap_err().server().unwrap().message, text);
}

/// Body of the response to a GET request.
fn http_get(node: &Node, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(&node.http).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_tell_data_types_apart() {
    let node = Node::start();
    let client = client_of(&node);
    node.create_type("sets", r#"{"datatype":"set"}"#);
    node.create_type("hlls", r#"{"datatype":"hll"}"#);
    let figure = |stats: &serde_json::Value, name: &str| {
        stats[name].as_u64().unwrap_or_else(|| panic!("{name}"))
    };
    assert!(!http_get(&node, "/metrics").contains("quoit_data_type"), "nobody has used any");

    let guests = Bucket::new("guests").typed("sets").key("tonight");
    for name in ["ann", "bob", "cid"] {
        client.update_data_type(&guests, SetUpdate::new().insert(name)).await.unwrap();
    }
    client.fetch(&guests).await.unwrap().unwrap();
    assert!(
        client.fetch(&Bucket::new("guests").typed("sets").key("none")).await.unwrap().is_none()
    );
    let visitors = Bucket::new("visitors").typed("hlls").key("today");
    client.update_data_type(&visitors, DataTypeUpdate::hll(["ann"])).await.unwrap();

    let stats: serde_json::Value = serde_json::from_str(&http_get(&node, "/stats")).unwrap();
    for (name, expected) in [
        ("node_puts_set_total", 3),
        ("node_gets_set_total", 1),
        ("vnode_set_update_total", 3),
        ("node_puts_hll_total", 1),
        ("node_puts_counter_total", 0),
        ("node_get_fsm_set_siblings_100", 1),
        ("set_actor_counts_100", 1),
        ("object_set_merge_total", 0),
    ] {
        assert_eq!(figure(&stats, name), expected, "{name}");
    }
    assert!(figure(&stats, "node_get_fsm_set_objsize_mean") > 10);
    assert!(figure(&stats, "hll_bytes_total") > 0);
    assert!(figure(&stats, "node_put_fsm_set_time_100") > 0);
    let metrics = http_get(&node, "/metrics");
    assert!(metrics.contains("quoit_data_type_puts_total{datatype=\"set\"} 3"), "{metrics}");
    assert!(
        metrics.contains("quoit_data_type_actors_bucket{datatype=\"hll\",le=\"1\"} 1"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn large_sets_are_read_in_parts() {
    let node = Node::start();
    let client = client_of(&node);
    node.create_type("sets", "{\"datatype\":\"set\"}");
    let guests = Bucket::new("guests").typed("sets").key("ever");
    assert_eq!(client.data_type_size(&guests).await.unwrap(), None);
    assert!(!client.set_contains(&guests, "guest 7").await.unwrap());
    assert_eq!(client.data_type_page(&guests, 10, None).await.unwrap(), None);
    let names: Vec<String> = (0..3_000).map(|number| format!("guest {number}")).collect();
    for some in names.chunks(500) {
        let add = some.iter().fold(SetUpdate::new(), |add, name| add.insert(name));
        client.update_data_type(&guests, add).await.unwrap();
    }
    assert_eq!(client.data_type_size(&guests).await.unwrap(), Some(3_000));
    assert!(client.set_contains(&guests, "guest 7").await.unwrap());
    assert!(!client.set_contains(&guests, "guest 3000").await.unwrap());
    let (mut found, mut page_count, mut cursor) = (BTreeSet::new(), 0, None);
    loop {
        let page = client.data_type_page(&guests, 128, cursor.as_ref()).await.unwrap().unwrap();
        let elements = page.value.as_set().unwrap();
        assert!(elements.len() <= 128);
        for element in elements {
            assert!(found.insert(element.to_vec()), "{element:?} comes once");
        }
        page_count += 1;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert!(page_count < 30);
    assert_eq!(found, names.into_iter().map(String::into_bytes).collect());
    let whole = client.fetch(&guests).await.unwrap().unwrap();
    assert!(whole.value.as_set().unwrap().iter().eq(found.iter()));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_fields_are_read_in_parts_from_the_command_line() {
    let node = Node::start();
    let client = client_of(&node);
    node.create_type("maps", "{\"datatype\":\"map\"}");
    let ann = Bucket::new("people").typed("maps").key("ann");
    for from in (0..1_200).step_by(300) {
        let names = (from..from + 300).map(|number| format!("tag {number}"));
        let tags = names.fold(SetUpdate::new(), |tags, name| tags.insert(name));
        let profile = MapUpdate::new().update_set("tags", tags).count("visits", 1);
        client
            .update_data_type(&ann, MapUpdate::new().update_map("profile", profile))
            .await
            .unwrap();
    }
    let start = ["data-type", "maps/people/ann", "--in", "profile_map"];
    let profile = |words: &[&str]| node.admin(&[&start, words].concat());
    assert_eq!(profile(&[]), "2\n");
    assert_eq!(profile(&["--field", "visits_counter"]), "4\n");
    let tags = |words: &[&str]| profile(&[&["--in", "tags_set"], words].concat());
    assert_eq!(tags(&[]), "1200\n");
    assert_eq!(tags(&["--contains", "tag 7"]), "yes\n");
    assert_eq!(tags(&["--contains", "tag 1200"]), "no\n");
    let listed = tags(&["--list", "--page-size", "170"]);
    let found: BTreeSet<_> = listed.lines().map(str::to_owned).collect();
    assert_eq!(listed.lines().count(), 1_200, "each once");
    assert_eq!(found, (0..1_200).map(|number| format!("tag {number}")).collect());
    let absent = node.admin_refused(&[&start[..], &["--in", "none_set"]].concat());
    assert!(absent.contains("there is no profile_map/none_set in maps/people/ann"), "{absent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn folds_are_run_from_the_command_line() {
    let node = Node::start();
    let client = client_of(&node);
    for number in 0..20 {
        let key = Bucket::new("b").key(format!("key {number:02}"));
        client.put(&key, Content::text("x".repeat(1000 * number))).await.unwrap();
    }
    let stats = node.admin(&["fold", "object-stats", "b"]);
    assert!(stats.starts_with("records   20\n"), "{stats}");
    let large = node.admin(&["fold", "find-keys", "default/b", "--bytes", "18000"]);
    let mut keys: Vec<_> = large.lines().filter_map(|line| line.split_once('\t')).collect();
    keys.sort_unstable();
    assert_eq!(keys.iter().map(|(_, key)| *key).collect::<Vec<_>>(), ["key 18", "key 19"]);
    let erase = ["fold", "erase-keys", "b", "--to-key", "key 04"];
    assert!(node.admin(&erase).contains("5 would be changed"));
    assert!(node.admin(&[&erase[..], &["--method", "local"]].concat()).contains("5 matches"));
    assert!(client.get(&Bucket::new("b").key("key 04")).await.unwrap().is_none());
    assert!(client.get(&Bucket::new("b").key("key 05")).await.unwrap().is_some());
    assert_eq!(node.admin(&["fold", "status"]).lines().count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_of_all_types_are_listed_from_the_command_line() {
    let node = Node::start();
    let client = client_of(&node);
    node.create_type("deep", "{}");
    for bucket in
        [Bucket::new("plain"), Bucket::new("b 1").typed("deep"), Bucket::new("b2").typed("deep")]
    {
        client.put(&bucket.key("k"), Content::text("v")).await.unwrap();
    }
    let listed = |words: &[&str]| {
        let said = node.admin(&[&["fold", "list-buckets"], words].concat());
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(listed(&[]), ["deep\tb 1", "deep\tb2", "default\tplain"]);
    assert_eq!(listed(&["--limit", "2"]).len(), 2);
}

//! Tests of MapReduce jobs that run where the replicas are, while nodes fail.

use crate::cluster::fixture::{Cluster, key};
use quoit_core::{
    DeleteRequest, IndexQuery, IndexSelection, JobError, JobInputs, JobRun, JobSettings,
};
use quoit_mapreduce::{Datum, IndexTerms, Inputs, Job, Outputs, ScriptEngine, append_json};
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use quoit_script::{QuickJs, ScriptLimits};
use serde_json::{Value, json};
use std::sync::Arc;

/// Keys of a test. With one replica of each record, a node has about a third of them.
const KEYS: [&str; 24] = [
    "k00", "k01", "k02", "k03", "k04", "k05", "k06", "k07", "k08", "k09", "k10", "k11", "k12",
    "k13", "k14", "k15", "k16", "k17", "k18", "k19", "k20", "k21", "k22", "k23",
];

fn settings() -> JobSettings {
    let engine = Arc::new(QuickJs::new(ScriptLimits::default()));
    JobSettings { held_bytes_max: 1 << 20, scripts: Some(engine) }
}

fn erlang(function: &str, arg: Value) -> Value {
    json!({"language": "erlang", "module": "riak_kv_mapreduce", "function": function, "arg": arg})
}

fn value_of(datum: &Datum) -> Value {
    let mut json = Vec::new();
    append_json(&mut json, datum).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// Begins a job at node 0.
async fn begin(cluster: &Cluster, inputs: Value, query: Value) -> Result<JobRun, JobError> {
    let document = json!({"inputs": inputs, "query": query}).to_string();
    let job = Job::from_json(document.as_bytes()).unwrap();
    let inputs = match job.inputs.clone() {
        Inputs::Keys(keys) => JobInputs::Keys(keys),
        Inputs::Bucket(bucket) => JobInputs::Bucket(bucket, None),
        Inputs::Filtered(bucket, filter) => JobInputs::Bucket(bucket, Some(filter)),
        Inputs::Index { bucket, field, terms } => {
            let bounds = match (&field[..], terms) {
                (b"$bucket", _) => KeyBounds::ALL,
                (_, IndexTerms::One(key)) => KeyBounds::between(key.clone(), &key),
                (_, IndexTerms::Range(first, last)) => KeyBounds::between(first, &last),
            };
            let selection = IndexSelection::Keys(bounds);
            let bucket = BucketRef { bucket_type: &bucket.bucket_type, bucket: &bucket.bucket };
            let query = IndexQuery::new(bucket, selection);
            JobInputs::Query(Box::new(query))
        }
        other => panic!("{other:?}"),
    };
    cluster.nodes[0].store.jobs().begin(&job, inputs, &settings()).await
}

/// Runs a job at node 0, and returns its outputs in order.
async fn run(cluster: &Cluster, inputs: Value, query: Value) -> Result<Vec<Value>, JobError> {
    run_till(cluster, inputs, query, |_| {}).await
}

/// As [`run`]. Calls `stepped` after each step, with the number of outputs so far.
async fn run_till(
    cluster: &Cluster,
    inputs: Value,
    query: Value,
    mut stepped: impl FnMut(usize),
) -> Result<Vec<Value>, JobError> {
    let mut running = begin(cluster, inputs, query).await?;
    let mut outputs: Vec<Value> = Vec::new();
    while let Some(more) = running.next().await? {
        let data = more.iter().flat_map(|Outputs { data, .. }| data);
        outputs.extend(data.map(value_of));
        stepped(outputs.len());
    }
    outputs.sort_by_key(ToString::to_string);
    Ok(outputs)
}

fn values(arg: &str) -> Value {
    json!([{"map": erlang("map_object_value", arg.into())}])
}

fn keys_of(bucket_type: &str, keys: &[&str]) -> Value {
    keys.iter().map(|key| json!(["bucket", key, null, bucket_type])).collect()
}

/// Three nodes, and a bucket type with one replica of each record. The values of the records are their
/// keys.
async fn with_single_copies() -> Cluster {
    let cluster = Cluster::of(3).await;
    cluster.create_type("single", json!({"n_val": 1})).await;
    for name in KEYS {
        cluster.nodes[0].put(key("single", name), name).await;
    }
    cluster
}

fn run_scripts_everywhere(cluster: &Cluster) {
    for node in &cluster.nodes {
        let engine: Arc<dyn ScriptEngine> = Arc::new(QuickJs::new(ScriptLimits::default()));
        node.store.listings().run_scripts_with(engine);
    }
}

#[tokio::test(start_paused = true)]
async fn maps_run_where_the_records_are_and_nothing_is_fetched() {
    let cluster = with_single_copies().await;
    run_scripts_everywhere(&cluster);
    let script = json!([{"map": {"language": "javascript",
        "source": "function(o) { return [o.values[0].data.toUpperCase()]; }"}}]);
    let upper: Vec<Value> = KEYS.iter().map(|key| key.to_uppercase().into()).collect();
    let fetched_before = cluster.nodes[0].fetched().0;
    for inputs in [json!(["single", "bucket"]), keys_of("single", &KEYS)] {
        let found = run(&cluster, inputs.clone(), values("filter_notfound")).await.unwrap();
        assert_eq!(found, KEYS);
        assert_eq!(run(&cluster, inputs, script.clone()).await.unwrap(), upper);
    }
    assert_eq!(cluster.nodes[0].fetched().0, fetched_before);
    let asked = |node: usize| cluster.nodes[node].store.listings().script_session_count();
    cluster.until(|| (0..3).all(|node| asked(node) == 0)).await;
}

#[tokio::test(start_paused = true)]
async fn filters_later_phases_and_reductions_see_what_nodes_have_made() {
    let cluster = with_single_copies().await;
    let filtered = json!({"bucket": ["single", "bucket"], "key_filters": [["ends_with", "7"]]});
    assert_eq!(run(&cluster, filtered, values("")).await.unwrap(), [json!("k07"), json!("k17")]);
    let bad =
        json!({"bucket": ["single", "bucket"], "key_filters": [["string_to_int"], ["eq", 1]]});
    let fault = run(&cluster, bad, values("")).await.unwrap_err().to_string();
    assert!(fault.contains("string_to_int") && fault.contains("k0"), "{fault}");
    let whole = json!(["single", "bucket"]);
    for arg in [json!(null), json!({"do_prereduce": true})] {
        let count = json!([{"map": erlang("map_object_value", arg.clone())},
            {"reduce": erlang("reduce_count_inputs", json!(null))}]);
        assert_eq!(run(&cluster, whole.clone(), count).await.unwrap(), [json!(24)]);
        let sorted = json!([{"map": erlang("map_object_value", arg)},
            {"reduce": erlang("reduce_sort", json!(null))}]);
        assert_eq!(run(&cluster, keys_of("single", &KEYS), sorted).await.unwrap(), KEYS);
    }
    let kept = json!([{"map": {"language": "erlang", "module": "riak_kv_mapreduce",
        "function": "map_object_value", "keep": true}},
        {"reduce": erlang("reduce_count_inputs", json!(null))}]);
    assert_eq!(run(&cluster, whole, kept).await.unwrap().len(), 25);
}

#[tokio::test(start_paused = true)]
async fn scripts_reduce_where_they_map_if_the_job_says_so() {
    let cluster = with_single_copies().await;
    run_scripts_everywhere(&cluster);
    let calls = |arg: Value, reduce_arg: Value| {
        json!([
            {"map": {"language": "javascript", "source": "function(o) { return [1]; }", "arg": arg}},
            {"reduce": {"language": "javascript", "arg": reduce_arg,
                "source": "function(values) { return ['call'].concat(values); }"}},
        ])
    };
    let count = |outputs: Vec<Value>| outputs.iter().filter(|each| **each == "call").count();
    let inputs = json!(["single", "bucket"]);
    let once = run(&cluster, inputs.clone(), calls(json!(null), json!(null))).await.unwrap();
    assert_eq!(count(once), 1, "24 outputs of nodes that come in batches of more than 20");
    let before = json!({"do_prereduce": true});
    let nodes = run(&cluster, inputs.clone(), calls(before.clone(), json!(null))).await.unwrap();
    assert!(count(nodes) > 3, "each node and the coordinator");
    let at_once = json!({"reduce_phase_only_1": true});
    let alone = run(&cluster, inputs, calls(before, at_once)).await.unwrap();
    assert_eq!(count(alone), 1, "the function is to see all inputs at once");
}

#[tokio::test(start_paused = true)]
async fn scripts_that_a_node_does_not_run_are_run_by_the_coordinator() {
    let cluster = with_single_copies().await;
    let script =
        json!([{"map": {"language": "javascript", "source": "function(o) { return [o.key]; }"}}]);
    for inputs in [json!(["single", "bucket"]), keys_of("single", &KEYS)] {
        assert_eq!(run(&cluster, inputs, script.clone()).await.unwrap(), KEYS);
    }
}

#[tokio::test(start_paused = true)]
async fn faults_at_other_nodes_name_the_phase_and_the_record() {
    let cluster = with_single_copies().await;
    run_scripts_everywhere(&cluster);
    let script = json!([{"map": {"language": "javascript",
        "source": "function(o) { if (o.key > 'k1') throw new Error('no ' + o.key); return [1]; }"}}]);
    for inputs in [json!(["single", "bucket"]), keys_of("single", &KEYS)] {
        let JobError::Phase(fault) = run(&cluster, inputs, script.clone()).await.unwrap_err()
        else {
            panic!("a fault of the phase");
        };
        assert_eq!(fault.phase, 0);
        assert!(fault.error.contains("no k"), "{}", fault.error);
        assert!(fault.input.contains("<<\"k"), "{}", fault.input);
    }
}

/// Number of records, more than a chunk of inputs.
const MANY: u64 = 2_500;
/// Maximum number of inputs in a chunk, and maximum memory of each.
const CHUNK_COUNT: u64 = 1_000;
const INPUT_BYTES: u64 = 300;

#[tokio::test(start_paused = true)]
async fn inputs_come_as_they_are_asked_for_whatever_the_first_phase_is() {
    for node_count in [1, 2] {
        let cluster = Cluster::of(node_count).await;
        for number in 0..MANY {
            cluster.nodes[0].put(key("default", format!("k{number:04}").leak()), "v").await;
        }
        let reduce = |name: &str| json!({"reduce": erlang(name, json!(null))});
        let batched = json!({"reduce": {"language": "javascript", "arg": {"reduce_phase_batch_size": 50},
            "source": "function(values) { return [values.length]; }"}});
        for inputs in [json!("bucket"), json!({"bucket": "bucket", "index": "$bucket", "key": "_"})]
        {
            for query in [
                json!([]),
                json!([reduce("reduce_identity")]),
                json!([reduce("reduce_count_inputs")]),
                json!([batched]),
                values(""),
            ] {
                let mut running = begin(&cluster, inputs.clone(), query.clone()).await.unwrap();
                let (mut input_count, mut held_bytes_max) = (0, 0);
                while running.next().await.unwrap().is_some() {
                    let more = running.progress().input_count() - input_count;
                    assert!(more <= CHUNK_COUNT, "{more} inputs at once: {query}");
                    input_count += more;
                    held_bytes_max = running.progress().held_bytes().max(held_bytes_max);
                }
                assert_eq!(input_count, MANY, "{query}");
                assert!(held_bytes_max <= CHUNK_COUNT * INPUT_BYTES, "{query}: {held_bytes_max}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_range_of_keys_is_mapped_whatever_says_which() {
    let cluster = with_single_copies().await;
    let bucket = json!(["single", "bucket"]);
    let between = |start: &str, end: &str| {
        json!({
            "bucket": bucket, "index": "$key", "start": start, "end": end
        })
    };
    let filtered = |filter: Value| json!({"bucket": bucket, "key_filters": [filter]});
    let starts = json!([["starts_with", "k1"]]);
    for (inputs, expected) in [
        (between("k05", "k11"), &KEYS[5..12]),
        (between("k11", "k05"), &[]),
        (json!({"bucket": bucket, "index": "$key", "key": "k07"}), &KEYS[7..8]),
        (json!({"bucket": bucket, "index": "$bucket", "key": "bucket"}), &KEYS),
        (filtered(json!(["starts_with", "k1"])), &KEYS[10..20]),
        (filtered(json!(["and", starts, [["ends_with", "7"]]])), &KEYS[17..18]),
        (filtered(json!(["between", "k22", "z"])), &KEYS[22..]),
        (filtered(json!(["less_than", "k02"])), &KEYS[..2]),
    ] {
        let found = run(&cluster, inputs.clone(), values("")).await.unwrap();
        assert_eq!(found, *expected, "{inputs}");
    }
    cluster.nodes[0].store.delete(DeleteRequest::of(key("single", "k07"))).await.unwrap();
    let found = run(&cluster, between("k06", "k08"), values("")).await.unwrap();
    assert_eq!(found, [KEYS[6], KEYS[8]], "deleted records have no entries");
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_on_with_the_replicas_that_are_left() {
    let mut cluster = Cluster::of(3).await;
    for name in KEYS {
        cluster.nodes[0].put(key("default", name), name).await;
    }
    cluster.kill(2).await;
    let mut keys = KEYS.to_vec();
    keys.push("none");
    let found = run(&cluster, keys_of("default", &keys), values("filter_notfound")).await.unwrap();
    assert_eq!(found, KEYS);
    assert_eq!(run(&cluster, json!("bucket"), values("")).await.unwrap(), KEYS);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_only_one_replica_has_is_found_there() {
    let cluster = Cluster::of(3).await;
    cluster.cut_off(2);
    cluster.until(|| cluster.nodes[2].up_count() == 1).await;
    for name in KEYS {
        cluster.nodes[2].put_at_one(key("default", name), name).await;
    }
    cluster.reconnect(2);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    assert_eq!(run(&cluster, keys_of("default", &KEYS), values("")).await.unwrap(), KEYS);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_records_have_gone_with_their_node_fails_in_words() {
    let mut cluster = with_single_copies().await;
    cluster.kill(2).await;
    for inputs in [json!(["single", "bucket"]), keys_of("single", &KEYS)] {
        let ended = run(&cluster, inputs, values("filter_notfound")).await;
        assert!(ended.is_err(), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_in_the_midst_of_a_job_leaves_its_records_to_others() {
    for inputs in [json!("bucket"), keys_of("default", &KEYS)] {
        let cluster = Cluster::of(5).await;
        for name in KEYS {
            cluster.nodes[0].put(key("default", name), name).await;
        }
        let mut step = 0;
        let ended = run_till(&cluster, inputs, values("filter_notfound"), |_| {
            step += 1;
            if step == 1 {
                cluster.network.kill("n4");
            }
        });
        assert_eq!(ended.await.unwrap(), KEYS);
    }
}

#[tokio::test(start_paused = true)]
async fn records_that_a_node_was_sent_and_did_not_answer_for_are_mapped_by_others() {
    for inputs in [json!("bucket"), keys_of("default", &KEYS)] {
        let cluster = Cluster::of(5).await;
        for name in KEYS {
            cluster.nodes[0].put(key("default", name), name).await;
        }
        // The job sends a request to each of its nodes while one of them falls silent.
        for silent in 1..5 {
            cluster.until(|| cluster.nodes[0].up_count() == 5).await;
            cluster.cut_off(silent);
            let found = run(&cluster, inputs.clone(), values("filter_notfound")).await;
            assert_eq!(found.unwrap(), KEYS, "node {silent} is silent");
            cluster.reconnect(silent);
        }
    }
}

//! MapReduce jobs while nodes fail.

use crate::fixture::{Cluster, key};
use quoit_core::{JobError, JobInputs, JobSettings};
use quoit_mapreduce::{Inputs, Job, Outputs};
use serde_json::{Value, json};

const SETTINGS: JobSettings = JobSettings { held_bytes_max: 1 << 20, scripts: None };

/// Runs a job over keys of the bucket at node 0.
async fn run(cluster: &Cluster, keys: &[&str], query: Value) -> Result<Vec<Outputs>, JobError> {
    let inputs: Vec<[&str; 2]> = keys.iter().map(|key| ["bucket", key]).collect();
    let document = json!({"inputs": inputs, "query": query}).to_string();
    let job = Job::from_json(document.as_bytes()).unwrap();
    let Inputs::Keys(keys) = job.inputs.clone() else { panic!("keys") };
    let store = &cluster.nodes[0].store;
    let mut running = store.begin_job(&job, JobInputs::Keys(keys), &SETTINGS).await?;
    let mut outputs = Vec::new();
    while let Some(more) = running.next().await? {
        outputs.extend(more);
    }
    Ok(outputs)
}

fn values_of_what_is_there() -> Value {
    json!([{"map": {"language": "erlang", "module": "riak_kv_mapreduce",
        "function": "map_object_value", "arg": "filter_notfound"}}])
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_on_with_the_replicas_that_are_left() {
    let mut cluster = Cluster::of(3).await;
    cluster.nodes[0].put(key("default", "k"), "v").await;
    cluster.kill(2).await;
    let outputs = run(&cluster, &["k", "none"], values_of_what_is_there()).await.unwrap();
    assert_eq!(outputs.iter().map(|each| each.data.len()).sum::<usize>(), 1);
}

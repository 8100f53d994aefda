//! The permissions that a MapReduce job requires.

use crate::security::RequiredPermission;
use quoit_mapreduce::{Inputs, Job, PhaseKind, ScriptSource};
use quoit_model::key::BucketRef;
use quoit_security::Permission;

/// Riak's text for jobs that follow links while security is on.
pub(crate) const NO_LINKS: &str =
    "\"Link walking is deprecated in Riak 2.0 and is not compatible with security.\"";

/// The permissions that a job requires, in Riak's order: first those to find its inputs, then those to run
/// it.
///
/// The inputs name records of the first phase only. A later phase may read any record that an output of the
/// phase before names, so it requires the permission for all buckets. A stored script has to be read, too.
pub(crate) fn needs(job: &Job) -> Vec<RequiredPermission<'_>> {
    let of = RequiredPermission::of_bucket;
    let run = Permission::MapReduce;
    let mut needs = match &job.inputs {
        Inputs::Bucket(name) | Inputs::Filtered(name, _) => {
            let bucket = BucketRef { bucket_type: &name.bucket_type, bucket: &name.bucket };
            vec![of(Permission::ListKeys, bucket), of(run, bucket)]
        }
        Inputs::Index { bucket: name, .. } => {
            let bucket = BucketRef { bucket_type: &name.bucket_type, bucket: &name.bucket };
            vec![of(Permission::Index, bucket), of(run, bucket)]
        }
        Inputs::Keys(keys) => {
            let mut needs: Vec<RequiredPermission<'_>> = Vec::new();
            for key in keys {
                let bucket = BucketRef { bucket_type: &key.bucket_type, bucket: &key.bucket };
                let need = of(run, bucket);
                // Keys of the same bucket are usually adjacent.
                if needs.last() != Some(&need) {
                    needs.push(need);
                }
            }
            needs
        }
        Inputs::Generated(_) => vec![RequiredPermission::any(run)],
    };
    for (_, script) in job.scripts() {
        if let ScriptSource::Stored(name) = &script.source {
            let bucket = BucketRef { bucket_type: &name.bucket_type, bucket: &name.bucket };
            needs.push(of(Permission::Get, bucket));
        }
    }
    let reads = |kind: &PhaseKind| matches!(kind, PhaseKind::Map(_) | PhaseKind::Link { .. });
    if job.phases.iter().skip(1).any(|phase| reads(&phase.kind)) {
        needs.push(RequiredPermission::any(run));
    }
    needs
}

/// True if a job follows links, which may lead to any bucket.
pub(crate) fn follows_links(job: &Job) -> bool {
    job.phases.iter().any(|phase| matches!(phase.kind, PhaseKind::Link { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(query: Value) -> Job {
        let document = json!({"inputs": [["b", "k"]], "query": query}).to_string();
        Job::from_json(document.as_bytes()).expect("a job")
    }

    #[test]
    fn records_that_outputs_name_take_the_right_to_all() {
        let map = json!({"map": {
            "language": "erlang", "module": "riak_kv_mapreduce", "function": "map_object_value"}});
        let reduce = json!({"reduce": {
            "language": "javascript", "source": "function() { return [['secret', 'k']]; }"}});
        let reads_anything =
            |query| needs(&job(query)).contains(&RequiredPermission::any(Permission::MapReduce));
        assert!(!reads_anything(json!([])));
        assert!(!reads_anything(json!([map, reduce])));
        assert!(reads_anything(json!([map, map])));
        assert!(reads_anything(json!([map, reduce, {"link": {}}])));
        assert!(reads_anything(json!([reduce, map])), "a script may name any record");
    }

    #[test]
    fn a_stored_source_takes_the_right_to_read_it() {
        let stored =
            job(json!([{"map": {"language": "javascript", "bucket": "code", "key": "f"}}]));
        assert!(needs(&stored).contains(&RequiredPermission::of_bucket(
            Permission::Get,
            BucketRef::untyped(b"code")
        )));
    }
}

//! The rights that a MapReduce job asks for.

use crate::security::Need;
use quoit_mapreduce::{Inputs, Job, PhaseKind};
use quoit_security::Permission;

/// Text of Riak for jobs that follow links while security is on.
pub(crate) const NO_LINKS: &str =
    "\"Link walking is deprecated in Riak 2.0 and is not compatible with security.\"";

/// The rights of a job, in Riak's order: first to find its inputs, then to run it. A job with several
/// phases that read records may read those of any bucket, which its own outputs name.
pub(crate) fn needs(job: &Job) -> Vec<Need<'_>> {
    let of = |permission, bucket_type, bucket| Need::of_bucket(permission, bucket_type, bucket);
    let run = Permission::MapReduce;
    let mut needs = match &job.inputs {
        Inputs::Bucket(name) | Inputs::Filtered(name, _) => {
            let find = of(Permission::ListKeys, &name.bucket_type, &name.bucket);
            vec![find, of(run, &name.bucket_type, &name.bucket)]
        }
        Inputs::Index { bucket: name, .. } => {
            let find = of(Permission::Index, &name.bucket_type, &name.bucket);
            vec![find, of(run, &name.bucket_type, &name.bucket)]
        }
        Inputs::Keys(keys) => {
            let mut needs: Vec<Need<'_>> = Vec::new();
            for key in keys {
                let need = of(run, &key.bucket_type, &key.bucket);
                // Keys of one bucket mostly stand together.
                if needs.last() != Some(&need) {
                    needs.push(need);
                }
            }
            needs
        }
        Inputs::Generated(_) => vec![Need::any(run)],
    };
    let reads = |kind: &PhaseKind| matches!(kind, PhaseKind::Map(_) | PhaseKind::Link { .. });
    if job.phases.iter().filter(|phase| reads(&phase.kind)).count() > 1 {
        needs.push(Need::any(run));
    }
    needs
}

/// Whether a job follows links, which lead to any bucket.
pub(crate) fn follows_links(job: &Job) -> bool {
    job.phases.iter().any(|phase| matches!(phase.kind, PhaseKind::Link { .. }))
}

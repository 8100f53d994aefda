//! Jobs, and the parsing of their documents in JSON and in Erlang's external term format.

mod inputs;
mod json_form;
mod phase_term;
mod phases;
mod term_form;

use crate::filter::KeyFilter;
use crate::map::MapFunction;
use crate::reduce::ReduceFunction;
use crate::script::{Script, ScriptSource};
use crate::value::input::{BucketName, Input};
use bytes::Bytes;

/// Default timeout of a job in milliseconds.
pub const TIMEOUT_MS_DEFAULT: u64 = 60_000;

/// A MapReduce job.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Inputs of the first phase.
    pub inputs: Inputs,
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// Timeout of the whole job in milliseconds.
    pub timeout_ms: u64,
}

/// The records that a job starts with.
#[derive(Clone, PartialEq, Debug)]
pub enum Inputs {
    /// All records of a bucket.
    Bucket(BucketName),
    /// Records of a bucket whose keys pass a filter.
    Filtered(BucketName, KeyFilter),
    /// Listed records.
    Keys(Vec<Input>),
    /// Records with entries in an index.
    Index {
        /// Bucket.
        bucket: BucketName,
        /// Field of the index.
        field: Bytes,
        /// Terms.
        terms: IndexTerms,
    },
    /// Records that a built-in function of the server determines.
    Generated(Generator),
}

/// Terms of an index query; integers are decimal text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IndexTerms {
    /// One term.
    One(Bytes),
    /// All terms between two terms, both included.
    Range(Bytes, Bytes),
}

/// A built-in function that determines the inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Generator {
    /// `quoit:keys_with_prefix`: the keys of a bucket that begin with a prefix.
    KeysWithPrefix(BucketName, Bytes),
}

/// A phase of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    /// Kind of the phase.
    pub kind: PhaseKind,
    /// True if the outputs of the phase are part of the job's result.
    pub keep: bool,
    /// True if the reduce phase after this map phase starts on the nodes that run the map phase
    /// (`do_prereduce`).
    pub prereduces: bool,
}

/// Kind of a phase.
#[derive(Clone, PartialEq, Debug)]
pub enum PhaseKind {
    /// Applies a function to each object.
    Map(MapFunction),
    /// Applies a function to all inputs.
    Reduce(ReduceFunction),
    /// Follows the links of each object; `None` matches any bucket or tag.
    Link {
        /// Bucket of the link's target.
        bucket: Option<Bytes>,
        /// Tag of the link.
        tag: Option<Bytes>,
    },
}

impl Job {
    /// The scripts of the job with the indexes of their phases.
    pub fn scripts(&self) -> impl Iterator<Item = (usize, &Script)> {
        self.phases.iter().enumerate().filter_map(|(place, phase)| match &phase.kind {
            PhaseKind::Map(MapFunction::Script(script))
            | PhaseKind::Reduce(ReduceFunction::Script { script, .. }) => Some((place, script)),
            _ => None,
        })
    }

    /// Buckets that the job reads from according to its document: those of its inputs and of stored script
    /// sources. Link and map phases can lead to further buckets.
    #[must_use]
    pub fn buckets(&self) -> Vec<BucketName> {
        let of_input = |input: &Input| BucketName {
            bucket_type: input.bucket_type.clone(),
            bucket: input.bucket.clone(),
        };
        let mut buckets: Vec<BucketName> = match &self.inputs {
            Inputs::Bucket(bucket)
            | Inputs::Filtered(bucket, _)
            | Inputs::Index { bucket, .. }
            | Inputs::Generated(Generator::KeysWithPrefix(bucket, _)) => vec![bucket.clone()],
            Inputs::Keys(keys) => keys.iter().map(of_input).collect(),
        };
        for (_, script) in self.scripts() {
            if let ScriptSource::Stored(input) = &script.source {
                buckets.push(of_input(input));
            }
        }
        buckets.sort_by(|one, other| {
            (&one.bucket_type, &one.bucket).cmp(&(&other.bucket_type, &other.bucket))
        });
        buckets.dedup();
        buckets
    }
}

impl Inputs {
    /// Describes the inputs briefly, for operators.
    #[must_use]
    pub fn describe(&self) -> String {
        let name = |bucket: &BucketName| {
            let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
            format!("{}/{}", text(&bucket.bucket_type), text(&bucket.bucket))
        };
        match self {
            Self::Bucket(bucket) => format!("bucket {}", name(bucket)),
            Self::Filtered(bucket, _) => format!("filtered keys of {}", name(bucket)),
            Self::Keys(keys) => format!("{} keys", keys.len()),
            Self::Index { bucket, field, .. } => {
                format!("index {} of {}", String::from_utf8_lossy(field), name(bucket))
            }
            Self::Generated(Generator::KeysWithPrefix(bucket, _)) => {
                format!("keys with a prefix of {}", name(bucket))
            }
        }
    }
}

impl Phase {
    /// Describes the phase briefly, for operators.
    #[must_use]
    pub const fn describe(&self) -> &'static str {
        match &self.kind {
            PhaseKind::Map(function) => match function {
                MapFunction::Identity => "map_identity",
                MapFunction::ObjectValue(_) => "map_object_value",
                MapFunction::ObjectValueList(_) => "map_object_value_list",
                MapFunction::Script(_) => "map of a script",
            },
            PhaseKind::Reduce(function) => match function {
                ReduceFunction::Identity => "reduce_identity",
                ReduceFunction::SetUnion => "reduce_set_union",
                ReduceFunction::Sum => "reduce_sum",
                ReduceFunction::PlistSum => "reduce_plist_sum",
                ReduceFunction::Sort => "reduce_sort",
                ReduceFunction::CountInputs => "reduce_count_inputs",
                ReduceFunction::StringToInteger => "reduce_string_to_integer",
                ReduceFunction::Script { .. } => "reduce of a script",
            },
            PhaseKind::Link { .. } => "link",
        }
    }
}

#[cfg(test)]
mod tests;

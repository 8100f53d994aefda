//! Jobs, and their documents in both notations.

mod inputs;
mod json_form;
mod phase_term;
mod phases;
mod term_form;

use crate::filter::KeyFilter;
use crate::map::MapFunction;
use crate::reduce::ReduceFunction;
use crate::script::{Script, ScriptSource};
use crate::value::input::Input;
use bytes::Bytes;

/// Milliseconds that a job may take which does not say.
pub const TIMEOUT_MS_DEFAULT: u64 = 60_000;

/// A job.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// The records, or entries, that it begins with.
    pub inputs: Inputs,
    /// Phases in their order.
    pub phases: Vec<Phase>,
    /// Milliseconds for all of it.
    pub timeout_ms: u64,
}

/// A bucket and its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketName {
    /// Bucket type; `default` where none was named.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
}

/// The records that a job begins with.
#[derive(Clone, PartialEq, Debug)]
pub enum Inputs {
    /// All of a bucket.
    Bucket(BucketName),
    /// Those of a bucket whose keys a filter accepts.
    Filtered(BucketName, KeyFilter),
    /// These.
    Keys(Vec<Input>),
    /// Those with entries in an index.
    Index {
        /// Bucket.
        bucket: BucketName,
        /// Field of the index.
        field: Bytes,
        /// Terms.
        terms: IndexTerms,
    },
    /// Those that a function of the server names.
    Generated(Generator),
}

/// Terms of an index, integers as decimal text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IndexTerms {
    /// One.
    One(Bytes),
    /// All between two, both included.
    Range(Bytes, Bytes),
}

/// A built-in function that names records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Generator {
    /// `quoit:keys_with_prefix`: the keys of a bucket that begin with a prefix.
    KeysWithPrefix(BucketName, Bytes),
}

/// One phase.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    /// Kind of the phase.
    pub kind: PhaseKind,
    /// Whether its outputs belong to the result.
    pub keep: bool,
    /// Whether the reduce phase behind this map phase begins at the nodes that map (`do_prereduce`).
    pub prereduces: bool,
}

/// Kind of a phase.
#[derive(Clone, PartialEq, Debug)]
pub enum PhaseKind {
    /// A function of one object.
    Map(MapFunction),
    /// A function of all inputs.
    Reduce(ReduceFunction),
    /// Targets of links; `None` = any.
    Link {
        /// Bucket of the target.
        bucket: Option<Bytes>,
        /// Tag of the link.
        tag: Option<Bytes>,
    },
}

impl Job {
    /// The scripts of the job, with the places of their phases.
    pub fn scripts(&self) -> impl Iterator<Item = (usize, &Script)> {
        self.phases.iter().enumerate().filter_map(|(place, phase)| match &phase.kind {
            PhaseKind::Map(MapFunction::Script(script))
            | PhaseKind::Reduce(ReduceFunction::Script { script, .. }) => Some((place, script)),
            _ => None,
        })
    }

    /// Buckets whose objects the job is known to read from the start: that of its inputs, and those of
    /// stored sources.
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
    /// Describes the inputs in a word, for operators.
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
    /// Describes the phase in a word, for operators.
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

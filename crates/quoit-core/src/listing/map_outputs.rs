//! Outputs of a map phase at a node, on their way into its answer.

use crate::map_work::{NodeWork, datum_to_wire};
use bytes::Bytes;
use prost::Message;
use quoit_mapreduce::{Datum, PhaseFault, ReduceFunction, Reduction};
use quoit_wire::internode::maps::{MapOutput, MapOutputKind};

/// Outputs of one batch, in the form in which they take least: what is reduced at once is not kept.
pub(super) enum NodeOutputs {
    /// Encoded for the answer.
    Encoded(Vec<Bytes>),
    /// Taken by a built-in function of the reduce phase behind.
    Reduced(Box<Reduction>, ReducedCount),
    /// For a script of the reduce phase behind.
    ForScript(Vec<Datum>),
}

/// The phase that reduces, and how many outputs it was given.
pub(super) struct ReducedCount {
    phase: usize,
    count: usize,
}

impl NodeOutputs {
    pub(super) fn new(work: &NodeWork) -> Self {
        match work.reduce.as_ref().map(ReduceFunction::begin) {
            None => Self::Encoded(Vec::new()),
            Some(None) => Self::ForScript(Vec::new()),
            Some(Some(reduction)) => {
                let reduced = ReducedCount { phase: work.phase + 1, count: 0 };
                Self::Reduced(Box::new(reduction), reduced)
            }
        }
    }

    /// Takes an output that is a value.
    pub(super) fn add_value(&mut self, value: &[u8]) -> Result<(), PhaseFault> {
        match self {
            Self::Encoded(outputs) => outputs.push(MapOutput::encoded_value(value)),
            Self::Reduced(reduction, reduced) => {
                reduced.count += 1;
                let pushed = reduction.push_binary(value);
                pushed.map_err(|error| PhaseFault::new(reduced.phase, error, None))?;
            }
            Self::ForScript(outputs) => {
                outputs.push(Datum::binary(Bytes::copy_from_slice(value)));
            }
        }
        Ok(())
    }

    /// Takes outputs of any kind.
    pub(super) fn add(&mut self, data: impl IntoIterator<Item = Datum>) -> Result<(), PhaseFault> {
        match self {
            Self::Encoded(outputs) => outputs.extend(data.into_iter().map(encoded)),
            Self::Reduced(reduction, reduced) => {
                for datum in data {
                    reduced.count += 1;
                    let pushed = reduction.push(datum);
                    pushed.map_err(|error| PhaseFault::new(reduced.phase, error, None))?;
                }
            }
            Self::ForScript(outputs) => outputs.extend(data),
        }
        Ok(())
    }

    /// The outputs as the answer has them.
    pub(super) fn finish(self) -> Vec<Bytes> {
        match self {
            Self::Encoded(outputs) => outputs,
            Self::Reduced(_, ReducedCount { count: 0, .. }) => Vec::new(),
            Self::Reduced(reduction, _) => reduction.finish().into_iter().map(encoded).collect(),
            Self::ForScript(outputs) => outputs.into_iter().map(encoded).collect(),
        }
    }
}

fn encoded(datum: Datum) -> Bytes {
    MapOutput { kind: Some(datum_to_wire(datum)) }.encode_to_vec().into()
}

/// Anything else of an answer.
pub(super) fn encoded_kind(kind: MapOutputKind) -> Bytes {
    MapOutput { kind: Some(kind) }.encode_to_vec().into()
}

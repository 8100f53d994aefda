//! Outputs of a map phase at one node, until they are sent.

use crate::map_work::{NodeWork, datum_to_wire};
use bytes::Bytes;
use prost::Message;
use quoit_mapreduce::{Datum, PhaseFault, ReduceFunction, Reduction};
use quoit_wire::internode::maps::{MapOutput, MapOutputKind};

/// Outputs of a batch, in their most compact form. Outputs that can be reduced at once are not kept.
pub(super) enum NodeOutputs {
    /// Encoded for the answer: there is no reduce phase to run here.
    Encoded(Vec<Bytes>),
    /// Reduced by a built-in function of the next phase.
    Reduced(Box<Reduction>, ReducedCount),
    /// Kept for a script of the next phase.
    ForScript(Vec<Datum>),
}

/// The reduce phase, and the number of outputs that it was given.
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

    /// Adds an output that is a plain value.
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

    /// Adds outputs of any kind.
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

    /// Encodes the outputs for the answer.
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

/// Encodes a part of the answer that is not an output.
pub(super) fn encoded_kind(kind: MapOutputKind) -> Bytes {
    MapOutput { kind: Some(kind) }.encode_to_vec().into()
}

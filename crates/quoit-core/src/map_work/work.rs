//! Messages of phases, inputs and outputs between nodes.

use crate::error::RequestError;
use bytes::Bytes;
use quoit_mapreduce::{
    Datum, FoundObject, Input, MapFunction, Phase, PhaseKind, ReduceFunction, Script, ScriptSource,
    ScriptText,
};
use quoit_model::etf::{Limits, Term};
use quoit_model::object::Object;
use quoit_number::length_u32;
use quoit_wire::internode::maps::{MapInput, MapObject, MapOutputKind, MapWork};
use std::sync::Arc;

/// Limits for terms from other nodes, which have checked them against stricter limits of their own.
const TERM_LIMITS: Limits =
    Limits { depth_max: 256, terms_max: 16_000_000, inflated_bytes_max: 64 << 20 };

/// Sources of the scripts of a job, by index of the phase.
#[derive(Default)]
pub(crate) struct ScriptTexts(Vec<(usize, ScriptText)>);

impl ScriptTexts {
    pub(crate) const fn new(texts: Vec<(usize, ScriptText)>) -> Self {
        Self(texts)
    }

    pub(crate) fn of(&self, phase: usize) -> Option<&ScriptText> {
        self.0.iter().find(|(place, _)| *place == phase).map(|(_, text)| text)
    }
}

/// A map or link phase in the form in which a node runs it.
#[derive(Clone, Debug)]
pub(crate) struct NodeWork {
    /// Index of the phase.
    pub(crate) phase: usize,
    pub(crate) kind: PhaseKind,
    /// Function of the reduce phase that follows, if outputs are reduced where they are made.
    pub(crate) reduce: Option<ReduceFunction>,
    /// The phase as a message. It also identifies the scripts of a job.
    pub(crate) sent: MapWork,
}

impl NodeWork {
    /// The phase of a job at an index; `None` if it is no map or link phase.
    pub(crate) fn new(
        job: &Bytes,
        phases: &[Phase],
        place: usize,
        texts: &ScriptTexts,
    ) -> Option<Self> {
        let phase = phases.get(place)?;
        let kind = match &phase.kind {
            PhaseKind::Map(MapFunction::Script(script)) => {
                PhaseKind::Map(MapFunction::Script(with_text(script, texts.of(place)?)))
            }
            PhaseKind::Map(_) | PhaseKind::Link { .. } => phase.kind.clone(),
            PhaseKind::Reduce(_) => return None,
        };
        let reduce = match phases.get(place + 1).map(|next| &next.kind) {
            Some(PhaseKind::Reduce(function)) if !phase.keep => {
                reduced_first(function, phase.prereduces, texts.of(place + 1))
            }
            _ => None,
        };
        let is_script = matches!(kind, PhaseKind::Map(MapFunction::Script(_)));
        let reduces_by_script = matches!(reduce, Some(ReduceFunction::Script { .. }));
        let sent = MapWork {
            has_scripts: is_script || reduces_by_script,
            job: job.clone(),
            phase: length_u32(place),
            function: term_of(kind.clone()),
            reduce: reduce.clone().map(|function| term_of(PhaseKind::Reduce(function))),
        };
        Some(Self { phase: place, kind, reduce, sent })
    }

    /// Reads a phase that another node has sent.
    ///
    /// # Errors
    ///
    /// Terms that do not describe a phase which this node can run.
    pub(crate) fn of_wire(sent: MapWork) -> Result<Self, RequestError> {
        let bad = |fault: String| RequestError::Remote(format!("a phase can't be read: {fault}"));
        let place = sent.phase as usize;
        let kind_of = |encoded: &Bytes| -> Result<PhaseKind, RequestError> {
            let term =
                Term::decode(encoded, &TERM_LIMITS).map_err(|fault| bad(fault.to_string()))?;
            let phase = Phase::from_term(place, &term).map_err(|fault| bad(fault.to_string()))?;
            Ok(phase.kind)
        };
        let kind = match kind_of(&sent.function)? {
            PhaseKind::Reduce(_) => return Err(bad("it reduces".into())),
            kind => kind,
        };
        let reduce = match sent.reduce.as_ref().map(kind_of).transpose()? {
            Some(PhaseKind::Reduce(function)) => Some(function),
            Some(_) => return Err(bad("it does not reduce".into())),
            None => None,
        };
        Ok(Self { phase: place, kind, reduce, sent })
    }

    /// Scripts of the phase and of the reduce phase that follows, in the form that an engine takes.
    pub(crate) fn scripts(&self) -> Vec<(usize, ScriptText, Term)> {
        let mut scripts = Vec::new();
        if let PhaseKind::Map(MapFunction::Script(script)) = &self.kind {
            scripts.extend(text_of(script).map(|text| (self.phase, text, script.argument.clone())));
        }
        if let Some(ReduceFunction::Script { script, .. }) = &self.reduce {
            let place = self.phase + 1;
            scripts.extend(text_of(script).map(|text| (place, text, script.argument.clone())));
        }
        scripts
    }
}

/// The reduce function, if it also runs on the nodes that make the inputs of its phase; otherwise
/// `None`.
///
/// Built-in functions run there if they shrink their input, or if the job asks for it (`do_prereduce`).
/// Scripts run there only if the job asks for it and they accept inputs in batches.
fn reduced_first(
    function: &ReduceFunction,
    prereduces: bool,
    text: Option<&ScriptText>,
) -> Option<ReduceFunction> {
    match function {
        ReduceFunction::Script { script, batch_count: Some(count) } if prereduces => {
            let script = with_text(script, text?);
            Some(ReduceFunction::Script { script, batch_count: Some(*count) })
        }
        ReduceFunction::Script { .. } => None,
        function => (prereduces || function.shrinks()).then(|| function.clone()),
    }
}

fn with_text(script: &Script, text: &ScriptText) -> Script {
    let source = match text {
        ScriptText::Named(name) => ScriptSource::Named(name.clone()),
        ScriptText::Source(source) => ScriptSource::Text(source.clone()),
    };
    Script { source, argument: script.argument.clone() }
}

/// Text of a script; `None` if it has to be read from the store first.
fn text_of(script: &Script) -> Option<ScriptText> {
    match &script.source {
        ScriptSource::Named(name) => Some(ScriptText::Named(name.clone())),
        ScriptSource::Text(source) => Some(ScriptText::Source(source.clone())),
        ScriptSource::Stored(_) => None,
    }
}

fn term_of(kind: PhaseKind) -> Bytes {
    encoded(&Phase { kind, keep: false, prereduces: false }.to_term())
}

pub(crate) fn encoded(term: &Term) -> Bytes {
    let mut encoded = Vec::new();
    term.encode_into(&mut encoded);
    encoded.into()
}

/// Decodes a term that another node has sent.
///
/// # Errors
///
/// Bytes that do not encode a term.
pub(crate) fn decoded(encoded: &Bytes) -> Result<Term, RequestError> {
    Term::decode(encoded, &TERM_LIMITS).map_err(|fault| RequestError::Remote(fault.to_string()))
}

pub(crate) fn input_to_wire(input: &Input) -> MapInput {
    MapInput {
        bucket_type: input.bucket_type.clone(),
        bucket: input.bucket.clone(),
        key: input.key.clone(),
        data: input.key_data.as_ref().map(encoded),
    }
}

/// Reads an input that another node has sent.
///
/// # Errors
///
/// Data that is not a term.
pub(crate) fn input_of_wire(sent: MapInput) -> Result<Input, RequestError> {
    let MapInput { bucket_type, bucket, key, data } = sent;
    let key_data = data.as_ref().map(decoded).transpose()?;
    Ok(Input { bucket_type, bucket, key, key_data })
}

pub(crate) fn datum_to_wire(datum: Datum) -> MapOutputKind {
    match datum {
        Datum::Term(Term::Binary(value)) => MapOutputKind::Value(value),
        Datum::Term(term) => MapOutputKind::Term(encoded(&term)),
        Datum::Key(input) => MapOutputKind::Key(input_to_wire(&input)),
        Datum::Object(found) => {
            let mut object = Vec::new();
            found.object.encode_into(&mut object);
            let input = Some(input_to_wire(&found.input));
            MapOutputKind::Object(MapObject { input, object: object.into() })
        }
    }
}

/// Reads an object that another node has sent.
///
/// # Errors
///
/// Objects that can't be read.
pub(crate) fn object_of_wire(sent: MapObject) -> Result<Datum, RequestError> {
    let input = input_of_wire(sent.input.unwrap_or_default())?;
    let object = Object::decode(&sent.object);
    let object = object.map_err(|fault| RequestError::Remote(fault.to_string()))?;
    Ok(Datum::Object(Arc::new(FoundObject { input, object })))
}

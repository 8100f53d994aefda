//! Application of a phase's function to objects, and outputs of scripts.

use bytes::Bytes;
use quoit_mapreduce::{
    Datum, FoundObject, Input, LinkFilter, MapFunction, NotUtf8, PhaseFault, PhaseKind,
    ScriptFault, append_json, follow_links, term_from_json,
};
use quoit_model::etf::Term;
use quoit_model::object::Object;

/// An object for a script, or the input if the object is missing.
pub(crate) type ScriptInput = Result<FoundObject, Input>;

/// Applies the function of a map or link phase to an object, or puts the object into `for_script`.
pub(crate) fn apply(
    kind: &PhaseKind,
    phase: usize,
    input: Input,
    object: Option<Object>,
    outputs: &mut Vec<Datum>,
    for_script: &mut Vec<ScriptInput>,
) -> Result<(), PhaseFault> {
    match kind {
        PhaseKind::Link { bucket, tag } => {
            let followed = LinkFilter { bucket: bucket.as_ref(), tag: tag.as_ref() };
            outputs.extend(follow_links(object.as_ref(), followed));
        }
        PhaseKind::Map(MapFunction::Script(_)) => for_script.push(match object {
            Some(object) => Ok(FoundObject { input, object }),
            None => Err(input),
        }),
        PhaseKind::Map(function) => {
            let printed = input.clone();
            let made = function.apply(input, object);
            outputs.extend(
                made.map_err(|error| PhaseFault::new(phase, error, Some(&printed.to_term())))?,
            );
        }
        PhaseKind::Reduce(_) => unreachable!("reduce phases read no objects"),
    }
    Ok(())
}

/// Encodes values as a JSON list.
///
/// # Errors
///
/// Values with bytes that are not UTF-8.
pub(crate) fn list_of(phase: usize, values: &[Datum]) -> Result<Bytes, PhaseFault> {
    let mut list = vec![b'['];
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            list.push(b',');
        }
        append_json(&mut list, value).map_err(|NotUtf8| {
            PhaseFault::new(phase, NotUtf8.to_string(), Some(&value.to_term()))
        })?;
    }
    list.push(b']');
    Ok(list.into())
}

/// Fault of a phase whose script has failed.
pub(crate) fn failure(phase: usize, fault: ScriptFault) -> PhaseFault {
    let ScriptFault { message, stack, input, .. } = fault;
    PhaseFault { phase, error: message, input, kind: "error", stack }
}

/// Elements of a list that a script has returned.
pub(crate) fn elements(phase: usize, list: &Bytes) -> Result<Vec<Datum>, PhaseFault> {
    let value = serde_json::from_slice(list);
    let value: serde_json::Value =
        value.map_err(|fault| PhaseFault::new(phase, fault.to_string(), None))?;
    match term_from_json(&value) {
        Term::List(elements) => Ok(elements.into_iter().map(Datum::Term).collect()),
        other => Err(PhaseFault::new(phase, "the script returned no list", Some(&other))),
    }
}

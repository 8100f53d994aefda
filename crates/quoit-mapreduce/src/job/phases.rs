//! Parsing of the phases of jobs.

use super::json_form::is_object;
use super::{Phase, PhaseKind};
use crate::fault::JobFault;
use crate::map::{MapFunction, NotFoundPolicy};
use crate::reduce::ReduceFunction;
use crate::script::{Script, ScriptSource};
use crate::value::input::{Input, bucket_of};
use crate::value::json::{DisplayJson, member, members, no_argument};
use bytes::Bytes;
use quoit_model::etf::Term;

/// Default number of inputs in one call of a reduce script.
const BATCH_COUNT_DEFAULT: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum PhaseType {
    Map,
    Reduce,
}

/// Reference to a function in a job's document.
enum FunctionRef<'t> {
    Erlang(&'t [u8], &'t [u8]),
    ErlangSource,
    Script(ScriptSource),
}

fn query(text: String) -> JobFault {
    JobFault::Query(text)
}

/// Parses a phase in JSON; `place` is its index in the job.
pub(super) fn from_json(place: usize, phase: &Term, is_last: bool) -> Result<Phase, JobFault> {
    let shown = &DisplayJson(phase);
    let bad = || {
        query(format!(
            "Unrecognized format of query phase:\n   {shown}\n\nValid formats are:\n   \
             {{\"map\":{{...spec...}}}}\n   {{\"reduce\":{{...spec...}}}}\n   {{\"link\":{{...spec...}}}}"
        ))
    };
    let Some([Term::Tuple(only)]) = members(phase) else { return Err(bad()) };
    let [Term::Binary(kind), spec] = only.as_slice() else { return Err(bad()) };
    if !is_object(spec) {
        return Err(bad());
    }
    let keep = match member(spec, b"keep") {
        None => is_last,
        Some(flag) if flag.is_atom(b"true") => true,
        Some(flag) if flag.is_atom(b"false") => false,
        Some(_) => {
            let text = format!("The \"keep\" field was not a boolean value in:\n   {shown}");
            return Err(query(text));
        }
    };
    let argument = member(spec, b"arg").cloned().unwrap_or_else(no_argument);
    let prereduces = **kind == *b"map" && flag(&argument, b"do_prereduce");
    let kind = match &**kind {
        b"map" => function(place, PhaseType::Map, named(spec, shown)?, argument)?,
        b"reduce" => function(place, PhaseType::Reduce, named(spec, shown)?, argument)?,
        b"link" => PhaseKind::Link { bucket: any(spec, "bucket")?, tag: any(spec, "tag")? },
        _ => return Err(bad()),
    };
    Ok(Phase { kind, keep, prereduces })
}

/// Parses a phase in Erlang's notation.
pub(super) fn from_term(place: usize, phase: &Term) -> Result<Phase, JobFault> {
    let bad = || query(format!("Unrecognized format of query phase: {}", crate::print_term(phase)));
    let Some([kind, first, second, keep]) = phase.as_tuple() else { return Err(bad()) };
    let keep = match keep {
        flag if flag.is_atom(b"true") => true,
        flag if flag.is_atom(b"false") => false,
        _ => return Err(bad()),
    };
    let any = |term: &Term| match term {
        Term::Binary(name) => Some((**name != *b"_").then(|| name.clone())),
        term if term.is_atom(b"_") => Some(None),
        _ => None,
    };
    let kind = match kind {
        Term::Atom(name) if **name == *b"link" => {
            let (bucket, tag) = (any(first).ok_or_else(bad)?, any(second).ok_or_else(bad)?);
            PhaseKind::Link { bucket, tag }
        }
        Term::Atom(name) if **name == *b"map" || **name == *b"reduce" => {
            let kind = if **name == *b"map" { PhaseType::Map } else { PhaseType::Reduce };
            function(place, kind, named_term(first).ok_or_else(bad)?, second.clone())?
        }
        _ => return Err(bad()),
    };
    let prereduces = matches!(kind, PhaseKind::Map(_)) && flag(second, b"do_prereduce");
    Ok(Phase { kind, keep, prereduces })
}

/// Returns the function that a specification in JSON refers to.
fn named<'t>(spec: &'t Term, shown: &DisplayJson<'_>) -> Result<FunctionRef<'t>, JobFault> {
    let text = |name: &str| match member(spec, name.as_bytes()) {
        Some(Term::Binary(text)) => Some(text),
        _ => None,
    };
    let source = || {
        let stored = match (member(spec, b"bucket"), text("key")) {
            (Some(bucket), Some(key)) => stored(bucket, key),
            _ => None,
        };
        let anonymous =
            text("source").map(|text| ScriptSource::Text(String::from_utf8_lossy(text).into()));
        anonymous.or(stored)
    };
    match member(spec, b"language") {
        None => Err(query(format!("No \"language\" was specified for the phase:\n   {shown}"))),
        Some(Term::Binary(language)) if **language == *b"erlang" => {
            match (text("module"), text("function"), source()) {
                (Some(module), Some(function), _) => Ok(FunctionRef::Erlang(module, function)),
                (.., Some(_)) => Ok(FunctionRef::ErlangSource),
                _ => Err(query(format!("No function specified in Erlang phase:\n   {shown}"))),
            }
        }
        Some(Term::Binary(language)) if **language == *b"javascript" => {
            let name =
                text("name").map(|name| ScriptSource::Named(String::from_utf8_lossy(name).into()));
            match source().or(name) {
                Some(source) => Ok(FunctionRef::Script(source)),
                None => {
                    Err(query(format!("No function specified in JavaScript phase:\n   {shown}")))
                }
            }
        }
        Some(other) => {
            let language = match other {
                Term::Binary(name) => String::from_utf8_lossy(name).into_owned(),
                other => crate::print_term(other),
            };
            Err(query(format!("Unknown language {language} in phase:\n   {shown}")))
        }
    }
}

/// Returns the function that a term refers to.
fn named_term(term: &Term) -> Option<FunctionRef<'_>> {
    let Term::Tuple(parts) = term else { return None };
    let text = |term: &Term| match term {
        Term::Binary(text) | Term::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    };
    let in_object = |name: &Term| match name {
        Term::Tuple(name) => match name.as_slice() {
            [bucket, Term::Binary(key)] => stored(bucket, key),
            _ => None,
        },
        _ => None,
    };
    match parts.as_slice() {
        [tag, Term::Atom(module), Term::Atom(function)] if tag.is_atom(b"modfun") => {
            Some(FunctionRef::Erlang(module, function))
        }
        [tag, _] if tag.is_atom(b"qfun") || tag.is_atom(b"strfun") => {
            Some(FunctionRef::ErlangSource)
        }
        [tag, name] if tag.is_atom(b"jsfun") => {
            Some(FunctionRef::Script(ScriptSource::Named(text(name)?)))
        }
        [tag, source] if tag.is_atom(b"jsanon") => {
            let source = in_object(source).or_else(|| text(source).map(ScriptSource::Text))?;
            Some(FunctionRef::Script(source))
        }
        _ => None,
    }
}

fn stored(bucket: &Term, key: &Bytes) -> Option<ScriptSource> {
    Some(ScriptSource::Stored(Box::new(Input::new(bucket_of(bucket)?, key.clone()))))
}

/// Reads a member of a link phase. `None` matches anything: the member is absent or `_`.
fn any(spec: &Term, name: &str) -> Result<Option<Bytes>, JobFault> {
    match member(spec, name.as_bytes()) {
        None => Ok(None),
        Some(Term::Binary(text)) => Ok((**text != *b"_").then(|| text.clone())),
        Some(other) => {
            let printed = crate::print_term(other);
            Err(query(format!("The {name:?} of a link phase is not text: {printed}")))
        }
    }
}

fn function(
    place: usize,
    kind: PhaseType,
    named: FunctionRef<'_>,
    argument: Term,
) -> Result<PhaseKind, JobFault> {
    let refused = |error: String| Err(JobFault::Phase { phase: place, error });
    let (module, function) = match named {
        FunctionRef::Script(source) => {
            let batch_count = batch_count(&argument);
            let script = Script { source, argument };
            return Ok(match kind {
                PhaseType::Map => PhaseKind::Map(MapFunction::Script(script)),
                PhaseType::Reduce => {
                    PhaseKind::Reduce(ReduceFunction::Script { script, batch_count })
                }
            });
        }
        FunctionRef::ErlangSource => {
            return refused(
                "Erlang sources are not run by this server: name a function of riak_kv_mapreduce instead"
                    .into(),
            );
        }
        FunctionRef::Erlang(module, function) => (module, function),
    };
    let missing = || NotFoundPolicy::of(&argument);
    let known = match (kind, module, function) {
        (PhaseType::Map, b"riak_kv_mapreduce", name) => {
            map_function(name, missing).map(PhaseKind::Map)
        }
        (PhaseType::Reduce, b"riak_kv_mapreduce", name) => {
            reduce_function(name).map(PhaseKind::Reduce)
        }
        _ => None,
    };
    match known {
        Some(kind) => Ok(kind),
        None => {
            let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            let kind = if kind == PhaseType::Map { "map" } else { "reduce" };
            refused(format!(
                "this server has no {kind} function {}:{}; it has the functions of riak_kv_mapreduce",
                text(module),
                text(function)
            ))
        }
    }
}

fn map_function(name: &[u8], missing: impl Fn() -> NotFoundPolicy) -> Option<MapFunction> {
    Some(match name {
        b"map_identity" => MapFunction::Identity,
        b"map_object_value" => MapFunction::ObjectValue(missing()),
        b"map_object_value_list" => MapFunction::ObjectValueList(missing()),
        _ => return None,
    })
}

fn reduce_function(name: &[u8]) -> Option<ReduceFunction> {
    Some(match name {
        b"reduce_identity" => ReduceFunction::Identity,
        b"reduce_set_union" => ReduceFunction::SetUnion,
        b"reduce_sum" => ReduceFunction::Sum,
        b"reduce_plist_sum" => ReduceFunction::PlistSum,
        b"reduce_sort" => ReduceFunction::Sort,
        b"reduce_count_inputs" => ReduceFunction::CountInputs,
        b"reduce_string_to_integer" => ReduceFunction::StringToInteger,
        _ => return None,
    })
}

/// True if the argument has this member and its value is true.
fn flag(argument: &Term, name: &[u8]) -> bool {
    member(argument, name).is_some_and(|flag| flag.is_atom(b"true"))
}

/// Number of inputs in one call of a reduce script; `None` means that one call gets all inputs.
fn batch_count(argument: &Term) -> Option<usize> {
    if flag(argument, b"reduce_phase_only_1") {
        return None;
    }
    let given = member(argument, b"reduce_phase_batch_size").and_then(Term::as_u64);
    let given = given.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    Some(given.unwrap_or(BATCH_COUNT_DEFAULT))
}

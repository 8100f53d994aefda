//! Parsing of key filters.

use super::value::FilterValue;
use super::{
    COMPILED_BYTES_MAX, FilterFault, KeyFilter, PATTERN_BYTES_MAX, SIMILAR_BYTES_MAX, Step,
};
use bytes::Bytes;
use quoit_model::etf::Term;
use regex::bytes::RegexBuilder;

pub(super) fn filter(
    term: &Term,
    steps_left: &mut usize,
    nesting_left: u32,
) -> Result<KeyFilter, FilterFault> {
    let not_steps = || FilterFault::NotSteps(crate::print_term(term));
    let Term::List(steps) = term else { return Err(not_steps()) };
    let steps = steps.iter().map(|step| {
        *steps_left = steps_left.checked_sub(1).ok_or(FilterFault::TooLarge)?;
        let Term::List(parts) = step else { return Err(not_steps()) };
        let (name, arguments) = parts.split_first().ok_or_else(not_steps)?;
        let name = match name {
            Term::Binary(name) | Term::Atom(name) | Term::Text(name) => name,
            _ => return Err(not_steps()),
        };
        self::step(name, arguments, steps_left, nesting_left)
    });
    Ok(KeyFilter { steps: steps.collect::<Result<_, _>>()?, document: term.clone() })
}

fn step(
    name: &Bytes,
    arguments: &[Term],
    steps_left: &mut usize,
    nesting_left: u32,
) -> Result<Step, FilterFault> {
    if let Some(step) = change(name, arguments)? {
        return Ok(step);
    }
    if let Some(step) = predicate(name, arguments)? {
        return Ok(step);
    }
    let make = match &**name {
        b"and" => Step::And,
        b"or" => Step::Or,
        b"not" => Step::Not,
        _ => return Err(FilterFault::BadFilter(name.clone())),
    };
    let nesting_left = nesting_left.checked_sub(1).ok_or(FilterFault::TooLarge)?;
    let filters = arguments.iter().map(|each| filter(each, steps_left, nesting_left));
    Ok(make(filters.collect::<Result<_, _>>()?))
}

/// Parses a step that changes the key; `None` if the name is not of such a step.
fn change(name: &[u8], arguments: &[Term]) -> Result<Option<Step>, FilterFault> {
    let (name, step) = match name {
        b"int_to_string" => ("int_to_string", Step::IntToString),
        b"string_to_int" => ("string_to_int", Step::StringToInt),
        b"float_to_string" => ("float_to_string", Step::FloatToString),
        b"string_to_float" => ("string_to_float", Step::StringToFloat),
        b"to_upper" => ("to_upper", Step::ToUpper),
        b"to_lower" => ("to_lower", Step::ToLower),
        b"urldecode" => ("urldecode", Step::UrlDecode),
        b"tokenize" => {
            let takes = ExpectedArguments("takes separators and the number of a token, from 1");
            return match arguments {
                [separators, Term::Integer(number)] => {
                    let number = usize::try_from(*number).ok().filter(|number| *number > 0);
                    let number = number.ok_or_else(|| bad("tokenize", takes))?;
                    let separators = text("tokenize", separators, takes)?;
                    Ok(Some(Step::Tokenize { separators, number }))
                }
                _ => Err(bad("tokenize", takes)),
            };
        }
        _ => return Ok(None),
    };
    match arguments {
        [] => Ok(Some(step)),
        _ => Err(bad(name, ExpectedArguments("takes no arguments"))),
    }
}

fn predicate(name: &[u8], arguments: &[Term]) -> Result<Option<Step>, FilterFault> {
    let one = |name| match arguments {
        [value] => FilterValue::of(value)
            .ok_or_else(|| bad(name, ExpectedArguments("takes a text or a number"))),
        _ => Err(bad(name, ExpectedArguments("takes one argument"))),
    };
    let one_text = |name| match arguments {
        [value] => text(name, value, ExpectedArguments("takes a text")),
        _ => Err(bad(name, ExpectedArguments("takes one text"))),
    };
    let compare = |name| Ok(Some(Step::Compare { name, value: one(name)? }));
    Ok(Some(match name {
        b"greater_than" => return compare("greater_than"),
        b"less_than" => return compare("less_than"),
        b"greater_than_eq" => return compare("greater_than_eq"),
        b"less_than_eq" => return compare("less_than_eq"),
        b"between" => between(arguments)?,
        b"matches" => matches(one_text("matches")?)?,
        b"eq" => Step::Equals { value: one("eq")?, is_wanted: true },
        b"neq" => Step::Equals { value: one("neq")?, is_wanted: false },
        b"set_member" => {
            let members: Option<Vec<_>> = arguments.iter().map(FilterValue::of).collect();
            let takes = ExpectedArguments("takes texts and numbers");
            Step::SetMember(members.ok_or_else(|| bad("set_member", takes))?)
        }
        b"similar_to" => similar_to(arguments)?,
        b"starts_with" => Step::StartsWith(one_text("starts_with")?),
        b"ends_with" => Step::EndsWith(one_text("ends_with")?),
        _ => return Ok(None),
    }))
}

fn between(arguments: &[Term]) -> Result<Step, FilterFault> {
    let takes = ExpectedArguments("takes two texts or numbers, and whether they are included");
    let (low, high, is_inclusive) = match arguments {
        [low, high] => (low, high, true),
        [low, high, flag] if flag.is_atom(b"true") || flag.is_atom(b"false") => {
            (low, high, flag.is_atom(b"true"))
        }
        _ => return Err(bad("between", takes)),
    };
    match (FilterValue::of(low), FilterValue::of(high)) {
        (Some(low), Some(high)) => Ok(Step::Between { low, high, is_inclusive }),
        _ => Err(bad("between", takes)),
    }
}

fn matches(pattern: Bytes) -> Result<Step, FilterFault> {
    let refused = |reason: String| FilterFault::BadArguments { name: "matches", reason };
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(refused(format!("takes an expression of at most {PATTERN_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(&pattern);
    let text = text.map_err(|_| refused("takes an expression in UTF-8".into()))?;
    let compiled = RegexBuilder::new(text)
        .unicode(false)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .build();
    let compiled = compiled.map_err(|fault| {
        let last = fault.to_string().lines().last().unwrap_or_default().trim().to_owned();
        refused(format!(
            "takes a regular expression without look-around and back-references: {last}"
        ))
    });
    Ok(Step::Matches(compiled?))
}

fn similar_to(arguments: &[Term]) -> Result<Step, FilterFault> {
    let takes = ExpectedArguments("takes a text of at most 1024 bytes and a distance");
    match arguments {
        [word, Term::Integer(distance)] => {
            let text = text("similar_to", word, takes)?;
            let distance = usize::try_from(*distance).map_err(|_| bad("similar_to", takes))?;
            if text.len() > SIMILAR_BYTES_MAX {
                return Err(bad("similar_to", takes));
            }
            Ok(Step::SimilarTo { text, distance })
        }
        _ => Err(bad("similar_to", takes)),
    }
}

fn text(name: &'static str, term: &Term, takes: ExpectedArguments) -> Result<Bytes, FilterFault> {
    match FilterValue::of(term) {
        Some(FilterValue::Text(text)) => Ok(text),
        _ => Err(bad(name, takes)),
    }
}

/// The arguments that a step takes, in words.
#[derive(Clone, Copy)]
struct ExpectedArguments(&'static str);

fn bad(name: &'static str, takes: ExpectedArguments) -> FilterFault {
    FilterFault::BadArguments { name, reason: takes.0.to_owned() }
}

//! Parsing of the inputs of jobs.

use super::json_form::is_object;
use super::{Generator, IndexTerms, Inputs};
use crate::fault::JobFault;
use crate::filter::KeyFilter;
use crate::value::input::{BucketName, Input, bucket_of};
use crate::value::json::{DisplayJson, member};
use bytes::Bytes;
use quoit_model::etf::Term;
use quoit_model::index_integer::IndexInteger;

const SEARCH: &str = "Search, which was taken out of Riak with version 3, is not part of this server: \
                      name a bucket, keys or an index";

/// Parses the inputs of a job in JSON.
pub(super) fn from_json(term: Term) -> Result<Inputs, JobFault> {
    match term {
        Term::Binary(_) => bucket(&term),
        Term::List(elements) => match elements.as_slice() {
            [] => Err(fault("No inputs were given.")),
            // Two texts are a bucket type and a bucket, not a bucket and a key.
            [Term::Binary(_), Term::Binary(_)] => bucket(&Term::List(elements)),
            _ => keys(elements),
        },
        object if is_object(&object) => from_object(&object),
        other => Err(unrecognized(&other)),
    }
}

/// Parses the inputs of a job in Erlang's notation.
pub(super) fn from_term(term: Term) -> Result<Inputs, JobFault> {
    let parts = match &term {
        Term::Tuple(parts) => parts,
        Term::Binary(_) => return bucket(&term),
        Term::List(elements) if elements.is_empty() => return Err(fault("No inputs were given.")),
        Term::List(_) => {
            let Term::List(elements) = term else { unreachable!("it is a list") };
            return keys(elements);
        }
        other => return Err(unrecognized(other)),
    };
    match parts.as_slice() {
        [tag, ..] if tag.is_atom(b"search") => Err(fault(SEARCH)),
        [tag, module, function, argument] if tag.is_atom(b"modfun") => {
            generator(module, function, argument)
        }
        [tag, bucket, field, one] if tag.is_atom(b"index") => {
            index(bucket, field, IndexTerms::One(term_text(one)?))
        }
        [tag, bucket, field, first, last] if tag.is_atom(b"index") => {
            index(bucket, field, IndexTerms::Range(term_text(first)?, term_text(last)?))
        }
        [Term::Binary(_), Term::Binary(_)] => bucket(&term),
        [of, filter @ Term::List(_)] => filtered(of, filter),
        _ => Err(unrecognized(&term)),
    }
}

fn from_object(term: &Term) -> Result<Inputs, JobFault> {
    let field = |name: &str| member(term, name.as_bytes());
    if let (Some(module), Some(function), Some(argument)) =
        (field("module"), field("function"), field("arg"))
    {
        return generator(module, function, argument);
    }
    if field("query").is_some() {
        return Err(fault(SEARCH));
    }
    let Some(bucket) = field("bucket") else { return Err(unrecognized(term)) };
    match (field("index"), field("key"), field("start"), field("end")) {
        (Some(name), Some(one), ..) => index(bucket, name, IndexTerms::One(term_text(one)?)),
        (Some(name), None, Some(first), Some(last)) => {
            index(bucket, name, IndexTerms::Range(term_text(first)?, term_text(last)?))
        }
        _ => match field("key_filters") {
            Some(filter) => filtered(bucket, filter),
            None => Err(unrecognized(term)),
        },
    }
}

fn fault(text: &str) -> JobFault {
    JobFault::Inputs(text.to_owned())
}

fn unrecognized(term: &Term) -> JobFault {
    let shown = DisplayJson(term).to_string();
    let shown: String = shown.chars().take(1_000).collect();
    JobFault::Inputs(format!(
        "Unrecognized format of \"inputs\" field:\n   {shown}\n\nValid formats are:\n   \
         - a bucket name, as a string\n   - a bucket type and name, as a list of two strings\n   \
         - a list of bucket/key pairs, maybe with key data and bucket type\n   \
         - an object that gives a bucket and key filters\n   \
         - an object that gives a bucket, an index and a key or a start and an end\n   \
         - an object that gives a module, a function and an arg"
    ))
}

fn name_of(term: &Term) -> Option<BucketName> {
    bucket_of(term).filter(|name| !name.bucket.is_empty() && !name.bucket_type.is_empty())
}

fn bucket(term: &Term) -> Result<Inputs, JobFault> {
    name_of(term).map(Inputs::Bucket).ok_or_else(|| unrecognized(term))
}

/// Parses listed keys. Each term is dropped as soon as its input is made, which limits the memory.
fn keys(elements: Vec<Term>) -> Result<Inputs, JobFault> {
    let read = |element: Term| {
        Input::from_term(&element).ok_or_else(|| {
            let printed = crate::print_term(&element);
            fault(&format!("Unrecognized format of \"inputs\" field: {printed} is not a key"))
        })
    };
    elements.into_iter().map(read).collect::<Result<_, _>>().map(Inputs::Keys)
}

fn filtered(bucket: &Term, filter: &Term) -> Result<Inputs, JobFault> {
    let name = name_of(bucket).ok_or_else(|| unrecognized(bucket))?;
    if filter.as_list().is_none_or(<[Term]>::is_empty) {
        return Err(unrecognized(filter));
    }
    match KeyFilter::from_term(filter) {
        Ok(filter) => Ok(Inputs::Filtered(name, filter)),
        Err(filter_fault) => Err(JobFault::Filter(filter_fault)),
    }
}

fn index(bucket: &Term, field: &Term, terms: IndexTerms) -> Result<Inputs, JobFault> {
    let bucket = name_of(bucket).ok_or_else(|| unrecognized(bucket))?;
    let Term::Binary(field) = field else { return Err(unrecognized(field)) };
    Ok(Inputs::Index { bucket, field: field.clone(), terms })
}

/// Returns a term of an index as text.
fn term_text(term: &Term) -> Result<Bytes, JobFault> {
    match term {
        Term::Binary(text) => Ok(text.clone()),
        Term::Integer(number) => Ok(number.to_string().into()),
        Term::BigInteger { negative, magnitude } => {
            let number = IndexInteger::from_sign_and_magnitude(*negative, magnitude);
            number.map(|number| number.to_string().into()).ok_or_else(|| unrecognized(term))
        }
        other => Err(unrecognized(other)),
    }
}

fn generator(module: &Term, function: &Term, argument: &Term) -> Result<Inputs, JobFault> {
    let text = |term: &Term| match term {
        Term::Binary(name) | Term::Atom(name) => Some(String::from_utf8_lossy(name).into_owned()),
        _ => None,
    };
    let (Some(module), Some(function)) = (text(module), text(function)) else {
        return Err(fault("The names of the module and the function of the inputs are not text"));
    };
    match (module.as_str(), function.as_str()) {
        ("quoit", "keys_with_prefix") => {
            let named = member(argument, b"bucket").and_then(name_of);
            match (named, member(argument, b"prefix")) {
                (Some(bucket), Some(Term::Binary(prefix))) => {
                    Ok(Inputs::Generated(Generator::KeysWithPrefix(bucket, prefix.clone())))
                }
                _ => Err(fault(
                    "quoit:keys_with_prefix takes an arg of the form {\"bucket\": B, \"prefix\": P}, where B \
                     is a bucket name, or a list of a bucket type and a bucket name",
                )),
            }
        }
        ("yokozuna" | "riak_search", "mapred_search") => Err(fault(SEARCH)),
        _ => Err(fault(&format!(
            "This server has no function {module}:{function} that makes inputs; it has \
             quoit:keys_with_prefix, and takes buckets, keys, key filters and indexes"
        ))),
    }
}

//! Configurations in TOML. Every Erlang term has a spelling in TOML:
//!
//! | Erlang | TOML |
//! | --- | --- |
//! | `max`, `true` | `"max"`, `true` |
//! | `'riak@10.0.0.1'` | `{ atom = "riak@10.0.0.1" }` |
//! | `"/riak/test"` | `"/riak/test"` |
//! | `"test"` | `{ string = "test" }` |
//! | `<<"test">>`, `<<1,255>>` | `{ binary = "test" }`, `{ binary = [1, 255] }` |
//! | `{uniform_int, 10}` | `["uniform_int", 10]` |
//! | `{1, 2, 3}` | `{ tuple = [1, 2, 3] }` |
//! | `[{get, 4}, {put, 1}]` | `[["get", 4], ["put", 1]]` |
//! | `[get, put]` | `{ list = ["get", "put"] }` |
//! | `[{get, 4}, {put, 1}]` | `{ get = 4, put = 1 }`, only when read |
//!
//! TOML has one kind of text and one kind of array. A text that has the form of an atom
//! (`[a-z][A-Za-z0-9_@]*`) is read as an atom, any other text as a string. An array is read as a tuple if
//! it begins with an atom or if its elements are of different classes (numbers, texts, compounds),
//! otherwise as a list. This matches the usual values. For the others, a table with one of the names above
//! states the kind. Conversion from Erlang states the kind wherever the rules would read another one, so it
//! loses nothing.
//!
//! For files written by hand, a value that does not fit its key is tried again with its outer array taken
//! as the other kind, and with texts taken as strings ([`readings`]).

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::TomlError;
pub(super) use read::{TomlEntry, read};
pub(super) use write::{write_pair, write_value};

use crate::term::Term;

/// True if the text is read as an atom.
fn is_atom_text(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '@')
}

/// Classes of array elements, by which tuples are distinguished from lists.
#[derive(PartialEq, Eq)]
enum Class {
    Number,
    Text,
    Compound,
}

fn class_of(term: &Term) -> Class {
    match term {
        Term::Integer(_) | Term::Float(_) => Class::Number,
        Term::Atom(_) | Term::String(_) | Term::Binary(_) => Class::Text,
        Term::Tuple(_) | Term::List(_) | Term::ImproperList(..) | Term::Map(_) => Class::Compound,
    }
}

/// True if an array of these elements is read as a tuple.
fn is_tuple(elements: &[Term]) -> bool {
    match elements {
        [] => false,
        [Term::Atom(_), ..] => true,
        [first, rest @ ..] => rest.iter().any(|element| class_of(element) != class_of(first)),
    }
}

/// The ways in which a value can be read, the likeliest first.
pub(super) fn readings(term: &Term) -> impl Iterator<Item = Term> {
    let turned = turn(term);
    let pairs = match term {
        Term::List(elements) | Term::Tuple(elements) => {
            Some(Term::List(elements.iter().map(to_tuple).collect()))
        }
        _ => None,
    };
    let kept = [Some(term.clone()), turned, pairs].into_iter().flatten();
    let texts: Vec<Term> = kept.clone().map(|term| with_strings(&term)).collect();
    kept.chain(texts)
}

/// A tuple as a list, or a list as a tuple; `None` for other terms.
fn turn(term: &Term) -> Option<Term> {
    match term {
        Term::Tuple(elements) => Some(Term::List(elements.clone())),
        Term::List(elements) => Some(Term::Tuple(elements.clone())),
        _ => None,
    }
}

fn to_tuple(term: &Term) -> Term {
    match term {
        Term::List(elements) => Term::Tuple(elements.clone()),
        other => other.clone(),
    }
}

/// The same term with a string in place of each atom.
fn with_strings(term: &Term) -> Term {
    let all = |elements: &[Term]| elements.iter().map(with_strings).collect();
    match term {
        Term::Atom(name) => Term::String(name.clone()),
        Term::Tuple(elements) => Term::Tuple(all(elements)),
        Term::List(elements) => Term::List(all(elements)),
        other => other.clone(),
    }
}

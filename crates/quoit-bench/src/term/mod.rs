//! Erlang terms, in which basho_bench's configurations are written.
//!
//! [`parse_terms`] reads a whole file. A [`Term`] is printed in Erlang syntax, which the error table of a
//! run uses, and terms are ordered as in Erlang.

mod binary;
mod lexer;
mod parser;
mod positions;
mod print;
mod repair;
mod syntax_error;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

pub use lexer::Position;
pub(crate) use parser::text_of;
pub use parser::{LocatedTerm, parse_bytes, parse_terms};
pub use positions::Positions;
pub(crate) use repair::{is_left_out, left_out_remark, parse_bytes_with_repair, parse_with_repair};
pub use syntax_error::{Problem, SyntaxError};

/// Maximum nesting of tuples, lists and maps. It limits the use of the stack.
pub const NESTING_DEPTH_MAX: usize = 200;

/// One Erlang term.
///
/// Equality and order are Erlang's exact ones: a string equals the list of its code points, and an integer
/// never equals a float.
#[derive(Debug, Clone)]
pub enum Term {
    /// An integer. Erlang's integers are unbounded; the parser refuses those beyond 128 bits.
    Integer(i128),
    /// A finite float.
    Float(f64),
    /// An atom, without quotes.
    Atom(String),
    /// A list of code points that was written in quotes.
    String(String),
    /// A binary of whole bytes.
    Binary(Vec<u8>),
    /// A tuple.
    Tuple(Vec<Term>),
    /// A proper list that was not written as a string.
    List(Vec<Term>),
    /// A list of at least one element whose tail is not a list: `[a | b]`.
    ImproperList(Vec<Term>, Box<Term>),
    /// A map, in ascending order of its distinct keys.
    Map(Vec<(Term, Term)>),
}

impl Term {
    /// The atom `name`.
    pub fn atom(name: &str) -> Self {
        Self::Atom(name.to_owned())
    }

    /// The name of an atom; `None` for other terms.
    pub fn as_atom(&self) -> Option<&str> {
        match self {
            Self::Atom(name) => Some(name),
            _ => None,
        }
    }

    /// The value of an integer; `None` for other terms.
    pub fn as_integer(&self) -> Option<i128> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The value of an integer or a float; `None` for other terms.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The elements of a tuple; `None` for other terms.
    pub fn as_tuple(&self) -> Option<&[Term]> {
        match self {
            Self::Tuple(elements) => Some(elements),
            _ => None,
        }
    }

    /// The text of a string or of a list of code points. The empty list is the empty text.
    pub fn as_text(&self) -> Option<String> {
        match self {
            Self::String(text) => Some(text.clone()),
            Self::List(elements) => elements
                .iter()
                .map(|element| {
                    let code = u32::try_from(element.as_integer()?).ok()?;
                    char::from_u32(code)
                })
                .collect(),
            _ => None,
        }
    }

    /// The elements of a proper list. A string gives its code points.
    pub fn as_list(&self) -> Option<Vec<Term>> {
        match self {
            Self::List(elements) => Some(elements.clone()),
            Self::String(text) => {
                Some(text.chars().map(|c| Self::Integer(i128::from(u32::from(c)))).collect())
            }
            _ => None,
        }
    }

    /// The rank of a term's type in Erlang's order of types.
    fn kind_rank(&self) -> u8 {
        match self {
            Self::Integer(_) | Self::Float(_) => 0,
            Self::Atom(_) => 1,
            Self::Tuple(_) => 2,
            Self::Map(_) => 3,
            Self::List(elements) if elements.is_empty() => 4,
            Self::String(text) if text.is_empty() => 4,
            Self::List(_) | Self::String(_) | Self::ImproperList(..) => 5,
            Self::Binary(_) => 6,
        }
    }

    /// The leading elements of any list, and its tail if it is improper.
    fn list_parts(&self) -> (Vec<Term>, Option<&Term>) {
        match self {
            Self::ImproperList(elements, tail) => (elements.clone(), Some(tail)),
            other => (other.as_list().unwrap_or_default(), None),
        }
    }
}

impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Term {}

impl PartialOrd for Term {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Term {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Integer(a), Self::Float(b)) => (*a as f64).total_cmp(b).then(Ordering::Less),
            (Self::Float(a), Self::Integer(b)) => a.total_cmp(&(*b as f64)).then(Ordering::Greater),
            (Self::Atom(a), Self::Atom(b)) => a.cmp(b),
            (Self::Binary(a), Self::Binary(b)) => a.cmp(b),
            (Self::Tuple(a), Self::Tuple(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            (Self::Map(a), Self::Map(b)) => a.len().cmp(&b.len()).then_with(|| {
                let keys = a.iter().map(|(key, _)| key).cmp(b.iter().map(|(key, _)| key));
                keys.then_with(|| {
                    a.iter().map(|(_, value)| value).cmp(b.iter().map(|(_, value)| value))
                })
            }),
            _ => self.kind_rank().cmp(&other.kind_rank()).then_with(|| compare_lists(self, other)),
        }
    }
}

/// The order of two terms of the same rank that are lists in any notation.
fn compare_lists(a: &Term, b: &Term) -> Ordering {
    let (a_elements, a_tail) = a.list_parts();
    let (b_elements, b_tail) = b.list_parts();
    let shared = a_elements.len().min(b_elements.len());
    let by_elements = a_elements.iter().take(shared).cmp(b_elements.iter().take(shared));
    by_elements.then_with(|| {
        let rest_of = |elements: &[Term], tail: Option<&Term>| {
            let rest: Vec<Term> = elements.iter().skip(shared).cloned().collect();
            match tail {
                None => Term::List(rest),
                Some(tail) if rest.is_empty() => tail.clone(),
                Some(tail) => Term::ImproperList(rest, Box::new(tail.clone())),
            }
        };
        if a_elements.len() == b_elements.len() && a_tail.is_none() && b_tail.is_none() {
            return Ordering::Equal;
        }
        let a_rest = rest_of(&a_elements, a_tail);
        let b_rest = rest_of(&b_elements, b_tail);
        a_rest.kind_rank().cmp(&b_rest.kind_rank()).then_with(|| a_rest.cmp(&b_rest))
    })
}

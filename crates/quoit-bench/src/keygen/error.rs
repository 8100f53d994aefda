//! Why a term is no generator.

use thiserror::Error;

use crate::term::Term;

/// Why a configuration term is no key or value generator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GeneratorError {
    /// No generator has this name.
    #[error("`{term}` is no generator{}", suggestion(.nearest))]
    Unknown {
        /// The term.
        term: Box<Term>,
        /// A known name close to it.
        nearest: Option<&'static str>,
    },
    /// A generator of a known name with wrong arguments.
    #[error("`{term}` should be {expected}")]
    Shape {
        /// The term.
        term: Box<Term>,
        /// The right form.
        expected: String,
    },
    /// A generator of basho_bench that cannot run here.
    #[error("`{term}` cannot run here: {remedy}")]
    NotOffered {
        /// The term.
        term: Box<Term>,
        /// What to use in its place.
        remedy: &'static str,
    },
    /// A wrapper around a generator that gives something else.
    #[error("`{term}` wants a generator of {wanted} inside it")]
    Inner {
        /// The wrapper.
        term: Box<Term>,
        /// What the inner generator must give.
        wanted: &'static str,
    },
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!(": did you mean `{name}`?"),
        None => String::new(),
    }
}

/// A [`GeneratorError::Shape`] for `term`.
pub(crate) fn shape_error(term: &Term, expected: impl Into<String>) -> GeneratorError {
    GeneratorError::Shape { term: Box::new(term.clone()), expected: expected.into() }
}

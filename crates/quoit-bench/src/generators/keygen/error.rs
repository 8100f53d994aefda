//! Why a term is no generator.

use thiserror::Error;

use crate::term::Term;

/// Why a configuration term is no key or value generator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GeneratorError {
    /// No generator has this name.
    #[error("`{term}` is not a generator{}", suggestion(.nearest))]
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
    /// A function of Erlang code that is not known here.
    #[error(
        "`{term}` is Erlang code, which is not run: {}use a built-in generator such as {remedy}",
        function_suggestion(.nearest)
    )]
    Function {
        /// The term.
        term: Box<Term>,
        /// A function that is known, close to it.
        nearest: Option<&'static str>,
        /// Alternative to it.
        remedy: &'static str,
    },
    /// A wrapper around a generator that gives something else.
    #[error("`{term}` wants a generator of {wanted} inside it")]
    Inner {
        /// The wrapper.
        term: Box<Term>,
        /// Kind of values that the inner generator must give.
        wanted: &'static str,
    },
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!(": did you mean `{name}`?"),
        None => String::new(),
    }
}

fn function_suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!("did you mean `{name}`? Else "),
        None => String::new(),
    }
}

/// A [`GeneratorError::Shape`] for `term`.
pub(crate) fn shape_error(term: &Term, expected: impl Into<String>) -> GeneratorError {
    GeneratorError::Shape { term: Box::new(term.clone()), expected: expected.into() }
}

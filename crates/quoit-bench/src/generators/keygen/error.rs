//! Reasons why a term is not a generator.

use thiserror::Error;

use crate::term::Term;

/// Reasons why a configuration term is not a key or value generator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GeneratorError {
    /// No generator has this name.
    #[error("`{term}` is not a generator{}", suggestion(.nearest))]
    Unknown {
        /// The term.
        term: Box<Term>,
        /// The nearest known name, if one is close.
        nearest: Option<&'static str>,
    },
    /// A generator with a known name has wrong arguments.
    #[error("`{term}` should be {expected}")]
    Shape {
        /// The term.
        term: Box<Term>,
        /// The right form.
        expected: String,
    },
    /// An Erlang function that is not known here.
    #[error(
        "`{term}` is Erlang code, which is not run: {}use a built-in generator such as {remedy}",
        function_suggestion(.nearest)
    )]
    Function {
        /// The term.
        term: Box<Term>,
        /// The nearest known function, if one is close.
        nearest: Option<&'static str>,
        /// A built-in alternative.
        remedy: &'static str,
    },
    /// The inner generator of a wrapper produces the wrong kind.
    #[error("`{term}` wants a generator of {wanted} inside it")]
    Inner {
        /// The wrapper.
        term: Box<Term>,
        /// Kind of values that the inner generator must produce.
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

//! Operations that are counted together.

use crate::term::Term;

/// Operations that are counted together: the entries whose labels give the same file label.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportedOperation {
    /// The label of the configuration.
    pub label: Term,
    /// The operation of the configuration.
    pub operation: Term,
    /// The label as used in file names.
    pub file_label: String,
}

impl ReportedOperation {
    /// The label in the form shown to people.
    pub fn name(&self) -> String {
        Self::name_of(&self.label)
    }

    /// A label in the form shown to people.
    pub(crate) fn name_of(label: &Term) -> String {
        match label {
            Term::Atom(name) => name.clone(),
            other => other.to_string(),
        }
    }

    /// The key of an error in `errors.csv`: `{{Label, Operation}, Reason}`.
    pub(crate) fn error_key(&self, reason: &Term) -> Term {
        let operation = Term::Tuple(vec![self.label.clone(), self.operation.clone()]);
        Term::Tuple(vec![operation, reason.clone()])
    }
}

//! Remedies for problems of a machine or a cluster.

/// An action that the operator can take against a problem, as text.
pub(crate) struct Remedy(pub(crate) String);

impl Remedy {
    pub(crate) fn of(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

//! The form that the value of a setting must have.

/// The name of a key or field, and the form that its value must have, in words for error messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueForm {
    /// The name.
    pub(crate) name: &'static str,
    /// The form, for instance `a number above 0`.
    pub(crate) expected: &'static str,
}

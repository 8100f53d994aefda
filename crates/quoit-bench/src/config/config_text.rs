//! A configuration that is in no file.

/// The text of a configuration, with the name that stands for a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigText<'a> {
    /// The name in messages. The text is TOML if it ends with `.toml`, and Erlang terms otherwise.
    pub(crate) name: &'a str,
    /// The text.
    pub(crate) text: &'a str,
}

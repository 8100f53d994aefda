//! Reasons why a coordinator and an agent can't work together.

use std::path::PathBuf;

use thiserror::Error;

/// A fault of the link, or the reason for which one side refuses the other.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The address can't be reached.
    #[error("cannot connect: {0}; is `quoit bench agent` running there?")]
    Connect(std::io::Error),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(std::io::Error),
    /// The peer has closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The peer has sent nothing for too long.
    #[error("nothing was heard for {} s", .0.as_secs())]
    Silent(std::time::Duration),
    /// A message is longer than the limit.
    #[error("a message of {bytes} bytes; at most {max} are allowed")]
    TooLong {
        /// Length of the message in bytes.
        bytes: u64,
        /// The limit in bytes.
        max: usize,
    },
    /// The bytes are not a message.
    #[error("a message that cannot be read: {0}")]
    Malformed(String),
    /// A message that must not occur at this point.
    #[error("an unexpected message instead of {expected}")]
    Unexpected {
        /// Name of the expected message.
        expected: &'static str,
    },
    /// The versions of the two programs differ.
    #[error(
        "it is version {theirs} (protocol {their_protocol}), and the coordinator is {ours} (protocol \
         {our_protocol}): start the same version on both"
    )]
    Version {
        /// Version of the other program.
        theirs: String,
        /// Protocol of the other program.
        their_protocol: u32,
        /// Version of this program.
        ours: String,
        /// Protocol of this program.
        our_protocol: u32,
    },
    /// The agent refuses the run.
    #[error("it refuses: {0}")]
    Refused(String),
    /// One side can't authenticate itself to the other.
    #[error(
        "the two do not trust each other ({0}): use the same --token-file on both, or certificates of \
         authorities that the other side knows"
    )]
    Proof(String),
    /// A certificate file can't be used.
    #[error(transparent)]
    Tls(#[from] quoit_tls::TlsError),
    /// The token is too easy to guess.
    #[error("the token of {}: {error}", .path.display())]
    Token {
        /// Path of the token's file.
        path: PathBuf,
        /// The fault.
        error: quoit_tls::nodes::WeakSecret,
    },
    /// A file that the configuration refers to can't be sent.
    #[error("the file {} of the configuration cannot be sent: {error}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: std::io::Error,
    },
    /// The configuration refers to a file in another way than by its path.
    #[error(
        "the configuration names the file {} in a way in which it cannot be sent to agents: write its path, \
         as in {{script, \"file.js\", name, []}}",
        .path.display()
    )]
    Unnamed {
        /// Path of the file.
        path: PathBuf,
    },
    /// An agent does not finish in time.
    #[error("it did not end within {} s of the end of the run", .0.as_secs())]
    Unended(std::time::Duration),
    /// The files of a configuration exceed the limit.
    #[error(
        "the files that the configuration names have at least {bytes} bytes; at most {max} are sent"
    )]
    Files {
        /// Size in bytes of the files up to the one that exceeds the limit, or of the parts received.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
}
